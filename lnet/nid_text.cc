// Pieces of NID texts; see nid_text.h.
#include "lnet/nid_text.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace ulnet::nid_text {
namespace {

// In the order in which a name is tried; no name is a prefix of another.
constexpr NetName net_names[] = {
    {NetType::lo, "lo", AddressKind::lo},
    {NetType::tcp, "tcp", AddressKind::ip},
    {NetType::o2ib, "o2ib", AddressKind::ip},
    {NetType::gni, "gni", AddressKind::numeric},
    {NetType::gip, "gip", AddressKind::ipv4},
    {NetType::ptlf, "ptlf", AddressKind::numeric},
    {NetType::kfi, "kfi", AddressKind::numeric},
    {NetType::efa, "efa", AddressKind::ip},
    {NetType::bxi3f, "bxi3f", AddressKind::numeric},
};

// All of `digits` in `base`, at least one digit, at most 32 bits; from_chars takes no blank, no
// plus and, for unsigned types, no minus.
std::optional<u32> digits_of(std::string_view digits, int base) {
    u32 value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, value, base);
    if (error != std::errc() || at != end) return std::nullopt;
    return value;
}
bool is_hex(std::string_view text) {
    return text.starts_with("0x") || text.starts_with("0X");
}
// First group and number of groups of the longest run of zero groups; runs of one do not count.
std::pair<int, int> longest_zero_run(const std::array<unsigned, 8>& groups) {
    int best = -1;
    int best_length = 1;
    for (int i = 0; i < 8; ++i) {
        int length = 0;
        while (i + length < 8 && groups[static_cast<std::size_t>(i + length)] == 0) ++length;
        if (length > best_length) {
            best = i;
            best_length = length;
        }
        i += length;
    }
    return {best, best < 0 ? 0 : best_length};
}

}  // namespace

const NetName* find_net(NetType type) {
    const auto found = std::ranges::find(net_names, type, &NetName::type);
    return found == std::end(net_names) ? nullptr : found;
}

const NetName* find_net_prefix(std::string_view text) {
    const auto found = std::ranges::find_if(
        net_names, [&](const NetName& entry) { return text.starts_with(entry.name); });
    return found == std::end(net_names) ? nullptr : found;
}

std::optional<u32> parse_decimal(std::string_view text) {
    if (text.size() > 1 && text.front() == '0') return std::nullopt;
    return digits_of(text, 10);
}

std::optional<u32> parse_decimal_or_hex(std::string_view text) {
    return is_hex(text) ? digits_of(text.substr(2), 16) : parse_decimal(text);
}

std::optional<u32> parse_base0(std::string_view text) {
    if (is_hex(text)) return digits_of(text.substr(2), 16);
    if (text.size() > 1 && text.front() == '0') return digits_of(text.substr(1), 8);
    return digits_of(text, 10);
}

std::optional<u32> parse_ipv4(std::string_view text) {
    u32 address = 0;
    for (int octet = 0; octet < 4; ++octet) {
        const std::size_t dot = octet < 3 ? text.find('.') : text.size();
        if (dot == std::string_view::npos) return std::nullopt;
        const std::optional<u32> value = parse_decimal(text.substr(0, dot));
        if (!value || *value > 255) return std::nullopt;
        address = address << 8 | *value;
        text.remove_prefix(std::min(dot + 1, text.size()));
    }
    return address;
}

std::optional<std::array<u8, 16>> parse_ipv6(std::string_view text) {
    char terminated[INET6_ADDRSTRLEN];
    if (text.size() >= sizeof terminated || text.find('\0') != std::string_view::npos) {
        return std::nullopt;
    }
    std::ranges::copy(text, terminated);
    terminated[text.size()] = '\0';
    std::array<u8, 16> address{};
    if (inet_pton(AF_INET6, terminated, address.data()) != 1) return std::nullopt;
    return address;
}

std::string hex_text(u32 value) {
    char digits[8];
    const auto result = std::to_chars(std::begin(digits), std::end(digits), value, 16);
    return std::string(std::begin(digits), result.ptr);
}

std::string ipv4_text(u32 address) {
    return std::to_string(address >> 24) + '.' + std::to_string(address >> 16 & 255) + '.' +
           std::to_string(address >> 8 & 255) + '.' + std::to_string(address & 255);
}

std::string ipv6_text(std::span<const u8, 16> address) {
    std::array<unsigned, 8> groups{};
    for (std::size_t i = 0; i < 8; ++i) {
        groups[i] = static_cast<unsigned>(address[2 * i]) << 8 | address[2 * i + 1];
    }
    const std::array<unsigned, 6> mapped = {0, 0, 0, 0, 0, 0xffff};
    if (std::ranges::equal(std::span(groups).first<6>(), mapped)) {
        return "::ffff:" + ipv4_text(groups[6] << 16 | groups[7]);
    }
    const auto [zeros, zeros_length] = longest_zero_run(groups);
    std::string text;
    for (int i = 0; i < 8; ++i) {
        if (i == zeros) {
            text += "::";
            i += zeros_length - 1;
            continue;
        }
        if (!text.empty() && !text.ends_with(':')) text += ':';
        text += hex_text(groups[static_cast<std::size_t>(i)]);
    }
    return text;
}

}  // namespace ulnet::nid_text
