// NID list expressions; see nidrange.h. A list is built once and matched often; nothing here is on
// the path of a message.
#include "lnet/nidrange.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>

#include "lnet/nid_text.h"

namespace ulnet {
namespace {

using nid_text::AddressKind;
using Numbers = NidList::Numbers;
using Component = NidList::Component;

constexpr std::string_view blanks = " \t\r\n";
constexpr u32 octet_max = 255;
constexpr u32 number_max = 0xffffffff;

Error refuse(std::string_view what, std::string_view why) {
    return Error{Status(-EINVAL), "\"" + std::string(what) + "\": " + std::string(why)};
}

std::string_view trim(std::string_view text) {
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Position of the first of `wanted` outside [...], or the end of the text.
std::size_t find_outside(std::string_view text, std::string_view wanted) {
    bool inside = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '[') inside = true;
        if (text[i] == ']') inside = false;
        if (!inside && wanted.find(text[i]) != std::string_view::npos) return i;
    }
    return text.size();
}

// The parts between separators that are outside [...].
std::vector<std::string_view> split_outside(std::string_view text, std::string_view separators) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t at = find_outside(text, separators);
        parts.push_back(text.substr(0, at));
        if (at == text.size()) return parts;
        text.remove_prefix(at + 1);
    }
}

// Cuts the part before `separator` off the front of `text`; the separator goes too.
std::string_view cut(std::string_view& text, char separator, bool& more) {
    const std::size_t at = text.find(separator);
    const std::string_view part = text.substr(0, at);
    more = at != std::string_view::npos;
    text.remove_prefix(more ? at + 1 : text.size());
    return part;
}

bool full(const Numbers& numbers, u32 max) {
    return numbers.low == 0 && numbers.high == max && numbers.stride == 1;
}

Error parse_number(std::string_view text, u32 low, u32 max, u32& out) {
    const std::optional<u32> value = nid_text::parse_base0(trim(text));
    if (value && *value >= low && *value <= max) {
        out = *value;
        return {};
    }
    return refuse(text, "not a number from " + std::to_string(low) + " to " + std::to_string(max));
}

// "5", "1-9", "1-9/2" or "*", as they stand inside brackets.
Error parse_numbers(std::string_view text, u32 max, Numbers& out) {
    if (trim(text) == "*") {
        out = Numbers{0, max, 1};
        return {};
    }
    std::string_view rest = text;
    bool is_range = false;
    bool has_stride = false;
    const std::string_view low = cut(rest, '-', is_range);
    if (Error error = parse_number(low, 0, max, out.low); !error.ok()) return error;
    out.high = out.low;
    if (!is_range) return {};
    const std::string_view high = cut(rest, '/', has_stride);
    if (Error error = parse_number(high, 0, max, out.high); !error.ok()) return error;
    if (out.low > out.high) return refuse(text, "the first number is greater than the last");
    if (!has_stride) return {};
    return parse_number(rest, 1, max, out.stride);
}

Error parse_component(std::string_view text, u32 max, Component& out) {
    const bool bracketed = text.size() >= 2 && text.front() == '[' && text.back() == ']';
    if (!bracketed) {
        Numbers numbers{0, max, 1};
        if (text != "*") {
            if (Error error = parse_number(text, 0, max, numbers.low); !error.ok()) return error;
            numbers.high = numbers.low;
        }
        out.assign(1, numbers);
        return {};
    }
    out.clear();
    std::string_view rest = text.substr(1, text.size() - 2);
    for (bool more = true; more;) {
        const std::string_view part = cut(rest, ',', more);
        Numbers numbers;
        if (Error error = parse_numbers(part, max, numbers); !error.ok()) return error;
        out.push_back(numbers);
    }
    const auto is_full = [&](const Numbers& numbers) { return full(numbers, max); };
    if (std::ranges::any_of(out, is_full)) out.assign(1, Numbers{0, max, 1});
    return {};
}

Error parse_net_of_range(std::string_view text, Net& out) {
    const auto* const entry = nid_text::find_net_prefix(text);
    if (entry == nullptr) {
        return refuse(text, "not a network; known are lo, tcp, o2ib, gni, gip, ptlf, kfi, efa and "
                            "bxi3f with a number");
    }
    out = Net::of(entry->type, 0);
    const std::string_view number = text.substr(entry->name.size());
    if (number.empty()) return {};
    const std::optional<u32> value = nid_text::parse_base0(number);
    if (entry->type == NetType::lo) return refuse(text, "lo takes no number");
    if (!value || *value > 0xffff) return refuse(text, "the network number must be 0 to 65535");
    out = Net::of(entry->type, static_cast<u16>(*value));
    return {};
}

std::string component_text(const Component& component, u32 max) {
    const auto one = [](const Numbers& numbers) {
        std::string text = std::to_string(numbers.low);
        if (numbers.high != numbers.low) text += '-' + std::to_string(numbers.high);
        if (numbers.high != numbers.low && numbers.stride != 1) {
            text += '/' + std::to_string(numbers.stride);
        }
        return text;
    };
    const Numbers& first = component.front();
    if (full(first, max)) return "*";
    if (component.size() == 1 && first.low == first.high) return one(first);
    std::string text;
    for (const Numbers& numbers : component) text += (text.empty() ? "[" : ",") + one(numbers);
    return text + ']';
}

u64 count_numbers(const Component& component) {
    u64 total = 0;
    for (const Numbers& numbers : component) {
        total += (u64{numbers.high} - numbers.low) / numbers.stride + 1;
    }
    return total;
}

// Every value, as often as the component names it.
std::vector<u32> values(const Component& component) {
    std::vector<u32> all;
    for (const Numbers& numbers : component) {
        for (u64 value = numbers.low; value <= numbers.high; value += numbers.stride) {
            all.push_back(static_cast<u32>(value));
        }
    }
    return all;
}

// The NID with all bits of its address behind the first `prefix` cleared; its size stays.
Nid without_host_bits(const Nid& nid, u32 prefix) {
    std::array<u8, 20> raw = nid.raw();
    for (u32 bit = prefix; bit < nid.address().size() * 8; ++bit) {
        raw[4 + bit / 8] = static_cast<u8>(raw[4 + bit / 8] & ~(0x80u >> bit % 8));
    }
    return Nid::from_raw(raw);
}

}  // namespace

Error NidList::parse(std::string_view text, NidList& out) {
    if (text.size() > text_bytes_max) {
        return Error{Status(-E2BIG), "a NID list has at most " + std::to_string(text_bytes_max) +
                                         " characters, not " + std::to_string(text.size())};
    }
    NidList list;
    for (text = trim(text); !text.empty(); text = trim(text)) {
        const std::string_view token = text.substr(0, find_outside(text, blanks));
        text.remove_prefix(token.size());
        Range range;
        if (Error error = parse_range(token, range); !error.ok()) {
            if (error.text.find(token) == std::string::npos) {
                error.text = "in \"" + std::string(token) + "\": " + error.text;
            }
            return error;
        }
        list.ranges_.push_back(std::move(range));
    }
    if (list.empty()) return refuse("", "a NID list names at least one range, such as *@tcp");
    out = std::move(list);
    return {};
}

Error NidList::parse_range(std::string_view token, Range& out) {
    const std::size_t at = token.find('@');
    if (at == std::string_view::npos) return refuse(token, "a network must follow, such as @tcp");
    if (Error error = parse_net_of_range(token.substr(at + 1), out.net); !error.ok()) return error;
    const std::string_view address = token.substr(0, at);
    if (address == "*") return {};
    if (address.find(':') != std::string_view::npos ||
        find_outside(address, "/") != address.size()) {
        return parse_mask(address, out);
    }
    out.kind = Kind::components;
    const AddressKind kind = nid_text::find_net(out.net.type())->kind;
    if (kind == AddressKind::numeric || kind == AddressKind::lo) {
        out.components.resize(1);
        Error error = parse_component(address, number_max, out.components[0]);
        if (error.ok() && full(out.components[0].front(), number_max)) out.kind = Kind::all;
        return error;
    }
    const std::vector<std::string_view> octets = split_outside(address, ".");
    if (octets.size() != 4) return refuse(token, "the address must be four numbers with dots");
    for (const std::string_view octet : octets) {
        Error error = parse_component(octet, octet_max, out.components.emplace_back());
        if (!error.ok()) return error;
    }
    return {};
}

Error NidList::parse_mask(std::string_view text, Range& out) {
    out.kind = Kind::mask;
    const std::size_t slash = std::min(text.find('/'), text.size());
    const std::string_view address = text.substr(0, slash);
    const AddressKind kind = nid_text::find_net(out.net.type())->kind;
    const bool is_ipv6 = text.find(':') != std::string_view::npos;
    if (is_ipv6 ? kind != AddressKind::ip : kind == AddressKind::numeric || kind == AddressKind::lo)
        return refuse(text, "this network has no such addresses");
    if (is_ipv6) {
        const auto six = nid_text::parse_ipv6(address);
        if (!six) return refuse(address, "not an IPv6 address");
        out.mask_nid = Nid::ipv6(out.net, *six);
    } else {
        const auto four = nid_text::parse_ipv4(address);
        if (!four) return refuse(address, "not an IPv4 address");
        out.mask_nid = Nid::ipv4(out.net, *four);
    }
    const u32 bits_max = is_ipv6 ? 128 : 32;
    out.mask_bits = bits_max;
    if (slash < text.size()) {
        const auto bits = nid_text::parse_decimal(text.substr(slash + 1));
        if (!bits || *bits < 1 || *bits > bits_max) {
            return refuse(text, "the prefix length must be 1 to " + std::to_string(bits_max));
        }
        out.mask_bits = *bits;
    }
    out.mask_nid = without_host_bits(out.mask_nid, out.mask_bits);
    return {};
}

bool NidList::Range::matches(const Nid& nid) const {
    if (nid.net() != net) return false;  // ANY is on no net
    if (kind == Kind::all) return true;
    if (kind == Kind::mask) return without_host_bits(nid, mask_bits) == mask_nid;
    const u32 address = nid.address4();
    for (std::size_t i = 0; i < components.size(); ++i) {
        const u32 value = components.size() == 1 ? address : address >> (24 - 8 * i) & octet_max;
        const auto has = [&](const Numbers& numbers) { return numbers.matches(value); };
        if (!std::ranges::any_of(components[i], has)) return false;
    }
    return true;
}

bool NidList::matches(const Nid& nid) const {
    return std::ranges::any_of(ranges_, [&](const Range& range) { return range.matches(nid); });
}

std::string NidList::Range::text() const {
    std::string address;
    if (kind == Kind::all) {
        address = "*";
    } else if (kind == Kind::mask) {
        const bool is_ipv6 = !mask_nid.is_nid4();
        address = is_ipv6 ? nid_text::ipv6_text(mask_nid.address().first<16>())
                          : nid_text::ipv4_text(mask_nid.address4());
        if (mask_bits != (is_ipv6 ? 128 : 32)) address += '/' + std::to_string(mask_bits);
    } else {
        const u32 max = components.size() == 1 ? number_max : octet_max;
        for (const Component& component : components) {
            address += (address.empty() ? "" : ".") + component_text(component, max);
        }
    }
    return address + '@' + to_text(net);
}

std::string NidList::text() const {
    std::string text;
    std::set<Net> done;
    for (const Range& first : ranges_) {
        if (!done.insert(first.net).second) continue;
        const auto covers_all = [&](const Range& range) {
            return range.net == first.net && range.kind == Kind::all;
        };
        const bool all = std::ranges::any_of(ranges_, covers_all);
        if (all) text += (text.empty() ? "*@" : " *@") + to_text(first.net);
        for (const Range& range : ranges_) {
            if (all || range.net != first.net) continue;
            text += (text.empty() ? "" : " ") + range.text();
        }
    }
    return text;
}

// How many NIDs append() would name; more than 2^32 counts as 2^32.
u64 NidList::count(const Range& range) {
    constexpr u64 most = u64{1} << 32;
    if (range.net == net_lo) return 1;
    if (range.kind == Kind::all) return most;
    if (range.kind == Kind::mask) {
        const u64 host_bits = range.mask_nid.address().size() * 8 - range.mask_bits;
        return host_bits >= 32 ? most : u64{1} << host_bits;
    }
    u64 total = 1;
    for (const Component& component : range.components) {
        if (total == most) break;
        total = std::min(most, total * std::min(most, count_numbers(component)));
    }
    return total;
}

void NidList::append(const Range& range, std::vector<Nid>& out) {
    if (range.net == net_lo) {
        if (range.matches(nid_lo())) out.push_back(nid_lo());
        return;
    }
    if (range.kind == Kind::mask) {
        for (u64 host = 0; host < count(range); ++host) {
            std::array<u8, 20> raw = range.mask_nid.raw();
            const std::size_t last = 4 + range.mask_nid.address().size() - 1;
            for (std::size_t i = 0; i < 4; ++i) raw[last - i] |= static_cast<u8>(host >> (8 * i));
            out.push_back(Nid::from_raw(raw));
        }
        return;
    }
    std::vector<u32> addresses(1, 0);
    for (const Component& component : range.components) {
        std::vector<u32> longer;
        for (const u32 address : addresses) {
            const u32 front = range.components.size() == 1 ? 0 : address << 8;
            for (const u32 value : values(component)) longer.push_back(front | value);
        }
        addresses = std::move(longer);
    }
    for (const u32 address : addresses) out.push_back(Nid::ipv4(range.net, address));
}

Error NidList::expand(std::vector<Nid>& out, std::size_t max) const {
    u64 total = 0;
    for (const Range& range : ranges_) {
        total += count(range);
        if (total > max) {
            return Error{Status(-E2BIG), "\"" + range.text() + "\": the list names more than " +
                                             std::to_string(max) + " NIDs"};
        }
    }
    std::vector<Nid> named;
    for (const Range& range : ranges_) append(range, named);
    std::set<Nid> seen;
    std::erase_if(named, [&](const Nid& nid) { return !seen.insert(nid).second; });
    out = std::move(named);
    return {};
}

}  // namespace ulnet
