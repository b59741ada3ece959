// Capture files made by hand: packets of TCP in frames of any kind, in pcap or pcap-ng of either
// order. What the tests of wiredump read.
#pragma once

#include <string>
#include <vector>

#include "cpt/base/types.h"

namespace ulnet::trace_test {

using Bytes = std::vector<std::byte>;

// Integers in the order that the format wants.
class Builder {
 public:
    explicit Builder(bool big = false) : big_(big) {}
    Builder& u8s(std::initializer_list<unsigned> values) {
        for (const unsigned value : values) bytes_.push_back(static_cast<std::byte>(value));
        return *this;
    }
    Builder& u16_(unsigned value) { return number(value, 2, big_); }
    Builder& u32_(u64 value) { return number(value, 4, big_); }
    Builder& be16(unsigned value) { return number(value, 2, true); }
    Builder& be32(u64 value) { return number(value, 4, true); }
    Builder& add(const Bytes& other) {
        bytes_.insert(bytes_.end(), other.begin(), other.end());
        return *this;
    }
    Builder& zeros(std::size_t count) {
        bytes_.resize(bytes_.size() + count);
        return *this;
    }
    const Bytes& bytes() const { return bytes_; }

 private:
    Builder& number(u64 value, int size, bool big) {
        for (int i = 0; i < size; ++i)
            bytes_.push_back(static_cast<std::byte>(value >> 8 * (big ? size - 1 - i : i)));
        return *this;
    }
    const bool big_;
    Bytes bytes_;
};

struct Segment {
    u8 from = 1, to = 2;  // 10.0.0.x or fd00::x
    u16 from_port = 1023, to_port = 988;
    u32 number = 0;
    bool syn = false;
    Bytes data;
};

inline Bytes tcp_of(const Segment& segment) {
    return Builder()
        .be16(segment.from_port)
        .be16(segment.to_port)
        .be32(segment.number)
        .be32(0)
        .u8s({0x50, segment.syn ? 2u : 16u})
        .zeros(6)
        .add(segment.data)
        .bytes();
}
inline Bytes ipv4_of(const Segment& segment) {
    const Bytes tcp = tcp_of(segment);
    return Builder()
        .u8s({0x45, 0})
        .be16(static_cast<unsigned>(20 + tcp.size()))
        .zeros(4)
        .u8s({64, 6, 0, 0, 10, 0, 0, segment.from, 10, 0, 0, segment.to})
        .add(tcp)
        .bytes();
}
// With a hop-by-hop header on the way.
inline Bytes ipv6_of(const Segment& segment) {
    const Bytes tcp = tcp_of(segment);
    return Builder()
        .be32(0x60000000)
        .be16(static_cast<unsigned>(8 + tcp.size()))
        .u8s({0, 64, 0xfd})
        .zeros(14)
        .u8s({segment.from, 0xfd})
        .zeros(14)
        .u8s({segment.to, 6, 0, 0, 0, 0, 0, 0, 0})
        .add(tcp)
        .bytes();
}
inline Bytes ethernet_of(const Bytes& ip, bool vlan = false) {
    Builder frame;
    frame.zeros(12);
    if (vlan) frame.be16(0x8100).be16(7);
    return frame.be16(static_cast<unsigned>(ip[0]) >> 4 == 4 ? 0x0800 : 0x86dd).add(ip).bytes();
}

struct Packet {
    u64 time_us;
    Bytes bytes;
    std::size_t cut = ~std::size_t{0};  // bytes that were captured
};

inline Bytes captured(const Packet& packet) {
    Bytes bytes = packet.bytes;
    bytes.resize(std::min(bytes.size(), packet.cut));
    return bytes;
}

inline Bytes pcap_of(u32 link_type, const std::vector<Packet>& packets, bool big = false) {
    Builder file(big);
    file.u32_(0xa1b2c3d4).u16_(2).u16_(4).u32_(0).u32_(0).u32_(65535).u32_(link_type);
    for (const Packet& packet : packets)
        file.u32_(packet.time_us / 1000000)
            .u32_(packet.time_us % 1000000)
            .u32_(captured(packet).size())
            .u32_(packet.bytes.size())
            .add(captured(packet));
    return file.bytes();
}
inline Bytes pcapng_of(u32 link_type, const std::vector<Packet>& packets, bool big = false) {
    Builder file(big);
    file.u32_(0x0a0d0d0a).u32_(28).u32_(0x1a2b3c4d).u16_(1).u16_(0).u32_(~0u).u32_(~0u).u32_(28);
    file.u32_(1).u32_(20).u16_(link_type).u16_(0).u32_(0).u32_(20);
    file.u32_(0x0bad).u32_(16).u32_(0).u32_(16);  // a block that nobody knows
    for (const Packet& packet : packets) {
        const Bytes bytes = captured(packet);
        const std::size_t padding = (4 - bytes.size() % 4) % 4;
        const std::size_t length = 32 + bytes.size() + padding;
        file.u32_(6).u32_(length).u32_(0).u32_(packet.time_us >> 32).u32_(packet.time_us);
        file.u32_(bytes.size()).u32_(packet.bytes.size()).add(bytes).zeros(padding).u32_(length);
    }
    return file.bytes();
}

}  // namespace ulnet::trace_test
