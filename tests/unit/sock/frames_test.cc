// A scripted peer on open connections, byte for byte: frames, acknowledgements, checksums,
// time-outs, and peers that die.
#include <algorithm>

#include "tests/unit/sock/passive.h"

namespace ulnet::sock {
namespace {

using std::chrono::milliseconds;
using Frames = Passive;

TEST_F(Frames, ErrorsCloseAllSiblings) {
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
    EXPECT_EQ(node->core.held()->arrivals.size(), 0u);
    // A plain end of one connection is an end of all, but no error of the protocol.
    RawConn control = open(ConnType::control);
    RawConn bulk = open(ConnType::bulk_out);
    bulk.close();
    EXPECT_TRUE(control.closed());
}

TEST_F(Frames, OddFramesThatAreAccepted) {
    make();
    RawConn conn = open(ConnType::any);
    Frame frame = put_frame(nid_at(1), node->nid(), 1, 0);
    frame.head.checksum = crc_seed;
    ASSERT_TRUE(conn.send(noop(0, 1) + noop(1, 1) + noop(0, 0) + noop(7, 0) + frame_of(frame)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 1; }));
    EXPECT_EQ(node->counter("keepalives_received"), 2u);
    EXPECT_EQ(node->connections(), 1u);
}

TEST_F(Frames, Checksums) {
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
    EXPECT_EQ(node->core.held()->wrong_bytes, 0u);
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
        const Result<ZcAck> ack = zc_ack_of(version_default, *frame);
        if (!ack.ok()) break;
        if (ack->kind == ZcAck::Kind::two) {
            acked.insert({ack->first, ack->last});
        } else if (ack->kind == ZcAck::Kind::one || ack->kind == ZcAck::Kind::range) {
            for (u64 number = ack->first; number <= ack->last; ++number) acked.insert(number);
        }
    }
    return acked;
}

TEST_F(Frames, ZeroCopyAcksOnceOnBulkIn) {
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
    EXPECT_EQ(bulk.read(frame_head_bytes), noop(0, 1000));
    EXPECT_TRUE(bulk.silent(milliseconds(50)));
    EXPECT_TRUE(back.silent(milliseconds(1)));
    EXPECT_TRUE(control.silent(milliseconds(1)));
    EXPECT_EQ(node->counter("zc_acks_sent"), owed.size() + 1);
}

// Acknowledged only when all payload is consumed.
TEST_F(Frames, NoAckBeforeTheEndOfThePayload) {
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

TEST_F(Frames, PeerDiesInTheMiddleOfAMessage) {
    make();
    for (const bool reset : {false, true}) {
        RawConn conn = open(ConnType::bulk_out);
        const u32 before = node->core.held()->received_failed;
        Bytes part =
            frame_of(put_frame(nid_at(1), node->nid(), 7, 1u << 20)) + payload_of(7, 1u << 19);
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
        ASSERT_TRUE(node->core.wait([&] { return node->core.received_failed == before + 1; }));
        EXPECT_EQ(node->core.held()->received.back()->status, Status(-ECONNRESET));
        ASSERT_TRUE(node->wait_connections(0));
    }
}

// The message is with the core while the connection dies: it is finished when the core answers.
TEST_F(Frames, PeerDiesWhileTheCoreThinks) {
    make();
    node->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        core.park(arrival);
        return ok_status;
    });
    RawConn control = open(ConnType::control);
    RawConn bulk = open(ConnType::bulk_out);
    // The rest never comes: a message that is here whole could still be received.
    ASSERT_TRUE(
        bulk.send(frame_of(put_frame(nid_at(1), node->nid(), 7, 5000)) + payload_of(7, 2500)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.parked.size() == 1; }));
    control.close();
    ASSERT_TRUE(node->wait_connections(0));
    const Core::Arrival arrival = node->core.take_parked().back();
    run_on(*sched, 1, [&] { node->core.accept(arrival, 5000); });
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_failed == 1; }));
}

TEST_F(Frames, StuckPeersTimeOut) {
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
    EXPECT_EQ(node->core.held()->received.back()->status, Status(-ETIMEDOUT));
    EXPECT_EQ(node->core.held()->received.back()->health, Health::network_timeout);
    RawConn conn = open(ConnType::control);
    std::vector<MsgPtr> msgs;
    for (u64 id = 1; id <= 30; ++id) {
        msgs.push_back(put(node->nid(), nid_at(1), id, 1u << 20));
        node->send(msgs.back());
    }
    ASSERT_TRUE(node->core.wait(
        [&] { return node->core.sent_failed + node->core.sent_finished == msgs.size(); }));
    // The first one that failed was queued when time was over; whatever was sent later found the
    // connection gone.
    const auto failed = std::ranges::find_if(msgs, [](auto& msg) { return !msg->status.ok(); });
    ASSERT_NE(failed, msgs.end());
    EXPECT_EQ((*failed)->status, Status(-ETIMEDOUT));
    EXPECT_EQ((*failed)->health, Health::network_timeout);
    EXPECT_EQ(node->counter("timeouts"), 3u);
}

// A message that the core parks is not the peer's fault, however long it takes.
TEST_F(Frames, ParkedMessagesDoNotTimeOut) {
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

TEST_F(Frames, KeepaliveAfterSilence) {
    make({{Tunable::keepalive, 1}});
    RawConn control = open(ConnType::control);
    RawConn out = open(ConnType::bulk_out);  // BULK_IN for the driver
    RawConn in = open(ConnType::bulk_in);
    EXPECT_EQ(out.read(frame_head_bytes), noop(0, 1));
    EXPECT_TRUE(control.silent(milliseconds(1)));
    EXPECT_TRUE(in.silent(milliseconds(1)));
    EXPECT_EQ(node->counter("keepalives_sent"), 1u);
}

TEST_F(Frames, DescribesItsConnections) {
    make();
    RawConn conn = open(ConnType::bulk_out);
    ASSERT_TRUE(
        conn.send(frame_of(put_frame(nid_at(1), node->nid(), 7, 500)) + payload_of(7, 500)));
    ASSERT_TRUE(node->core.wait([&] { return node->core.received_ok == 1; }));
    // The answering HELLO is accounted for after it was written.
    ctl::Value all;
    ASSERT_TRUE(eventually([&] {
        all = node->describe();
        return all["connections"].size() == 1 &&
               all["connections"].items()[0]["queued_bytes"].as_int() == 0;
    }));
    EXPECT_FALSE(all["guest"].as_bool(true));
    EXPECT_EQ(all["listen"].as_text(), "127.0.0.2:" + std::to_string(port));
    const ctl::Value& one = all["connections"].items()[0];
    EXPECT_EQ(one["peer"].as_text(), "12345-127.0.0.1@tcp");
    EXPECT_EQ(one["type"].as_text(), "bulk_in");
    EXPECT_EQ(one["opened_by"].as_text(), "peer");
    EXPECT_EQ(one["remote"].as_text(), "127.0.0.1:" + std::to_string(conn.local_port()));
    EXPECT_EQ(one["rx_bytes"].as_int(), frame3_bytes + 500);
    EXPECT_EQ(one["rx_messages"].as_int(), 1);
    ASSERT_EQ(all["peers"].size(), 1u);
    EXPECT_EQ(all["peers"].items()[0]["nid"].as_text(), "127.0.0.1@tcp");
    EXPECT_EQ(all["counters"]["rx_bytes"].as_int(), 500);
    EXPECT_EQ(all["counters"]["accepted"].as_int(), 1);
}

}  // namespace
}  // namespace ulnet::sock
