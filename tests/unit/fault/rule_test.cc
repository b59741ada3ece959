// Fault rules: their text, whom they match, and how often they are due.
#include <gtest/gtest.h>

#include "lnet/fault_rule.h"

namespace ulnet {
namespace {

FaultRule rule_of(std::string_view text) {
    FaultRule rule;
    const Error error = parse_fault_rule(text, rule);
    EXPECT_TRUE(error.ok()) << text << ": " << error.text;
    return rule;
}
std::string refusal(std::string_view text) {
    FaultRule rule;
    const Error error = parse_fault_rule(text, rule);
    EXPECT_FALSE(error.ok()) << text;
    EXPECT_EQ(error.status, Status(-EINVAL));
    return error.text;
}

TEST(FaultRule, TextParsesToItself) {
    for (const char* const text : {
             "action=drop,on=receive,rate=1",
             "action=drop,source=10.0.[0-3,7].*@tcp,dest=*@o2ib,local=1.2.3.4@tcp1,"
             "peer=1.2.3.5@tcp1,message=ack+put+get+reply,portal=0+50+63,on=send,rate=10,count=3,"
             "health=local_error+network_timeout",
             "action=delay,on=both,interval=250ms,time=1500ms",
             "action=corrupt,on=send,rate=2",
             "action=reset,on=both,rate=1",
             "action=stall,message=put,on=receive,rate=1,time=86400000ms",
             "action=stream_duplicate,on=both,rate=1",
             "action=stream_reset,peer=10.0.0.1@tcp,on=send,rate=1,after=1024",
             "action=stream_stall,on=both,rate=1,time=10ms,after=0",
             "action=stream_corrupt,on=receive,rate=1,after=97",
         })
        EXPECT_EQ(to_text(rule_of(text)), text);
}

TEST(FaultRule, Defaults) {
    EXPECT_EQ(to_text(rule_of("action=drop")), "action=drop,on=receive,rate=1");
    EXPECT_EQ(to_text(rule_of("action=drop,health=local_dropped")),
              "action=drop,on=send,rate=1,health=local_dropped");
    EXPECT_EQ(to_text(rule_of("action=delay,time=1")),
              "action=delay,on=receive,rate=1,time=1000ms");
    EXPECT_EQ(to_text(rule_of("action=corrupt")), "action=corrupt,on=send,rate=1");
    EXPECT_EQ(to_text(rule_of("action=stream_reset,after=2K")),
              "action=stream_reset,on=both,rate=1,after=2048");
}

TEST(FaultRule, RefusalsNameKeyValueAndWhatIsAllowed) {
    const std::pair<const char*, const char*> cases[] = {
        {"", "'' is not allowed; allowed: KEY=VALUE, KEY one of action, source, dest"},
        {"rate=1", "action is needed: drop, delay"},
        {"drop", "'drop' is not allowed; allowed: KEY=VALUE"},
        {"action=burn", "action: 'burn' is not allowed; allowed: drop, delay, corrupt"},
        {"action=drop,rate=0", "rate: '0' is not allowed; allowed: 1 ... 1000000000"},
        {"action=drop,rate=x", "rate: 'x' is not allowed"},
        {"action=drop,action=drop", "action is given twice"},
        {"action=drop,rate=1,interval=1s", "rate and interval exclude each other"},
        {"action=drop,interval=0", "interval: '0' is not allowed; allowed: 1ms ... 24h"},
        {"action=delay", "time is needed with action=delay"},
        {"action=drop,time=1s", "time is not allowed with action=drop"},
        {"action=drop,after=1", "after is not allowed with action=drop"},
        {"action=stream_reset,message=put", "message is not allowed with action=stream_reset"},
        {"action=delay,time=1,health=local_error", "health is not allowed with action=delay"},
        {"action=drop,health=sick", "health: 'sick' is not allowed; allowed: local_interrupt"},
        {"action=drop,health=local_error,on=receive",
         "on: 'receive' is not allowed; allowed: send"},
        {"action=corrupt,on=both", "on: 'both' is not allowed; allowed: send"},
        {"action=drop,on=off", "on: 'off' is not allowed; allowed: send, receive, both"},
        {"action=drop,message=put+set", "message: 'put+set' is not allowed; allowed: ack, put"},
        {"action=drop,portal=64", "portal: '64' is not allowed; allowed: 0 ... 63"},
        {"action=drop,source=nobody", "source: 'nobody' is not allowed; allowed: NIDs"},
        {"action=drop,dest=", "dest: '' is not allowed; allowed: NIDs"},
    };
    for (const auto& [text, part] : cases)
        EXPECT_NE(refusal(text).find(part), std::string::npos) << text << ": " << refusal(text);
}

struct Fixture {
    explicit Fixture(std::string_view text) : rules({rule_of(text)}) {}
    bool put(u32 portal = 9, FaultWay way = FaultWay::receive) {
        hdr.type = MsgType::put;
        hdr.portal = portal;
        return hit(way);
    }
    bool hit(FaultWay way = FaultWay::receive) {
        return rules.hit({way, hdr, local, peer}, now, prng) != nullptr;
    }
    FaultRules rules;
    Hdr hdr{.dest_nid = *parse_nid("10.0.0.2@tcp"), .src_nid = *parse_nid("10.0.0.1@tcp")};
    Nid local = hdr.dest_nid, peer = hdr.src_nid;
    Instant now{std::chrono::seconds(1000)};
    Prng prng{7};
};

TEST(FaultRules, Match) {
    EXPECT_TRUE(Fixture("action=drop").put());
    EXPECT_FALSE(Fixture("action=drop").put(9, FaultWay::send));
    EXPECT_TRUE(Fixture("action=drop,on=both").put(9, FaultWay::send));
    EXPECT_TRUE(Fixture("action=drop,portal=9").put());
    EXPECT_FALSE(Fixture("action=drop,portal=8").put());
    EXPECT_FALSE(Fixture("action=drop,portal=8").put(1000));
    EXPECT_TRUE(Fixture("action=drop,message=put").put());
    EXPECT_FALSE(Fixture("action=drop,message=get+ack+reply").put());
    for (const auto& [key, good, bad] : {std::tuple{"source", "10.0.0.1@tcp", "10.0.0.2@tcp"},
                                         {"dest", "10.0.0.[2-9]@tcp", "10.0.0.[3-9]@tcp"},
                                         {"local", "*@tcp", "*@tcp1"},
                                         {"peer", "10.0.0.1@tcp", "10.0.0.2@tcp"}}) {
        EXPECT_TRUE(Fixture(std::string("action=drop,") + key + "=" + good).put()) << key;
        EXPECT_FALSE(Fixture(std::string("action=drop,") + key + "=" + bad).put()) << key;
    }
    Fixture ack("action=drop,portal=0");  // only PUT and GET have a portal
    ack.hdr.type = MsgType::ack;
    EXPECT_FALSE(ack.hit());
    Fixture empty("action=corrupt");
    EXPECT_FALSE(empty.put(9, FaultWay::send));
    empty.hdr.payload_length = 1;
    EXPECT_TRUE(empty.put(9, FaultWay::send));
}

TEST(FaultRules, RateIsOneOfEachGroup) {
    Fixture tens("action=drop,rate=10");
    std::set<int> places;
    for (int group = 0; group < 200; ++group) {
        int hits = 0;
        for (int i = 0; i < 10; ++i)
            if (tens.put()) {
                ++hits;
                places.insert(i);
            }
        ASSERT_EQ(hits, 1);
    }
    EXPECT_EQ(places.size(), 10u);  // at random
    EXPECT_EQ(tens.rules.counts(0).matched, 2000u);
    EXPECT_EQ(tens.rules.counts(0).applied, 200u);
    EXPECT_TRUE(Fixture("action=drop,rate=2").put());  // the first of two, the first time
}

TEST(FaultRules, IntervalIsOnceInEach) {
    Fixture each("action=drop,interval=10s");
    int hits = 0;
    for (int ms = 0; ms < 100'000; ms += 10) {
        hits += each.put();
        each.now += std::chrono::milliseconds(10);
    }
    EXPECT_GE(hits, 9);
    EXPECT_LE(hits, 11);
    Fixture rare("action=drop,interval=10s");
    for (int i = 0; i < 5; ++i) {  // what did not come is not made up for
        rare.now += std::chrono::seconds(100);
        rare.put();
        EXPECT_LE(rare.rules.counts(0).applied, static_cast<u64>(i + 1));
    }
}

TEST(FaultRules, CountEndsIt) {
    Fixture three("action=drop,count=3");
    int hits = 0;
    for (int i = 0; i < 10; ++i) hits += three.put();
    EXPECT_EQ(hits, 3);
    EXPECT_EQ(three.rules.counts(0).matched, 10u);
}

TEST(FaultRules, FirstRuleThatIsDueWins) {
    FaultRules rules({rule_of("action=drop,count=1"), rule_of("action=delay,time=1s")});
    Fixture any("action=drop");
    const FaultSubject subject{FaultWay::receive, any.hdr, any.local, any.peer};
    EXPECT_EQ(rules.hit(subject, any.now, any.prng)->action, FaultAction::drop);
    EXPECT_EQ(rules.hit(subject, any.now, any.prng)->action, FaultAction::delay);
    ctl::Value shown;
    rules.describe(shown);
    ASSERT_EQ(shown.size(), 2u);
    EXPECT_EQ(shown.items()[0]["rule"].as_text(), "action=drop,on=receive,rate=1,count=1");
    EXPECT_EQ(shown.items()[0]["matched"].as_int(), 2);
    EXPECT_EQ(shown.items()[0]["applied"].as_int(), 1);
    EXPECT_EQ(shown.items()[1]["applied"].as_int(), 1);
    EXPECT_TRUE(rules.hit_stream(any.peer, any.now, any.prng).empty());
}

}  // namespace
}  // namespace ulnet
