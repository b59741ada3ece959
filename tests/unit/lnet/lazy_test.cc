// Lazy portals: messages that come before their MD.
#include <algorithm>

#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

class LazyTest : public NodeTest {
 protected:
    void make_lazy(u32 portal, bool lazy = true) {
        run([&] { ASSERT_TRUE(node_->set_lazy(portal, lazy).ok()); });
    }
    u32 parked() { return node_->impl().topology.latest().nis.back()->parked.load(); }
};

TEST_F(LazyTest, WaitsForTheMdInOrder) {
    start();
    make_lazy(5);
    std::vector<const Injected*> waiting;
    for (u32 i = 0; i < 5; ++i) {
        Hdr hdr = put_hdr(5, 7, 10 + i);
        hdr.hdr_data = i;
        waiting.push_back(&inject(hdr));
        EXPECT_TRUE(waiting.back()->status.ok());
        EXPECT_TRUE(waiting.back()->parked);
        EXPECT_FALSE(waiting.back()->received);
    }
    EXPECT_EQ(parked(), 5u);
    Target& t = target(100);
    const Md md = attach(5, any_bits(7), t.spec(accept_put));
    ASSERT_TRUE(t.recorder.wait(5));
    u32 offset = 0;
    std::vector<Event> events = t.recorder.events();
    std::ranges::sort(events, {}, &Event::hdr_data);  // completion order is free
    for (u32 i = 0; i < 5; ++i) {
        EXPECT_EQ(events[i].hdr_data, i);
        EXPECT_EQ(events[i].offset, offset);  // but matching order is not
        offset += 10 + i;
    }
    EXPECT_EQ(parked(), 0u);
    EXPECT_EQ(stats().drop_count, 0u);
    EXPECT_TRUE(ni_->all_received_once());
}

TEST_F(LazyTest, OnlyWhatMatchesLeavesTheLine) {
    start();
    make_lazy(5);
    inject(put_hdr(5, 1, 1));
    inject(put_hdr(5, 2, 1));
    inject(put_hdr(5, 1, 1));
    Target& two = target(8);
    const Md second = attach(5, any_bits(2), two.spec(accept_put));
    ASSERT_TRUE(two.recorder.wait(1));
    EXPECT_EQ(parked(), 2u);
    // One that an MD wants but that comes while others wait is matched all the same.
    inject(put_hdr(5, 2, 1));
    ASSERT_TRUE(two.recorder.wait(2));
    MdOptions options = accept_put;
    options.auto_unlink = true;
    Target& one = target(8);
    const Md first = attach(5, any_bits(1), one.spec(options, 1));
    ASSERT_TRUE(one.recorder.wait_unlinked());
    EXPECT_EQ(parked(), 1u);
    make_lazy(5, false);
    ASSERT_TRUE(eventually([&] { return parked() == 0; }));
    EXPECT_EQ(stats().drop_count, 1u);
    inject(put_hdr(5, 1, 1));
    EXPECT_EQ(stats().drop_count, 2u);
    EXPECT_TRUE(ni_->all_received_once());
}

TEST_F(LazyTest, GetsNeverWait) {
    start();
    make_lazy(5);
    inject(get_hdr(5, 1, 1));
    EXPECT_EQ(stats().drop_count, 1u);
}

TEST_F(LazyTest, WithoutRoomItIsDroppedAlsoWhenItWaited) {
    start();
    make_lazy(5);
    inject(put_hdr(5, 1, 20));
    Target& t = target(8);
    const Md md = attach(5, any_bits(1), t.spec(accept_put));
    ASSERT_TRUE(eventually([&] { return stats().drop_count == 1; }));
    EXPECT_EQ(parked(), 0u);
}

TEST_F(LazyTest, ADriverThatCannotParkLosesTheMessage) {
    start();
    make_lazy(5);
    ni_->refuse_park = true;
    inject(put_hdr(5, 1, 20));
    EXPECT_EQ(stats().drop_count, 1u);
    EXPECT_TRUE(ni_->all_received_once());
    ASSERT_TRUE(quiet());
}

TEST_F(LazyTest, OnLnetsOwnPortalOnlyPushesWait) {
    start();
    inject(put_hdr(portal_lnet, 5, 1));
    EXPECT_EQ(stats().drop_count, 1u);
    EXPECT_EQ(parked(), 0u);
}

TEST_F(LazyTest, APortalOutOfRange) {
    start();
    run([&] { EXPECT_EQ(node_->set_lazy(64, true), Status(-EINVAL)); });
}

// MDs come and messages arrive at the same time on all workers; each message gets its MD.
TEST_F(LazyTest, Race) {
    start();
    make_lazy(5);
    constexpr u32 rounds = 400;
    std::vector<Target*> targets;
    for (u32 i = 0; i < rounds; ++i) targets.push_back(&target(8));
    MdOptions options = accept_put;
    options.auto_unlink = true;
    std::vector<std::unique_ptr<FnTask<std::function<void()>>>> tasks;
    for (u32 i = 0; i < rounds; ++i) {
        tasks.push_back(std::make_unique<FnTask<std::function<void()>>>([this, i] {
            EXPECT_TRUE(ni_->inject(put_hdr(5, 7, 4), process(2 + i % 5), pattern(4)).status.ok());
        }));
        tasks.push_back(std::make_unique<FnTask<std::function<void()>>>([&, i] {
            Result<Me> me = node_->attach(5, any_bits(7), Unlink::with_md);
            ASSERT_TRUE(me.ok());
            Result<Md> md = node_->attach(*me, targets[i]->spec(options, 1));
            ASSERT_TRUE(md.ok());
            md->release();
        }));
    }
    for (auto& task : tasks) sched_.post(0, *task);
    for (Target* each : targets) ASSERT_TRUE(each->recorder.wait_unlinked());
    EXPECT_EQ(parked(), 0u);
    EXPECT_EQ(stats().drop_count, 0u);
    EXPECT_EQ(stats().recv_count, rounds);
    EXPECT_TRUE(ni_->all_received_once());
}

}  // namespace
}  // namespace ulnet::test
