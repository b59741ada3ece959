// The trace driver over lo and sock: every message, its end and its payload are in the file, and
// the driver contract is as without it.
#include <gtest/gtest.h>

#include "lnds/lo/lo.h"
#include "lnds/trace/trace.h"
#include "lnds/trace/wire.h"
#include "tests/unit/sock/harness.h"
#include "tests/unit/trace/files.h"
#include "tools/wiredump_capture.h"

namespace ulnet::sock {
namespace {

using trace_test::contents;
using trace_test::TemporaryFile;

struct Record {
    trace::RecordHead head;
    Hdr hdr;
    Bytes payload;
    u32 interface;
    u32 original;
};

struct Traced {
    std::vector<Record> records;
    std::vector<tools::CaptureInterface> interfaces;
    // Of this kind and direction.
    std::vector<Record> of(trace::Kind kind, trace::Direction direction) const {
        std::vector<Record> found;
        for (const Record& record : records)
            if (record.head.kind == static_cast<u8>(kind) &&
                record.head.direction == static_cast<u8>(direction))
                found.push_back(record);
        return found;
    }
};

Traced read(const std::string& path) {
    const Bytes bytes = contents(path);
    tools::CaptureReader reader(bytes);
    Traced traced;
    for (tools::CapturePacket packet; reader.next(packet);) {
        EXPECT_EQ(packet.link_type, trace::link_type);
        Record record;
        Reader of(packet.bytes);
        EXPECT_TRUE(of.read(record.head));
        EXPECT_EQ(record.head.version, trace::record_version);
        record.interface = packet.interface;
        record.original = packet.original;
        if (packet.bytes.size() > trace::record_head_bytes) {
            const auto hdr = decode_hdr16(packet.bytes.subspan(trace::record_head_bytes));
            EXPECT_TRUE(hdr.ok());
            if (hdr.ok()) record.hdr = *hdr;
            const auto payload = packet.bytes.subspan(trace::record_head_bytes + hdr16_bytes);
            record.payload.assign(payload.begin(), payload.end());
        }
        traced.records.push_back(std::move(record));
    }
    EXPECT_EQ(reader.error(), "");
    traced.interfaces = reader.interfaces();
    return traced;
}

std::unique_ptr<TraceFile> open_trace(const TemporaryFile& file, u32 snap) {
    std::string why;
    auto trace = TraceFile::open({file.path(), snap, {}}, why);
    EXPECT_TRUE(trace.ok()) << why;
    return std::move(*trace);
}

void expect_payload(const Record& record, u32 snap) {
    const u32 whole = record.hdr.payload_length;
    ASSERT_EQ(record.payload.size(), std::min(whole, snap));
    EXPECT_EQ(record.original, trace::record_head_bytes + hdr16_bytes + whole);
    for (u32 i = 0; i < record.payload.size(); ++i)
        ASSERT_EQ(record.payload[i], pattern(record.hdr.match_bits, i));
}

TEST(TraceLnd, RecordsMessagesAndTheirEnds) {
    constexpr u32 snap = 1000;
    const TemporaryFile file;
    auto trace = open_trace(file, snap);
    {
        const auto sched = make_sched(2, 2);
        NiConfig config;
        config.net = net_lo;
        config.nid = nid_lo();
        const auto decide = [](Core& core, const Core::Arrival& arrival) {
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
                core.accept(arrival, arrival.hdr.payload_length, 9);
                return ok_status;
            }
        };
        TestNode node(*sched, config, make_trace_lnd(make_lo_lnd(), *trace), decide);
        std::vector<MsgPtr> msgs;
        for (u64 id = 0; id < 40; ++id) {
            msgs.push_back(put(nid_lo(), nid_lo(), id, static_cast<u32>(id * 100), 5));
            node.send(msgs.back());
        }
        ASSERT_TRUE(node.core.wait([&] { return node.core.parked.size() == 10; }));
        for (const Core::Arrival& arrival : node.core.take_parked())
            run_on(*sched, 0, [&] { node.core.accept(arrival, arrival.hdr.payload_length); });
        for (const MsgPtr& msg : msgs)
            ASSERT_TRUE(node.core.wait([&] { return msg->finished == 1; }));
        const ctl::Value shown = node.describe();
        EXPECT_EQ(shown["trace"]["state"].as_text(), "writing");
        EXPECT_EQ(shown["trace"]["records"].as_int(), 170);
        EXPECT_EQ(shown["trace"]["dropped"].as_int(), 0);
        node.close();
    }
    trace.reset();
    const Traced traced = read(file.path());
    using enum trace::Kind;
    using enum trace::Direction;
    const auto sent = traced.of(message, out);
    ASSERT_EQ(sent.size(), 40u);
    for (u64 id = 0; id < sent.size(); ++id) {
        EXPECT_EQ(sent[id].hdr.match_bits, id);
        expect_payload(sent[id], snap);
    }
    EXPECT_EQ(traced.of(message, in).size(), 40u);
    EXPECT_EQ(traced.of(parked, in).size(), 10u);
    EXPECT_EQ(traced.of(discarded, in).size(), 10u);
    const auto received = traced.of(finished, in);
    EXPECT_EQ(received.size(), 30u);  // 20 with payload, 10 that were refused
    for (const Record& record : received) {
        EXPECT_EQ(record.head.status.value, record.hdr.match_bits % 4 == 1 ? -EPROTO : 0);
        if (record.head.status.value == 0) expect_payload(record, snap);
    }
    const auto ended = traced.of(finished, out);
    EXPECT_EQ(ended.size(), 40u);
    for (const Record& record : ended)
        EXPECT_EQ(record.head.status.value, record.hdr.match_bits % 4 == 1 ? -EPROTO : 0);
    ASSERT_EQ(traced.interfaces.size(), 1u);
    EXPECT_EQ(traced.interfaces[0].name, "0@lo");
    EXPECT_EQ(traced.interfaces[0].received, 170u);
    EXPECT_EQ(traced.interfaces[0].dropped, 0u);
}

// A node of its own for each address, one file; a peer that is not there.
TEST(TraceLnd, TwoNodesAndAFailure) {
    const TemporaryFile file;
    auto trace = open_trace(file, 0);
    {
        const auto sched = make_sched(1, 2);
        const u16 port = free_port();
        TestNode a(*sched, ni_config(1, port), make_trace_lnd(make_sock_lnd(back_end()), *trace));
        TestNode b(*sched, ni_config(2, port), make_trace_lnd(make_sock_lnd(back_end()), *trace));
        const MsgPtr good = put(a.nid(), b.nid(), 1, 5000), bad = put(a.nid(), nid_at(3), 2, 0);
        a.send(good);
        a.send(bad);
        ASSERT_TRUE(a.core.wait([&] { return good->finished == 1 && bad->finished == 1; }));
        ASSERT_TRUE(b.core.wait([&] { return b.core.received_ok == 1; }));
    }
    trace.reset();
    const Traced traced = read(file.path());
    ASSERT_EQ(traced.interfaces.size(), 2u);
    EXPECT_EQ(traced.interfaces[0].name, to_text(nid_at(1)));
    EXPECT_EQ(traced.interfaces[1].name, to_text(nid_at(2)));
    bool failed = false, up = false;
    for (const Record& record : traced.records) {
        EXPECT_TRUE(record.payload.empty());
        const Nid peer = Nid::from_raw(record.head.peer_nid);
        if (record.head.kind == static_cast<u8>(trace::Kind::peer_event))
            up = up || (peer == nid_at(2) && record.head.detail == 0);
        if (record.head.kind != static_cast<u8>(trace::Kind::finished)) continue;
        if (peer != nid_at(3)) continue;
        failed = true;
        EXPECT_EQ(record.head.status.value, -ECONNREFUSED);
        EXPECT_EQ(record.head.detail, static_cast<u8>(Health::remote_dropped));
    }
    EXPECT_TRUE(failed);
    EXPECT_TRUE(up);
}

}  // namespace
}  // namespace ulnet::sock
