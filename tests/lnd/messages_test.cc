// Messages between nodes that are well: sizes, shapes, order, answers of the core, many at once.
#include "tests/lnd/suite.h"

namespace ulnet::lnd_test {
namespace {

class Messages : public Suite {};

TEST_P(Messages, SizesAndShapes) {
    const auto a = node(0);
    const auto other = alone() ? nullptr : node(1);
    TestNode& b = alone() ? *a : *other;
    const u32 edge = subject->threshold > 0 ? subject->threshold : 4096;
    const MsgType types[] = {MsgType::put, MsgType::reply};
    u64 sent = 0;
    for (const MsgType type : types)
        for (const u32 len : {0u, 1u, edge - 1, edge, edge + 1, 4095u, 4097u, 65535u, 65537u})
            for (const u32 fragments : {1u, 3u}) {
                const auto msg = a->send(b.nid(), ++ids, len, fragments, type);
                ++sent;
                ASSERT_TRUE(ended(*a, msg)) << len;
                EXPECT_TRUE(msg->status.ok()) << len << ": " << msg->status.text();
            }
    for (const MsgType type : types)
        for (const u32 fragments : {1u, 2u, 16u, 255u, 256u}) {
            const auto msg = a->send(b.nid(), ++ids, 1u << 20, fragments, type);
            ++sent;
            ASSERT_TRUE(ended(*a, msg)) << fragments;
            EXPECT_TRUE(msg->status.ok());
        }
    // GETs and ACKs have no payload.
    for (const MsgType type : {MsgType::get, MsgType::ack}) {
        ASSERT_TRUE(ended(*a, a->send(b.nid(), ++ids, 0, 1, type)));
        ++sent;
    }
    ASSERT_TRUE(wait([&] { return b.core.tally().received_ok == sent; }));
    EXPECT_EQ(b.core.tally().wrong_bytes, 0u);
}

TEST_P(Messages, SmallOnesArriveInOrder) {
    const auto a = node(0);
    const auto other = alone() ? nullptr : node(1);
    TestNode& b = alone() ? *a : *other;
    for (int i = 0; i < 500; ++i) a->send(b.nid(), ++ids, static_cast<u32>(i % 50));
    ASSERT_TRUE(wait([&] { return b.core.tally().received_ok == 500; }));
    const std::vector<u64> order = b.core.tally().order;
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// Taken whole, cut, thrown away, kept waiting and then taken or thrown away.
TEST_P(Messages, AnswersOfTheCore) {
    const auto decide = [](const Hdr& hdr) {
        constexpr Answer answers[] = {Answer::take, Answer::cut, Answer::discard, Answer::park};
        return answers[number_of(hdr) % 4];
    };
    const auto a = node(0, alone() ? Core::Decide(decide) : Core::Decide());
    const auto other = alone() ? nullptr : node(1, decide);
    TestNode& b = alone() ? *a : *other;
    std::vector<std::shared_ptr<TestMsg>> msgs;
    for (const u32 len : {10u, 3000u, 5000u, 100000u, 1u << 20})
        for (int i = 0; i < 8; ++i) msgs.push_back(a->send(b.nid(), ++ids, len));
    // A driver may stop reading while one waits: they are answered one after the other.
    u64 answered = 0;
    ASSERT_TRUE(wait([&] {
        for (const Arrival& arrival : b.core.take_parked()) {
            ++answered;
            b.run([&](LndNi& ni) {
                if (number_of(arrival.hdr) % 8 == 3)
                    b.core.take(arrival, arrival.hdr.payload_length);
                else
                    ni.receive(arrival.token, nullptr, 0);
            });
        }
        return answered == 10;
    }));
    for (const auto& msg : msgs) {
        ASSERT_TRUE(ended(*a, msg));
        EXPECT_TRUE(msg->status.ok()) << msg->status.text();
    }
    ASSERT_TRUE(wait([&] { return b.core.tally().received_ok == 25; }));
    EXPECT_EQ(b.core.tally().wrong_bytes, 0u);
}

// Many more than any credits, both ways and all sizes.
TEST_P(Messages, ManyAtOnceBothWays) {
    const auto a = node(0);
    const auto other = alone() ? nullptr : node(1);
    TestNode& b = alone() ? *a : *other;
    constexpr u64 each = 400;
    for (u64 i = 0; i < each; ++i) {
        const u32 len = i % 10 == 0 ? 200000 : i % 3 == 0 ? 6000 : 60;
        a->send(b.nid(), ++ids, len, 1 + i % 4);
        b.send(a->nid(), ++ids, len);
    }
    const u64 wanted = alone() ? 2 * each : each;
    for (TestNode* const to : {a.get(), &b}) {
        ASSERT_TRUE(wait([&] { return to->core.tally().received_ok == wanted; }));
        ASSERT_TRUE(wait([&] { return to->core.tally().sent_ok == wanted; }));
        EXPECT_EQ(to->core.tally().wrong_bytes, 0u);
    }
}

// While messages are under way: every tunable that may change goes through its range; the NI is
// described.
TEST_P(Messages, TunedAndDescribedUnderLoad) {
    const auto a = node(0);
    const auto other = alone() ? nullptr : node(1);
    TestNode& b = alone() ? *a : *other;
    const std::unique_ptr<Lnd> lnd = subject->make_lnd();
    const std::span<const TunableSpec> specs = lnd->tunables();
    const std::vector<i64> values = subject->config(0).tunables;
    u64 sent = 0;
    const auto load = [&] {
        for (int i = 0; i < 5; ++i, ++sent) a->send(b.nid(), ++ids, i % 2 ? 50 : 50000);
    };
    for (std::size_t i = 0; i < specs.size(); ++i) {
        load();
        a->run([&](LndNi& ni) {
            ctl::Value shown;
            ni.describe(shown);
            EXPECT_EQ(ni.tune(i, specs[i].high).ok(), specs[i].per_ni) << specs[i].name;
            if (specs[i].per_ni) {
                EXPECT_TRUE(ni.tune(i, values[i]).ok()) << specs[i].name;
            }
        });
    }
    a->run([&](LndNi& ni) { EXPECT_FALSE(ni.tune(specs.size(), 1).ok()); });
    ASSERT_TRUE(wait([&] {
        const Core::Tally tally = a->core.tally();
        return tally.sent_ok + tally.sent_failed == sent;
    }));
    reaches(*a, b, 50000);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Messages, testing::ValuesIn(makers()),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace ulnet::lnd_test
