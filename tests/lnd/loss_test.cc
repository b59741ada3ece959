// Peers that are not there, go in any state, come back, and say what the core does not like.
#include "tests/lnd/suite.h"

namespace ulnet::lnd_test {
namespace {

using std::chrono::milliseconds;

class Loss : public Suite {};

TEST_P(Loss, NobodyThere) {
    NEEDS_PEERS();
    const auto a = node(0);
    std::vector<std::shared_ptr<TestMsg>> msgs;
    for (const u32 len : {10u, 100000u})
        msgs.push_back(
            a->send(subject->config(1).nid, ++ids, len, 1, MsgType::put, milliseconds(100)));
    for (const auto& msg : msgs) {
        ASSERT_TRUE(ended(*a, msg));
        EXPECT_FALSE(msg->status.ok());
    }
    const auto b = node(1);
    reaches(*a, *b, 10);
    reaches(*b, *a, 100000);
}

// Both speak first, again and again.
TEST_P(Loss, CrossedFirstContact) {
    NEEDS_COMING_BACK();
    for (int round = 0; round < 30; ++round) {
        const auto a = node(0), b = node(1);
        const auto one = a->send(b->nid(), ++ids, 100), two = b->send(a->nid(), ++ids, 100);
        ASSERT_TRUE(ended(*a, one) && ended(*b, two)) << round;
        reaches(*a, *b, 20000);
        reaches(*b, *a, 20000);
        EXPECT_TRUE(one->status.ok() && two->status.ok()) << round;
    }
}

// The peer closes while idle, while much is on its way to it, from it, and while it has messages
// that wait for its core. Then it comes back, with the same NID.
TEST_P(Loss, PeerGoesAndComesBack) {
    NEEDS_COMING_BACK();
    const auto a = node(0);
    for (int state = 0; state < 8; ++state) {
        SCOPED_TRACE(state);
        const bool parks = state % 4 == 3;
        auto b = node(1, [&](const Hdr&) { return parks ? Answer::park : Answer::take; });
        if (!parks) reaches(*a, *b, 1000);
        for (int i = 0; i < 20 && state % 4 != 0; ++i) {
            if (state % 4 != 2) a->send(b->nid(), ++ids, i % 2 ? 30 : 300000);
            if (state % 4 == 2) b->send(a->nid(), ++ids, i % 2 ? 30 : 300000);
        }
        if (parks) {
            ASSERT_TRUE(wait([&] { return b->core.tally().parked > 0; }));
        }
        b->close();
        b.reset();
        const auto again = node(1);
        reaches(*again, *a, 5000);
        reaches(*a, *again, 5000);
        EXPECT_EQ(a->core.tally().wrong_bytes, 0u);
    }
    ASSERT_TRUE(wait([&] {
        const Core::Tally tally = a->core.tally();
        return tally.sent_ok + tally.sent_failed >= 60;
    }));
}

TEST_P(Loss, CloseUnderLoadOnBothSides) {
    const int rounds = subject->comes_back ? 10 : 1;
    for (int round = 0; round < rounds; ++round) {
        const auto a = node(0);
        const auto other = alone() ? nullptr : node(1);
        TestNode& b = alone() ? *a : *other;
        constexpr u64 each = 40;
        for (u64 i = 0; i < each; ++i) {
            a->send(b.nid(), ++ids, i % 2 ? 100 : 400000);
            b.send(a->nid(), ++ids, i % 3 ? 100 : 400000);
        }
        a->close();
        b.close();
        for (TestNode* const of : {a.get(), &b}) {
            const Core::Tally tally = of->core.tally();
            EXPECT_EQ(tally.sent_ok + tally.sent_failed, alone() ? 2 * each : each);
            EXPECT_EQ(tally.wrong_bytes, 0u);
        }
    }
}

TEST_P(Loss, DropPeerUnderLoad) {
    NEEDS_PEERS();
    const auto a = node(0), b = node(1);
    for (int round = 0; round < 10; ++round) {
        std::vector<std::shared_ptr<TestMsg>> msgs;
        for (int i = 0; i < 20; ++i) msgs.push_back(a->send(b->nid(), ++ids, i % 2 ? 100 : 100000));
        a->run([&](LndNi& ni) { ni.drop_peer(b->nid()); });
        for (const auto& msg : msgs) ASSERT_TRUE(ended(*a, msg)) << round;
        reaches(*a, *b, 100);
        reaches(*b, *a, 100000);
    }
}

// What the core calls a protocol error ends the peer's connections, and no more.
TEST_P(Loss, RefusedMessages) {
    NEEDS_PEERS();
    const auto a = node(0);
    const auto b = node(1, [](const Hdr& hdr) {
        return number_of(hdr) >= 1u << 20 ? Answer::refuse : Answer::take;
    });
    for (const u64 refused : {1u << 20, 2u << 20, 3u << 20}) {
        for (const u32 len : {10u, 100000u}) {
            const u64 before = b->core.tally().refused;
            const auto msg =
                a->send(b->nid(), refused + len, len, 1, MsgType::put, std::chrono::seconds(20));
            ASSERT_TRUE(ended(*a, msg));
            ASSERT_TRUE(wait([&] { return b->core.tally().refused > before; }));
            reaches(*a, *b, 1000);
            reaches(*b, *a, 1000);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Drivers, Loss, testing::ValuesIn(makers()),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace ulnet::lnd_test
