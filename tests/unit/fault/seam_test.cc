// Two nodes over sock with random rules on both, on messages and on streams: whatever happens, each
// message ends once, no byte of a message that nobody corrupted is wrong, and closing ends. A
// failure prints its seed.
#include <gtest/gtest.h>

#include "lnds/fault/fault.h"
#include "tests/unit/sock/harness.h"

namespace ulnet::sock {
namespace {

constexpr u32 messages = 150;

class Seam : public testing::TestWithParam<u64> {
 protected:
    std::vector<FaultRule> draw() {
        std::vector<FaultRule> rules;
        const u64 count = 1 + prng.below(4);
        while (rules.size() < count) {
            constexpr const char* actions[] = {
                "action=drop",
                "action=drop,health=local_error+remote_timeout",
                "action=delay,time=3ms",
                "action=delay,on=send,time=2ms",
                "action=reset,on=both",
                "action=stall,time=5ms",
                "action=stream_reset",
                "action=stream_stall,time=4ms",
                "action=stream_duplicate",
            };
            std::string text = actions[prng.below(std::size(actions))];
            text += ",rate=" + std::to_string(1 + prng.below(10));
            if (text.find("stream_") != std::string::npos && text.find("dupl") == std::string::npos)
                text += ",after=" + std::to_string(prng.below(20000));
            SCOPED_TRACE(text);
            EXPECT_TRUE(parse_fault_rule(text, rules.emplace_back()).ok());
        }
        return rules;
    }
    std::unique_ptr<TestNode> open(u8 last, FaultRules& rules) {
        const Settings settings{{Tunable::min_reconnect_ms, 2}, {Tunable::max_reconnect_ms, 10}};
        const u64 salt = prng.next();
        const auto decide = [salt](Core& core, const Core::Arrival& arrival) {
            switch ((arrival.hdr.match_bits * 2654435761u + salt) % 6) {
            case 0:
                core.discard(arrival);
                break;
            case 1:
                core.park(arrival);
                break;
            default:
                core.accept(arrival, arrival.hdr.payload_length, 3);
            }
            return ok_status;
        };
        return std::make_unique<TestNode>(*sched, ni_config(last, port, settings),
                                          make_fault_lnd(make_sock_lnd(back_end(), &rules), rules),
                                          decide);
    }

    const u16 port = free_port();
    Prng prng{GetParam()};
    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
};

TEST_P(Seam, EveryMessageEndsOnce) {
    FaultRules rules_a(draw()), rules_b(draw());
    auto a = open(1, rules_a), b = open(2, rules_b);
    std::vector<std::pair<TestNode*, MsgPtr>> sent;
    for (u32 i = 0; i < messages; ++i) {
        TestNode* const from = prng.below(2) ? a.get() : b.get();
        TestNode* const to = from == a.get() ? b.get() : a.get();
        const auto len = static_cast<u32>(prng.below(u64{2} << prng.below(17)));
        sent.emplace_back(from, put(from->nid(), to->nid(), i, len, 4));
        from->send(sent.back().second);
        if (prng.below(5) != 0) continue;
        for (TestNode* const node : {a.get(), b.get()})
            for (const Core::Arrival& arrival : node->core.take_parked())
                run_on(*sched, 0, [&] { node->core.accept(arrival, arrival.hdr.payload_length); });
    }
    a->close();
    b->close();
    for (const auto& [from, msg] : sent) {
        EXPECT_EQ(from->core.times_finished(*msg), 1u) << msg->id;
        EXPECT_EQ(differences(msg->payload, msg->id), 0u);
    }
    EXPECT_EQ(a->core.held()->wrong_bytes, 0u);
    EXPECT_EQ(b->core.held()->wrong_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Seam, testing::Range(u64{1}, u64{25}));

}  // namespace
}  // namespace ulnet::sock
