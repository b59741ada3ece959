// See the header.
#include "tools/wiredump_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ulnet::tools {
namespace {

constexpr std::array hexadecimal = {"magic",  "features", "ping_magic", "checksum",
                                    "status", "type",     "hdr_data",   "flags"};
constexpr std::size_t hex_shown = 64;

}  // namespace

std::string number_text(std::string_view name, u64 value, std::size_t bytes) {
    if (name.ends_with("nid") && bytes == sizeof value) return to_text(Nid::from_nid4(value));
    if (bytes == sizeof value || std::ranges::find(hexadecimal, name) != hexadecimal.end())
        return fmt::format("0x{:x}", value);
    return std::to_string(value);
}

std::string nid_text(const std::array<u8, Nid::bytes_max>& raw) {
    const Nid nid = Nid::from_raw(raw);
    return nid.valid() ? to_text(nid) : hex_text(std::as_bytes(std::span(raw)));
}

std::string quoted(std::string_view bytes) {
    std::string text = "'";
    for (const char c : bytes.substr(0, bytes.find('\0'))) text += c >= ' ' && c < 0x7f ? c : '?';
    return text + "'";
}

std::string hex_text(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes.first(std::min(bytes.size(), hex_shown)))
        text += fmt::format("{:02x}", static_cast<u8>(byte));
    return bytes.size() > hex_shown ? text + "..." : text;
}

void offset_row(std::string& out, std::size_t offset, std::size_t size, std::string_view order,
                std::string_view name) {
    out += fmt::format("{:>5} {:>4}  {:<6} {}\n", offset, size, order, name);
}

}  // namespace ulnet::tools
