// A scripted peer connects to the driver, byte for byte: the acceptor, HELLO, frames, and
// everything that a peer may do wrong.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lnet/wire/acceptor.h"
#include "tests/golden/golden.h"
#include "tests/unit/sock/passive.h"

namespace ulnet::sock {
namespace {

// The captured answer of a kernel, but for incarnation and NIDs.
void check_captured(RawConn& conn, const char* file, int number, const Nid& us, const Nid& them) {
    Bytes sent, expected;
    for (const auto& record : golden::load(file)) {
        if (record["kind"] != "hello" || record["conn"] != number) continue;
        (record["dir"] == "i2r" ? sent : expected) =
            golden::unhex(record["bytes"].get<std::string>());
    }
    Hello hello = *decode_hello(sent);
    hello.src_nid = them;
    hello.dst_nid = us;
    ASSERT_TRUE(conn.send(hello_bytes_of(hello)));
    const Hello answer = read_hello(conn);
    Hello wanted = *decode_hello(expected);
    wanted.src_nid = us;
    wanted.dst_nid = them;
    EXPECT_NE(answer.src_incarnation, 0u);
    wanted.src_incarnation = answer.src_incarnation;
    EXPECT_EQ(answer, wanted);
}

TEST_F(Passive, AnswersAsTheKernelDid) {
    make();
    std::vector<RawConn> conns;
    for (const int number : {1, 2, 3}) {
        conns.push_back(requested());
        check_captured(conns.back(), "01-lnet-ping-discovery.jsonl", number, node->nid(),
                       nid_at(1));
    }
    for (const int number : {1, 2}) {
        // They were two lives of one process.
        const auto from = static_cast<u8>(2 + number);
        conns.push_back(requested(from));
        check_captured(conns.back(), "14-host-process-ping.jsonl", number, node->nid(),
                       nid_at(from));
    }
    ASSERT_TRUE(node->wait_connections(5));
    EXPECT_EQ(node->connections("bulk_in"), 1u);
    EXPECT_EQ(node->connections("any"), 1u);
}

// All connections of an NI's life carry the same incarnation.
TEST_F(Passive, IncarnationStays) {
    make();
    Hello first, second;
    RawConn a = open_conn(1, *node, port, ConnType::control, first);
    RawConn b = open_conn(3, *node, port, ConnType::control, second);
    EXPECT_EQ(first.src_incarnation, second.src_incarnation);
}

TEST_F(Passive, AcceptorRequests) {
    make();
    const auto connreq = [](u32 magic, u32 version, const Nid& nid, Order order) {
        Bytes bytes(acceptor_v1_bytes);
        Writer writer(bytes, order);
        writer.write(magic);
        writer.write(version);
        writer.write(nid.nid4());
        return bytes;
    };
    const auto answer_to = [&](const Bytes& bytes) {
        RawConn conn = raw();
        EXPECT_TRUE(conn.send(bytes));
        Bytes rest;
        EXPECT_TRUE(conn.closed(&rest));
        return rest;
    };
    const Bytes version_1 = acceptor_answer();
    ASSERT_EQ(version_1.size(), acceptor_v1_bytes);
    const Nid us = node->nid();
    for (const Order order : {Order::little, Order::big}) {
        EXPECT_EQ(answer_to(connreq(acceptor_magic, 0, us, order)).size(), acceptor_v1_bytes);
        EXPECT_EQ(answer_to(connreq(acceptor_magic, 99, us, order)).size(), acceptor_v1_bytes);
        EXPECT_EQ(answer_to(connreq(lnet_generic_magic, 1, us, order)).size(), acceptor_v1_bytes);
        EXPECT_EQ(answer_to(connreq(0xdeadbeef, 1, us, order)), Bytes());
        EXPECT_EQ(answer_to(connreq(acceptor_magic, 1, nid_at(99), order)), Bytes());
        EXPECT_EQ(answer_to(connreq(acceptor_magic, 1,
                                    Nid::ipv4(Net::of(NetType::tcp, 7), local(2)), order)),
                  Bytes());
        RawConn good = raw();
        ASSERT_TRUE(good.send(connreq(acceptor_magic, 1, us, order) +
                              hello_bytes_of(hello_from(nid_at(1), us, ConnType::control))));
        EXPECT_EQ(read_hello(good).src_nid, us);
        good.close();
        ASSERT_TRUE(node->wait_connections(0));
    }
    EXPECT_EQ(answer_to(connreq(acceptor_magic, 99, us, native_order)), version_1);
    // Version 2 may carry an IPv4 NID as well.
    RawConn conn = raw();
    ASSERT_TRUE(conn.send(encode_conn_request({2, us}) +
                          hello_bytes_of(hello_from(nid_at(1), us, ConnType::control))));
    EXPECT_EQ(read_hello(conn).src_nid, us);
}

TEST_F(Passive, OddHellosThatAreAccepted) {
    make();
    u8 from = 10;
    const auto accepted = [&](const std::function<void(Hello&)>& change) {
        RawConn conn = requested(from);
        Hello hello = hello_from(nid_at(from++), node->nid(), ConnType::control);
        change(hello);
        EXPECT_TRUE(conn.send(hello_bytes_of(hello)));
        const Hello answer = read_hello(conn);
        EXPECT_EQ(answer.version, 3u);
        EXPECT_EQ(answer.src_nid, node->nid());
        EXPECT_EQ(answer.src_pid, pid_lustre);
        EXPECT_EQ(answer.dst_nid, hello.src_nid);
        EXPECT_EQ(answer.dst_pid, hello.dst_pid);
        EXPECT_EQ(answer.dst_incarnation, hello.dst_incarnation);
        EXPECT_EQ(answer.type, static_cast<u32>(ConnType::control));
        EXPECT_EQ(answer.nips, 0u);
        conn.close();
        EXPECT_TRUE(node->wait_connections(0));
    };
    accepted([](Hello& hello) { hello.dst_nid = nid_at(99); });
    accepted([](Hello& hello) { hello.dst_pid = 1; });
    accepted([](Hello& hello) { hello.src_pid = 777; });
    accepted([](Hello& hello) { hello.src_incarnation = 0; });
    accepted([](Hello& hello) { hello.dst_incarnation = 0x123456789; });
    accepted([](Hello& hello) { hello.src_nid = Nid::ipv4(Net::of(NetType::tcp, 7), local(1)); });
    accepted([](Hello& hello) { hello.src_nid = nid_lo(); });
    accepted([this](Hello& hello) { hello.src_nid = node->nid(); });
    accepted([](Hello& hello) {
        hello.nips = 2;
        hello.ips[0] = hello.ips[1] = 0x7f000001;
    });
}

TEST_F(Passive, HellosThatAreClosed) {
    make();
    const auto closed = [&](const Bytes& bytes) {
        RawConn conn = requested();
        EXPECT_TRUE(conn.send(bytes));
        Bytes rest;
        EXPECT_TRUE(conn.closed(&rest));
        EXPECT_EQ(rest.size(), 0u);
    };
    Hello hello = hello_from(nid_at(1), node->nid(), ConnType::none);
    closed(hello_bytes_of(hello));
    hello.type = 7;
    closed(hello_bytes_of(hello));
    hello = hello_from(nid_at(1), node->nid(), ConnType::control);
    hello.src_nid = Nid();
    closed(hello_bytes_of(hello));
    hello = hello_from(nid_at(1), node->nid(), ConnType::control);
    Bytes bytes = hello_bytes_of(hello);
    bytes[0] ^= std::byte{1};
    closed(bytes);
    bytes = hello_bytes_of(hello);
    bytes[52] = std::byte{17};
    closed(bytes);
    // An LNet header of type GET where version 1 has its HELLO.
    hello.version = 1;
    bytes = hello_bytes_of(hello);
    bytes[24] = std::byte{2};
    closed(bytes);
    expect_alive();
}

// What nobody speaks is answered with our version and type NONE, so that the peer comes again.
TEST_F(Passive, UnknownVersionsAreAnsweredWithOurs) {
    make();
    const auto refused = [&](const Bytes& bytes) {
        RawConn conn = requested();
        EXPECT_TRUE(conn.send(bytes));
        Bytes rest;
        EXPECT_TRUE(conn.closed(&rest));
        const Result<Hello> answer = decode_hello(rest);
        ASSERT_TRUE(answer.ok()) << rest.size();
        EXPECT_EQ(rest.size(), wire_size<HelloV3>());
        EXPECT_EQ(answer->version, 3u);
        EXPECT_EQ(answer->type, static_cast<u32>(ConnType::none));
        EXPECT_EQ(answer->src_nid, node->nid());
        EXPECT_EQ(answer->dst_nid, node->nid());
        EXPECT_EQ(answer->dst_pid, 0u);
        EXPECT_EQ(answer->dst_incarnation, 0u);
    };
    for (const u8 version : {u8{0}, u8{1}, u8{5}, u8{255}}) {
        Bytes bytes = hello_bytes_of(hello_from(nid_at(1), node->nid(), ConnType::control));
        bytes[4] = std::byte{version};
        refused(bytes);
    }
    // The captured HELLO of version 9, which is longer than any.
    refused(golden::unhex("636972450900000001004d0a0000020003004d0a00000200393000003930000000dd4bc0"
                          "cbeeec1801000000000000000100000000000000000000000000000000000000000000"
                          "00000000000000000000000000000000"));
    EXPECT_EQ(node->counter("refusals_sent"), 5u);
}

TEST_F(Passive, BigEndianPeer) {
    make();
    RawConn conn = raw();
    Hello hello = hello_from(nid_at(1), node->nid(), ConnType::control);
    hello.order = Order::big;
    ASSERT_TRUE(conn.send(encode_conn_request(ConnRequest::to(node->nid()), Order::big) +
                          hello_bytes_of(hello)));
    EXPECT_EQ(read_hello(conn).order, native_order);
    Frame frame = put_frame(nid_at(1), node->nid(), 3, 2000);
    frame.head.cookie0 = 0x0102030405;
    ASSERT_TRUE(conn.send(frame_of(frame, Order::big) + payload_of(3, 2000)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 1; }));
    EXPECT_EQ(node->core.held()->wrong_bytes, 0u);
    EXPECT_EQ(node->core.held()->arrivals[0].hdr, frame.hdr);
    EXPECT_EQ(conn.read(frame_head_bytes), noop(0, 0x0102030405));
}

TEST_F(Passive, OneByteAtATime) {
    make();
    RawConn conn = raw();
    for (const std::byte byte :
         request_to(node->nid()) +
             hello_bytes_of(hello_from(nid_at(1), node->nid(), ConnType::control)))
        ASSERT_TRUE(conn.send(std::span(&byte, 1)));
    EXPECT_EQ(read_hello(conn).type, static_cast<u32>(ConnType::control));
    for (const std::byte byte : noop(0, 1) + frame_of(put_frame(nid_at(1), node->nid(), 4, 33)) +
                                    payload_of(4, 33) + noop(0, 0))
        ASSERT_TRUE(conn.send(std::span(&byte, 1)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 1; }));
    EXPECT_EQ(node->core.held()->wrong_bytes, 0u);
    EXPECT_EQ(node->counter("keepalives_received"), 1u);
}

TEST_F(Passive, AllAtOnce) {
    make();
    Bytes script = request_to(node->nid()) +
                   hello_bytes_of(hello_from(nid_at(1), node->nid(), ConnType::bulk_out));
    for (u64 id = 1; id <= 100; ++id) {
        const auto len = static_cast<u32>(id * 137 % 5000);
        script = script + frame_of(put_frame(nid_at(1), node->nid(), id, len)) +
                 payload_of(id, len) + noop(0, 1);
    }
    RawConn conn = raw();
    ASSERT_TRUE(conn.send(script));
    EXPECT_EQ(read_hello(conn).type, static_cast<u32>(ConnType::bulk_in));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 100; }));
    EXPECT_EQ(node->core.held()->wrong_bytes, 0u);
    for (u64 id = 1; id <= 100; ++id)
        EXPECT_EQ(node->core.held()->arrivals[id - 1].hdr.match_bits, id) << "order of the stream";
    ASSERT_TRUE(node->wait_counter("keepalives_received", 100));
}

TEST_F(Passive, SilentAndGarbageConnections) {
    make({{Tunable::accept_timeout, 1}});
    std::vector<RawConn> silent;
    silent.push_back(raw());
    silent.push_back(requested());
    silent.push_back(raw());
    ASSERT_TRUE(silent.back().send(Bytes(8)) || true);
    silent.push_back(requested());
    Bytes half = hello_bytes_of(hello_from(nid_at(1), node->nid(), ConnType::control));
    half.resize(30);
    ASSERT_TRUE(silent.back().send(half));
    expect_alive();
    Prng prng(3);
    for (int i = 0; i < 100; ++i) {
        Bytes noise(1 + prng.below(4096));
        for (std::byte& byte : noise) byte = static_cast<std::byte>(prng.next());
        RawConn conn = i % 2 ? requested() : raw();
        conn.send(noise);
        if (i % 3 == 0) conn.reset();
    }
    for (RawConn& conn : silent) {
        Bytes rest;
        EXPECT_TRUE(conn.closed(&rest));
        EXPECT_EQ(rest.size(), 0u);
    }
    expect_alive();
    EXPECT_EQ(node->connections(), 0u) << ctl::to_json(node->describe());
}

TEST_F(Passive, ManyHalfOpenConnectionsAreBounded) {
    make({{Tunable::accept_timeout, 3600}});
    std::vector<RawConn> many;
    for (int i = 0; i < 600; ++i) many.push_back(raw());
    ASSERT_TRUE(
        eventually([&] { return node->describe()["accept_dropped"].as_int() == 600 - 512; }));
    many.clear();
    expect_alive();
}

TEST_F(Passive, SecureRefusesHighPorts) {
    make({{Tunable::accept, static_cast<i64>(Accept::secure)}});
    RawConn conn = raw();
    conn.send(request_to(node->nid()));
    Bytes rest;
    EXPECT_TRUE(conn.closed(&rest));
    EXPECT_EQ(rest.size(), 0u);
    EXPECT_EQ(node->describe()["accept_dropped"].as_int(), 1);
}

TEST_F(Passive, AcceptNoneDoesNotListen) {
    make({{Tunable::accept, static_cast<i64>(Accept::none)}});
    EXPECT_FALSE(raw().valid());
}

TEST_F(Passive, Duplicates) {
    make();
    std::vector<RawConn> conns;
    const auto refused = [&](ConnType type) {
        Hello answer;
        RawConn conn = open_conn(1, *node, port, type, answer);
        EXPECT_EQ(answer.type, static_cast<u32>(ConnType::none));
        EXPECT_EQ(answer.dst_nid, nid_at(1));
        EXPECT_TRUE(conn.closed());
    };
    for (const ConnType type : {ConnType::control, ConnType::bulk_in, ConnType::bulk_out})
        conns.push_back(open(type));
    for (const ConnType type : {ConnType::control, ConnType::bulk_in, ConnType::bulk_out})
        refused(type);
    EXPECT_EQ(node->connections(), 3u);
    // Untyped ones are counted apart.
    conns.push_back(open(ConnType::any));
    refused(ConnType::any);
    // Another peer is another matter.
    conns.push_back(open(ConnType::control, 3));
    run_on(*sched, 0, [&] {
        EXPECT_TRUE(node->ni().tune(static_cast<std::size_t>(Tunable::conns_per_peer), 2).ok());
    });
    conns.push_back(open(ConnType::bulk_in));
    refused(ConnType::bulk_in);
    refused(ConnType::control);
}

TEST_F(Passive, NewIncarnationEndsTheOldConnections) {
    make();
    RawConn control = open(ConnType::control, 1, 100);
    RawConn bulk = open(ConnType::bulk_in, 1, 100);
    Hello answer;
    RawConn late = open_conn(1, *node, port, ConnType::control, answer, 105);
    EXPECT_EQ(answer.type, static_cast<u32>(ConnType::none));
    EXPECT_TRUE(late.closed());
    EXPECT_TRUE(control.closed());
    EXPECT_TRUE(bulk.closed());
    // The next attempt finds the way free.
    RawConn again = open(ConnType::control, 1, 105);
    ASSERT_TRUE(node->wait_connections(1));
}

TEST_F(Passive, GuestsAreKnownByTheirPort) {
    make({{Tunable::privileged, 1}});
    Hello answer;
    RawConn conn = raw();
    Hello hello = hello_from(nid_at(77), node->nid(), ConnType::control);
    ASSERT_TRUE(conn.send(request_to(node->nid()) + hello_bytes_of(hello)));
    answer = read_hello(conn);
    EXPECT_EQ(answer.dst_nid, nid_at(1)) << "the address of the socket, not what it claims";
    const ProcessId guest{nid_at(1), conn.local_port() | pid_user_flag};
    ASSERT_TRUE(conn.send(frame_of(put_frame(nid_at(77), node->nid(), 1, 8)) + payload_of(1, 8)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 1; }));
    EXPECT_EQ(node->core.held()->arrivals[0].from, guest);
    EXPECT_EQ(node->core.held()->arrivals[0].hdr.src_nid, guest.nid);
    EXPECT_EQ(node->core.held()->arrivals[0].hdr.src_pid, guest.pid);
    // Answered on its own connection, whatever the type.
    RawConn bulk = raw();
    ASSERT_TRUE(bulk.send(request_to(node->nid()) +
                          hello_bytes_of(hello_from(nid_at(77), node->nid(), ConnType::bulk_out))));
    read_hello(bulk);
    auto reply = put(node->nid(), guest.nid, 2, 2000);
    reply->next_hop.pid = bulk.local_port() | pid_user_flag;
    node->send(reply);
    EXPECT_EQ(bulk.read(frame3_bytes + 2000).size(), frame3_bytes + 2000);
    ASSERT_TRUE(node->core.wait([&] { return reply->finished == 1; }));
    // Gone, it cannot be reached: nobody dials a guest.
    conn.close();
    ASSERT_TRUE(node->wait_connections(1));
    auto lost = put(node->nid(), guest.nid, 3, 8);
    lost->next_hop = guest;
    node->send(lost);
    ASSERT_TRUE(node->core.wait([&] { return lost->finished == 1; }));
    EXPECT_EQ(lost->status, Status(-EHOSTUNREACH));
}

}  // namespace
}  // namespace ulnet::sock
