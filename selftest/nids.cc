// Expansion of NID expressions. Each bracket is replaced by its numbers, the texts are then parsed
// as plain NIDs.
#include "selftest/nids.h"

#include <charconv>
#include <string>

namespace ulnet::lst {
namespace {

constexpr u32 number_max = 65535;

bool number(std::string_view text, u32& out) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc{} && end == text.data() + text.size() && out <= number_max;
}

// One part of a bracket: `3`, `1-5`, `1-9/2`.
bool add_range(std::string_view part, std::vector<u32>& out) {
    u32 low = 0, high = 0, step = 1;
    const std::size_t dash = part.find('-');
    if (dash == std::string_view::npos) {
        if (!number(part, low)) return false;
        out.push_back(low);
        return true;
    }
    const std::size_t slash = part.find('/', dash);
    if (!number(part.substr(0, dash), low) ||
        !number(part.substr(dash + 1, slash == std::string_view::npos ? slash : slash - dash - 1),
                high))
        return false;
    if (slash != std::string_view::npos && (!number(part.substr(slash + 1), step) || step == 0))
        return false;
    if (low >= high) return false;
    for (u32 value = low; value <= high; value += step) out.push_back(value);
    return true;
}

bool bracket(std::string_view inside, std::vector<u32>& out) {
    while (true) {
        const std::size_t comma = inside.find(',');
        if (!add_range(inside.substr(0, comma), out)) return false;
        if (comma == std::string_view::npos) return out.size() <= nids_max;
        inside.remove_prefix(comma + 1);
    }
}

std::string quoted(std::string_view text) {
    return "\"" + std::string(text) + "\"";
}

// Brackets only before the @: nets are plain.
Result<std::vector<std::string>> texts_of(std::string_view expression, std::string& why) {
    std::vector<std::string> texts{""};
    std::string_view rest = expression;
    while (!rest.empty()) {
        const std::size_t open = rest.find('[');
        for (std::string& text : texts) text += rest.substr(0, open);
        if (open == std::string_view::npos) break;
        const std::size_t close = rest.find(']', open);
        std::vector<u32> values;
        if (close == std::string_view::npos ||
            !bracket(rest.substr(open + 1, close - open - 1), values)) {
            why = "NIDs " + quoted(expression) +
                  ": brackets hold numbers and ranges a-b or a-b/step with a < b, as [1-5,7]";
            return Status(-EINVAL);
        }
        if (texts.size() * values.size() > nids_max) {
            why = "NIDs " + quoted(expression) + ": stands for more than " +
                  std::to_string(nids_max) + " NIDs";
            return Status(-E2BIG);
        }
        std::vector<std::string> more;
        for (const std::string& text : texts)
            for (const u32 value : values) more.push_back(text + std::to_string(value));
        texts = std::move(more);
        rest.remove_prefix(close + 1);
    }
    return texts;
}

}  // namespace

Result<std::vector<Nid>> expand_nids(std::string_view expression, std::string& why) {
    Result<std::vector<std::string>> texts = texts_of(expression, why);
    if (!texts.ok()) return texts.status();
    std::vector<Nid> nids;
    for (const std::string& text : *texts) {
        const Result<Nid> nid = parse_nid(text);
        if (!nid.ok() || nid->any()) {
            why = "NID " + quoted(text) + ": not of the form ADDRESS@NET, as 10.77.1.2@tcp";
            return Status(-EINVAL);
        }
        if (nid->is_lo() && !text.starts_with("0@")) {
            why = "NID " + quoted(text) + ": the loopback network has one address, 0@lo";
            return Status(-EINVAL);
        }
        if (!nid->is_nid4()) {
            why = "NID " + quoted(text) + ": self test carries 4-byte addresses only";
            return Status(-EAFNOSUPPORT);
        }
        nids.push_back(*nid);
    }
    return nids;
}

}  // namespace ulnet::lst
