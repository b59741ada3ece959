// Addresses of streams: IPv4 or IPv6, and a port. Values; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "lnet/nid.h"

namespace ulnet::sock {

class Address {
 public:
    constexpr Address() = default;  // 0.0.0.0
    // IPv4, host order. Implicit, so that 0x7f000001 is an address.
    constexpr Address(u32 ipv4) {
        for (std::size_t i = 0; i < ipv4_bytes; ++i)
            bytes_[i] = static_cast<u8>(ipv4 >> (24 - 8 * i));
    }
    // Of a NID, or 4 or 16 bytes in network order. Other lengths, which a NID from outside may
    // have, belong to no family: nothing can be connected to them.
    explicit Address(const Nid& nid) : Address(nid.address()) {}
    explicit Address(std::span<const u8> bytes) : size_(static_cast<u8>(bytes.size())) {
        std::copy_n(bytes.begin(), std::min(bytes.size(), bytes_.size()), bytes_.begin());
    }

    bool ipv4() const { return size_ == ipv4_bytes; }
    bool ipv6() const { return size_ == ipv6_bytes; }
    bool same_family(const Address& other) const { return size_ == other.size_; }
    // fe80::/10, which means nothing without an interface.
    bool link_local() const { return ipv6() && bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80; }
    std::span<const u8> bytes() const { return std::span(bytes_).first(size_); }
    // The last four bytes, host order: all of an IPv4 address.
    u32 tail() const {
        u32 value = 0;
        for (std::size_t i = size_ - ipv4_bytes; i < size_; ++i) value = value << 8 | bytes_[i];
        return value;
    }
    Nid nid(Net net) const { return ipv6() ? Nid::ipv6(net, bytes_) : Nid::ipv4(net, tail()); }
    friend bool operator==(const Address&, const Address&) = default;

 private:
    static constexpr std::size_t ipv4_bytes = 4, ipv6_bytes = 16;
    std::array<u8, ipv6_bytes> bytes_{};
    u8 size_ = ipv4_bytes;
};

struct Endpoint {
    Address address;
    u16 port = 0;
    friend bool operator==(const Endpoint&, const Endpoint&) = default;
};
std::string to_text(const Endpoint&);  // "10.0.0.1:988", "[fd00::1]:988"

}  // namespace ulnet::sock
