// NIDs and nets: the address of an interface, in 8-byte ("nid4") and 20-byte ("large") form.
// Text forms: protocol facts in docs/wire/ (NID syntax). Values; any thread.
#pragma once

#include <array>
#include <compare>
#include <span>
#include <string>
#include <string_view>

#include "cpt/base/result.h"
#include "cpt/base/types.h"

namespace ulnet {

// Network types by their wire numbers.
enum class NetType : u8 {
    tcp = 2,
    o2ib = 5,
    lo = 9,
    gni = 13,
    gip = 14,
    ptlf = 15,
    kfi = 16,
    efa = 18,
    bxi3f = 19,
};

// A network: (type << 16) | number.
struct Net {
    u32 id = 0xffffffff;
    static constexpr Net of(NetType type, u16 number) {
        return Net{(static_cast<u32>(type) << 16) | number};
    }
    constexpr NetType type() const { return static_cast<NetType>((id >> 16) & 0xff); }
    constexpr u16 number() const { return static_cast<u16>(id & 0xffff); }
    constexpr bool any() const { return id == 0xffffffff; }
    friend constexpr auto operator<=>(Net, Net) = default;
};
constexpr Net net_any{};
constexpr Net net_lo = Net::of(NetType::lo, 0);

// The large form, in network order, exactly as it travels (20 bytes); unused address bytes are 0.
// Ordering is that of the 20 bytes, which decides crossing connects.
class Nid {
 public:
    static constexpr std::size_t bytes_max = 20;
    constexpr Nid() { raw_.fill(0xff); }  // ANY
    static Nid from_nid4(u64 nid4);       // all ones gives ANY
    static Nid from_raw(const std::array<u8, 20>& raw) {
        Nid n;
        n.raw_ = raw;
        return n;
    }
    // Bytes from outside: not ok when they are a NID longer than 20 bytes and not ANY.
    bool valid() const { return any() || raw_[0] <= bytes_max - 8; }
    static Nid ipv4(Net net, u32 address) {
        return from_nid4((static_cast<u64>(net.id) << 32) | address);
    }
    static Nid ipv6(Net net, const std::array<u8, 16>& address);

    bool any() const { return raw_[1] == 0xff; }
    bool is_lo() const { return net() == net_lo; }
    // Fits the 8-byte form: a 4-byte address, or ANY.
    bool is_nid4() const { return raw_[0] == 0 || any(); }
    // The 8-byte form; a longer address is cut to its first 4 bytes, so check is_nid4() first.
    u64 nid4() const;
    Net net() const;
    u32 address4() const { return static_cast<u32>(nid4()); }
    // 4 or 16 bytes of address; network order.
    std::span<const u8> address() const;
    const std::array<u8, 20>& raw() const { return raw_; }
    u64 hash() const;
    friend auto operator<=>(const Nid&, const Nid&) = default;

 private:
    std::array<u8, 20> raw_;
};
inline Nid nid_lo() {
    return Nid::ipv4(net_lo, 0);
}

constexpr u32 pid_lustre = 12345;
constexpr u32 pid_any = 0xffffffff;
constexpr u32 pid_user_flag = 0x80000000;

struct ProcessId {
    Nid nid;
    u32 pid = pid_any;
    friend auto operator<=>(const ProcessId&, const ProcessId&) = default;
};

std::string to_text(Net);
std::string to_text(const Nid&);
std::string to_text(const ProcessId&);  // "12345-192.168.10.1@tcp"
// Literals only, no host names; nothing is looked up.
Result<Net> parse_net(std::string_view);
Result<Nid> parse_nid(std::string_view);      // "<?>" is ANY
Result<Nid> parse_any_nid(std::string_view);  // also "*"

}  // namespace ulnet
