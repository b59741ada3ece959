// See the header. Formats: draft-ietf-opsawg-pcap and -pcapng.
#include "tools/wiredump_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "lnds/trace/wire.h"

namespace ulnet::tools {
namespace {

using namespace trace;

constexpr u32 magic_microseconds = 0xa1b2c3d4, magic_nanoseconds = 0xa1b23c4d;
constexpr u32 simple_packet_block = 3;
constexpr std::size_t interfaces_max = 65536;
constexpr std::size_t block_ends = wire_size<BlockHead>() + sizeof(u32);

struct PcapHead {
    u32 magic;
    u16 major, minor;
    u32 zone, figures, snap_length, link_type;
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &PcapHead::magic);
        f("major", &PcapHead::major);
        f("minor", &PcapHead::minor);
        f("zone", &PcapHead::zone);
        f("figures", &PcapHead::figures);
        f("snap_length", &PcapHead::snap_length);
        f("link_type", &PcapHead::link_type);
    }
};
struct PcapPacket {
    u32 seconds, fraction, captured, original;
    template <class F> static constexpr void fields(F&& f) {
        f("seconds", &PcapPacket::seconds);
        f("fraction", &PcapPacket::fraction);
        f("captured", &PcapPacket::captured);
        f("original", &PcapPacket::original);
    }
};
static_assert(wire_size<PcapHead>() == 24 && wire_size<PcapPacket>() == 16);

// By the resolution of pcap-ng: 10^-n, or 2^-n when bit 7 is set.
u64 to_nanoseconds(u64 ticks, u8 resolution) {
    constexpr u64 second = 1'000'000'000;
    if ((resolution & 0x80) == 0) {
        u64 value = ticks;
        for (u8 i = resolution; i < nanoseconds; ++i) value *= 10;
        for (u8 i = nanoseconds; i < resolution && value > 0; ++i) value /= 10;
        return value;
    }
    const u32 bits = std::min(resolution & 0x7fu, 63u);
    const u64 fraction = ticks & ((u64{1} << bits) - 1);
    const u32 cut = bits > 34 ? bits - 34 : 0;  // so that the product fits
    return (ticks >> bits) * second + (((fraction >> cut) * second) >> (bits - cut));
}

void each_option(Reader reader, const std::function<void(u16, std::span<const std::byte>)>& use) {
    OptionHead head{};
    while (reader.remaining() >= wire_size<OptionHead>() && reader.read(head)) {
        if (head.code == end_of_options) return;
        const auto value = reader.bytes(head.length);
        if (!reader.ok()) return;
        reader.bytes(std::min(reader.remaining(), padded(head.length) - head.length));
        use(head.code, value);
    }
}

template <class T> T first_value(std::span<const std::byte> bytes, Order order) {
    T value{};
    Reader(bytes, order).read(value);
    return value;
}

}  // namespace

CaptureReader::CaptureReader(std::span<const std::byte> file) : rest_(file), whole_(file.size()) {
    if (first_value<u32>(file, native_order) == section_block)
        kind_ = Kind::pcapng;
    else if (!open_pcap())
        fail("it is neither a pcap nor a pcap-ng file");
}

bool CaptureReader::fail(const std::string& why) {
    error_ = why;
    rest_ = {};
    return false;
}

bool CaptureReader::open_pcap() {
    for (const Order order : {Order::little, Order::big}) {
        Reader reader(rest_, order);
        PcapHead head{};
        if (!reader.read(head)) return false;
        if (head.magic != magic_microseconds && head.magic != magic_nanoseconds) continue;
        nanoseconds_a_tick_ = head.magic == magic_nanoseconds ? 1 : 1000;
        order_ = order;
        kind_ = Kind::pcap;
        interfaces_.push_back({.link_type = head.link_type & 0xffff, .name = {}});
        rest_ = rest_.subspan(wire_size<PcapHead>());
        return true;
    }
    return false;
}

bool CaptureReader::next(CapturePacket& out) {
    if (kind_ == Kind::pcap) return next_pcap(out);
    for (bool is_packet = false; !rest_.empty();) {
        if (!next_block(out, is_packet)) return false;
        if (is_packet) return true;
    }
    return false;
}

bool CaptureReader::next_pcap(CapturePacket& out) {
    if (rest_.empty()) return false;
    Reader reader(rest_, order_);
    PcapPacket head{};
    reader.read(head);
    out.bytes = reader.bytes(head.captured);
    if (!reader.ok()) return fail(fmt::format("it ends within a packet, after {} bytes", whole_));
    out.time_ns = u64{head.seconds} * 1'000'000'000 + u64{head.fraction} * nanoseconds_a_tick_;
    out.link_type = interfaces_.front().link_type;
    out.original = head.original;
    rest_ = rest_.last(reader.remaining());
    return true;
}

bool CaptureReader::next_block(CapturePacket& out, bool& is_packet) {
    const std::size_t at = whole_ - rest_.size();
    // The section header tells the order of what follows, its own length included.
    if (first_value<u32>(rest_, native_order) == section_block) {
        const auto magic =
            first_value<u32>(rest_.subspan(std::min<std::size_t>(8, rest_.size())), Order::little);
        order_ = magic == section_magic ? Order::little : Order::big;
    }
    Reader reader(rest_, order_);
    BlockHead head{};
    if (!reader.read(head)) return fail(fmt::format("it ends within a block, at byte {}", at));
    if (head.total_length % 4 != 0 || head.total_length < block_ends)
        return fail(fmt::format("the block at byte {} has a length of {}", at, head.total_length));
    if (head.total_length > rest_.size())
        return fail(fmt::format("it ends within the block at byte {}", at));
    const auto body = reader.bytes(head.total_length - block_ends);
    if (u32 again = 0; !reader.read(again) || again != head.total_length)
        return fail(fmt::format("the lengths of the block at byte {} differ", at));
    rest_ = rest_.subspan(head.total_length);
    is_packet = head.type == packet_block || head.type == simple_packet_block;
    bool good = true;
    switch (head.type) {
    case section_block:
        good = section(body);
        break;
    case interface_block:
        good = interface(body);
        break;
    case packet_block:
        good = packet(body, out);
        break;
    case simple_packet_block:
        good = simple_packet(body, out);
        break;
    case statistics_block:
        statistics(body);
        break;
    default:
        break;
    }
    return good || fail(fmt::format("the block at byte {} makes no sense", at));
}

bool CaptureReader::section(std::span<const std::byte> body) {
    SectionBody head{};
    if (!Reader(body, order_).read(head)) return false;
    first_ = interfaces_.size();
    return head.magic == section_magic && head.major == 1;
}

bool CaptureReader::interface(std::span<const std::byte> body) {
    Reader reader(body, order_);
    InterfaceBody head{};
    if (!reader.read(head) || interfaces_.size() >= interfaces_max) return false;
    CaptureInterface made{.link_type = head.link_type, .name = {}};
    each_option(reader, [&](u16 code, std::span<const std::byte> value) {
        if (code == interface_name)
            made.name.assign(reinterpret_cast<const char*>(value.data()), value.size());
        if (code == interface_resolution && value.size() == 1)
            made.resolution = static_cast<u8>(value[0]);
    });
    interfaces_.push_back(std::move(made));
    return true;
}

bool CaptureReader::packet(std::span<const std::byte> body, CapturePacket& out) {
    Reader reader(body, order_);
    PacketBody head{};
    if (!reader.read(head)) return false;
    out.bytes = reader.bytes(head.captured);
    if (!reader.ok() || head.interface >= interfaces_.size() - first_) return false;
    out.interface = static_cast<u32>(first_ + head.interface);
    const CaptureInterface& on = interfaces_[out.interface];
    out.link_type = on.link_type;
    out.time_ns = to_nanoseconds(u64{head.time_high} << 32 | head.time_low, on.resolution);
    out.original = head.original;
    return true;
}

bool CaptureReader::simple_packet(std::span<const std::byte> body, CapturePacket& out) {
    Reader reader(body, order_);
    if (!reader.read(out.original) || first_ >= interfaces_.size()) return false;
    out.bytes = reader.bytes(std::min<std::size_t>(reader.remaining(), out.original));
    out.interface = static_cast<u32>(first_);
    out.link_type = interfaces_[first_].link_type;
    out.time_ns = 0;
    return true;
}

void CaptureReader::statistics(std::span<const std::byte> body) {
    Reader reader(body, order_);
    StatisticsBody head{};
    if (!reader.read(head) || head.interface >= interfaces_.size() - first_) return;
    CaptureInterface& on = interfaces_[first_ + head.interface];
    on.counted = true;
    each_option(reader, [&](u16 code, std::span<const std::byte> value) {
        if (code == statistics_received) on.received = first_value<u64>(value, order_);
        if (code == statistics_dropped) on.dropped = first_value<u64>(value, order_);
    });
}

}  // namespace ulnet::tools
