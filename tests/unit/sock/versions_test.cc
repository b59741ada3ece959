// The versions of the protocol over real connections: a scripted peer of each version and byte
// order on either side, and how the two ends come to agree.
#include <gtest/gtest.h>

#include "lnet/wire/acceptor.h"
#include "tests/unit/sock/passive.h"

namespace ulnet::sock {
namespace {

using std::chrono::milliseconds;

class Versions : public Passive, public testing::WithParamInterface<std::tuple<u32, Order>> {
 protected:
    Speaker speaker{std::get<0>(GetParam()), std::get<1>(GetParam())};
    Hello hello(ConnType type) {
        Hello made = hello_from(nid_at(1), node->nid(), type);
        made.version = speaker.version;
        made.order = speaker.order;
        return made;
    }
};

// A peer of this version connects, and messages go both ways.
TEST_P(Versions, PassiveSide) {
    make();
    RawConn conn = requested();
    ASSERT_TRUE(conn.send(hello_bytes_of(hello(ConnType::control))));
    const Hello answer = read_hello(conn);
    EXPECT_EQ(answer.version, speaker.version);
    EXPECT_EQ(answer.type, static_cast<u32>(ConnType::control));
    EXPECT_EQ(answer.src_nid, node->nid());
    // Version 1 has no place for the receiver.
    EXPECT_EQ(answer.dst_nid, speaker.version == 1 ? Nid() : nid_at(1));
    const Frame large = put_frame(nid_at(1), node->nid(), 3, 40000);
    const Frame empty = put_frame(nid_at(1), node->nid(), 4, 0);
    ASSERT_TRUE(conn.send(speaker.frame(large) + payload_of(3, 40000) + speaker.frame(empty) +
                          speaker.frame(large) + payload_of(3, 40000)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 3; }));
    EXPECT_EQ(node->core.held()->wrong_bytes, 0u);
    EXPECT_EQ(node->core.held()->arrivals[0].hdr, large.hdr);
    EXPECT_EQ(node->core.held()->arrivals[1].hdr, empty.hdr);
    const auto msg = put(node->nid(), nid_at(1), 7, 3000);
    node->send(msg);
    const Frame got = speaker.read(conn);
    EXPECT_EQ(got.head, Frame{}.head);
    EXPECT_EQ(got.hdr, msg->hdr);
    EXPECT_EQ(conn.read(3000), payload_of(7, 3000));
    EXPECT_EQ(node->describe()["connections"].items()[0]["version"].as_int(), speaker.version);
    // What was queued has been counted with the header that was sent.
    EXPECT_TRUE(eventually(
        [&] { return node->describe()["connections"].items()[0]["queued_bytes"].as_int() == 0; }));
}

// All connections to a peer are of one version.
TEST_P(Versions, AnotherVersionIsRefusedWhileConnectionsAreOpen) {
    make();
    RawConn conn = requested();
    ASSERT_TRUE(conn.send(hello_bytes_of(hello(ConnType::control))));
    ASSERT_EQ(read_hello(conn).type, static_cast<u32>(ConnType::control));
    RawConn other = requested();
    Hello changed = hello(ConnType::bulk_in);
    changed.version = speaker.version % version_max + 1;
    ASSERT_TRUE(other.send(hello_bytes_of(changed)));
    const Hello refusal = read_hello(other);
    EXPECT_EQ(refusal.version, changed.version);
    EXPECT_EQ(refusal.type, static_cast<u32>(ConnType::none));
    EXPECT_TRUE(other.closed());
    EXPECT_EQ(node->connections(), 1u);
    conn.close();
    ASSERT_TRUE(node->wait_connections(0));
    RawConn again = requested();
    ASSERT_TRUE(again.send(hello_bytes_of(changed)));
    EXPECT_EQ(invert(read_hello(again).type), ConnType::bulk_in);
}

INSTANTIATE_TEST_SUITE_P(All, Versions,
                         testing::Values(std::tuple{1u, Order::little},
                                         std::tuple{2u, Order::little}, std::tuple{2u, Order::big},
                                         std::tuple{3u, Order::little}, std::tuple{3u, Order::big},
                                         std::tuple{4u, Order::little},
                                         std::tuple{4u, Order::big}));

class Negotiation : public testing::Test {
 protected:
    void make(Settings settings = {}) {
        settings.try_emplace(Tunable::min_reconnect_ms, 20);
        node = std::make_unique<TestNode>(*sched, u8{1}, port, settings);
    }
    MsgPtr sent(u64 id, u32 len = 10) {
        auto msg = put(node->nid(), peer, id, len);
        node->send(msg);
        return msg;
    }
    Hello greeted(RawConn& conn) {
        conn = listener.accept();
        EXPECT_EQ(conn.read(acceptor_v1_bytes), request_to(peer));
        return read_hello(conn);
    }
    Hello answer_to(const Hello& hello, u32 version, Order order = native_order) {
        Hello answer = hello_from(peer, hello.src_nid, *invert(hello.type), 55);
        answer.version = version;
        answer.order = order;
        return answer;
    }
    void refuse(u32 greeted_in, u32 version) {
        RawConn conn;
        const Hello hello = greeted(conn);
        EXPECT_EQ(hello.version, greeted_in);
        Hello answer = answer_to(hello, version);
        answer.type = static_cast<u32>(ConnType::none);
        EXPECT_TRUE(conn.send(hello_bytes_of(answer)));
        EXPECT_TRUE(conn.closed());
    }
    RawConn agree(u32 greeted_in, u32 version, Order order = native_order) {
        RawConn conn;
        const Hello hello = greeted(conn);
        EXPECT_EQ(hello.version, greeted_in);
        EXPECT_TRUE(conn.send(hello_bytes_of(answer_to(hello, version, order))));
        return conn;
    }
    bool finished(const MsgPtr& msg) {
        return node->core.wait([&] { return msg->finished == 1; });
    }

    const u16 port = free_port();
    const Nid peer = nid_at(2);
    RawListener listener{2, port};
    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    std::unique_ptr<TestNode> node;
};

// Refused in another version: again with that at once, and the next connection begins with it. When
// all connections have gone it is forgotten.
TEST_F(Negotiation, TheRefusalNamesTheVersion) {
    for (const u32 version : {1u, 2u, 4u}) {
        SCOPED_TRACE(version);
        // No attempt would come in this time if it had to wait.
        make({{Tunable::min_reconnect_ms, 3600000}, {Tunable::max_reconnect_ms, 3600000}});
        const auto msg = sent(1);
        refuse(3, version);
        RawConn control = agree(version, version, Order::big);
        EXPECT_EQ(Speaker{version}.read(control).hdr, msg->hdr);
        EXPECT_EQ(control.read(10), payload_of(1, 10));
        RawConn in = agree(version, version);
        RawConn out = agree(version, version);
        ASSERT_TRUE(node->wait_connections(3));
        EXPECT_EQ(node->counter("refusals_received"), 1u);
        control.close();
        EXPECT_TRUE(in.closed());
        EXPECT_TRUE(out.closed());
        ASSERT_TRUE(node->wait_connections(0));
        const auto next = sent(2);
        RawConn last;
        EXPECT_EQ(greeted(last).version, 3u);
        node->close();
    }
}

// The answer is of another version, but agrees.
TEST_F(Negotiation, TheAnswerNamesTheVersion) {
    make();
    const auto msg = sent(1);
    RawConn control = agree(3, 2);
    EXPECT_EQ(Speaker{2}.read(control).hdr, msg->hdr);
    RawConn in = agree(2, 2);
    // That it changes its mind means a new start.
    RawConn out = agree(2, 3);
    EXPECT_TRUE(control.closed());
    EXPECT_TRUE(in.closed());
    EXPECT_TRUE(out.closed());
}

// A peer that wants another version every time is given up.
TEST_F(Negotiation, NotForEver) {
    make({{Tunable::min_reconnect_ms, 3600000}, {Tunable::max_reconnect_ms, 3600000}});
    const auto msg = sent(1);
    u32 version = 3;
    for (u32 i = 0; i <= version_max; ++i) {
        const u32 other = version == 4 ? 2 : 4;
        refuse(version, other);
        version = other;
    }
    ASSERT_TRUE(finished(msg));
    EXPECT_EQ(msg->status, Status(-EPROTO));
    EXPECT_TRUE(listener.none_waiting(milliseconds(20)));
}

TEST_F(Negotiation, TheTunableIsWhereWeBegin) {
    for (const u32 version : {1u, 2u, 3u, 4u}) {
        make({{Tunable::protocol, version}});
        const auto msg = sent(1, 2000);
        RawConn control = agree(version, version);
        EXPECT_EQ(Speaker{version}.read(control).hdr, msg->hdr);
        EXPECT_EQ(control.read(2000), payload_of(1, 2000));
        // And what unknown versions are answered with.
        RawConn raw = RawConn::to(3, 1, port);
        Bytes bytes = hello_bytes_of(hello_from(nid_at(3), node->nid(), ConnType::control));
        bytes[4] = std::byte{77};
        ASSERT_TRUE(raw.send(request_to(node->nid()) + bytes));
        const Hello answer = read_hello(raw);
        EXPECT_EQ(answer.version, version);
        EXPECT_EQ(answer.type, static_cast<u32>(ConnType::none));
        EXPECT_TRUE(raw.closed());
        control.close();
        node->close();
        // What the closed node still had begun to open.
        while (!listener.none_waiting(milliseconds(0))) listener.accept();
    }
}

// Two drivers whose defaults differ: the one that is dialled follows.
TEST_F(Negotiation, DriversOfDifferentDefaults) {
    const u16 their_port = free_port();
    for (u32 first = version_min; first <= version_max; ++first) {
        for (u32 second = version_min; second <= version_max; ++second) {
            TestNode one(*sched, 1, their_port, {{Tunable::protocol, first}});
            TestNode two(*sched, 2, their_port, {{Tunable::protocol, second}});
            const auto there = put(one.nid(), two.nid(), 1, 100000);
            one.send(there);
            ASSERT_TRUE(two.core.wait([&] { return two.core.received_ok == 1; }));
            const auto back = put(two.nid(), one.nid(), 2, 100000);
            two.send(back);
            ASSERT_TRUE(one.core.wait([&] { return one.core.received_ok == 1; }));
            EXPECT_EQ(one.core.held()->wrong_bytes + two.core.held()->wrong_bytes, 0u);
            const ctl::Value shown = two.describe();
            for (const ctl::Value& conn : shown["connections"].items())
                EXPECT_EQ(conn["version"].as_int(), first);
        }
    }
}

}  // namespace
}  // namespace ulnet::sock
