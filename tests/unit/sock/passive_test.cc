// A scripted peer connects to the driver, byte for byte: the acceptor, HELLO, frames, and everything
// that a peer may do wrong.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lnet/wire/acceptor.h"
#include "tests/golden/golden.h"
#include "tests/unit/sock/harness.h"

namespace ulnet::sock {
namespace {

using std::chrono::milliseconds;

class Passive : public testing::Test {
   protected:
    void make(Settings settings = {}) {
        node = std::make_unique<TestNode>(*sched, u8{2}, port, std::move(settings));
    }
    RawConn raw(u8 from = 1) { return RawConn::to(from, 2, port); }
    // After the acceptor's request.
    RawConn requested(u8 from = 1) {
        RawConn conn = raw(from);
        EXPECT_TRUE(conn.send(request_to(node->nid())));
        return conn;
    }
    RawConn open(ConnType type, u8 from = 1, u64 incarnation = 77) {
        Hello answer;
        RawConn conn = open_conn(from, *node, port, type, answer, incarnation);
        EXPECT_EQ(invert(answer.type), type);
        return conn;
    }
    // The driver still serves others.
    void expect_alive() {
        RawConn conn = open(ConnType::control, 200);
        const u32 before = node->core.received_ok;
        EXPECT_TRUE(conn.send(frame_of(put_frame(nid_at(200), node->nid(), 5, 4)) +
                              payload_of(5, 4)));
        EXPECT_TRUE(node->core.wait([&] { return node->core.received_ok == before + 1; }));
        conn.close();
        EXPECT_TRUE(eventually([&] {
            for (const ctl::Value& peer : node->describe()["peers"].items())
                if (peer["nid"].as_text() == to_text(nid_at(200))) return false;
            return true;
        }));
    }

    const u16 port = free_port();
    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    std::unique_ptr<TestNode> node;
};

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

// What is not spoken is answered with our version and type NONE, so that the peer comes again.
TEST_F(Passive, OtherVersionsAreAnsweredWithOurs) {
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
    for (const u32 version : {1u, 2u, 4u}) {
        Hello hello = hello_from(nid_at(1), node->nid(), ConnType::control);
        hello.version = version;
        refused(hello_bytes_of(hello));
    }
    // The captured HELLO of version 9, which is longer than any.
    refused(golden::unhex("636972450900000001004d0a0000020003004d0a00000200393000003930000000dd4bc0"
                          "cbeeec1801000000000000000100000000000000000000000000000000000000000000"
                          "00000000000000000000000000000000"));
    EXPECT_EQ(node->counter("refusals_sent"), 4u);
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
    EXPECT_EQ(node->core.wrong_bytes, 0u);
    EXPECT_EQ(node->core.arrivals[0].hdr, frame.hdr);
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
    EXPECT_EQ(node->core.wrong_bytes, 0u);
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
    EXPECT_EQ(node->core.wrong_bytes, 0u);
    for (u64 id = 1; id <= 100; ++id)
        EXPECT_EQ(node->core.arrivals[id - 1].hdr.match_bits, id) << "order of the stream";
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
    EXPECT_EQ(node->connections(), 0u);
}

TEST_F(Passive, ManyHalfOpenConnectionsAreBounded) {
    make({{Tunable::accept_timeout, 3600}});
    std::vector<RawConn> many;
    for (int i = 0; i < 600; ++i) many.push_back(raw());
    ASSERT_TRUE(eventually([&] {
        return node->describe()["accept_dropped"].as_int() == 600 - 512;
    }));
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

TEST_F(Passive, ErrorsCloseAllSiblings) {
    make();
    const auto closes = [&](const Bytes& bytes, u64 errors = 1) {
        const u64 before = node->counter("protocol_errors");
        RawConn control = open(ConnType::control);
        RawConn bulk = open(ConnType::bulk_out);
        RawConn other = open(ConnType::control, 3);
        ASSERT_TRUE(bulk.send(bytes));
        EXPECT_TRUE(bulk.closed());
        EXPECT_TRUE(control.closed());
        EXPECT_EQ(node->counter("protocol_errors"), before + errors);
        EXPECT_EQ(node->connections(), 1u);
        other.close();
        EXPECT_TRUE(node->wait_connections(0));
    };
    const auto frame = [&](const std::function<void(Frame&)>& change) {
        Frame made = put_frame(nid_at(1), node->nid(), 1, 0);
        change(made);
        return frame_of(made);
    };
    closes(Bytes(24));
    closes(frame([](Frame& f) { f.head.type = 0xc9; }));
    closes(frame([](Frame& f) { f.hdr.type = static_cast<MsgType>(77); }));
    closes(frame([](Frame& f) { f.hdr.payload_length = (1u << 20) + 1; }));
    closes(frame([](Frame& f) { f.hdr.payload_length = 0x7fffffff; }));
    closes(frame([](Frame& f) { f.head.cookie1 = 5; }));
    closes(frame([](Frame& f) { f.head.checksum = 0x1234; }));
    closes(noop(0, 5));
    closes(noop(5, 9));
    closes(noop(2, 1));
    EXPECT_EQ(node->core.arrivals.size(), 0u);
    // A plain end of one connection is an end of all, but no error of the protocol.
    RawConn control = open(ConnType::control);
    RawConn bulk = open(ConnType::bulk_out);
    bulk.close();
    EXPECT_TRUE(control.closed());
}

TEST_F(Passive, OddFramesThatAreAccepted) {
    make();
    RawConn conn = open(ConnType::any);
    Frame frame = put_frame(nid_at(1), node->nid(), 1, 0);
    frame.head.checksum = crc_seed;
    ASSERT_TRUE(conn.send(noop(0, 1) + noop(1, 1) + noop(0, 0) + noop(7, 0) + frame_of(frame)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 1; }));
    EXPECT_EQ(node->counter("keepalives_received"), 2u);
    EXPECT_EQ(node->connections(), 1u);
}

TEST_F(Passive, Checksums) {
    make();
    const auto with_checksum = [&](u64 id, u32 len, u32 difference) {
        Frame frame = put_frame(nid_at(1), node->nid(), id, len);
        frame.head.checksum = crc_update(crc_seed, payload_of(id, len)) ^ difference;
        return frame_of(frame) + payload_of(id, len);
    };
    RawConn conn = open(ConnType::bulk_out);
    // In one piece, in several, and cut: the bytes beyond what the core takes count as well.
    node->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        const u32 len = arrival.hdr.payload_length;
        core.accept(arrival, arrival.hdr.match_bits == 3 ? len / 2 : len,
                    arrival.hdr.match_bits == 2 ? 200 : 1);
        return ok_status;
    });
    ASSERT_TRUE(conn.send(with_checksum(1, 100, 0) + with_checksum(2, 300000, 0) +
                          with_checksum(3, 100000, 0)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 3; }));
    EXPECT_EQ(node->core.wrong_bytes, 0u);
    ASSERT_TRUE(conn.send(with_checksum(4, 70000, 1)));
    EXPECT_TRUE(conn.closed());
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_failed == 1; }));
    EXPECT_EQ(node->counter("checksum_errors"), 1u);
    // What the core does not take is not checked.
    node->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        core.discard(arrival);
        return ok_status;
    });
    RawConn next = open(ConnType::bulk_out);
    ASSERT_TRUE(next.send(with_checksum(5, 70000, 1) + noop(0, 1)));
    ASSERT_TRUE(node->wait_counter("keepalives_received", 1));
    EXPECT_EQ(node->connections(), 1u);
}

// Reads NOOPs until they have acknowledged `count` numbers.
std::multiset<u64> read_acks(RawConn& conn, std::size_t count) {
    std::multiset<u64> acked;
    while (acked.size() < count) {
        const Bytes bytes = conn.read(frame_head_bytes);
        const Result<Frame> frame = decode_frame({}, bytes);
        if (!frame.ok() || frame->lnet) break;
        const Result<ZcAck> ack = zc_ack_of(version_spoken, *frame);
        if (!ack.ok()) break;
        if (ack->kind == ZcAck::Kind::two) {
            acked.insert({ack->first, ack->last});
        } else if (ack->kind == ZcAck::Kind::one || ack->kind == ZcAck::Kind::range) {
            for (u64 number = ack->first; number <= ack->last; ++number) acked.insert(number);
        }
    }
    return acked;
}

TEST_F(Passive, ZeroCopyAcksOnceOnTheConnectionOfTheData) {
    make();
    // Taken, taken in part, thrown away: an acknowledgement is owed for each.
    node->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        const u64 id = arrival.hdr.match_bits;
        if (id % 3 == 0)
            core.discard(arrival);
        else
            core.accept(arrival, arrival.hdr.payload_length / static_cast<u32>(id % 3), 9);
        return ok_status;
    });
    RawConn control = open(ConnType::control);
    RawConn bulk = open(ConnType::bulk_out);
    RawConn back = open(ConnType::bulk_in);
    std::multiset<u64> owed;
    Bytes script;
    for (u64 id = 1; id <= 50; ++id) {
        Frame frame = put_frame(nid_at(1), node->nid(), id, static_cast<u32>(id * 900));
        if (id % 5 != 0) {
            frame.head.cookie0 = 1 + id;
            owed.insert(1 + id);
        }
        script = script + frame_of(frame) + payload_of(id, frame.hdr.payload_length);
    }
    ASSERT_TRUE(bulk.send(script));
    EXPECT_EQ(read_acks(bulk, owed.size()), owed);
    // One without payload, on another connection.
    Frame get = put_frame(nid_at(1), node->nid(), 1, 0);
    get.hdr.type = MsgType::get;
    get.head.cookie0 = 1000;
    ASSERT_TRUE(control.send(frame_of(get)));
    EXPECT_EQ(control.read(frame_head_bytes), noop(0, 1000));
    EXPECT_TRUE(bulk.silent(milliseconds(50)));
    EXPECT_TRUE(back.silent(milliseconds(1)));
    EXPECT_TRUE(control.silent(milliseconds(1)));
    EXPECT_EQ(node->counter("zc_acks_sent"), owed.size() + 1);
}

// Acknowledged only when all payload is consumed.
TEST_F(Passive, NoAckBeforeTheEndOfThePayload) {
    make();
    RawConn conn = open(ConnType::bulk_out);
    Frame frame = put_frame(nid_at(1), node->nid(), 7, 50000);
    frame.head.cookie0 = 2;
    Bytes payload = payload_of(7, 50000);
    const Bytes last(payload.end() - 1, payload.end());
    payload.pop_back();
    ASSERT_TRUE(conn.send(frame_of(frame) + payload));
    ASSERT_TRUE(node->core.wait([&] { return node->core.arrivals.size() == 1; }));
    EXPECT_TRUE(conn.silent(milliseconds(50)));
    ASSERT_TRUE(conn.send(last));
    EXPECT_EQ(conn.read(frame_head_bytes), noop(0, 2));
}

TEST_F(Passive, PeerDiesInTheMiddleOfAMessage) {
    make();
    for (const bool reset : {false, true}) {
        RawConn conn = open(ConnType::bulk_out);
        const u32 before = node->core.received_failed;
        Bytes part = frame_of(put_frame(nid_at(1), node->nid(), 7, 1u << 20)) +
                     payload_of(7, 1u << 19);
        ASSERT_TRUE(conn.send(part));
        ASSERT_TRUE(eventually([&] {
            const ctl::Value all = node->describe();
            const auto& list = all["connections"].items();
            return !list.empty() && list[0]["rx_bytes"].as_int() == static_cast<i64>(part.size());
        }));
        if (reset)
            conn.reset();
        else
            conn.close();
        ASSERT_TRUE(
            node->core.wait([&] { return node->core.received_failed == before + 1; }));
        EXPECT_EQ(node->core.received.back()->status, Status(-ECONNRESET));
        ASSERT_TRUE(node->wait_connections(0));
    }
}

// The message is with the core while the connection dies: it is finished when the core answers.
TEST_F(Passive, PeerDiesWhileTheCoreThinks) {
    make();
    node->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        core.park(arrival);
        return ok_status;
    });
    RawConn control = open(ConnType::control);
    RawConn bulk = open(ConnType::bulk_out);
    ASSERT_TRUE(bulk.send(frame_of(put_frame(nid_at(1), node->nid(), 7, 5000)) +
                          payload_of(7, 5000)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.parked.size() == 1; }));
    control.close();
    ASSERT_TRUE(node->wait_connections(0));
    const Core::Arrival arrival = node->core.parked.back();
    node->core.parked.clear();
    run_on(*sched, 1, [&] { node->core.accept(arrival, 5000); });
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_failed == 1; }));
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
    EXPECT_EQ(node->core.arrivals[0].from, guest);
    EXPECT_EQ(node->core.arrivals[0].hdr.src_nid, guest.nid);
    EXPECT_EQ(node->core.arrivals[0].hdr.src_pid, guest.pid);
    // Answered on its own connection, whatever the type.
    RawConn bulk = raw();
    ASSERT_TRUE(bulk.send(request_to(node->nid()) +
                          hello_bytes_of(hello_from(nid_at(77), node->nid(), ConnType::bulk_out))));
    read_hello(bulk);
    auto reply = put(node->nid(), guest.nid, 2, 2000);
    reply->next_hop.pid = bulk.local_port() | pid_user_flag;
    node->send(*reply);
    EXPECT_EQ(bulk.read(frame3_bytes + 2000).size(), frame3_bytes + 2000);
    ASSERT_TRUE(node->core.wait([&] { return reply->finished == 1; }));
    // Gone, it cannot be reached: nobody dials a guest.
    conn.close();
    ASSERT_TRUE(node->wait_connections(1));
    auto lost = put(node->nid(), guest.nid, 3, 8);
    lost->next_hop = guest;
    node->send(*lost);
    ASSERT_TRUE(node->core.wait([&] { return lost->finished == 1; }));
    EXPECT_EQ(lost->status, Status(-EHOSTUNREACH));
}

TEST_F(Passive, StuckPeersTimeOut) {
    make({{Tunable::sock_timeout, 1}});
    // Half a header, half a payload, and a peer that does not read.
    const auto stuck = [&](const Bytes& part) {
        RawConn conn = open(ConnType::bulk_out);
        ASSERT_TRUE(conn.send(part));
        EXPECT_TRUE(conn.closed());
    };
    const Bytes header = frame_of(put_frame(nid_at(1), node->nid(), 7, 5000));
    stuck(Bytes(header.begin(), header.begin() + 50));
    stuck(header + payload_of(7, 2500));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_failed == 1; }));
    EXPECT_EQ(node->core.received.back()->status, Status(-ETIMEDOUT));
    EXPECT_EQ(node->core.received.back()->health, Health::network_timeout);
    RawConn conn = open(ConnType::control);
    std::vector<std::unique_ptr<TestMsg>> msgs;
    for (u64 id = 1; id <= 30; ++id) {
        msgs.push_back(put(node->nid(), nid_at(1), id, 1u << 20));
        node->send(*msgs.back());
    }
    ASSERT_TRUE(node->core.wait([&] {
        return node->core.sent_failed + node->core.sent_finished == msgs.size();
    }));
    EXPECT_GT(node->core.sent_failed, 0u);
    EXPECT_EQ(msgs.back()->status, Status(-ETIMEDOUT));
    EXPECT_EQ(msgs.back()->health, Health::network_timeout);
    EXPECT_EQ(node->counter("timeouts"), 3u);
}

// A message that the core parks is not the peer's fault, however long it takes.
TEST_F(Passive, ParkedMessagesDoNotTimeOut) {
    make({{Tunable::sock_timeout, 1}});
    node->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        core.park(arrival);
        return ok_status;
    });
    RawConn conn = open(ConnType::control);
    RawConn stuck = open(ConnType::control, 3);
    const Bytes message = frame_of(put_frame(nid_at(1), node->nid(), 7, 500)) + payload_of(7, 500);
    ASSERT_TRUE(conn.send(message + message));
    ASSERT_TRUE(stuck.send(Bytes(message.begin(), message.begin() + 10)));
    ASSERT_TRUE(stuck.closed());
    EXPECT_EQ(node->connections(), 1u);
}

TEST_F(Passive, KeepaliveAfterSilence) {
    make({{Tunable::keepalive, 1}});
    RawConn control = open(ConnType::control);
    RawConn out = open(ConnType::bulk_out);  // BULK_IN for the driver
    RawConn in = open(ConnType::bulk_in);
    EXPECT_EQ(out.read(frame_head_bytes), noop(0, 1));
    EXPECT_TRUE(control.silent(milliseconds(1)));
    EXPECT_TRUE(in.silent(milliseconds(1)));
    EXPECT_EQ(node->counter("keepalives_sent"), 1u);
}

TEST_F(Passive, DescribesItsConnections) {
    make();
    RawConn conn = open(ConnType::bulk_out);
    ASSERT_TRUE(conn.send(frame_of(put_frame(nid_at(1), node->nid(), 7, 500)) + payload_of(7, 500)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 1; }));
    const ctl::Value all = node->describe();
    EXPECT_FALSE(all["guest"].as_bool(true));
    EXPECT_EQ(all["listen"].as_text(), "127.0.0.2:" + std::to_string(port));
    ASSERT_EQ(all["connections"].size(), 1u);
    const ctl::Value& one = all["connections"].items()[0];
    EXPECT_EQ(one["peer"].as_text(), "12345-127.0.0.1@tcp");
    EXPECT_EQ(one["type"].as_text(), "bulk_in");
    EXPECT_EQ(one["opened_by"].as_text(), "peer");
    EXPECT_EQ(one["remote"].as_text(), "127.0.0.1:" + std::to_string(conn.local_port()));
    EXPECT_EQ(one["rx_bytes"].as_int(), frame3_bytes + 500);
    EXPECT_EQ(one["rx_messages"].as_int(), 1);
    EXPECT_EQ(one["queued_bytes"].as_int(), 0);
    ASSERT_EQ(all["peers"].size(), 1u);
    EXPECT_EQ(all["peers"].items()[0]["nid"].as_text(), "127.0.0.1@tcp");
    EXPECT_EQ(all["counters"]["rx_bytes"].as_int(), 500);
    EXPECT_EQ(all["counters"]["accepted"].as_int(), 1);
}

}  // namespace
}  // namespace ulnet::sock
