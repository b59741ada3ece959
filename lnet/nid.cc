// NIDs: conversion between the two sizes, text forms and their parsers. Pure; any thread.
#include "lnet/nid.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "lnet/nid_text.h"

namespace ulnet {
namespace {

using nid_text::AddressKind;

// What a text of a NID may have at most (64 with a terminator).
constexpr std::size_t nid_text_max = 63;
constexpr u8 size_ipv6 = 12;  // first raw byte: bytes of address beyond four
constexpr Status invalid{-EINVAL};

// Address words in hex joined by ':', for what no other form fits.
std::string address_words(const Nid& nid) {
    std::string text;
    const std::span<const u8> bytes = nid.address();
    for (std::size_t at = 0; at < bytes.size(); at += 4) {
        u32 word = 0;
        for (std::size_t i = at; i < at + 4; ++i) {
            word = word << 8 | (i < bytes.size() ? bytes[i] : 0u);
        }
        text += (at > 0 ? ":" : "") + nid_text::hex_text(word);
    }
    return text;
}

std::string address_text(const Nid& nid) {
    const auto* const entry = nid_text::find_net(nid.net().type());
    if (entry != nullptr && nid.is_nid4()) {
        switch (entry->kind) {
        case AddressKind::ip:
        case AddressKind::ipv4:
            return nid_text::ipv4_text(nid.address4());
        case AddressKind::numeric:
        case AddressKind::lo:
            return std::to_string(nid.address4());
        }
    }
    if (entry != nullptr && entry->kind == AddressKind::ip && nid.raw()[0] == size_ipv6) {
        return nid_text::ipv6_text(nid.address().first<16>());
    }
    return address_words(nid);
}

Result<Nid> parse_address(std::string_view text, Net net) {
    const auto* const entry = nid_text::find_net(net.type());
    if (entry == nullptr || text.empty()) return invalid;
    std::optional<u32> address;
    switch (entry->kind) {
    case AddressKind::lo:
        return Nid::ipv4(net, 0);
    case AddressKind::numeric:
        address = nid_text::parse_decimal_or_hex(text);
        break;
    case AddressKind::ip:
        if (const auto six = nid_text::parse_ipv6(text)) return Nid::ipv6(net, *six);
        [[fallthrough]];
    case AddressKind::ipv4:
        address = nid_text::parse_ipv4(text);
        break;
    }
    if (!address) return invalid;
    return Nid::ipv4(net, *address);
}

}  // namespace

Nid Nid::from_nid4(u64 nid4) {
    Nid nid;
    const u8 type = static_cast<u8>(nid4 >> 48);
    if (type == 0xff) return nid;  // the large form has one ANY only
    nid.raw_.fill(0);
    for (std::size_t i = 1; i < 8; ++i) nid.raw_[i] = static_cast<u8>(nid4 >> (56 - 8 * i));
    return nid;
}

Nid Nid::ipv6(Net net, const std::array<u8, 16>& address) {
    Nid nid = ipv4(net, 0);
    if (nid.any()) return nid;
    nid.raw_[0] = size_ipv6;
    for (std::size_t i = 0; i < address.size(); ++i) nid.raw_[4 + i] = address[i];
    return nid;
}

u64 Nid::nid4() const {
    if (any()) return ~u64{0};
    u64 value = 0;
    for (std::size_t i = 1; i < 8; ++i) value = value << 8 | raw_[i];
    return value;
}

Net Nid::net() const {
    if (any()) return net_any;
    return Net{static_cast<u32>(raw_[1]) << 16 | static_cast<u32>(raw_[2]) << 8 | raw_[3]};
}

std::span<const u8> Nid::address() const {
    const std::size_t bytes = std::min<std::size_t>(raw_[0] + std::size_t{4}, bytes_max - 4);
    return std::span(raw_).subspan(4, bytes);
}

u64 Nid::hash() const {
    u64 mixed = 0;
    for (std::size_t at = 0; at < bytes_max; at += 4) {
        u32 word = 0;
        std::memcpy(&word, raw_.data() + at, sizeof word);
        mixed = (mixed ^ word) * 0x9e3779b97f4a7c15;
        mixed ^= mixed >> 29;
    }
    return mixed;
}

std::string to_text(Net net) {
    const auto* const entry = nid_text::find_net(net.type());
    if (entry == nullptr || net.id >> 24 != 0) {
        return '<' + std::to_string(static_cast<unsigned>(net.type())) + ':' +
               std::to_string(net.number()) + '>';
    }
    const std::string name(entry->name);
    return net.number() == 0 ? name : name + std::to_string(net.number());
}

std::string to_text(const Nid& nid) {
    if (nid.any()) return "<?>";
    return address_text(nid) + '@' + to_text(nid.net());
}

std::string to_text(const ProcessId& id) {
    if (id.pid == pid_any) return "LNET_PID_ANY-" + to_text(id.nid);
    const char* const user = (id.pid & pid_user_flag) != 0 ? "U" : "";
    return user + std::to_string(id.pid & ~pid_user_flag) + '-' + to_text(id.nid);
}

Result<Net> parse_net(std::string_view text) {
    const auto* const entry = nid_text::find_net_prefix(text);
    if (entry == nullptr) return invalid;
    text.remove_prefix(entry->name.size());
    if (text.empty()) return Net::of(entry->type, 0);
    const std::optional<u32> number = nid_text::parse_decimal(text);
    if (entry->type == NetType::lo || !number || *number > 0xffff) return invalid;
    return Net::of(entry->type, static_cast<u16>(*number));
}

Result<Nid> parse_nid(std::string_view text) {
    if (text == "<?>") return Nid();
    if (text.size() > nid_text_max) return invalid;
    const std::size_t at = text.find('@');
    if (at == std::string_view::npos) return parse_address(text, Net::of(NetType::tcp, 0));
    const Result<Net> net = parse_net(text.substr(at + 1));
    if (!net.ok()) return net.status();
    return parse_address(text.substr(0, at), *net);
}

Result<Nid> parse_any_nid(std::string_view text) {
    if (text == "*") return Nid();
    return parse_nid(text);
}

}  // namespace ulnet
