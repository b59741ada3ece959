// Parser of cpu_pattern. Start-up only.
#include "cpt/pattern.h"

#include <algorithm>
#include <cerrno>

#include "cpt/base/text.h"

namespace ulnet {

namespace {

bool parse_number(std::string_view text, u32& out) {
    const Result<u64> number = parse_c_number(text, 0, std::numeric_limits<u32>::max());
    if (number.ok()) out = static_cast<u32>(*number);
    return number.ok();
}

// "3", "0-6", "0-6/2" or "*".
bool parse_range(std::string_view text, u32 last, std::vector<u32>& out) {
    u32 low = 0;
    u32 high = last;
    u32 stride = 1;
    if (const auto slash = text.find('/'); slash != std::string_view::npos) {
        if (!parse_number(trim(text.substr(slash + 1)), stride)) return false;
        text = trim(text.substr(0, slash));
    }
    if (text != "*") {
        const auto dash = text.find('-');
        if (!parse_number(trim(text.substr(0, dash)), low)) return false;
        high = low;
        if (dash != std::string_view::npos && !parse_number(trim(text.substr(dash + 1)), high))
            return false;
    }
    if (low > high || high > last || stride == 0 || stride > std::max(last, 1u)) return false;
    for (u64 number = low; number <= high; number += stride)
        out.push_back(static_cast<u32>(number));
    return true;
}

// Takes "[...]" from the front of `rest`.
bool take_brackets(std::string_view& rest, std::string_view& list) {
    if (rest.empty() || rest.front() != '[') return false;
    const auto close = rest.find(']');
    if (close == std::string_view::npos) return false;
    list = rest.substr(1, close - 1);
    rest = trim(rest.substr(close + 1));
    return true;
}

Status refuse(std::string& why, std::string_view text, const std::string& rule) {
    why = "cpu_pattern \"" + std::string(text) + "\": " + rule;
    return Status(-EINVAL);
}

bool is_letter(std::string_view text, char upper) {
    return !text.empty() && (text.front() & ~0x20) == upper;
}

}  // namespace

Result<std::vector<u32>> parse_number_list(std::string_view list, u32 last) {
    std::vector<u32> numbers;
    for (std::size_t at = 0;;) {
        const auto comma = list.find(',', at);
        const bool final_part = comma == std::string_view::npos;
        const auto part = list.substr(at, final_part ? std::string_view::npos : comma - at);
        if (!parse_range(trim(part), last, numbers)) return Status(-ERANGE);
        if (final_part) break;
        at = comma + 1;
    }
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
}

Result<CpuPattern> parse_cpu_pattern(std::string_view text, std::string& why) {
    CpuPattern pattern;
    std::string_view rest = trim(text);
    if (rest.empty()) return refuse(why, text, "blank; leave it empty for the automatic division");
    if (is_letter(rest, 'N')) {
        pattern.nodes = true;
        rest = trim(rest.substr(1));
        if (rest.empty()) return pattern;
    }
    if (is_letter(rest, 'X') || is_letter(rest, 'C')) {
        pattern.exclude =
            is_letter(rest, 'X') ? CpuPattern::Exclude::cpus : CpuPattern::Exclude::cores;
        rest = trim(rest.substr(1));
        if (!take_brackets(rest, pattern.exclude_list))
            return refuse(why, text, "X and C need a list in brackets, like X[0,4]");
        if (!rest.empty()) return refuse(why, text, "nothing may follow the list of X or C");
        return pattern;
    }
    while (!rest.empty()) {
        const auto bracket = rest.find('[');
        CpuPattern::Part part{};
        if (bracket == std::string_view::npos ||
            !parse_number(trim(rest.substr(0, bracket)), part.number))
            return refuse(why, text, "expected partition numbers with lists, like 0[0-3] 1[4-7]");
        rest.remove_prefix(bracket);
        if (!take_brackets(rest, part.list)) return refuse(why, text, "a bracket is not closed");
        pattern.parts.push_back(part);
    }
    return pattern;
}

}  // namespace ulnet
