// Events under races: one handler at a time, `unlinked` last and once, whatever comes together.
#include <algorithm>

#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

using Work = FnTask<std::function<void()>>;

class EventTest : public NodeTest {
 protected:
    EventTest() : NodeTest(4) {}
    void all_at_once(std::vector<std::function<void()>> work) {
        std::atomic<std::size_t> left{work.size()};
        std::vector<std::unique_ptr<Work>> tasks;
        for (auto& each : work)
            tasks.push_back(std::make_unique<Work>([&left, fn = std::move(each)] {
                fn();
                left.fetch_sub(1);
            }));
        for (auto& task : tasks) sched_.post(0, *task);
        ASSERT_TRUE(eventually([&] { return left.load() == 0; }));
    }
    static void expect_kept_promises(const Recorder& recorder) {
        EXPECT_EQ(recorder.unlinked(), 1u);
        EXPECT_EQ(recorder.overlaps(), 0u);
        EXPECT_FALSE(recorder.late());
    }
};

TEST_F(EventTest, ArrivalsAgainstUnlink) {
    start();
    for (u32 round = 0; round < 100; ++round) {
        Target& t = target(8);
        MdOptions options = accept_put;
        options.manage_remote = true;
        Md md = attach(5, any_bits(round), t.spec(options));
        std::vector<std::function<void()>> work;
        for (u32 i = 0; i < 12; ++i)
            work.push_back(
                [&, i] { ni_->inject(put_hdr(5, round, 4), process(2 + i), pattern(4)); });
        work.insert(work.begin() + 6, [&] { node_->unlink(std::move(md)); });
        all_at_once(std::move(work));
        ASSERT_TRUE(t.recorder.wait_unlinked());
        expect_kept_promises(t.recorder);
    }
    const StatsView view = stats();
    ASSERT_TRUE(quiet());
    EXPECT_EQ(view.recv_count + view.drop_count, 1200u);
    EXPECT_TRUE(ni_->all_received_once());
}

TEST_F(EventTest, TheThresholdIsExact) {
    start();
    MdOptions options = accept_put;
    options.manage_remote = true;
    options.auto_unlink = true;
    for (u32 round = 0; round < 50; ++round) {
        Target& t = target(8);
        const Md md = attach(5, any_bits(round), t.spec(options, 10));
        std::vector<std::function<void()>> work;
        for (u32 i = 0; i < 20; ++i)
            work.push_back(
                [&, i] { ni_->inject(put_hdr(5, round, 4), process(2 + i), pattern(4)); });
        all_at_once(std::move(work));
        ASSERT_TRUE(t.recorder.wait_unlinked());
        EXPECT_EQ(t.recorder.count(), 10u);
        expect_kept_promises(t.recorder);
    }
    EXPECT_EQ(stats().drop_count, 500u);
}

TEST_F(EventTest, SendAndResponseAndUnlinkTogether) {
    start();
    ni_->hold_sends = true;
    for (u32 round = 0; round < 200; ++round) {
        Target& t = target(8);
        MdOptions options;
        options.auto_unlink = true;
        Md md = bind(t.spec(options, 2));
        run([&] {
            ASSERT_TRUE(node_->put(md, {.to = process(2), .portal = 1, .ack = Ack::yes}).ok());
        });
        Hdr ack;
        ack.type = MsgType::ack;
        ack.dest_nid = tcp_nid(1);
        ack.src_nid = tcp_nid(2);
        ack.handle = ni_->sent(round).hdr.handle;
        all_at_once({[&] { ni_->finish_one(); }, [&] { ni_->inject(ack, process(2)); },
                     [&] { node_->unlink(std::move(md)); }});
        ASSERT_TRUE(t.recorder.wait_unlinked());
        expect_kept_promises(t.recorder);
        EXPECT_LE(t.recorder.count(), 3u);
    }
}

// The handler itself uses the Node: sends on, unlinks its own MD, attaches a new one.
TEST_F(EventTest, HandlersMayCallTheNode) {
    start();
    ni_->hold_sends = false;
    Target& t = target(8);
    Target& out = target(8);
    Target& next = target(8);
    Md sender = bind(out.spec({}));
    Md md;
    std::atomic<bool> ready{false};
    t.recorder.then = [&](const Event& event) {
        if (event.kind != Event::Kind::put) return;
        while (!ready.load()) {
        }
        EXPECT_TRUE(node_->put(sender, {.to = process(2), .portal = 1}).ok());
        node_->unlink(std::move(md));
        Result<Me> me = node_->attach(5, any_bits(8), Unlink::with_md);
        ASSERT_TRUE(me.ok());
        Result<Md> other = node_->attach(*me, next.spec(accept_put));
        ASSERT_TRUE(other.ok());
        other->release();
    };
    md = attach(5, any_bits(7), t.spec(accept_put));
    ready.store(true);
    inject(put_hdr(5, 7, 1));
    ASSERT_TRUE(t.recorder.wait_unlinked());
    EXPECT_EQ(t.recorder.count(), 2u);
    EXPECT_EQ(t.recorder.overlaps(), 0u);
    ASSERT_TRUE(out.recorder.wait(1));
    inject(put_hdr(5, 8, 1));
    ASSERT_TRUE(next.recorder.wait(1));
}

TEST_F(EventTest, NoHandlerIsFine) {
    start();
    Bytes bytes(8);
    const Mem mem(bytes.data(), 8);
    MdOptions options = accept_put;
    options.auto_unlink = true;
    run([&] {
        Result<Me> me = node_->attach(5, any_bits(7), Unlink::with_md);
        ASSERT_TRUE(me.ok());
        Result<Md> md = node_->attach(*me, {.mem = &mem, .options = options, .threshold = 1});
        ASSERT_TRUE(md.ok());
        md->release();
    });
    inject(put_hdr(5, 7, 8));
    ASSERT_TRUE(quiet());
    EXPECT_EQ(bytes, pattern(8, 2));
    const u64 targets = 1 + PingTarget::push_buffers;
    EXPECT_TRUE(eventually([&] { return node_->impl().mds_in_use() == targets; }));
    EXPECT_EQ(node_->impl().mes_in_use(), targets);
}

}  // namespace
}  // namespace ulnet::test
