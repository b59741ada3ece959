// Encoding and decoding of the libfabric driver's messages. Pure; any thread.
#include "lnds/ofi/wire.h"

#include <algorithm>
#include <cerrno>

namespace ulnet::ofi {
namespace {

struct HelloWire {
    u8 low, high;
    Le<u16> contexts;
    Le<u32> context;
    Le<u64> epoch, session, answers;
    Le<u32> credits, message_max, reserved;
    template <class F> static constexpr void fields(F&& f) {
        f("low", &HelloWire::low);
        f("high", &HelloWire::high);
        f("contexts", &HelloWire::contexts);
        f("context", &HelloWire::context);
        f("epoch", &HelloWire::epoch);
        f("session", &HelloWire::session);
        f("answers", &HelloWire::answers);
        f("credits", &HelloWire::credits);
        f("message_max", &HelloWire::message_max);
        f("reserved", &HelloWire::reserved);
    }
};
static_assert(head_bytes + wire_size<HelloWire>() == hello_bytes);

struct BulkWire {
    Le<u64> transfer;
    Le<u32> count, reserved;
    template <class F> static constexpr void fields(F&& f) {
        f("transfer", &BulkWire::transfer);
        f("count", &BulkWire::count);
        f("reserved", &BulkWire::reserved);
    }
};
static_assert(immediate_bytes + wire_size<BulkWire>() == bulk_bytes);

struct SegmentWire {
    Le<u64> address, key;
    Le<u32> len, reserved;
    template <class F> static constexpr void fields(F&& f) {
        f("address", &SegmentWire::address);
        f("key", &SegmentWire::key);
        f("len", &SegmentWire::len);
        f("reserved", &SegmentWire::reserved);
    }
};
static_assert(wire_size<SegmentWire>() == segment_bytes);

struct DoneWire {
    Le<u64> transfer, reading;
    Le<i32> status;
    Le<u32> bytes;
    template <class F> static constexpr void fields(F&& f) {
        f("transfer", &DoneWire::transfer);
        f("reading", &DoneWire::reading);
        f("status", &DoneWire::status);
        f("bytes", &DoneWire::bytes);
    }
};
static_assert(head_bytes + wire_size<DoneWire>() == done_bytes);

struct FinWire {
    Le<u64> reading;
    Le<i32> status;
    Le<u32> reserved;
    template <class F> static constexpr void fields(F&& f) {
        f("reading", &FinWire::reading);
        f("status", &FinWire::status);
        f("reserved", &FinWire::reserved);
    }
};
static_assert(head_bytes + wire_size<FinWire>() == fin_bytes);

struct ReadyWire {
    Le<u64> transfer, reading;
    Le<u32> count, reserved;
    template <class F> static constexpr void fields(F&& f) {
        f("transfer", &ReadyWire::transfer);
        f("reading", &ReadyWire::reading);
        f("count", &ReadyWire::count);
        f("reserved", &ReadyWire::reserved);
    }
};
static_assert(head_bytes + wire_size<ReadyWire>() == ready_bytes);

constexpr Status broken{-EPROTO};

// The bytes behind the head as a structure; what follows it stays in the reader.
template <class T> bool read_body(Reader& reader, T& out) {
    reader.bytes(head_bytes);
    return reader.read(out);
}

// Exactly so many, none of them empty.
bool read_segments(Reader& reader, u32 count, std::vector<Segment>& out, u64& total) {
    if (count == 0 || count > segments_max || reader.remaining() != u64{count} * segment_bytes)
        return false;
    for (u32 i = 0; i < count; ++i) {
        SegmentWire segment{};
        if (!reader.read(segment) || segment.len == 0) return false;
        total += segment.len;
        out.push_back({.address = segment.address, .key = segment.key, .len = segment.len});
    }
    return true;
}

void write_segments(Writer& writer, const std::vector<Segment>& segments) {
    for (const Segment& segment : segments) {
        SegmentWire wire{};
        wire.address = segment.address;
        wire.key = segment.key;
        wire.len = segment.len;
        CHECK(writer.write(wire));
    }
}

bool good_status(i32 status) {
    return status <= 0 && status > -4096;
}

void put_head(Writer& writer, const Head& head) {
    HeadWire wire{};
    wire.magic = magic;
    wire.version = head.version;
    wire.type = static_cast<u8>(head.type);
    wire.length = head.length;
    wire.credits = head.credits;
    wire.session = head.session;
    wire.source = head.source.raw();
    wire.target = head.target.raw();
    CHECK(writer.write(wire));
}

template <class T> u32 put(Head head, const T& body, std::span<std::byte> to) {
    head.length = head_bytes + static_cast<u32>(wire_size<T>());
    Writer writer(to);
    put_head(writer, head);
    CHECK(writer.write(body));
    return head.length;
}

}  // namespace

Result<Head> decode_head(std::span<const std::byte> bytes) {
    HeadWire wire{};
    if (!Reader(bytes).read(wire) || wire.magic != magic) return broken;
    if (wire.version < version_min || wire.version > version_max) return Status(-EPROTONOSUPPORT);
    if (wire.type < static_cast<u8>(Type::hello_request) ||
        wire.type > static_cast<u8>(Type::written))
        return broken;
    if (wire.length < head_bytes || wire.length > bytes.size()) return broken;
    Head head{.version = wire.version,
              .type = static_cast<Type>(wire.type),
              .length = wire.length,
              .credits = wire.credits,
              .session = wire.session,
              .source = Nid::from_raw(wire.source),
              .target = Nid::from_raw(wire.target)};
    if (!head.source.valid() || head.source.any() || !head.target.valid() || head.target.any())
        return broken;
    return head;
}

Result<Hello> decode_hello(std::span<const std::byte> bytes) {
    Reader reader(bytes);
    HelloWire wire{};
    if (!read_body(reader, wire)) return broken;
    if (wire.low > wire.high || wire.contexts == 0 || wire.context >= wire.contexts ||
        wire.session == 0 || wire.credits == 0 || wire.message_max < bulk_bytes + segment_bytes)
        return broken;
    return Hello{.low = wire.low,
                 .high = wire.high,
                 .contexts = wire.contexts,
                 .context = wire.context,
                 .epoch = wire.epoch,
                 .session = wire.session,
                 .answers = wire.answers,
                 .credits = wire.credits,
                 .message_max = wire.message_max};
}

Result<Hdr> decode_immediate(std::span<const std::byte> bytes,
                             std::span<const std::byte>& payload) {
    if (bytes.size() < immediate_bytes) return broken;
    const Result<Hdr> hdr = decode_hdr16(bytes.subspan(head_bytes));
    if (!hdr.ok()) return hdr;
    payload = bytes.subspan(immediate_bytes);
    if (payload.size() != hdr->payload_length) return broken;
    return hdr;
}

Result<Bulk> decode_bulk(std::span<const std::byte> bytes) {
    if (bytes.size() < bulk_bytes) return broken;
    const Result<Hdr> hdr = decode_hdr16(bytes.subspan(head_bytes));
    if (!hdr.ok()) return hdr.status();
    Reader reader(bytes.subspan(immediate_bytes));
    BulkWire wire{};
    if (!reader.read(wire)) return broken;
    Bulk bulk{.hdr = *hdr, .transfer = wire.transfer, .segments = {}};
    if (wire.count == 0 && reader.remaining() == 0 && hdr->payload_length > 0) return bulk;
    u64 total = 0;
    if (!read_segments(reader, wire.count, bulk.segments, total) || total != hdr->payload_length)
        return broken;
    return bulk;
}

Result<Ready> decode_ready(std::span<const std::byte> bytes) {
    Reader reader(bytes);
    ReadyWire wire{};
    if (!read_body(reader, wire)) return broken;
    Ready ready{.transfer = wire.transfer, .reading = wire.reading, .segments = {}};
    u64 total = 0;
    if (!read_segments(reader, wire.count, ready.segments, total)) return broken;
    return ready;
}

Result<Done> decode_done(std::span<const std::byte> bytes) {
    Reader reader(bytes);
    DoneWire wire{};
    if (!read_body(reader, wire) || !good_status(wire.status)) return broken;
    return Done{.transfer = wire.transfer,
                .reading = wire.reading,
                .status = wire.status,
                .bytes = wire.bytes};
}

Result<Fin> decode_fin(std::span<const std::byte> bytes) {
    Reader reader(bytes);
    FinWire wire{};
    if (!read_body(reader, wire) || !good_status(wire.status)) return broken;
    return Fin{.reading = wire.reading, .status = wire.status};
}

u32 encode(Head head, const Hello& hello, std::span<std::byte> to) {
    HelloWire wire{};
    wire.low = hello.low;
    wire.high = hello.high;
    wire.contexts = hello.contexts;
    wire.context = hello.context;
    wire.epoch = hello.epoch;
    wire.session = hello.session;
    wire.answers = hello.answers;
    wire.credits = hello.credits;
    wire.message_max = hello.message_max;
    return put(head, wire, to);
}

u32 encode_immediate(Head head, const Hdr& hdr, const MemView& payload, std::span<std::byte> to) {
    head.type = Type::immediate;
    head.length = immediate_bytes + payload.len;
    CHECK(to.size() >= head.length);
    Writer writer(to);
    put_head(writer, head);
    encode_hdr16(hdr, to.subspan<head_bytes, hdr16_bytes>());
    payload.copy_out(0, to.subspan(immediate_bytes, payload.len));
    return head.length;
}

u32 encode(Head head, const Bulk& bulk, std::span<std::byte> to) {
    head.type = Type::bulk;
    head.length = bulk_bytes + static_cast<u32>(bulk.segments.size()) * segment_bytes;
    CHECK(to.size() >= head.length);
    Writer writer(to);
    put_head(writer, head);
    encode_hdr16(bulk.hdr, to.subspan<head_bytes, hdr16_bytes>());
    Writer rest(to.subspan(immediate_bytes));
    BulkWire wire{};
    wire.transfer = bulk.transfer;
    wire.count = static_cast<u32>(bulk.segments.size());
    CHECK(rest.write(wire));
    write_segments(rest, bulk.segments);
    return head.length;
}

u32 encode(Head head, const Done& done, std::span<std::byte> to) {
    head.type = Type::done;
    DoneWire wire{};
    wire.transfer = done.transfer;
    wire.reading = done.reading;
    wire.status = done.status;
    wire.bytes = done.bytes;
    return put(head, wire, to);
}

u32 encode(Head head, const Ready& ready, std::span<std::byte> to) {
    head.type = Type::ready;
    head.length = ready_bytes + static_cast<u32>(ready.segments.size()) * segment_bytes;
    Writer writer(to);
    put_head(writer, head);
    ReadyWire wire{};
    wire.transfer = ready.transfer;
    wire.reading = ready.reading;
    wire.count = static_cast<u32>(ready.segments.size());
    CHECK(writer.write(wire));
    write_segments(writer, ready.segments);
    return head.length;
}

u32 encode(Head head, const Fin& fin, std::span<std::byte> to) {
    FinWire wire{};
    wire.reading = fin.reading;
    wire.status = fin.status;
    return put(head, wire, to);
}

u32 encode_head(Head head, std::span<std::byte> to) {
    head.length = head_bytes;
    Writer writer(to);
    put_head(writer, head);
    return head.length;
}

}  // namespace ulnet::ofi
