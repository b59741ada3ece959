// Pieces of NID texts that nid.cc and nidrange.cc share: network names, numbers, IP addresses.
// Internal to lnet/. Pure functions; any thread. What is refused and why:
// docs/adr/0002-nid-text.md.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lnet/nid.h"

namespace ulnet::nid_text {

// How the address of a network is written.
enum class AddressKind : u8 {
    ip,       // dotted quad or IPv6
    ipv4,     // dotted quad only
    numeric,  // one 32-bit number
    lo,       // any text, always 0
};
struct NetName {
    NetType type;
    std::string_view name;
    AddressKind kind;
};
// Null when the type is not known.
const NetName* find_net(NetType);
// The entry whose name `text` begins with, null when there is none.
const NetName* find_net_prefix(std::string_view text);

// Decimal without a sign and without leading zeros.
std::optional<u32> parse_decimal(std::string_view);
// As above, or 0x / 0X and hexadecimal digits.
std::optional<u32> parse_decimal_or_hex(std::string_view);
// As C reads it: also a leading 0 for octal.
std::optional<u32> parse_base0(std::string_view);

// Four decimal numbers 0 ... 255 with dots.
std::optional<u32> parse_ipv4(std::string_view);
// RFC 4291 text without a scope.
std::optional<std::array<u8, 16>> parse_ipv6(std::string_view);
// Lower case, without 0x and leading zeros.
std::string hex_text(u32 value);
std::string ipv4_text(u32 address);
// RFC 5952: lower case, the longest run of zeros cut, ::ffff:1.2.3.4 for mapped addresses.
std::string ipv6_text(std::span<const u8, 16> address);

}  // namespace ulnet::nid_text
