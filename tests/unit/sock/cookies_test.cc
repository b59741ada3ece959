// What stands in the heads of frames beside their type: the checksums of version 2 and the
// zero-copy cookies of all versions, with a scripted peer.
#include <algorithm>

#include "tests/golden/golden.h"
#include "tests/unit/sock/passive.h"

namespace ulnet::sock {
namespace {

class Cookies : public Passive {
 protected:
    RawConn open_as(u32 version, ConnType type) {
        RawConn conn = requested();
        Hello hello = hello_from(nid_at(1), node->nid(), type);
        hello.version = version;
        EXPECT_TRUE(conn.send(hello_bytes_of(hello)));
        EXPECT_EQ(invert(read_hello(conn).type), type);
        return conn;
    }
    MsgPtr sent(u64 id, u32 len, u32 fragments = 1) {
        auto msg = put(node->nid(), nid_at(1), id, len, fragments);
        node->send(msg);
        return msg;
    }
    // A message whose payload has arrived asks for this acknowledgement.
    Bytes asking(u32 version, u64 cookie, u32 len = 20) {
        Frame frame = put_frame(nid_at(1), node->nid(), cookie, len);
        frame.head.cookie0 = cookie;
        return frame_of(frame, native_order, version) + payload_of(cookie, len);
    }
    // Sends this, and returns when the driver has dealt with it all.
    void taken(RawConn& conn, u32 version, const Bytes& bytes) {
        const std::size_t before = node->core.held()->arrivals.size();
        const Frame last = put_frame(nid_at(1), node->nid(), 99999, 0);
        ASSERT_TRUE(conn.send(bytes + frame_of(last, native_order, version)));
        ASSERT_TRUE(node->core.wait([&] {
            const auto& all = node->core.arrivals;
            return all.size() > before && all.back().hdr.match_bits == 99999;
        }));
    }
};

// The header's bytes with the field as zero, then the payload.
u32 checksum_of(Frame frame, const Bytes& payload) {
    frame.head.checksum = 0;
    return crc_update(crc_seed, frame_of(frame, native_order, 2) + payload);
}

TEST_F(Cookies, ChecksumsAreSentInVersion2) {
    make({{Tunable::enable_csum, 1}});
    RawConn conn = open_as(2, ConnType::control);
    const Speaker speaker{2};
    for (const u32 len : {0u, 1u, 700u, 200000u}) {
        SCOPED_TRACE(len);
        const auto msg = sent(len, len, 7);
        const Frame got = speaker.read(conn);
        const Bytes payload = conn.read(len);
        EXPECT_EQ(payload, payload_of(len, len));
        EXPECT_EQ(got.hdr, msg->hdr);
        EXPECT_NE(got.head.checksum, 0u);
        EXPECT_EQ(got.head.checksum, checksum_of(got, payload));
    }
    // The constructed NOOP, byte for byte.
    ASSERT_TRUE(conn.send(asking(2, 5)));
    EXPECT_EQ(golden::hex(conn.read(24)), "c00000006434bb7f00000000000000000500000000000000");
    // It can be switched off while connections are open.
    node->tune(Tunable::enable_csum, 0);
    sent(8, 10);
    EXPECT_EQ(speaker.read(conn).head.checksum, 0u);
}

TEST_F(Cookies, NoOtherVersionSendsChecksums) {
    for (const u32 version : {3u, 4u}) {
        make({{Tunable::enable_csum, 1}});
        RawConn conn = open_as(version, ConnType::control);
        sent(1, 300);
        EXPECT_EQ(Speaker{version}.read(conn).head.checksum, 0u);
        EXPECT_EQ(conn.read(300), payload_of(1, 300));
        ASSERT_TRUE(conn.send(asking(version, 5)));
        EXPECT_EQ(Speaker{version}.read(conn).head,
                  (FrameHead{static_cast<u32>(FrameType::noop), 0, 0, 5}));
        node.reset();
    }
}

// Whatever of the frame is not what was sent: it is found, and the connections end.
TEST_F(Cookies, ChecksumsAreVerifiedInVersion2) {
    make();
    const auto made = [&](u64 id, u32 len) {
        Frame frame = put_frame(nid_at(1), node->nid(), id, len);
        frame.head.checksum = checksum_of(frame, payload_of(id, len));
        return frame_of(frame, native_order, 2) + payload_of(id, len);
    };
    const auto noop_of = [&](u32 difference) {
        Frame frame{{static_cast<u32>(FrameType::noop), 0, 0, 0}, false, {}};
        frame.head.checksum = checksum_of(frame, {}) ^ difference;
        return frame_of(frame, native_order, 2);
    };
    RawConn good = open_as(2, ConnType::control);
    // Bytes of the header that no field of its type uses count as well.
    Frame ack = put_frame(nid_at(1), node->nid(), 4, 0);
    ack.hdr = {};
    ack.hdr.type = MsgType::ack;
    ack.hdr.src_nid = nid_at(1);
    ack.hdr.dest_nid = node->nid();
    Bytes odd = frame_of(ack, native_order, 2);
    odd.back() = std::byte{0x77};
    const u32 crc = crc_update(crc_seed, odd);
    std::copy_n(std::as_bytes(std::span(&crc, 1)).begin(), 4, odd.begin() + 4);
    taken(good, 2, made(1, 0) + made(2, 1) + made(3, 70000) + noop_of(0) + odd);
    EXPECT_EQ(node->core.held()->wrong_bytes, 0u);
    EXPECT_EQ(node->counter("checksum_errors"), 0u);
    good.close();
    ASSERT_TRUE(node->wait_connections(0));
    u64 errors = 0;
    const auto wrong = [&](Bytes bytes, std::size_t at) {
        SCOPED_TRACE(at);
        RawConn conn = open_as(2, ConnType::control);
        bytes[at] ^= std::byte{0x10};
        ASSERT_TRUE(conn.send(bytes));
        EXPECT_TRUE(conn.closed());
        EXPECT_EQ(node->counter("checksum_errors"), ++errors);
        ASSERT_TRUE(node->wait_connections(0));
    };
    wrong(made(1, 0), 24 + 72 - 30);       // match bits of an empty message
    wrong(made(2, 5000), 24 + 72 - 30);    // the same with payload
    wrong(made(3, 5000), 24 + 72 + 4999);  // the last byte of it
    wrong(made(4, 5000), 5);               // the checksum itself
    wrong(noop_of(0), 4);
}

TEST_F(Cookies, WrongChecksumIsInjectedOnce) {
    make({{Tunable::protocol, 2}});
    TestNode other(
        *sched, 3, port,
        {{Tunable::protocol, 2}, {Tunable::enable_csum, 1}, {Tunable::min_reconnect_ms, 20}});
    const auto first = put(other.nid(), node->nid(), 1, 20000);
    other.send(first);
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 1; }));
    other.tune(Tunable::inject_csum_error, 1);
    const auto bad = put(other.nid(), node->nid(), 2, 20000);
    other.send(bad);
    ASSERT_TRUE(node->wait_counter("checksum_errors", 1));
    ASSERT_TRUE(other.core.wait([&] { return bad->finished == 1; }));
    // It has gone off: what comes later is well again. One that goes out on a connection that is
    // ending is lost though it has left.
    ASSERT_TRUE(eventually([&] {
        const auto next = put(other.nid(), node->nid(), 3, 20000);
        other.send(next);
        EXPECT_TRUE(other.core.wait([&] { return next->finished == 1; }));
        return node->core.held()->received_ok >= 2;
    }));
    EXPECT_EQ(node->counter("checksum_errors"), 1u);
}

struct Acks {
    std::multiset<u64> in_noops, in_messages;
    std::size_t noops = 0, messages = 0;
    std::multiset<u64> all() const {
        std::multiset<u64> both = in_noops;
        both.insert(in_messages.begin(), in_messages.end());
        return both;
    }
};

// Reads frames until they have acknowledged so many numbers and so many messages have come.
Acks read_all(RawConn& conn, u32 version, std::size_t numbers, std::size_t messages = 0) {
    Acks acks;
    while (acks.all().size() < numbers || acks.messages < messages) {
        const Frame frame = Speaker{version}.read(conn);
        const Result<ZcAck> ack = zc_ack_of(version, frame);
        if (testing::Test::HasFailure() || !ack.ok()) break;
        auto& into = frame.lnet ? acks.in_messages : acks.in_noops;
        ++(frame.lnet ? acks.messages : acks.noops);
        if (ack->kind == ZcAck::Kind::two) {
            into.insert({ack->first, ack->last});
        } else if (ack->kind != ZcAck::Kind::none) {
            for (u64 number = ack->first; number <= ack->last; ++number) into.insert(number);
        }
        if (frame.lnet) {
            EXPECT_EQ(conn.read(frame.hdr.payload_length).size(), frame.hdr.payload_length);
        }
    }
    return acks;
}

// A NOOP of version 2 names one number, of versions 3 and 4 a range or two.
TEST_F(Cookies, RunsOfNumbers) {
    for (const u32 version : {2u, 3u, 4u}) {
        SCOPED_TRACE(version);
        // One worker: all is received before anything is sent.
        sched = make_sched(1, 1);
        make();
        RawConn conn = open_as(version, ConnType::bulk_out);
        Bytes script;
        for (const u64 cookie : {4u, 5u, 6u, 9u, 2u, 20u, 30u, 12u, 13u, 50u})
            script = script + asking(version, cookie);
        ASSERT_TRUE(conn.send(script));
        const Acks acks = read_all(conn, version, 10);
        EXPECT_EQ(acks.in_noops, (std::multiset<u64>{2, 4, 5, 6, 9, 12, 13, 20, 30, 50}));
        EXPECT_EQ(acks.noops, version == 2 ? 10u : 5u);  // 4-6, 9+2, 30+20, 12-13, 50
        EXPECT_EQ(node->counter("zc_acks_sent"), 10u);
        conn.close();
        node.reset();
    }
}

// While a peer does not read, messages and acknowledgements pile up; then the messages carry them.
TEST_F(Cookies, MessagesCarryAcknowledgements) {
    for (const u32 version : {2u, 3u, 4u}) {
        SCOPED_TRACE(version);
        make({{Tunable::tx_buffer_size, 4096}, {Tunable::nonblk_zcack, 0}});
        RawConn control = open_as(version, ConnType::control);
        RawConn bulk = open_as(version, ConnType::bulk_out);
        // Small ones go by CONTROL: more than its window and the sockets' buffers hold.
        constexpr u32 count = 12000;
        std::vector<MsgPtr> all;
        for (u32 id = 1; id <= count; ++id) all.push_back(sent(id, 900));
        Bytes script;
        std::multiset<u64> owed;
        for (u64 cookie = 2; cookie < 80; cookie += 2) {
            script = script + asking(version, cookie);
            owed.insert(cookie);
        }
        taken(bulk, version, script);
        const Acks acks = read_all(control, version, owed.size(), count);
        EXPECT_EQ(acks.all(), owed);
        EXPECT_GT(acks.in_messages.size(), 0u);
        node.reset();
    }
}

// nonblk_zcack: BULK_IN, even for what came on another connection. Else by size, as messages go.
TEST_F(Cookies, WhichConnectionCarriesAcknowledgements) {
    for (const u32 version : {2u, 3u, 4u}) {
        for (const bool apart : {true, false}) {
            SCOPED_TRACE(version);
            make({{Tunable::nonblk_zcack, apart ? 1 : 0}});
            RawConn control = open_as(version, ConnType::control);
            RawConn out = open_as(version, ConnType::bulk_out);
            RawConn in = open_as(version, ConnType::bulk_in);
            // Version 2 has no connection for them.
            RawConn& carrier = apart && version > 2 ? out : control;
            for (RawConn* conn : {&control, &out, &in}) ASSERT_TRUE(conn->send(asking(version, 7)));
            EXPECT_EQ(read_all(carrier, version, 3).in_noops, (std::multiset<u64>{7, 7, 7}));
            node.reset();
        }
    }
}

}  // namespace
}  // namespace ulnet::sock
