// `lst stat`: rates between two samples of the counters.
#include <fmt/format.h>

#include <algorithm>

#include "tools/lst_format.h"

namespace ulnet::tools {
namespace {

using ctl::Value;

struct Spread {
    double average = 0, low = 0, high = 0;
    void add(double value, std::size_t count) {
        low = count == 0 ? value : std::min(low, value);
        high = count == 0 ? value : std::max(high, value);
        average += (value - average) / static_cast<double>(count + 1);
    }
};
// What the nodes of one group received and sent, a second.
struct Rates {
    Spread messages_in, messages_out, bytes_in, bytes_out;
    std::size_t nodes = 0;
};

bool failed_node(const Value& node) {
    return node["rpc_errno"].as_int() != 0 || node["framework_errno"].as_int() != 0;
}

const Value* find_node(const Value& group, const std::string& id) {
    for (const Value& node : group["nodes"].items())
        if (node["id"].as_text() == id) return &node;
    return nullptr;
}

// Those that failed in either sample, as report_failures() takes them.
Value failures_of(const Value& before, const Value& after) {
    Value list = Value::list();
    for (const Value& node : after["nodes"].items()) {
        const Value* old = find_node(before, node["id"].as_text());
        if (failed_node(node))
            list.push(node);
        else if (old != nullptr && failed_node(*old))
            list.push(*old);
    }
    return list;
}

// Message counters and the clock are 32 bits wide on the wire and wrap; lengths are 64 bits.
double difference32(const Value& before, const Value& after, std::string_view key) {
    return static_cast<u32>(static_cast<u32>(after[key].as_int()) -
                            static_cast<u32>(before[key].as_int()));
}
double difference64(const Value& before, const Value& after, std::string_view key) {
    return static_cast<double>(after[key].as_int() - before[key].as_int());
}

// False when the nodes of the group are not those of the sample before.
bool rates_of(const Value& before, const Value& after, double mega, Rates& rates,
              std::size_t& failed) {
    if (before["nodes"].size() != after["nodes"].size()) return false;
    for (const Value& node : after["nodes"].items()) {
        const Value* old = find_node(before, node["id"].as_text());
        if (old == nullptr) return false;
        if (failed_node(node) || failed_node(*old)) {
            ++failed;
            continue;
        }
        const double seconds =
            difference32((*old)["framework"], node["framework"], "running_ms") / 1000;
        if (seconds <= 0) continue;
        const Value &was = (*old)["lnet"], &is = node["lnet"];
        rates.messages_in.add(difference32(was, is, "recv_count") / seconds, rates.nodes);
        rates.messages_out.add(difference32(was, is, "send_count") / seconds, rates.nodes);
        rates.bytes_in.add(difference64(was, is, "recv_length") / seconds / mega, rates.nodes);
        rates.bytes_out.add(difference64(was, is, "send_length") / seconds / mega, rates.nodes);
        ++rates.nodes;
    }
    return true;
}

// Which of several columns or lines to show: those asked for, all when none is.
struct Wanted {
    explicit Wanted(const std::set<int>& flags) : flags_(flags) {}
    bool of(int letter, std::initializer_list<int> group) const {
        bool any = false;
        for (const int each : group) any = any || flags_.contains(each);
        return !any || flags_.contains(letter);
    }

 private:
    const std::set<int>& flags_;
};

std::string rate_line(const char* label, const Spread& spread, const Wanted& wanted) {
    std::string line = label;
    if (wanted.of('g', {'g', 'n', 'x'}))
        line += fmt::format("Avg: {:<8.0f} RPC/s ", spread.average);
    if (wanted.of('n', {'g', 'n', 'x'})) line += fmt::format("Min: {:<8.0f} RPC/s ", spread.low);
    if (wanted.of('x', {'g', 'n', 'x'})) line += fmt::format("Max: {:<8.0f} RPC/s", spread.high);
    return line + "\n";
}

std::string bandwidth_line(const char* label, const Spread& spread, const Wanted& wanted,
                           const char* unit) {
    std::string line = label;
    if (wanted.of('g', {'g', 'n', 'x'}))
        line += fmt::format("Avg: {:<8.2f} {} ", spread.average, unit);
    if (wanted.of('n', {'g', 'n', 'x'})) line += fmt::format("Min: {:<8.2f} {} ", spread.low, unit);
    if (wanted.of('x', {'g', 'n', 'x'}))
        line += fmt::format("Max: {:<8.2f} {} ", spread.high, unit);
    return line + "\n";
}

}  // namespace

Printed format_stat(const LstCommand& command, const Value& before, const Value& after) {
    constexpr double mebi = 1 << 20, mega = 1e6;
    const bool decimal = command.flags.contains('m');
    const Wanted wanted(command.flags);
    // -c alone asks for counters that nobody prints.
    const bool lnet = wanted.of('l', {'l', 'c'});
    Printed printed;
    for (const Value& group : after["groups"].items()) {
        const std::string& name = group["name"].as_text();
        const Value* old = nullptr;
        for (const Value& each : before["groups"].items())
            if (each["name"].as_text() == name) old = &each;
        report_skipped(group["skipped"], "stat", printed);
        Rates rates;
        std::size_t failed = 0;
        if (old == nullptr || !rates_of(*old, group, decimal ? mega : mebi, rates, failed)) {
            printed.err += "Group is changed, re-run stat\n";
            continue;
        }
        if (failed > 0) {
            report_failures(failures_of(*old, group), "stat", printed);
            printed.err += fmt::format("Failed to stat on {} nodes\n", failed);
            printed.code = lst_rpc_failed;
        }
        if (!lnet) continue;
        const bool in = wanted.of('r', {'r', 'w'}), out = wanted.of('w', {'r', 'w'});
        if (wanted.of('a', {'a', 'b'})) {
            printed.out += fmt::format("[LNet Rates of {}]\n", name);
            if (in) printed.out += rate_line("[R] ", rates.messages_in, wanted);
            if (out) printed.out += rate_line("[W] ", rates.messages_out, wanted);
        }
        if (wanted.of('b', {'a', 'b'})) {
            const char* unit = decimal ? "MB/s " : "MiB/s";
            printed.out += fmt::format("[LNet Bandwidth of {}]\n", name);
            if (in) printed.out += bandwidth_line("[R] ", rates.bytes_in, wanted, unit);
            if (out) printed.out += bandwidth_line("[W] ", rates.bytes_out, wanted, unit);
        }
    }
    return printed;
}

}  // namespace ulnet::tools
