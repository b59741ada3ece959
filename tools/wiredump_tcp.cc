// See the header.
#include "tools/wiredump_tcp.h"

#include <algorithm>

#include "cpt/base/wire.h"

namespace ulnet::tools {
namespace {

using Bytes = std::span<const std::byte>;

enum LinkType : u32 {
    link_null = 0,
    link_ethernet = 1,
    link_raw_bsd = 12,
    link_raw_openbsd = 14,
    link_raw = 101,
    link_cooked = 113,
    link_ipv4 = 228,
    link_ipv6 = 229,
    link_cooked2 = 276,
};
constexpr u16 type_ipv4 = 0x0800, type_ipv6 = 0x86dd, type_vlan = 0x8100, type_vlans = 0x88a8;
constexpr u8 protocol_tcp = 6;
constexpr u8 flag_syn = 2;

u8 byte_at(Bytes bytes, std::size_t at) {
    return at < bytes.size() ? static_cast<u8>(bytes[at]) : 0;
}
u16 half_at(Bytes bytes, std::size_t at) {
    return static_cast<u16>(byte_at(bytes, at) << 8 | byte_at(bytes, at + 1));
}
u32 word_at(Bytes bytes, std::size_t at) {
    return u32{half_at(bytes, at)} << 16 | half_at(bytes, at + 2);
}
Bytes behind(Bytes bytes, std::size_t count) {
    return bytes.subspan(std::min(count, bytes.size()));
}
sock::Address address_at(Bytes bytes, std::size_t at, std::size_t size) {
    const auto raw = bytes.subspan(at, size);
    return sock::Address(std::span(reinterpret_cast<const u8*>(raw.data()), size));
}

// The IP packet in a frame; empty: none.
Bytes ip_of_ethernet(Bytes frame) {
    std::size_t at = 12;
    for (int tags = 0; tags < 2; ++tags) {
        const u16 type = half_at(frame, at);
        if (type == type_vlan || type == type_vlans) at += 4;
    }
    const u16 type = half_at(frame, at);
    return type == type_ipv4 || type == type_ipv6 ? behind(frame, at + 2) : Bytes();
}

Bytes ip_of(u32 link_type, Bytes frame) {
    switch (link_type) {
    case link_ethernet:
        return ip_of_ethernet(frame);
    case link_cooked:
        return behind(frame, 16);
    case link_cooked2:
        return behind(frame, 20);
    case link_null:
        return behind(frame, 4);
    case link_raw:
    case link_raw_bsd:
    case link_raw_openbsd:
    case link_ipv4:
    case link_ipv6:
        return frame;
    default:
        return {};
    }
}

// Skips extension headers; false: the packet is a fragment, or goes on beyond what was captured.
bool skip_extensions(Bytes& packet, u8& protocol, std::size_t& length) {
    for (int headers = 0; headers < 8; ++headers) {
        std::size_t size = 0;
        if (protocol == 0 || protocol == 43 || protocol == 60)
            size = (std::size_t{byte_at(packet, 1)} + 1) * 8;
        else if (protocol == 44 && (half_at(packet, 2) & 0xfff9) == 0)
            size = 8;
        else
            return protocol != 44;
        if (size > packet.size() || size > length) return false;
        protocol = byte_at(packet, 0);
        packet = packet.subspan(size);
        length -= size;
    }
    return false;
}

}  // namespace

bool TcpStreams::packet(u32 link_type, u64 time_ns, Bytes frame) {
    return ip(time_ns, ip_of(link_type, frame));
}

bool TcpStreams::ip(u64 time_ns, Bytes packet) {
    const u8 version = byte_at(packet, 0) >> 4;
    if (version == 4 && packet.size() >= 20) {
        const std::size_t header = std::size_t{byte_at(packet, 0)} % 16 * 4;
        const bool fragment = (half_at(packet, 6) & 0x3fff) != 0;
        std::size_t length = half_at(packet, 2);
        if (length == 0) length = packet.size();  // left to the network card
        if (header < 20 || header > packet.size() || length < header || fragment ||
            byte_at(packet, 9) != protocol_tcp)
            return false;
        return tcp(address_at(packet, 12, 4), address_at(packet, 16, 4), time_ns,
                   packet.subspan(header), length - header);
    }
    if (version != 6 || packet.size() < 40) return false;
    std::size_t length = half_at(packet, 4);
    u8 protocol = byte_at(packet, 6);
    Bytes rest = packet.subspan(40);
    if (length == 0) length = rest.size();
    if (!skip_extensions(rest, protocol, length) || protocol != protocol_tcp) return false;
    return tcp(address_at(packet, 8, 16), address_at(packet, 24, 16), time_ns, rest, length);
}

bool TcpStreams::tcp(const sock::Address& from, const sock::Address& to, u64 time_ns, Bytes segment,
                     std::size_t length) {
    const std::size_t header = std::size_t{byte_at(segment, 12)} / 16 * 4;
    if (header < 20 || header > segment.size() || length < header) return false;
    const TcpFlow ends{{from, half_at(segment, 0)}, {to, half_at(segment, 2)}};
    Key key{};
    for (std::size_t i = 0; i < 4; ++i) key[i] = byte_at(segment, i);
    for (std::size_t at = 4; const sock::Address* const address : {&from, &to}) {
        key[at] = static_cast<u8>(address->bytes().size());
        std::ranges::copy(address->bytes(), key.begin() + static_cast<std::ptrdiff_t>(at + 1));
        at += 17;
    }
    if (flows_.size() >= flows_max && !flows_.contains(key)) return false;
    Flow& flow = flows_[key];
    flow.ends = ends;
    const u32 number = word_at(segment, 4);
    const bool opens = (byte_at(segment, 13) & flag_syn) != 0;
    if (opens) {
        if (flow.known && static_cast<u32>(flow.next) == number + 1) return true;  // once more
        drain(flow, true);
        sink_.opened(ends);
    }
    constexpr u64 begin = u64{1} << 32;  // so that places before the first byte are no wrap
    if (!flow.known || opens) flow.next = begin | (opens ? number + 1 : number);
    flow.known = true;
    const std::size_t size = length - header;
    const Bytes data = segment.subspan(header).first(std::min(size, segment.size() - header));
    if (size == 0) return true;
    const i32 ahead = static_cast<i32>(number + (opens ? 1 : 0) - static_cast<u32>(flow.next));
    if (ahead < 0 && flow.next < static_cast<u64>(-static_cast<i64>(ahead))) return true;
    take(flow, flow.next + static_cast<u64>(static_cast<i64>(ahead)),
         {time_ns, {data.begin(), data.end()}, size - data.size()});
    return true;
}

void TcpStreams::take(Flow& flow, u64 at, Segment segment) {
    if (at <= flow.next) {
        deliver(flow, at, segment);
        drain(flow, false);
        return;
    }
    flow.waiting_bytes += segment.bytes.size();
    Segment& known = flow.waiting[at];
    if (known.bytes.size() < segment.bytes.size()) std::swap(known, segment);
    flow.waiting_bytes -= segment.bytes.size();
    if (flow.waiting_bytes > waiting_max || flow.waiting.size() > waiting_max / 1024)
        drain(flow, true);
}

// A segment that begins at or before the next byte.
void TcpStreams::deliver(Flow& flow, u64 at, Segment& segment) {
    const u64 end = at + segment.bytes.size() + segment.missing;
    if (end <= flow.next) return;
    const u64 known = flow.next - at;
    if (known < segment.bytes.size())
        sink_.bytes(flow.ends, segment.time_ns, Bytes(segment.bytes).subspan(known));
    if (segment.missing > 0) sink_.gap(flow.ends, std::min(segment.missing, end - flow.next));
    flow.next = end;
}

// What can be told now; with `all`, also over gaps.
void TcpStreams::drain(Flow& flow, bool all) {
    while (!flow.waiting.empty()) {
        const auto first = flow.waiting.begin();
        if (first->first > flow.next) {
            if (!all) return;
            sink_.gap(flow.ends, first->first - flow.next);
            flow.next = first->first;
        }
        flow.waiting_bytes -= first->second.bytes.size();
        deliver(flow, first->first, first->second);
        flow.waiting.erase(first);
    }
}

void TcpStreams::end() {
    for (auto& [key, flow] : flows_) drain(flow, true);
}

}  // namespace ulnet::tools
