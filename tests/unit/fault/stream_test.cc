// Streams with faults, below the socket driver: the messages of two nodes survive or end with an
// error, as the protocol has it.
#include <gtest/gtest.h>

#include "lnds/sock/wire.h"
#include "lnet/wire/acceptor.h"
#include "tests/unit/sock/harness.h"

namespace ulnet::sock {
namespace {

std::vector<FaultRule> rules_of(const std::string& text) {
    std::vector<FaultRule> rules(1);
    const Error error = parse_fault_rule(text, rules[0]);
    EXPECT_TRUE(error.ok()) << error.text;
    return rules;
}

const Settings quick{{Tunable::min_reconnect_ms, 5}, {Tunable::max_reconnect_ms, 20}};

// A has faults, B has none.
class Pair {
 public:
    explicit Pair(const std::string& text)
        : rules(rules_of(text)),
          a(*sched, ni_config(1, port, quick), make_sock_lnd(back_end(), &rules)),
          b(*sched, 2, port, quick) {}
    MsgPtr send(u32 len) {
        auto msg = put(a.nid(), b.nid(), ++ids, len);
        a.send(msg);
        return msg;
    }
    bool ended(const MsgPtr& msg) {
        return a.core.wait([&] { return msg->finished == 1; });
    }
    const u16 port = free_port();
    std::unique_ptr<ThreadSched> sched = make_sched(1, 2);
    FaultRules rules;
    TestNode a, b;
    u64 ids = 0;
};

TEST(FaultStream, ResetAfterSoManyBytes) {
    for (const char* const way : {"send", "receive", "both"}) {
        Pair pair(std::string("action=stream_reset,after=100000,count=3,on=") + way);
        bool failed = false;
        for (int i = 0; i < 30; ++i) {
            const MsgPtr msg = pair.send(10000);
            ASSERT_TRUE(pair.ended(msg)) << way;
            failed = failed || !msg->status.ok();
        }
        // Little comes back on the connections of a sender.
        EXPECT_EQ(failed, std::string_view(way) != "receive") << way;
        ASSERT_TRUE(eventually([&] {
            const MsgPtr msg = pair.send(1000);
            return pair.ended(msg) && msg->status.ok();
        }));
        EXPECT_EQ(pair.rules.counts(0).applied, 3u);
        EXPECT_EQ(pair.b.core.held()->wrong_bytes, 0u);
    }
}

TEST(FaultStream, StallEnds) {
    for (const char* const after : {"0", "20", "72", "5000", "200000"})
        for (const char* const way : {"send", "receive", "both"}) {
            Pair pair(std::string("action=stream_stall,time=20ms,after=") + after + ",on=" + way);
            std::vector<MsgPtr> msgs;
            for (int i = 0; i < 30; ++i) msgs.push_back(pair.send(16000));
            for (const MsgPtr& msg : msgs) {
                ASSERT_TRUE(pair.ended(msg)) << after << way;
                EXPECT_TRUE(msg->status.ok());
            }
            ASSERT_TRUE(pair.b.core.wait([&] { return pair.b.core.received_ok == 30; }));
            EXPECT_EQ(pair.b.core.held()->wrong_bytes, 0u);
        }
}

// One byte in the middle of the first payload: frame header of 96 bytes, behind request and HELLO.
TEST(FaultStream, CorruptsOneByte) {
    Pair pair("action=stream_corrupt,on=send,after=5000");
    const MsgPtr msg = pair.send(16000);
    ASSERT_TRUE(pair.ended(msg));
    ASSERT_TRUE(pair.b.core.wait([&] { return pair.b.core.received_ok == 1; }));
    EXPECT_EQ(pair.b.core.held()->wrong_bytes, 1u);
    EXPECT_EQ(differences(msg->payload, msg->id), 0u) << "the sender's memory was changed";
}

TEST(FaultStream, CorruptedHelloIsRefused) {
    Pair pair("action=stream_corrupt,on=send,after=16,count=1");  // the HELLO's magic
    const MsgPtr first = pair.send(100);
    ASSERT_TRUE(pair.ended(first));
    ASSERT_TRUE(eventually([&] {
        const MsgPtr msg = pair.send(100);
        return pair.ended(msg) && msg->status.ok();
    }));
}

// Once the first connection is answered, the second one begins with the same bytes; it stays for as
// long as the other end keeps it.
TEST(FaultStream, DuplicateSaysTheSame) {
    const u16 port = free_port();
    const auto sched = make_sched(1, 2);
    FaultRules rules(rules_of("action=stream_duplicate,count=1"));
    RawListener listener(2, port);
    ASSERT_TRUE(listener.valid());
    TestNode a(*sched, ni_config(1, port, quick), make_sock_lnd(back_end(), &rules));
    const MsgPtr msg = put(a.nid(), nid_at(2), 1, 100);
    a.send(msg);
    RawConn first = listener.accept(), second = listener.accept();
    constexpr std::size_t size = acceptor_v1_bytes + wire_size<HelloV3>();
    const Bytes said = first.read(size);
    ASSERT_EQ(said.size(), size);
    Hello answer = hello_from(nid_at(2), a.nid(), ConnType::control);
    ASSERT_TRUE(first.send(hello_bytes_of(answer)));
    EXPECT_EQ(second.read(size), said);
    answer.type = static_cast<u32>(ConnType::none);
    ASSERT_TRUE(second.send(hello_bytes_of(answer)));
    EXPECT_EQ(first.read(96 + 100).size(), 96u + 100u);  // the message goes by the first one
    first.close();
    second.close();
    a.close();
    EXPECT_EQ(msg->finished, 1u);
}

TEST(FaultStream, DuplicateDoesNoHarm) {
    Pair pair("action=stream_duplicate");
    for (int i = 0; i < 50; ++i) {
        const MsgPtr msg = pair.send(2000);
        ASSERT_TRUE(pair.ended(msg));
        EXPECT_TRUE(msg->status.ok());
    }
    ASSERT_TRUE(pair.b.core.wait([&] { return pair.b.core.received_ok == 50; }));
    EXPECT_EQ(pair.b.core.held()->wrong_bytes, 0u);
}

}  // namespace
}  // namespace ulnet::sock
