// Faults that others have met and reported; the number in a test's name is the one of its row in
// the collection of such reports (section, row).
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "lnds/sock/lnd.h"
#include "lnds/sock/ni.h"
#include "lnet/wire/acceptor.h"
#include "tests/unit/sock/passive.h"

namespace ulnet::sock {
namespace {

using std::chrono::milliseconds;

class Rows : public Passive {
 protected:
    // Of another node on the same port.
    std::unique_ptr<TestNode> other(u8 last, Settings settings = {}) {
        settings.try_emplace(Tunable::min_reconnect_ms, 20);
        return std::make_unique<TestNode>(*sched, last, port, settings);
    }
    void exchange(TestNode& from, TestNode& to, u32 len) {
        const u32 before = to.core.held()->received_ok;
        from.send(put(from.nid(), to.nid(), ++ids, len));
        ASSERT_TRUE(to.core.wait([&] { return to.core.received_ok == before + 1; }));
    }
    std::map<std::string, u32> types_of(TestNode& of) {
        std::map<std::string, u32> types;
        const ctl::Value shown = of.describe();
        for (const ctl::Value& conn : shown["connections"].items()) ++types[conn["type"].as_text()];
        return types;
    }

    u64 ids = 0;
};

// One CONTROL, and so many of each bulk type as the speed of the link asks for.
TEST_F(Rows, Row3_2_ConnectionsBySpeed) {
    const std::pair<u32, u32> table[] = {{0, 1},      {1000, 1},  {2500, 1},  {10000, 2},
                                         {25000, 3},  {40000, 3}, {50000, 3}, {100000, 4},
                                         {200000, 4}, {400000, 5}};
    for (const auto& [speed, number] : table) {
        SCOPED_TRACE(speed);
        ASSERT_EQ(conns_per_peer_of(speed), number);
        const auto a = other(1, {{Tunable::conns_per_peer, number}});
        const auto b = other(3, {{Tunable::conns_per_peer, number}});
        exchange(*a, *b, 10);
        ASSERT_TRUE(a->wait_connections(1 + 2 * number));
        ASSERT_TRUE(b->wait_connections(1 + 2 * number));
        const std::map<std::string, u32> wanted{
            {"control", 1}, {"bulk_in", number}, {"bulk_out", number}};
        EXPECT_EQ(types_of(*a), wanted);
        EXPECT_EQ(types_of(*b), wanted);
    }
}

// Ends the socket of this process that has these ports.
void cut(u16 local_port, u16 remote_port) {
    for (int fd = 3; fd < 4096; ++fd) {
        sockaddr_in here{}, there{};
        socklen_t size = sizeof here;
        if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) != 0 ||
            here.sin_family != AF_INET || ntohs(here.sin_port) != local_port)
            continue;
        size = sizeof there;
        if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &size) == 0 &&
            ntohs(there.sin_port) == remote_port)
            ::shutdown(fd, SHUT_RDWR);
    }
}

u16 port_of(const std::string& endpoint) {
    return static_cast<u16>(std::stoul(endpoint.substr(endpoint.find(':') + 1)));
}

// A node talks to itself over sockets, and any of them may end at any time.
TEST_F(Rows, Row3_4_SelfConnect) {
    make({{Tunable::min_reconnect_ms, 10}, {Tunable::max_reconnect_ms, 10}});
    Prng prng(4);
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 100; ++i) exchange(*node, *node, 10);
        // Each connection has two ends here.
        ASSERT_TRUE(eventually([&] {
            const auto types = types_of(*node);
            return types.size() == 3 && types.at("control") == 2 &&
                   types.at("bulk_in") == types.at("bulk_out");
        })) << ctl::to_json(node->describe());
        const ctl::Value shown = node->describe();
        const auto& conns = shown["connections"].items();
        const ctl::Value& one = conns[prng.below(static_cast<u32>(conns.size()))];
        cut(port_of(one["local"].as_text()), port_of(one["remote"].as_text()));
        ASSERT_TRUE(node->wait_connections(0));
        EXPECT_EQ(node->core.held()->sent_failed, 0u);
    }
}

// Whoever sends first: one peer, opened once; forgotten when it is dropped.
TEST_F(Rows, Row3_5_ManyThreadsMeetANewPeer) {
    constexpr u32 threads = 64;
    make();
    for (int round = 0; round < 5; ++round) {
        const auto a = other(1);
        std::vector<MsgPtr> msgs;
        for (u32 i = 0; i < threads; ++i) msgs.push_back(put(a->nid(), node->nid(), ++ids, 100));
        const u32 before = node->core.held()->received_ok;
        std::vector<std::thread> all;
        for (u32 i = 0; i < threads; ++i)
            all.emplace_back([&, i] { run_on(*sched, i % 2, [&] { a->ni().send(*msgs[i]); }); });
        for (std::thread& one : all) one.join();
        EXPECT_TRUE(node->core.wait([&] { return node->core.received_ok == before + threads; }));
        EXPECT_TRUE(a->core.wait([&] { return a->core.sent_finished == threads; }));
        EXPECT_TRUE(a->wait_connections(3));
        EXPECT_EQ(a->describe()["peers"].size(), 1u);
        EXPECT_EQ(a->counter("connects"), 3u);
        run_on(*sched, 0, [&] { a->ni().drop_peer(node->nid()); });
        EXPECT_TRUE(eventually([&] { return a->describe()["peers"].size() == 0; }));
        EXPECT_TRUE(eventually([&] { return node->describe()["peers"].size() == 0; }));
        // Not before `msgs` may go.
        a->close();
    }
}

// An operating system that notes from where it is told to connect.
class NotesOrigin final : public StreamOs {
 public:
    NotesOrigin(std::unique_ptr<StreamOs> below, std::vector<Origin>& origins)
        : below_(std::move(below)), origins_(origins) {}
    Result<std::unique_ptr<StreamListener>> listen(const Endpoint& at, u32 backlog,
                                                   const std::string& interface) override {
        return below_->listen(at, backlog, interface);
    }
    Result<std::unique_ptr<Stream>> connect(const Origin& from, const Endpoint& to) override {
        origins_.push_back(from);
        return below_->connect(from, to);
    }
    void stop(Task& done) override { below_->stop(done); }

 private:
    std::unique_ptr<StreamOs> below_;
    std::vector<Origin>& origins_;
};

// From the address of the NI, whatever the routes say; by its interface where that is wanted.
TEST_F(Rows, Row3_6_ConnectsFromItsOwnInterface) {
    for (const i64 bind : {1, 0}) {
        std::vector<Origin> origins;
        SockLnd lnd([&](Sched& on) -> Result<std::unique_ptr<StreamOs>> {
            auto below = (back_end() == SockBackEnd::io_uring ? make_uring_os : make_epoll_os)(on);
            if (!below.ok()) return below.status();
            return std::unique_ptr<StreamOs>(
                std::make_unique<NotesOrigin>(std::move(*below), origins));
        });
        Core core(*sched);
        std::unique_ptr<LndNi> ni;
        std::string why;
        const NiConfig config = ni_config(3, port, {{Tunable::bind_interface, bind}});
        run_on(*sched, 0, [&] { ni = std::move(*lnd.open(config, core, *sched, why)); });
        core.attach(ni.get());
        const auto msg = put(config.nid, nid_at(1), 1, 10);
        run_on(*sched, 0, [&] { ni->send(*msg); });
        ASSERT_TRUE(core.wait([&] { return msg->finished == 1; }));
        close_ni(*sched, *ni);
        ni.reset();
        ASSERT_EQ(origins.size(), 1u);
        EXPECT_EQ(origins[0].address, local(3));
        EXPECT_EQ(origins[0].interface, bind != 0 ? "lo" : "");
    }
}

// A time-out says nothing about which end is ill, so it blames the network; what the peer or its
// machine answered blames the peer; only what went wrong here blames the own interface.
TEST_F(Rows, Row3_8_WhichEndIsBlamed) {
    make({{Tunable::sock_timeout, 1},
          {Tunable::min_reconnect_ms, 3600000},
          {Tunable::max_reconnect_ms, 3600000}});
    const auto ends = [&](const Nid& peer, u32 len, int error, Health health,
                          const std::function<void()>& then = {}) {
        const auto msg = put(node->nid(), peer, ++ids, len);
        node->send(msg);
        if (then) then();
        ASSERT_TRUE(node->core.wait([&] { return msg->finished == 1; }));
        EXPECT_EQ(msg->status, Status(error));
        EXPECT_EQ(msg->health, health);
    };
    const RawListener silent(3, port);
    ends(nid_at(3), 10, -ETIMEDOUT, Health::network_timeout);
    ends(nid_at(9), 10, -ECONNREFUSED, Health::remote_dropped);
    {
        // What does not fit into the buffers of the sockets waits for a peer that does not read.
        node->tune(Tunable::tx_buffer_size, 4096);
        RawConn unread = open(ConnType::control, 4);
        std::vector<MsgPtr> msgs;
        for (int i = 0; i < 30; ++i) {
            msgs.push_back(put(node->nid(), nid_at(4), ++ids, 1u << 20));
            node->send(msgs.back());
        }
        // The first one's time may be over before the last one is sent.
        ASSERT_TRUE(node->core.wait([&] { return msgs.front()->finished == 1; }));
        EXPECT_EQ(msgs.front()->status, Status(-ETIMEDOUT));
        EXPECT_EQ(msgs.front()->health, Health::network_timeout);
        ASSERT_TRUE(node->core.wait([&] { return msgs.back()->finished == 1; }));
    }
    {
        RawConn resets = open(ConnType::control, 5);
        ends(nid_at(5), 8u << 17, -ECONNRESET, Health::remote_dropped, [&] { resets.reset(); });
    }
    EXPECT_EQ(health_of(-EHOSTUNREACH), Health::remote_dropped);
    EXPECT_EQ(health_of(-ENETUNREACH), Health::remote_dropped);
    EXPECT_EQ(health_of(-EHOSTDOWN), Health::remote_dropped);
    EXPECT_EQ(health_of(-ENOBUFS), Health::local_error);
    const Nid mine = node->nid();
    node->tune(Tunable::sock_timeout, 3600);
    RawConn waits = open(ConnType::control, 6);
    std::vector<MsgPtr> more;
    for (int i = 0; i < 30; ++i) {
        more.push_back(put(mine, nid_at(6), ++ids, 1u << 20));
        node->send(more.back());
    }
    node->close();
    EXPECT_EQ(more.back()->status, Status(-ESHUTDOWN));
    EXPECT_EQ(more.back()->health, Health::local_error);
}

// Version 4 has all that version 3 has: large messages both ways, acknowledgements in both of their
// forms, and an end in the middle of a transfer that ends every message once.
TEST_F(Rows, Row3_9_Version4Whole) {
    make();
    const auto a = other(1, {{Tunable::protocol, 4}});
    for (int i = 0; i < 20; ++i) {
        exchange(*a, *node, 1u << 20);
        exchange(*node, *a, 1u << 20);
    }
    EXPECT_EQ(a->core.held()->wrong_bytes + node->core.held()->wrong_bytes, 0u);
    const ctl::Value shown = node->describe();
    for (const ctl::Value& conn : shown["connections"].items())
        EXPECT_EQ(conn["version"].as_int(), 4);
    // A scripted peer of version 4 that wants acknowledgements.
    const Speaker speaker{4};
    RawConn bulk = requested(3);
    Hello hello = hello_from(nid_at(3), node->nid(), ConnType::bulk_out);
    hello.version = 4;
    ASSERT_TRUE(bulk.send(hello_bytes_of(hello)));
    ASSERT_EQ(read_hello(bulk).version, 4u);
    Bytes script;
    for (u64 cookie = 2; cookie <= 9; ++cookie) {
        Frame frame = put_frame(nid_at(3), node->nid(), cookie, 70000);
        frame.head.cookie0 = cookie;
        script = script + speaker.frame(frame) + payload_of(cookie, 70000);
    }
    ASSERT_TRUE(bulk.send(script));
    std::multiset<u64> acked;
    while (acked.size() < 8) {
        const Frame frame = speaker.read(bulk);
        const Result<ZcAck> ack = zc_ack_of(4, frame);
        ASSERT_TRUE(!frame.lnet && ack.ok() && ack->kind != ZcAck::Kind::none);
        if (ack->kind == ZcAck::Kind::two)
            acked.insert({ack->first, ack->last});
        else
            for (u64 number = ack->first; number <= ack->last; ++number) acked.insert(number);
    }
    EXPECT_EQ(acked, (std::multiset<u64>{2, 3, 4, 5, 6, 7, 8, 9}));
    // The end comes while much is under way.
    std::vector<MsgPtr> msgs;
    for (int i = 0; i < 40; ++i) {
        msgs.push_back(put(a->nid(), node->nid(), ++ids, 1u << 20));
        a->send(msgs.back());
    }
    node->close();
    ASSERT_TRUE(a->core.wait([&] {
        return std::all_of(msgs.begin(), msgs.end(),
                           [](const MsgPtr& msg) { return msg->finished == 1; });
    }));
}

// 1 MiB is taken, one byte more is not, nor is what a careless client once sent; the log says why.
TEST_F(Rows, Row3_13_LengthsAreChecked) {
    make();
    RawConn conn = open(ConnType::bulk_out);
    ASSERT_TRUE(conn.send(frame_of(put_frame(nid_at(1), node->nid(), 7, 1u << 20)) +
                          payload_of(7, 1u << 20)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 1; }));
    EXPECT_EQ(node->core.held()->wrong_bytes, 0u);
    conn.close();
    ASSERT_TRUE(node->wait_connections(0));
    for (const u32 len : {(1u << 20) + 1, 1051832u, 0xffffffffu}) {
        LogLines lines;
        RawConn bad = open(ConnType::bulk_out);
        ASSERT_TRUE(bad.send(frame_of(put_frame(nid_at(1), node->nid(), 7, len))));
        EXPECT_TRUE(bad.closed());
        EXPECT_NE(lines.text().find("payload of " + std::to_string(len) + " bytes"),
                  std::string::npos)
            << lines.text();
    }
    EXPECT_EQ(node->core.held()->arrivals.size(), 1u);
}

// The magic of the other byte order is understood, that of version 1 has one order only.
TEST_F(Rows, Row3_13_MagicOfTheOtherOrder) {
    make();
    Hello hello = hello_from(nid_at(1), node->nid(), ConnType::control);
    hello.order = native_order == Order::little ? Order::big : Order::little;
    RawConn swapped = requested();
    ASSERT_TRUE(swapped.send(hello_bytes_of(hello)));
    EXPECT_EQ(read_hello(swapped).type, static_cast<u32>(ConnType::control));
    hello.version = 1;
    Bytes bytes = hello_bytes_of(hello);
    std::swap(bytes[0], bytes[3]);
    std::swap(bytes[1], bytes[2]);
    RawConn old = requested(3);
    ASSERT_TRUE(old.send(bytes));
    Bytes rest;
    EXPECT_TRUE(old.closed(&rest));
    EXPECT_TRUE(rest.empty());
    expect_alive();
}

// A HELLO that comes byte by byte has its time like any other.
TEST_F(Rows, Row3_13_SlowHello) {
    make({{Tunable::accept_timeout, 1}});
    RawConn conn = requested();
    const Bytes bytes = hello_bytes_of(hello_from(nid_at(1), node->nid(), ConnType::control));
    std::size_t sent = 0;
    while (sent < bytes.size() && conn.silent(milliseconds(100)) &&
           conn.send(std::span(&bytes[sent], 1)))
        ++sent;
    EXPECT_LT(sent, bytes.size());
    EXPECT_GT(sent, 1u);
    EXPECT_EQ(node->connections(), 0u);
    expect_alive();
}

// All peers come at once and are slow: none is given up for its silence.
TEST_F(Rows, Row3_16_StartUpStorm) {
    const auto def = [](Tunable which) {
        return tunable_specs()[static_cast<std::size_t>(which)].def;
    };
    EXPECT_GE(def(Tunable::keepalive_idle), 2 * 5);
    EXPECT_GE(def(Tunable::keepalive_intvl), 2);
    EXPECT_GE(def(Tunable::keepalive), 2 * 5);
    EXPECT_GE(def(Tunable::accept_timeout), 2);
    LogLines lines;
    make({{Tunable::accept_timeout, 60}});
    struct Storm {
        u8 from;
        ConnType type;
        RawConn conn;
    };
    std::vector<Storm> storm;
    for (const ConnType type : {ConnType::control, ConnType::bulk_out})
        for (u8 from = 3; from < 253; ++from) storm.push_back({from, type, raw(from)});
    ASSERT_EQ(storm.size(), 500u);
    // All have connected before the first one goes on, and said half of it before one gets through.
    std::vector<Bytes> scripts;
    for (Storm& one : storm) {
        scripts.push_back(request_to(node->nid()) +
                          hello_bytes_of(hello_from(nid_at(one.from), node->nid(), one.type)));
        ASSERT_TRUE(one.conn.send(std::span(scripts.back()).first(40)));
    }
    for (std::size_t i = 0; i < storm.size(); ++i)
        ASSERT_TRUE(storm[i].conn.send(std::span(scripts[i]).subspan(40)));
    for (Storm& one : storm)
        EXPECT_EQ(invert(read_hello(one.conn).type), one.type) << unsigned{one.from};
    EXPECT_EQ(node->connections(), 500u);
    EXPECT_EQ(node->counter("timeouts"), 0u);
    EXPECT_EQ(node->counter("connections_lost"), 0u);
    EXPECT_EQ(lines.text(), "");
}

// Untyped connections of a version in which kernel nodes do not use them: said at once.
TEST_F(Rows, UntypedConnectionsOfVersion3AreToldOf) {
    LogLines lines;
    make({{Tunable::typed_conns, 0}, {Tunable::protocol, 2}});
    EXPECT_EQ(lines.text(), "");
    node->tune(Tunable::protocol, 3);
    EXPECT_NE(lines.text().find("typed_conns=0 with version 3"), std::string::npos) << lines.text();
}

}  // namespace
}  // namespace ulnet::sock
