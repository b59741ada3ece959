// `lst bench`: finds the nodes, runs the node's bench verb for each size and direction, prints.
#include "tools/lst_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>

#include "lnet/nid.h"

namespace ulnet::tools {
namespace {

using ctl::Value;

constexpr std::size_t nodes_max = 16;  // sockets looked at
constexpr Duration look_silence = std::chrono::seconds(2);
constexpr Duration bench_silence = std::chrono::seconds(90);  // setting up may wait for dead peers
constexpr double seconds_max = 3600;

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts{""};
    for (const char c : text) {
        if (c == ',')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

std::string size_text(i64 bytes) {
    if (bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "M";
    if (bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "K";
    return std::to_string(bytes);
}

bool parse_sizes(const std::string& text, std::vector<i64>& sizes) {
    sizes.clear();
    for (const std::string& part : split(text)) {
        i64 bytes = 0;
        if (!parse_size(part, bytes) || bytes < 8 || bytes > (1 << 20) || bytes % 8 != 0)
            return false;
        sizes.push_back(bytes);
    }
    return !sizes.empty();
}

bool parse_tests(const std::string& text, std::vector<std::string>& tests) {
    tests = split(text);
    for (std::string& test : tests) {
        if (test == "brw") test = "write";
        if (test != "read" && test != "write" && test != "ping") return false;
    }
    return true;
}

bool parse_seconds(const std::string& text, double& seconds) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    return error == std::errc{} && end == text.data() + text.size() && seconds >= 0.1 &&
           seconds <= seconds_max;
}

double per_second(const Value& reply, std::string_view key) {
    const double seconds = reply["seconds"].as_real();
    return seconds > 0 ? reply[key].as_real() / seconds : 0;
}

// One line of progress: over itself on a terminal, one after the other elsewhere.
class ProgressLine {
 public:
    ProgressLine(std::string label, bool silent) : label_(std::move(label)), silent_(silent) {}
    ~ProgressLine() {
        if (terminal_ && shown_) std::cerr << "\r\033[K" << std::flush;
    }
    void show(const Value& part) {
        if (silent_) return;
        const std::string line =
            fmt::format("{}: {:.0f} s, {:.1f} MiB/s, {:.0f} RPC/s, {} errors", label_,
                        part["seconds"].as_real(), per_second(part, "bytes") / (1 << 20),
                        per_second(part, "rpcs"), part["errors"].as_int());
        std::cerr << (terminal_ ? "\r\033[K" : "") << line << (terminal_ ? "" : "\n") << std::flush;
        shown_ = true;
    }

 private:
    const std::string label_;
    const bool silent_;
    const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
    bool shown_ = false;
};

// A node that this process can ask.
struct Reached {
    ctl::Client client;
    std::vector<std::string> nids;
    Value cpts_before;
    bool has(const std::string& nid) const {
        return std::find(nids.begin(), nids.end(), nid) != nids.end();
    }
};

std::vector<std::string> nids_of(ctl::Client& client) {
    std::vector<std::string> nids;
    const ctl::Client::Answer answer = client.call("net", "show", Value::map(), look_silence);
    for (const Value& net : answer.value["net"].items())
        for (const Value& ni : net["local NI(s)"].items()) nids.push_back(ni["nid"].as_text());
    return nids;
}

// The node itself first, then those beside it (sockets in the same folder).
std::vector<Reached> reach_nodes(Connection& connection, Error& error) {
    std::vector<Reached> nodes;
    std::string why;
    const Result<std::string> own = connection.path(why);
    if (!own.ok()) {
        error = {own.status(), why};
        return nodes;
    }
    std::vector<std::string> paths{*own};
    std::error_code ignored;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(*own).parent_path(), ignored))
        if (entry.path().extension() == ".sock" && entry.path() != *own)
            paths.push_back(entry.path());
    std::sort(paths.begin() + 1, paths.end());
    if (paths.size() > nodes_max) paths.resize(nodes_max);
    for (const std::string& path : paths) {
        Result<ctl::Client> client = ctl::Client::open(path, look_silence, why);
        if (!client.ok()) {
            if (nodes.empty()) {  // the one that was asked for
                error = {client.status(), why};
                return nodes;
            }
            continue;
        }
        std::vector<std::string> nids = nids_of(*client);
        nodes.push_back({std::move(*client), std::move(nids), {}});
    }
    return nodes;
}

Value show_cpts(ctl::Client& client) {
    return client.call("cpt", "show", Value::map(), look_silence).value["cpt"];
}

// A failure, on stderr.
void say(bool json, int code, const std::string& text) {
    std::cerr << (json ? failure_json(code, text) : "lst: " + text + "\n");
}

// Runs one line of the table; false when it failed.
bool run_one(Reached& console, const BenchOptions& options, const std::string& test, i64 size,
             Value& reply) {
    const std::string label = test == "ping" ? test : test + " " + size_text(size);
    Value args = Value::map();
    args.set("client", options.client);
    args.set("server", options.server);
    args.set("test", test == "ping" ? "ping" : "brw");
    if (test != "ping") {
        args.set("mode", test);
        args.set("size", size);
        args.set("check", options.check);
    }
    args.set("concurrency", options.concurrency);
    if (options.seconds == static_cast<double>(static_cast<i64>(options.seconds)))
        args.set("seconds", static_cast<i64>(options.seconds));
    else
        args.set("seconds", options.seconds);
    ProgressLine line(label, options.json);
    Value samples = Value::list();
    ctl::Client::Answer answer =
        console.client.call("lst", "bench", std::move(args), bench_silence, [&](const Value& part) {
            line.show(part);
            samples.push(part);
        });
    if (!answer.ok()) {
        LstCommand command;
        command.name = command.verb = "bench";
        if (options.json)
            say(true, answer.error.status.code(), answer.error.text);
        else
            std::cerr << "lst: " << format_error(command, answer.error).err;
        return false;
    }
    reply = std::move(answer.value);
    reply.set("samples", std::move(samples));
    const i64 errors = reply["errors"].as_int(), rpcs = reply["rpcs"].as_int();
    if (errors > 0) say(options.json, -EIO, fmt::format("{}: {} errors", label, errors));
    if (rpcs <= 0) say(options.json, -EIO, label + ": no traffic");
    return errors == 0 && rpcs > 0;
}

Value busy_of(std::vector<Reached>& nodes, const BenchOptions& options) {
    Value list = Value::list();
    for (Reached& node : nodes) {
        if (!node.has(options.client) && !node.has(options.server)) continue;
        Value entry = Value::map();
        entry.set("node", node.client.node_name());
        entry.set("nid", node.has(options.client) ? options.client : options.server);
        entry.set("workers", busy_between(node.cpts_before, show_cpts(node.client)));
        list.push(std::move(entry));
    }
    return list;
}

void print_busy(const Value& nodes) {
    for (const Value& node : nodes.items()) {
        std::cout << fmt::format(
            "\nworkers of {} ({}):\n  cpt worker  busy      tasks  hand-offs\n",
            node["node"].as_text(), node["nid"].as_text());
        for (const Value& worker : node["workers"].items())
            std::cout << fmt::format("  {:>3} {:>6} {:>4.0f}% {:>10} {:>10}\n",
                                     worker["cpt"].as_int(), worker["worker"].as_int(),
                                     worker["busy_percent"].as_real(), worker["tasks"].as_int(),
                                     worker["hand_offs"].as_int());
    }
}

}  // namespace

bool parse_bench(const Words& words, BenchOptions& out, std::string& complaint) {
    constexpr LongOption options[] = {{"sizes", required_argument, 's'},
                                      {"seconds", required_argument, 't'},
                                      {"concurrency", required_argument, 'c'},
                                      {"check", required_argument, 'k'},
                                      {"test", required_argument, 'T'},
                                      {"json", no_argument, 'j'},
                                      {"help", no_argument, 'h'}};
    std::vector<Parsed> parsed;
    complaint.clear();
    out.json = std::find(words.begin(), words.end(), "--json") != words.end();
    if (!parse_options(words, options, parsed, complaint)) {
        complaint = words[0] + ": " + complaint;
        return false;
    }
    for (const Parsed& each : parsed) out.help = out.help || each.letter == 'h';
    if (out.help) return true;
    std::vector<std::string> nids;
    const auto bad = [&](const char* option, const std::string& value, const char* allowed) {
        complaint = fmt::format("{}: '{}' is not allowed; allowed: {}", option, value, allowed);
        return false;
    };
    for (const Parsed& each : parsed) {
        const std::string& value = each.value;
        switch (each.letter) {
        case 's':
            if (!parse_sizes(value, out.sizes))
                return bad("--sizes", value, "sizes of 8 ... 1M, multiples of 8, as 4K,64K,1M");
            break;
        case 't':
            if (!parse_seconds(value, out.seconds)) return bad("--seconds", value, "0.1 ... 3600");
            break;
        case 'c':
            if (!parse_int(value, out.concurrency) || out.concurrency < 1 || out.concurrency > 1024)
                return bad("--concurrency", value, "1 ... 1024");
            break;
        case 'k':
            out.check = value;
            if (value != "full" && value != "simple" && value != "none")
                return bad("--check", value, "full, simple, none");
            break;
        case 'T':
            if (!parse_tests(value, out.tests))
                return bad("--test", value, "read, write, ping, or several with commas");
            break;
        case 'j':
            out.json = true;
            break;
        default:
            nids.push_back(value);
        }
    }
    if (nids.size() != 2) {
        complaint = "bench needs two NIDs: that of the client and that of the server";
        return false;
    }
    for (std::string& nid : nids) {
        if (nid.starts_with("12345-")) nid.erase(0, 6);
        const Result<Nid> parsed_nid = parse_nid(nid);
        if (!parsed_nid.ok() || parsed_nid->any())
            return bad("NID", nid, "a NID, for example 192.168.10.1@tcp");
        nid = to_text(*parsed_nid);
    }
    out.client = nids[0];
    out.server = nids[1];
    return true;
}

std::string bench_head(const BenchOptions& options) {
    return fmt::format("client {}, server {}, concurrency {}, check {}, {:g} s each\n"
                       "{:<32} {:>6} {:>10} {:>10} {:>10} {:>10} {:>7}\n",
                       options.client, options.server, options.concurrency, options.check,
                       options.seconds, "direction", "size", "MiB/s", "RPC/s", "p50 us", "p99 us",
                       "errors");
}

std::string bench_line(const BenchOptions& options, const std::string& test, const Value& reply) {
    const bool ping = test == "ping";
    const std::string way = test == "read" ? options.server + " -> " + options.client
                                           : options.client + " -> " + options.server;
    const auto us = [&](std::string_view key) {
        return reply.has(key) ? fmt::format("{:.1f}", reply[key].as_real() / 1e3)
                              : std::string("-");
    };
    return fmt::format("{:<32} {:>6} {:>10} {:>10.0f} {:>10} {:>10} {:>7}  {}\n", way,
                       ping ? "-" : size_text(reply["size"].as_int()),
                       ping ? "-" : fmt::format("{:.1f}", per_second(reply, "bytes") / (1 << 20)),
                       per_second(reply, "rpcs"), us("latency_p50_ns"), us("latency_p99_ns"),
                       reply["errors"].as_int(), test);
}

Value bench_json(const std::string& test, const Value& reply) {
    Value run = Value::map();
    run.set("test", test);
    const bool ping = test == "ping";  // carries no bulk data: no size, no check, no bandwidth
    for (const std::string_view key :
         {"client", "server", "size", "check", "concurrency", "seconds", "bytes", "rpcs", "errors"})
        if (reply.has(key) && !(ping && (key == "size" || key == "check" || key == "bytes")))
            run.set(key, reply[key]);
    if (!ping) run.set("mib_per_s", per_second(reply, "bytes") / (1 << 20));
    run.set("rpc_per_s", per_second(reply, "rpcs"));
    const auto us = [&](std::string_view from, std::string_view to) {
        if (reply.has(from)) run.set(to, reply[from].as_real() / 1e3);
    };
    us("latency_p50_ns", "p50_us");
    us("latency_p99_ns", "p99_us");
    us("latency_max_ns", "max_us");
    run.set("samples", reply["samples"]);
    return run;
}

Value busy_between(const Value& before, const Value& after) {
    Value list = Value::list();
    for (const Value& cpt : after.items()) {
        for (const Value& worker : cpt["workers"].items()) {
            Value was = Value::map();
            for (const Value& old_cpt : before.items())
                for (const Value& old : old_cpt["workers"].items())
                    if (old_cpt["cpt"] == cpt["cpt"] && old["worker"] == worker["worker"])
                        was = old;
            const auto grown = [&](std::string_view key) {
                return worker[key].as_int() - was[key].as_int();
            };
            const double total = static_cast<double>(grown("total_ns"));
            const double busy = static_cast<double>(grown("busy_ns"));
            Value entry = Value::map();
            entry.set("cpt", cpt["cpt"]);
            entry.set("worker", worker["worker"]);
            entry.set("busy_percent", total > 0 ? 100 * busy / total : 0.0);
            entry.set("tasks", grown("tasks"));
            entry.set("hand_offs", grown("hand_offs"));
            list.push(std::move(entry));
        }
    }
    return list;
}

int run_bench(const Common& common, Connection& connection, const BenchOptions& asked) {
    BenchOptions options = asked;
    options.json = asked.json || common.json;
    Error error;
    std::vector<Reached> nodes = reach_nodes(connection, error);
    if (nodes.empty()) {
        say(options.json, error.status.code(), error.text);
        return lst_failed;
    }
    // Latencies are measured by the client, so the node that is the client makes the best console.
    Reached* console = &nodes.front();
    for (Reached& node : nodes) {
        if (!console->has(options.client) && node.has(options.client)) console = &node;
        node.cpts_before = show_cpts(node.client);
    }
    const bool json = options.json;
    if (!json) std::cout << bench_head(options) << std::flush;
    Value runs = Value::list();
    bool good = true;
    for (const std::string& test : options.tests) {
        for (const i64 size : options.sizes) {
            Value reply;
            const bool fine = run_one(*console, options, test, size, reply);
            good = good && fine;
            if (reply.is_null()) {  // it did not even start: neither will others
                if (json) std::cout << to_json(Value::map({{"runs", runs}})) << "\n";
                return lst_failed;
            }
            if (!json) std::cout << bench_line(options, test, reply) << std::flush;
            runs.push(bench_json(test, reply));
            if (test == "ping") break;  // has no size
        }
    }
    const Value busy = busy_of(nodes, options);
    if (json)
        std::cout << to_json(Value::map({{"runs", runs}, {"nodes", busy}})) << "\n";
    else
        print_busy(busy);
    return good ? 0 : lst_failed;
}

}  // namespace ulnet::tools
