// The fault driver: what each action does to messages, over lo and between two nodes on sock.
#include <gtest/gtest.h>

#include "lnds/fault/fault.h"
#include "lnds/lo/lo.h"
#include "tests/unit/sock/harness.h"

namespace ulnet::sock {
namespace {

std::vector<FaultRule> rules_of(const std::vector<std::string>& texts) {
    std::vector<FaultRule> rules;
    for (const std::string& text : texts)
        EXPECT_TRUE(parse_fault_rule(text, rules.emplace_back()).ok()) << text;
    return rules;
}

NiConfig lo_config() {
    NiConfig config;
    config.net = net_lo;
    config.nid = nid_lo();
    return config;
}

// One node over lo: what it sends comes back to it.
class Lo {
 public:
    explicit Lo(const std::vector<std::string>& texts, Core::OnArrived on_arrived = {})
        : rules(rules_of(texts)),
          node(*sched, lo_config(), make_fault_lnd(make_lo_lnd(), rules), std::move(on_arrived)) {}
    MsgPtr send(u32 len = 100) {
        auto msg = put(nid_lo(), nid_lo(), ++ids, len);
        node.send(msg);
        return msg;
    }
    bool ended(const MsgPtr& msg) {
        return node.core.wait([&] { return msg->finished == 1; });
    }
    bool arrived(u64 count) {
        return node.core.wait([&] { return node.core.received_ok == count; });
    }
    u64 held() { return static_cast<u64>(node.describe()["fault"]["held"].as_int()); }

    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    FaultRules rules;
    TestNode node;
    u64 ids = 0;
};

TEST(FaultLnd, PassesWhatNoRuleHits) {
    Lo lo({"action=drop,portal=10"});
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(lo.ended(lo.send()));
    EXPECT_TRUE(lo.arrived(50));
    EXPECT_EQ(lo.node.core.held()->sent_failed, 0u);
    EXPECT_EQ(lo.node.describe()["messages"].as_int(), 50);  // of the driver inside
}

TEST(FaultLnd, DroppedSendEndsWellAndOnReceiveToo) {
    for (const char* const text : {"action=drop,on=send", "action=drop,on=receive"}) {
        Lo lo({text});
        const MsgPtr msg = lo.send();
        ASSERT_TRUE(lo.ended(msg));
        EXPECT_TRUE(msg->status.ok());
        EXPECT_EQ(lo.node.core.held()->arrivals.size(), 0u);
        EXPECT_EQ(lo.rules.counts(0).applied, 1u);
    }
}

TEST(FaultLnd, DropReportsTheHealthThatIsNamed) {
    const std::pair<const char*, Health> cases[] = {
        {"local_interrupt", Health::local_interrupt}, {"local_no_route", Health::local_no_route},
        {"local_error", Health::local_error},         {"remote_dropped", Health::remote_dropped},
        {"network_timeout", Health::network_timeout},
    };
    for (const auto& [name, health] : cases) {
        Lo lo({std::string("action=drop,health=") + name});
        const MsgPtr msg = lo.send();
        ASSERT_TRUE(lo.ended(msg));
        EXPECT_EQ(msg->health, health);
        EXPECT_EQ(msg->status, status_of(health));
    }
}

TEST(FaultLnd, CorruptsACopy) {
    Lo lo({"action=corrupt,count=1"});
    const MsgPtr msg = lo.send(3000);
    ASSERT_TRUE(lo.ended(msg));
    ASSERT_TRUE(lo.arrived(1));
    EXPECT_EQ(lo.node.core.held()->wrong_bytes, 1u);
    EXPECT_EQ(differences(msg->payload, msg->id), 0u) << "the sender's memory was changed";
    EXPECT_TRUE(lo.ended(lo.send(3000)));
    ASSERT_TRUE(lo.arrived(2));
    EXPECT_EQ(lo.node.core.held()->wrong_bytes, 1u);
}

// What follows overtakes a delayed message, and it comes in the end.
TEST(FaultLnd, Delays) {
    for (const std::string way : {"send", "receive"}) {
        Lo lo({"action=delay,count=1,time=50ms,on=" + way});
        const MsgPtr late = lo.send();
        const MsgPtr next = lo.send();
        ASSERT_TRUE(lo.ended(late));
        ASSERT_TRUE(lo.ended(next));
        ASSERT_TRUE(lo.arrived(2));
        EXPECT_EQ(lo.node.core.held()->arrivals[0].hdr.match_bits, next->id);
        EXPECT_EQ(lo.held(), 0u);
    }
}

// An arrival that was held may be parked, refused and thrown away as any other.
TEST(FaultLnd, LateArrivalsAreAnsweredInAnyWay) {
    Lo lo({"action=delay,time=1ms,on=receive"}, [](Core& core, const Core::Arrival& arrival) {
        switch (arrival.hdr.match_bits % 4) {
        case 0:
            core.park(arrival);
            return ok_status;
        case 1:
            return Status(-EPROTO);
        case 2:
            core.discard(arrival);
            return ok_status;
        default:
            core.accept(arrival, arrival.hdr.payload_length);
            return ok_status;
        }
    });
    std::vector<MsgPtr> msgs;
    for (int i = 0; i < 40; ++i) msgs.push_back(lo.send());
    ASSERT_TRUE(lo.node.core.wait([&] { return lo.node.core.parked.size() == 10; }));
    for (const Core::Arrival& arrival : lo.node.core.take_parked())
        run_on(*lo.sched, 0, [&] { lo.node.core.accept(arrival, 100); });
    for (const MsgPtr& msg : msgs) EXPECT_TRUE(lo.ended(msg));
    EXPECT_TRUE(lo.arrived(20));
    EXPECT_EQ(lo.node.core.held()->wrong_bytes, 0u);
}

TEST(FaultLnd, StallKeepsTheOrder) {
    Lo lo({"action=stall,count=1,time=30ms,on=send"});
    std::vector<MsgPtr> msgs;
    for (int i = 0; i < 200; ++i) msgs.push_back(lo.send());
    for (const MsgPtr& msg : msgs) ASSERT_TRUE(lo.ended(msg));
    ASSERT_TRUE(lo.arrived(200));
    for (u64 i = 0; i < 200; ++i) EXPECT_EQ(lo.node.core.held()->arrivals[i].hdr.match_bits, i + 1);
}

TEST(FaultLnd, ADeadlineEndsWhatIsHeld) {
    Lo lo({"action=delay,time=1h,on=send"});
    auto msg = put(nid_lo(), nid_lo(), 1, 10);
    msg->deadline = lo.sched->now() + std::chrono::milliseconds(20);
    lo.node.send(msg);
    ASSERT_TRUE(lo.ended(msg));
    EXPECT_EQ(msg->status, Status(-ETIMEDOUT));
}

TEST(FaultLnd, CloseEndsWhatIsHeld) {
    for (const std::string text :
         {"action=delay,time=1h,on=send", "action=delay,time=1h,on=receive",
          "action=stall,time=1h,on=both", "action=drop,on=send", "action=corrupt"}) {
        Lo lo({text});
        std::vector<MsgPtr> msgs;
        for (int i = 0; i < 100; ++i) msgs.push_back(lo.send());
        lo.node.close();
        for (const MsgPtr& msg : msgs) {
            EXPECT_EQ(lo.node.core.times_finished(*msg), 1u) << text;
            const bool fails = text.find("on=send") != std::string::npos &&
                               text.find("delay") != std::string::npos;
            EXPECT_TRUE(!fails || msg->status == Status(-ESHUTDOWN)) << text;
        }
    }
}

// --- between two nodes

class Pair {
 public:
    explicit Pair(const std::vector<std::string>& texts, Core::OnArrived on_arrived = {})
        : rules(rules_of(texts)), a(*sched, ni_config(1, port, settings()),
                                    make_fault_lnd(make_sock_lnd(back_end()), rules)),
          b(*sched, 2, port, settings(), std::move(on_arrived)) {}
    static Settings settings() {
        return {{Tunable::min_reconnect_ms, 5}, {Tunable::max_reconnect_ms, 20}};
    }
    MsgPtr send(u32 len = 100) {
        auto msg = put(a.nid(), b.nid(), ++ids, len);
        a.send(msg);
        return msg;
    }
    bool ended(const MsgPtr& msg) {
        return a.core.wait([&] { return msg->finished == 1; });
    }
    const u16 port = free_port();
    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    FaultRules rules;
    TestNode a, b;
    u64 ids = 0;
};

TEST(FaultLnd, ResetEndsTheConnections) {
    Pair pair({"action=reset,count=1,rate=5,on=send"});
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(pair.ended(pair.send()));
    EXPECT_EQ(pair.rules.counts(0).applied, 1u);
    ASSERT_TRUE(pair.a.core.wait([&] {
        return std::ranges::any_of(
            pair.a.core.events, [](const auto& event) { return event.second == PeerEvent::down; });
    }));
    ASSERT_TRUE(eventually([&] {
        const MsgPtr msg = pair.send();
        return pair.ended(msg) && msg->status.ok();
    }));
}

TEST(FaultLnd, DropPeerEndsWhatIsHeldForIt) {
    Pair pair({"action=delay,time=1h,on=send"});
    const MsgPtr msg = pair.send();
    ASSERT_TRUE(eventually([&] { return pair.a.describe()["fault"]["held"].as_int() == 1; }));
    run_on(*pair.sched, 0, [&] { pair.a.ni().drop_peer(pair.b.nid()); });
    ASSERT_TRUE(pair.ended(msg));
    EXPECT_EQ(msg->status, Status(-EHOSTDOWN));
}

// The peer goes while an arrival from it is held: the core gets it, or not, and nothing hangs.
TEST(FaultLnd, SenderOfAHeldArrivalGoes) {
    Pair pair({"action=delay,time=50ms,on=receive"});
    std::vector<MsgPtr> msgs;
    for (u64 id = 0; id < 10; ++id) {
        msgs.push_back(put(pair.b.nid(), pair.a.nid(), id, 4000));
        pair.b.send(msgs.back());
    }
    ASSERT_TRUE(eventually([&] { return pair.rules.counts(0).applied > 0; }));
    pair.b.close();
    pair.a.close();
    for (const MsgPtr& msg : msgs) EXPECT_EQ(pair.b.core.times_finished(*msg), 1u);
}

}  // namespace
}  // namespace ulnet::sock
