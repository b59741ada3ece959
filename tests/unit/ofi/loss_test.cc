// Peers that are late, go, come back and are silent.
#include "tests/unit/ofi/pair.h"

namespace ulnet::ofi {
namespace {

using std::chrono::milliseconds;

class Loss : public testing::TestWithParam<Provider> {
 protected:
    // Endpoints of shm in one process must end together (ofi.h); tests/net/test_kfi.py has
    // processes.
    bool comes_back() const { return GetParam() != Provider::shm; }
    MsgPtr late(u32 len, milliseconds time) {
        const MsgPtr msg = put(1, 2, ++ids, len);
        msg->deadline = world.sched->now() + time;
        return msg;
    }
    bool ended(TestNode& node, const MsgPtr& msg) {
        return node.core.wait([&] { return msg->finished == 1; });
    }
    // Until one gets there.
    void reaches(TestNode& from, TestNode& to, u32 a, u32 b, u32 len) {
        ASSERT_TRUE(eventually([&] {
            const u32 before = to.core.held()->received_ok;
            const MsgPtr msg = put(a, b, ++ids, len);
            from.send(msg);
            return ended(from, msg) && msg->status.ok() &&
                   to.core.wait([&] { return to.core.received_ok > before; });
        }));
        EXPECT_EQ(to.core.held()->wrong_bytes, 0u);
    }
    World world{GetParam()};
    u64 ids = 0;
};

// Row 7.2: the first attempts fail because the server is not there yet; nothing of them is left.
TEST_P(Loss, Row7_2_ServerComesLater) {
    if (!comes_back()) return;
    const auto a = world.node(1);
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 3; ++i) {
            const MsgPtr msg = late(100, milliseconds(30));
            a->send(msg);
            ASSERT_TRUE(ended(*a, msg));
            EXPECT_EQ(msg->status, Status(-ETIMEDOUT));
        }
        const MsgPtr waiting = late(70000, milliseconds(20000));
        a->send(waiting);
        const auto b = world.node(2);
        ASSERT_TRUE(ended(*a, waiting));
        EXPECT_TRUE(waiting->status.ok()) << waiting->status.text();
        EXPECT_TRUE(b->core.wait([&] { return b->core.received_ok == 1; }));
        b->close();
    }
}

// Row 7.1: who comes back replaces its former life, also when both speak first.
TEST_P(Loss, Row7_1_RestartedPeer) {
    if (!comes_back()) return;
    auto a = world.node(1), b = world.node(2);
    for (int round = 0; round < 10; ++round) {
        const MsgPtr one = put(1, 2, ++ids, 300), two = put(2, 1, ++ids, 30000);
        a->send(one);
        b->send(two);
        ASSERT_TRUE(ended(*a, one) && ended(*b, two));
        reaches(*a, *b, 1, 2, 50000);
        reaches(*b, *a, 2, 1, 50);
        auto& gone = round % 2 == 0 ? a : b;
        gone->close();
        gone = world.node(round % 2 == 0 ? 1 : 2);
    }
}

// Row 7.5: nothing but a HELLO goes to a peer that is down, and one at a time.
TEST_P(Loss, Row7_5_OneHelloInFlight) {
    const auto a = world.node(1, {{Tunable::hello_interval, 10000}});
    std::vector<MsgPtr> msgs;
    for (int i = 0; i < 50; ++i) msgs.push_back(late(i % 2 ? 100 : 100000, milliseconds(200)));
    for (const MsgPtr& msg : msgs) a->send(msg);
    for (const MsgPtr& msg : msgs) ASSERT_TRUE(ended(*a, msg));
    EXPECT_LE(a->describe()["sent"].as_int(), 1);
    EXPECT_EQ(a->describe()["sessions"].as_int(), 0);
}

// A message whose payload nobody reads in time ends at its deadline; what the peer reads of it
// later is not used, and keys are not used again (row 7.5). The memory is the next message's
// meanwhile.
TEST_P(Loss, Row7_5_CancelStorm) {
    std::atomic<bool> parks{true};
    const auto a = world.node(1);
    const auto b = world.node(2, {}, [&](Core& core, const Core::Arrival& arrival) {
        if (parks && arrival.hdr.payload_length > 4096)
            core.park(arrival);
        else
            core.accept(arrival, arrival.hdr.payload_length);
        return ok_status;
    });
    for (int round = 0; round < 20; ++round) {
        parks = true;
        std::vector<MsgPtr> msgs;
        for (int i = 0; i < 4; ++i) msgs.push_back(late(200000, milliseconds(40)));
        for (const MsgPtr& msg : msgs) a->send(msg);
        for (const MsgPtr& msg : msgs) {
            ASSERT_TRUE(ended(*a, msg));
            if (msg->status.ok()) continue;
            std::fill(msg->bytes.begin(), msg->bytes.end(), std::byte{0xee});
        }
        parks = false;
        for (const Core::Arrival& arrival : b->core.take_parked())
            run_on(*world.sched, 0, [&] { b->core.accept(arrival, 200000); });
        reaches(*a, *b, 1, 2, 100000);
        EXPECT_EQ(b->core.held()->wrong_bytes, 0u);
    }
}

// The peer is there but does nothing: transfers end at the NI's time-out, and the next ones go
// well.
TEST_P(Loss, DropPeerAndGoOn) {
    const auto a = world.node(1), b = world.node(2);
    for (int round = 0; round < 10; ++round) {
        std::vector<MsgPtr> msgs;
        for (int i = 0; i < 20; ++i) msgs.push_back(put(1, 2, ++ids, i % 2 ? 100 : 100000));
        for (const MsgPtr& msg : msgs) a->send(msg);
        run_on(*world.sched, 0, [&] { a->ni().drop_peer(nid_at(2)); });
        for (const MsgPtr& msg : msgs) ASSERT_TRUE(ended(*a, msg));
        reaches(*a, *b, 1, 2, 100);
        reaches(*b, *a, 2, 1, 100000);
    }
}

// Both ends close with messages under way in all states.
TEST_P(Loss, CloseUnderLoad) {
    for (int round = 0; round < (comes_back() ? 10 : 1); ++round) {
        const auto a = world.node(1), b = world.node(2);
        for (int i = 0; i < 60; ++i) {
            a->send(put(1, 2, ++ids, i % 2 ? 100 : 400000));
            b->send(put(2, 1, ++ids, i % 3 ? 100 : 400000));
        }
        a->close();
        b->close();
        for (const auto& node : {a.get(), b.get()}) {
            auto held = node->core.held();
            EXPECT_EQ(held->sent_finished + held->sent_failed, 60u);
        }
        EXPECT_EQ(a->core.held()->wrong_bytes + b->core.held()->wrong_bytes, 0u);
    }
}

// Contexts of two CPTs each: peers find their home.
TEST_P(Loss, SeveralContexts) {
    World wide(GetParam(), 2);
    std::vector<std::unique_ptr<TestNode>> nodes;
    for (u32 i = 1; i <= 4; ++i) nodes.push_back(wide.node(i));
    for (u32 from = 0; from < 4; ++from)
        for (u32 to = 0; to < 4; ++to)
            for (const u32 len : {10u, 100000u}) {
                const MsgPtr msg = put(from + 1, to + 1, ++ids, len);
                nodes[from]->send(msg);
                ASSERT_TRUE(ended(*nodes[from], msg));
                EXPECT_TRUE(msg->status.ok()) << from << to << msg->status.text();
            }
    for (const auto& node : nodes)
        EXPECT_TRUE(node->core.wait([&] { return node->core.received_ok == 8; }));
}

INSTANTIATE_TEST_SUITE_P(Providers, Loss, testing::Values(Provider::tcp, Provider::shm),
                         [](const auto& of) { return of.param == Provider::tcp ? "tcp" : "shm"; });

}  // namespace
}  // namespace ulnet::ofi
