// Interfaces and Nodes that end while operations are in every state: each ends once, with a reason.
#include <algorithm>

#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

class CloseTest : public NodeTest {
 protected:
    void del(u32 last) {
        std::atomic<bool> done{false};
        Error error;
        control([&] { error = node_->del_ni(tcp_nid(last), [&] { done.store(true); }); });
        ASSERT_TRUE(error.ok()) << error.text;
        ASSERT_TRUE(eventually([&] { return done.load(); }));
    }
    void put(Md& md, u32 to, Ack ack = Ack::no) {
        run([&] {
            ASSERT_TRUE(node_->put(md, {.to = process(to), .portal = 1, .ack = ack}).ok());
        });
    }
};

TEST_F(CloseTest, AnIdleNode) {
    start();
    close();
}

TEST_F(CloseTest, WithoutInterfaces) {
    start(false);
    close();
}

TEST_F(CloseTest, OperationsInEveryState) {
    peer_credits_ = 2;
    credits_ = 16;
    start();
    ni_->hold_receives = true;
    run([&] { ASSERT_TRUE(node_->set_lazy(6, true).ok()); });
    Target& with_driver = target(8);
    Target& for_peer = target(8);
    Target& for_ni = target(8);
    Target& response = target(8);
    Target& receiving = target(8);
    Target& replying = target(8);
    Target& idle = target(8);
    Target& bound = target(8);
    Md one = bind(with_driver.spec({}));
    Md two = bind(for_peer.spec({}));
    Md three = bind(for_ni.spec({}));
    Md four = bind(response.spec({}));
    put(four, 9, Ack::yes);
    run([&] { ni_->finish_one(); });  // its ACK will not come
    put(one, 2);
    put(one, 2);
    put(two, 2);  // the peer has no credit left
    for (u32 i = 0; i < 14; ++i) put(one, 20 + i);
    put(three, 60);  // the NI has none
    const Md put_md = attach(5, any_bits(1), receiving.spec(accept_put));
    inject(put_hdr(5, 1, 4));
    const Md get_md = attach(5, any_bits(2), replying.spec(accept_get));
    inject(get_hdr(5, 2, 4));
    const Md idle_md = attach(5, any_bits(3), idle.spec(accept_put));
    const Md bound_md = bind(bound.spec({}));
    const Injected& parked = inject(put_hdr(6, 1, 4));
    EXPECT_TRUE(parked.parked);
    Me without_md;
    run([&] { without_md = std::move(*node_->attach(5, any_bits(4), Unlink::retain)); });
    std::atomic<int> pinged{0};
    run([&] {
        node_->ping(process(2), {}, seconds(100), [&](Result<PingInfo> result) {
            EXPECT_FALSE(result.ok());
            pinged.fetch_add(1);
        });
    });
    EXPECT_FALSE(parked.received);
    std::atomic<bool> closed{false};
    FnTask done([&] { closed.store(true); });
    node_->close(done);
    ASSERT_TRUE(eventually([&] { return closed.load(); }));
    closed_ = true;
    EXPECT_TRUE(parked.received);
    EXPECT_EQ(parked.into, nullptr);
    run([&] {
        EXPECT_EQ(node_->bind({}).status(), Status(-ESHUTDOWN));
        EXPECT_EQ(node_->attach(5, any_bits(9), Unlink::with_md).status(), Status(-ESHUTDOWN));
        EXPECT_EQ(node_->put(one, {.to = process(2), .portal = 1}), Status(-ESHUTDOWN));
    });
    EXPECT_EQ(pinged.load(), 1);
    for (Target* each :
         {&with_driver, &for_peer, &for_ni, &response, &receiving, &replying, &idle, &bound}) {
        EXPECT_EQ(each->recorder.unlinked(), 1u);
        EXPECT_FALSE(each->recorder.late());
        for (const Event& event : each->recorder.events()) {
            if (each == &response && event.kind == Event::Kind::send) continue;
            EXPECT_EQ(event.status, Status(-ESHUTDOWN));
        }
    }
    EXPECT_EQ(with_driver.recorder.count(), 17u);  // 16 messages and the unlink
    EXPECT_EQ(response.recorder.events().back().kind, Event::Kind::unlink);
}

TEST_F(CloseTest, AnInterfaceGoesAndOthersStay) {
    peer_credits_ = 1;
    start();
    TestNi* const first = ni_;
    TestNi& second = add(7);
    Target& gone = target(8);
    Target& stays = target(8);
    Md one = bind(gone.spec({}));
    Md two = bind(stays.spec({}));
    const auto send = [&](Md& md, u32 from) {
        run([&] {
            ASSERT_TRUE(
                node_->put(md, {.to = process(2), .portal = 1, .from = tcp_nid(from)}).ok());
        });
    };
    send(two, 7);  // has the peer's only credit
    send(one, 1);
    send(one, 1);
    send(two, 7);
    EXPECT_EQ(first->sends(), 0u);
    del(1);
    ASSERT_TRUE(gone.recorder.wait(2));
    for (const Event& event : gone.recorder.events()) EXPECT_EQ(event.status, Status(-ESHUTDOWN));
    EXPECT_EQ(node_->nids(), std::vector<Nid>{tcp_nid(7)});
    run([&] { second.finish_one(); });
    ASSERT_TRUE(eventually([&] { return second.pending() == 1; }));
    run([&] { second.finish_one(); });
    ASSERT_TRUE(stays.recorder.wait(2));
    for (const Event& event : stays.recorder.events()) EXPECT_TRUE(event.status.ok());
    send(one, 1);
    ASSERT_TRUE(gone.recorder.wait(3));
    EXPECT_EQ(gone.recorder.events()[2].status, Status(-EINVAL));
    add(1);  // and comes back
    send(one, 1);
    ASSERT_EQ(ni_->sends(), 1u);
}

TEST_F(CloseTest, TheLastInterfaceOfANetTakesItsIdlePeersAlong) {
    start();
    inject(put_hdr(9, 1, 0, 0, 2), 2);
    inject(put_hdr(9, 1, 0, 0, 3), 3);
    EXPECT_EQ(node_->impl().peers.size(), 2u);
    del(1);
    EXPECT_EQ(node_->impl().peers.size(), 0u);
}

TEST_F(CloseTest, Refusals) {
    start();
    control([&] {
        EXPECT_EQ(node_->del_ni(tcp_nid(9), {}).status, Status(-ENOENT));
        EXPECT_EQ(node_->del_ni(nid_lo(), {}).status, Status(-EINVAL));
        EXPECT_EQ(node_->add_ni(config(1)).status, Status(-EEXIST));
    });
    std::atomic<bool> done{false};
    control([&] {
        EXPECT_TRUE(node_->del_ni(tcp_nid(1), [&] { done.store(true); }).ok());
        EXPECT_EQ(node_->del_ni(tcp_nid(1), {}).status, Status(-ENOENT));
        EXPECT_EQ(node_->add_ni(config(1)).status, Status(-EBUSY));
    });
    ASSERT_TRUE(eventually([&] { return done.load(); }));
}

// Traffic on all workers, in both directions, while the NI is taken away and put back.
TEST_F(CloseTest, RaceWithTraffic) {
    peer_credits_ = 2;
    lnd_.hold_sends = false;
    start();
    Target& out = target(8);
    Target& in = target(8);
    Md md = bind(out.spec({}));
    MdOptions options = accept_put;
    options.manage_remote = true;
    const Md target_md = attach(5, any_bits(7), in.spec(options));
    std::atomic<bool> stop{false};
    std::atomic<u64> puts{0};
    struct Pump final : Task {
        std::function<void()> fn;
        Sched* sched;
        std::atomic<bool>* stop;
        std::atomic<bool> ended{false};
        void run() override {
            if (stop->load()) {
                ended.store(true);
                return;
            }
            fn();
            sched->post(0, *this);
        }
        ~Pump() = default;
    };
    std::array<Pump, 3> pumps;
    for (Pump& pump : pumps) {
        pump.sched = &sched_;
        pump.stop = &stop;
        pump.fn = [&] {
            if (puts.load() - out.recorder.count() > 500) return;
            ASSERT_TRUE(node_->put(md, {.to = process(2), .portal = 1}).ok());
            puts.fetch_add(1);
        };
        sched_.post(0, pump);
    }
    for (u32 round = 0; round < 20; ++round) {
        for (u32 i = 0; i < 20; ++i) inject(put_hdr(5, 7, 4));
        del(1);
        add(1);
    }
    stop.store(true);
    for (Pump& pump : pumps) ASSERT_TRUE(eventually([&] { return pump.ended.load(); }));
    ASSERT_TRUE(eventually([&] { return out.recorder.count() == puts.load(); }));
    for (const Event& event : out.recorder.events())
        EXPECT_TRUE(event.status.ok() || event.status == Status(-ESHUTDOWN) ||
                    event.status == Status(-EHOSTUNREACH))
            << event.status.text();
    ASSERT_TRUE(quiet());
    EXPECT_EQ(in.recorder.count(), 400u);
    control([&] {
        for (const PeerView& peer : inspect_peers(*node_))
            for (const PeerNiView& ni : peer.nis) EXPECT_EQ(ni.credits_free, 2);
    });
}

}  // namespace
}  // namespace ulnet::test
