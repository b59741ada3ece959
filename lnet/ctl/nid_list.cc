// Expands NID expressions. Control strand and tools; no state.
#include "lnet/ctl/nid_list.h"

#include <charconv>

namespace ulnet::ctl {
namespace {

bool number(std::string_view& rest, u32& out) {
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
    if (error != std::errc{}) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    return true;
}

bool take(std::string_view& rest, char wanted) {
    if (!rest.starts_with(wanted)) return false;
    rest.remove_prefix(1);
    return true;
}

// The numbers of "1-5/2,9", the inside of a pair of brackets.
bool expand_brackets(std::string_view rest, std::vector<u32>& out) {
    do {
        u32 first = 0, last = 0, stride = 1;
        if (!number(rest, first)) return false;
        last = first;
        if (take(rest, '-') && !number(rest, last)) return false;
        if (take(rest, '/') && !number(rest, stride)) return false;
        if (first > last || stride == 0 || (last - first) / stride >= nid_list_max) return false;
        for (u64 at = first; at <= last; at += stride) out.push_back(static_cast<u32>(at));
    } while (take(rest, ','));
    return rest.empty() && out.size() <= nid_list_max;
}

// Replaces the first pair of brackets by each of its numbers, until none is left.
bool expand_one(std::string_view item, std::vector<ProcessId>& out, std::string& why) {
    std::vector<std::string> texts{std::string(item)};
    for (std::size_t open; (open = texts.front().find('[')) != std::string::npos;) {
        const std::size_t close = texts.front().find(']', open);
        std::vector<u32> numbers;
        if (close == std::string::npos ||
            !expand_brackets(
                std::string_view(texts.front()).substr(open + 1, close - open - 1), numbers)) {
            why = "'" + std::string(item) + "': brackets hold numbers, ranges and strides, as in " +
                  "10.0.0.[1-5,7,10-20/2]@tcp, together at most " + std::to_string(nid_list_max);
            return false;
        }
        if (texts.size() * numbers.size() > nid_list_max) {
            why = "'" + std::string(item) + "' names more than " + std::to_string(nid_list_max) +
                  " NIDs";
            return false;
        }
        std::vector<std::string> next;
        for (const std::string& text : texts) {
            // The text before the first bracket has the same shape in all of them.
            const std::size_t from = text.find('['), to = text.find(']', from);
            for (const u32 value : numbers)
                next.push_back(text.substr(0, from) + std::to_string(value) + text.substr(to + 1));
        }
        texts = std::move(next);
    }
    for (const std::string& text : texts) {
        ProcessId id{{}, pid_lustre};
        std::string_view nid_text = text;
        if (const std::size_t dash = text.find('-'); dash != std::string::npos && dash < text.find('@')) {
            std::string_view pid = std::string_view(text).substr(0, dash);
            if (number(pid, id.pid) && pid.empty()) nid_text.remove_prefix(dash + 1);
        }
        const Result<Nid> nid = parse_nid(nid_text);
        if (!nid.ok() || nid->any()) {
            why = "'" + text + "' is not a NID; a NID is ADDRESS@NET, for example 192.168.10.1@tcp";
            return false;
        }
        id.nid = *nid;
        out.push_back(id);
    }
    return true;
}

}  // namespace

bool expand_nids(std::string_view expression, std::vector<ProcessId>& out, std::string& why) {
    std::string item;
    int depth = 0;
    for (std::size_t i = 0; i <= expression.size(); ++i) {
        const char c = i < expression.size() ? expression[i] : ',';
        depth += c == '[' ? 1 : c == ']' ? -1 : 0;
        if (c != ',' || depth > 0) {
            item += c;
            if (i < expression.size()) continue;
        }
        if (item.empty()) {
            why = "'" + std::string(expression) + "': a NID is missing";
            return false;
        }
        if (!expand_one(item, out, why)) return false;
        if (out.size() > nid_list_max) {
            why = "more than " + std::to_string(nid_list_max) + " NIDs";
            return false;
        }
        item.clear();
    }
    return true;
}

}  // namespace ulnet::ctl
