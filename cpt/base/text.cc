// Strict number parsing over std::from_chars. Pure; any thread.
#include "cpt/base/text.h"

#include <array>
#include <cerrno>
#include <charconv>

namespace ulnet {

namespace {

template <class T> Result<T> parse_whole(std::string_view text, int base, T least, T most) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value, base);
    if (rest != end || error == std::errc::invalid_argument) return Status(-EINVAL);
    if (error == std::errc::result_out_of_range) return Status(-ERANGE);
    if (value < least || value > most) return Status(-ERANGE);
    return value;
}

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_word(std::string_view text, std::string_view lower_case) {
    if (text.size() != lower_case.size()) return false;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (lower(text[i]) != lower_case[i]) return false;
    return true;
}

// The digits at the front; the rest is the unit.
std::string_view take_digits(std::string_view& text) {
    std::size_t count = 0;
    while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
    const std::string_view digits = text.substr(0, count);
    text.remove_prefix(count);
    return digits;
}

}  // namespace

std::string_view trim(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

Result<u64> parse_u64(std::string_view text, u64 least, u64 most) {
    return parse_whole<u64>(text, 10, least, most);
}

Result<i64> parse_i64(std::string_view text, i64 least, i64 most) {
    return parse_whole<i64>(text, 10, least, most);
}

Result<u64> parse_c_number(std::string_view text, u64 least, u64 most) {
    if (text.size() > 2 && text[0] == '0' && lower(text[1]) == 'x')
        return parse_whole<u64>(text.substr(2), 16, least, most);
    if (text.size() > 1 && text[0] == '0') return parse_whole<u64>(text, 8, least, most);
    return parse_whole<u64>(text, 10, least, most);
}

Result<u64> parse_size(std::string_view text, u64 least, u64 most) {
    const Result<u64> number = parse_u64(take_digits(text));
    if (!number.ok()) return number;
    constexpr std::string_view letters = "kmgt";
    u32 shift = 0;
    if (!text.empty()) {
        const auto place = letters.find(lower(text.front()));
        if (place == std::string_view::npos) return Status(-EINVAL);
        shift = static_cast<u32>(place + 1) * 10;
        text.remove_prefix(1);
        if (!text.empty() && !same_word(text, "b") && !same_word(text, "ib"))
            return Status(-EINVAL);
    }
    if (*number > std::numeric_limits<u64>::max() >> shift) return Status(-ERANGE);
    const u64 value = *number << shift;
    if (value < least || value > most) return Status(-ERANGE);
    return value;
}

Result<Duration> parse_duration(std::string_view text, Duration bare, Duration least,
                                Duration most) {
    struct Unit {
        std::string_view name;
        Duration length;
    };
    using std::chrono::hours;
    const std::array<Unit, 8> units = {
        Unit{"", bare},
        Unit{"ns", std::chrono::nanoseconds(1)},
        Unit{"us", std::chrono::microseconds(1)},
        Unit{"ms", std::chrono::milliseconds(1)},
        Unit{"s", std::chrono::seconds(1)},
        Unit{"m", std::chrono::minutes(1)},
        Unit{"h", hours(1)},
        Unit{"d", hours(24)},
    };
    const Result<u64> number = parse_u64(take_digits(text));
    if (!number.ok()) return number.status();
    for (const Unit& unit : units) {
        if (text != unit.name) continue;
        const u64 limit = static_cast<u64>(Duration::max().count() / unit.length.count());
        if (*number > limit) return Status(-ERANGE);
        const Duration value = static_cast<i64>(*number) * unit.length;
        if (value < least || value > most) return Status(-ERANGE);
        return value;
    }
    return Status(-EINVAL);
}

}  // namespace ulnet
