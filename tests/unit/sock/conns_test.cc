// Which connections the driver opens: typed or not, how many, to which ports, with which options;
// and what it says of those that time out.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "lnet/wire/acceptor.h"
#include "tests/unit/sock/passive.h"

namespace ulnet::sock {
namespace {

using std::chrono::milliseconds;

class Conns : public testing::Test {
 protected:
    void make(Settings mine = {}, Settings theirs = {}) {
        mine.try_emplace(Tunable::min_reconnect_ms, 20);
        theirs.try_emplace(Tunable::min_reconnect_ms, 20);
        a = std::make_unique<TestNode>(*sched, u8{1}, port, mine);
        b = std::make_unique<TestNode>(*sched, u8{2}, port, theirs);
    }
    // One message there, and it has arrived.
    void exchange(TestNode& from, TestNode& to, u32 len) {
        const u32 before = to.core.held()->received_ok;
        from.send(put(from.nid(), to.nid(), ++ids, len));
        ASSERT_TRUE(to.core.wait([&] { return to.core.received_ok == before + 1; }));
        EXPECT_EQ(to.core.held()->wrong_bytes, 0u);
    }

    const u16 port = free_port();
    u64 ids = 0;
    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    std::unique_ptr<TestNode> a, b;
};

// Untyped connections carry everything both ways, in each version.
TEST_F(Conns, Untyped) {
    for (u32 version = version_min; version <= version_max; ++version) {
        SCOPED_TRACE(version);
        const Settings settings{
            {Tunable::typed_conns, 0}, {Tunable::conns_per_peer, 2}, {Tunable::protocol, version}};
        make(settings, settings);
        exchange(*a, *b, 10);
        ASSERT_TRUE(a->wait_connections(2, "any"));
        exchange(*a, *b, 300000);
        exchange(*b, *a, 10);
        exchange(*b, *a, 300000);
        EXPECT_EQ(a->connections(), 2u);
        EXPECT_EQ(b->connections(), 2u);
        EXPECT_EQ(b->counter("connects"), 0u);
        a.reset();
        b.reset();
    }
}

// In versions 3 and 4 who opens typed connections does not send on others, as the kernel does not.
TEST_F(Conns, UntypedOnOneSideOnly) {
    for (u32 version = version_min; version <= version_max; ++version) {
        SCOPED_TRACE(version);
        make({{Tunable::typed_conns, 0}, {Tunable::protocol, version}});
        exchange(*a, *b, 10);
        ASSERT_TRUE(b->wait_connections(1, "any"));
        exchange(*b, *a, 300000);
        ASSERT_TRUE(b->wait_connections(version < 3 ? 1 : 4));
        exchange(*a, *b, 300000);
        EXPECT_EQ(b->connections("any"), 1u);
        a.reset();
        b.reset();
    }
}

// Neither a back end nor a connection belongs to a thread: a worker that is held up by what it does
// with a message holds up that connection alone. Its sibling serves all else, of the same peer too.
TEST_F(Conns, AHeldUpWorkerHoldsUpOneConnection) {
    constexpr u64 holding_id = 1u << 20;
    std::atomic<bool> held{false}, release{false};
    sched = make_sched(1, 2);
    const Settings settings{{Tunable::min_reconnect_ms, 20}};
    a = std::make_unique<TestNode>(*sched, u8{1}, port, settings);
    b = std::make_unique<TestNode>(*sched, u8{2}, port, settings,
                                   [&](Core& core, const Core::Arrival& arrival) {
                                       if (arrival.hdr.match_bits == holding_id) {
                                           held = true;
                                           while (!release) std::this_thread::yield();
                                           held = false;
                                       }
                                       core.accept(arrival, arrival.hdr.payload_length);
                                       return ok_status;
                                   });
    TestNode c(*sched, 3, port, settings);
    exchange(*a, *b, 10);
    exchange(c, *b, 10);
    // Before, bulk may go over the one connection that there is.
    for (TestNode* node : {a.get(), &c}) ASSERT_TRUE(node->wait_connections(3));
    ASSERT_TRUE(b->wait_connections(6));
    for (int round = 0; round < 20; ++round) {
        release = false;
        const u32 before = b->core.held()->received_ok;
        a->send(put(a->nid(), b->nid(), holding_id, 10));
        ASSERT_TRUE(eventually([&] { return held.load(); }));
        for (const u32 len : {10u, 300000u}) {
            exchange(c, *b, len);
            exchange(*b, c, len);
            exchange(*b, *a, len);
        }
        exchange(*a, *b, 300000);  // on a connection for bulk
        EXPECT_TRUE(held);
        release = true;
        ASSERT_TRUE(b->core.wait([&] { return b->core.received_ok == before + 4; }));
    }
}

// More are opened with the next message; what is too many stays.
TEST_F(Conns, NumberChangesAtRunTime) {
    make({{Tunable::conns_per_peer, 1}}, {{Tunable::conns_per_peer, 4}});
    exchange(*a, *b, 10);
    ASSERT_TRUE(a->wait_connections(3));
    a->tune(Tunable::conns_per_peer, 3);
    exchange(*a, *b, 10);
    ASSERT_TRUE(a->wait_connections(7));
    a->tune(Tunable::conns_per_peer, 1);
    for (int i = 0; i < 20; ++i) exchange(*a, *b, 3000);
    EXPECT_EQ(a->connections("bulk_out"), 3u);
    EXPECT_EQ(a->counter("refusals_received"), 0u);
}

// What the peer allows is asked again when another number is wanted.
TEST_F(Conns, RefusedOnesAreTriedAgainWhenTheNumberChanges) {
    make({{Tunable::conns_per_peer, 3}}, {{Tunable::conns_per_peer, 1}});
    const auto refused = [&](u64 count) {
        return eventually([&] {
            exchange(*a, *b, 10);
            return a->counter("refusals_received") >= count;
        });
    };
    ASSERT_TRUE(refused(3));
    for (int i = 0; i < 50; ++i) exchange(*a, *b, 10);
    EXPECT_EQ(a->counter("refusals_received"), 3u);
    EXPECT_EQ(a->connections(), 3u);
    b->tune(Tunable::conns_per_peer, 2);
    a->tune(Tunable::conns_per_peer, 2);
    ASSERT_TRUE(eventually([&] {
        exchange(*a, *b, 10);
        return a->connections() == 5;
    }));
    EXPECT_EQ(b->connections(), 5u);
}

// CONTROL to one port, bulk to the other; the other end listens on both.
TEST_F(Conns, APortForBulk) {
    const u16 bulk = free_port();
    make({{Tunable::accept_port_bulk, bulk}}, {{Tunable::accept_port_bulk, bulk}});
    EXPECT_EQ(b->describe()["listen"].as_text(), "127.0.0.2:" + std::to_string(port));
    EXPECT_EQ(b->describe()["listen_bulk"].as_text(), "127.0.0.2:" + std::to_string(bulk));
    exchange(*a, *b, 10);
    ASSERT_TRUE(a->wait_connections(3));
    exchange(*b, *a, 300000);
    const ctl::Value shown = a->describe();
    for (const ctl::Value& conn : shown["connections"].items()) {
        const u16 to = conn["type"].as_text() == "control" ? port : bulk;
        EXPECT_EQ(conn["remote"].as_text(), "127.0.0.2:" + std::to_string(to));
    }
}

// A second port that is taken: the first one is free again.
TEST_F(Conns, APortForBulkThatIsTaken) {
    const u16 bulk = free_port();
    const RawListener taken(2, bulk);
    Core core(*sched);
    const auto lnd = make_sock_lnd(back_end());
    std::string why;
    run_on(*sched, 0, [&] {
        const auto ni =
            lnd->open(ni_config(2, port, {{Tunable::accept_port_bulk, bulk}}), core, *sched, why);
        EXPECT_EQ(ni.status(), Status(-EADDRINUSE));
    });
    EXPECT_NE(why.find("127.0.0.2:" + std::to_string(bulk)), std::string::npos) << why;
    EXPECT_TRUE(RawListener(2, port).valid());
}

// The first packet of a connection has the type of service already.
TEST_F(Conns, TypeOfServiceFromTheFirstPacketOn) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in raw{};
    raw.sin_family = AF_INET;
    raw.sin_addr.s_addr = htonl(local(2));
    raw.sin_port = htons(port);
    const int on = 1;
    ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    ASSERT_EQ(::setsockopt(fd, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof on), 0);
    ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&raw), sizeof raw), 0);
    ASSERT_EQ(::listen(fd, 4), 0);
    TestNode node(*sched, 1, port, {{Tunable::tos, 0x68}});
    node.send(put(node.nid(), nid_at(2), 1, 10));
    const int conn = ::accept(fd, nullptr, nullptr);
    ASSERT_GE(conn, 0);
    std::array<u8, 256> syn{};
    socklen_t size = syn.size();
    ASSERT_EQ(::getsockopt(conn, IPPROTO_TCP, TCP_SAVED_SYN, syn.data(), &size), 0);
    ASSERT_GE(size, 20u);
    EXPECT_EQ(syn[0] >> 4, 4);
    EXPECT_EQ(syn[1], 0x68);
    ::close(conn);
    ::close(fd);
}

// Peer, type, ports, and how much is outstanding in which direction.
TEST_F(Conns, Row3_12_TimeOutsSayPeerPortDirectionAndBytes) {
    LogLines lines;
    TestNode node(*sched, 2, port, {{Tunable::sock_timeout, 1}});
    Hello answer;
    RawConn conn = open_conn(1, node, port, ConnType::bulk_out, answer);
    ASSERT_TRUE(
        conn.send(frame_of(put_frame(nid_at(1), node.nid(), 7, 5000)) + payload_of(7, 2500)));
    const u16 from = conn.local_port();
    ASSERT_TRUE(conn.closed());
    const std::string text = lines.text();
    EXPECT_NE(text.find("peer 12345-127.0.0.1@tcp: no progress"), std::string::npos) << text;
    EXPECT_NE(text.find("bulk_in from port " + std::to_string(from)), std::string::npos) << text;
    EXPECT_NE(text.find("sending: 0 bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("receiving: 2500 bytes"), std::string::npos) << text;
}

// What a peer never answers says how far the connecting came.
TEST_F(Conns, ConnectingThatTimesOutSaysHowFarItCame) {
    LogLines lines;
    const RawListener listener(2, port);
    TestNode node(*sched, 1, port, {{Tunable::sock_timeout, 1}});
    const auto msg = put(node.nid(), nid_at(2), 1, 10);
    node.send(msg);
    ASSERT_TRUE(node.core.wait([&] { return msg->finished == 1; }));
    ASSERT_TRUE(node.wait_counter("connect_failures", 1));
    const std::string text = lines.text();
    EXPECT_NE(text.find("at 127.0.0.2:" + std::to_string(port) + " (control)"), std::string::npos)
        << text;
    EXPECT_NE(text.find("waiting for the HELLO"), std::string::npos) << text;
}

}  // namespace
}  // namespace ulnet::sock
