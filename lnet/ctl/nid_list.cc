// Expands NID expressions. Control strand and tools; no state.
#include "lnet/ctl/nid_list.h"

#include <cerrno>
#include <charconv>

#include "lnet/nidrange.h"

namespace ulnet::ctl {
namespace {

// Takes "PID-" off the front when it is there.
u32 take_pid(std::string_view& item) {
    u32 pid = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), pid);
    if (error != std::errc{} || end == item.data() + item.size() || *end != '-') return pid_lustre;
    item.remove_prefix(static_cast<std::size_t>(end - item.data()) + 1);
    return pid;
}

Error expand_one(std::string_view item, std::vector<ProcessId>& out) {
    const std::string shown(item);
    const u32 pid = take_pid(item);
    std::vector<Nid> nids;
    if (const Result<Nid> nid = parse_nid(item); nid.ok() && !nid->any()) {
        nids.push_back(*nid);
    } else {
        NidList list;
        Error error = NidList::parse(item, list);
        if (error.ok()) error = list.expand(nids, nid_list_max);
        if (error.ok() && nids.empty()) error.status = Status(-EINVAL);
        if (!error.ok())
            return {error.status, "'" + shown + "' is not allowed; allowed: NIDs, for example " +
                                      "192.168.10.[1-4]@tcp" +
                                      (error.text.empty() ? "" : " (" + error.text + ")")};
    }
    for (const Nid& nid : nids) out.push_back({nid, pid});
    if (out.size() > nid_list_max)
        return {Status(-E2BIG), "more than " + std::to_string(nid_list_max) + " NIDs"};
    return {};
}

}  // namespace

Error expand_nids(std::string_view expression, std::vector<ProcessId>& out) {
    std::size_t from = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= expression.size(); ++i) {
        const bool end = i == expression.size();
        if (!end) depth += expression[i] == '[' ? 1 : expression[i] == ']' ? -1 : 0;
        if (!end && (expression[i] != ',' || depth > 0)) continue;
        if (Error error = expand_one(expression.substr(from, i - from), out); !error.ok())
            return error;
        from = i + 1;
    }
    return {};
}

}  // namespace ulnet::ctl
