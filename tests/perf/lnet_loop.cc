// Our side of a benchmark of a driver: a node that serves PUTs and GETs, and one that makes them.
//
//   lnet_loop CONFIG SOCKET serve DEPTH BYTES              until its standard input ends
//   lnet_loop CONFIG SOCKET write|read NID DEPTH BYTES SECONDS
//   lnet_loop CONFIG SOCKET ping NID BYTES SECONDS
//
// write and read: PUTs and GETs of BYTES, DEPTH at a time, each between a buffer of its own here
// and one there. ping: PUTs of BYTES to and fro. Prints MiB/s and operations a second, or the
// median one-way time, as JSON.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "cpt/base/log.h"
#include "cpt/threads.h"
#include "tools/daemon.h"

namespace ulnet::perf {
namespace {

constexpr PortalId portal = 20, portal_pong = 21;
constexpr u32 depth_max = 64;
using Clock = std::chrono::steady_clock;

void must(Status status, const char* what) {
    if (status.ok()) return;
    std::fprintf(stderr, "lnet_loop: %s: %s\n", what, status.text());
    std::_Exit(1);
}

struct Buffer {
    explicit Buffer(u32 size) : bytes(size, std::byte{1}), mem(bytes.data(), size) {}
    std::vector<std::byte> bytes;
    const Mem mem;
};

// What takes PUTs and answers GETs of one slot. A portal of its own for pings: these are answered
// by a PUT of the same size.
class Served {
 public:
    Served(Node& node, u32 slot, u32 bytes) : node_(node), buffer_(bytes) {
        attach(portal, slot, {.put = true, .get = true, .manage_remote = true}, nullptr);
        if (slot == 0) attach(portal_pong, 0, {.put = true, .manage_remote = true}, &pinged);
    }

 private:
    void attach(PortalId at, u64 bits, const MdOptions& options, EventFn handler) {
        Result<Me> me = node_.attach(at, {.from = {}, .bits = bits}, Unlink::retain);
        must(me.status(), "attach");
        MdSpec spec;
        spec.mem = &buffer_.mem;
        spec.options = options;
        spec.handler = handler;
        spec.user = this;
        Result<Md> md = node_.attach(*me, spec);
        must(md.status(), "attach");
        mes_.push_back(std::move(*me));
        mds_.push_back(std::move(*md));
    }
    static void pinged(const Event& event) {
        if (event.kind != Event::Kind::put) return;
        auto& self = *static_cast<Served*>(event.user);
        MdSpec spec;
        spec.mem = &self.buffer_.mem;
        spec.threshold = 1;
        spec.options.auto_unlink = true;
        Result<Md> md = self.node_.bind(spec);
        must(md.status(), "bind");
        must(self.node_.put(*md, {.to = event.initiator, .portal = portal_pong, .from = {}}),
             "put");
        md->release();
    }

    Node& node_;
    Buffer buffer_;
    std::vector<Me> mes_;
    std::vector<Md> mds_;
};

// One operation after the other between a buffer here and one there. Its events come one by one.
class Slot {
 public:
    Slot(Node& node, const Nid& to, u32 slot, u32 bytes, bool reads, std::atomic<u64>& done)
        : node_(node), to_(to), slot_(slot), reads_(reads), buffer_(bytes), done_(done) {}
    void begin() {
        MdSpec spec;
        spec.mem = &buffer_.mem;
        spec.handler = [](const Event& event) { static_cast<Slot*>(event.user)->told(event); };
        spec.user = this;
        Result<Md> md = node_.bind(spec);
        must(md.status(), "bind");
        md_ = std::move(*md);
        go();
    }

 private:
    void go() {
        const ProcessId to{to_, pid_lustre};
        must(reads_ ? node_.get(md_, {.to = to, .portal = portal, .match_bits = slot_, .from = {}})
                    : node_.put(md_, {.to = to, .portal = portal, .match_bits = slot_, .from = {}}),
             "starting an operation");
    }
    void told(const Event& event) {
        must(event.status, "an operation");
        if (event.kind != (reads_ ? Event::Kind::reply : Event::Kind::send)) return;
        done_.fetch_add(1, std::memory_order_relaxed);
        go();
    }

    Node& node_;
    const Nid to_;
    const u32 slot_;
    const bool reads_;
    Buffer buffer_;
    Md md_;
    std::atomic<u64>& done_;
};

// Sends a PUT, waits for the one that answers it.
class Pinger {
 public:
    Pinger(Node& node, const Nid& to, u32 bytes) : node_(node), to_(to), buffer_(bytes) {}
    void begin() {
        MdSpec spec;
        spec.mem = &buffer_.mem;
        Result<Md> md = node_.bind(spec);
        must(md.status(), "bind");
        md_ = std::move(*md);
        Result<Me> me = node_.attach(portal_pong, {.from = {}, .bits = 0}, Unlink::retain);
        must(me.status(), "attach");
        spec.options = {.put = true, .manage_remote = true};
        spec.handler = [](const Event& event) {
            if (event.kind == Event::Kind::put) static_cast<Pinger*>(event.user)->ponged();
        };
        spec.user = this;
        Result<Md> answers = node_.attach(*me, spec);
        must(answers.status(), "attach");
        me_ = std::move(*me);
        answers_ = std::move(*answers);
        go();
    }
    // After the end of the measurement.
    std::vector<double>& times() { return times_; }
    std::atomic<bool> stop{false}, stopped{false};

 private:
    void go() {
        began_ = Clock::now();
        must(node_.put(md_, {.to = {to_, pid_lustre}, .portal = portal_pong, .from = {}}), "put");
    }
    void ponged() {
        const std::chrono::duration<double, std::micro> took = Clock::now() - began_;
        times_.push_back(took.count());
        if (stop)
            stopped = true;
        else
            go();
    }

    Node& node_;
    const Nid to_;
    Buffer buffer_;
    Md md_, answers_;
    Me me_;
    Clock::time_point began_{};
    std::vector<double> times_;
};

void stream(Node& node, const Nid& to, u32 depth, u32 bytes, bool reads, double seconds) {
    std::atomic<u64> done{0};
    std::vector<std::unique_ptr<Slot>> slots;
    for (u32 i = 0; i < depth; ++i)
        slots.push_back(std::make_unique<Slot>(node, to, i, bytes, reads, done));
    run_on(node.sched(), 0, [&] {
        for (const auto& slot : slots) slot->begin();
    });
    // The first message connects.
    while (done.load() == 0) std::this_thread::yield();
    const u64 before = done.load();
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const u64 count = done.load() - before;
    const std::chrono::duration<double> took = Clock::now() - begin;
    const double rate = static_cast<double>(count) / took.count();
    std::printf("{\"mib_per_s\": %.1f, \"ops_per_s\": %.0f}\n", rate * bytes / (1 << 20), rate);
    std::fflush(stdout);
    std::_Exit(0);  // what is under way is of no interest
}

void ping(Node& node, const Nid& to, u32 bytes, double seconds) {
    Pinger pinger(node, to, bytes);
    run_on(node.sched(), 0, [&] { pinger.begin(); });
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    pinger.stop = true;
    while (!pinger.stopped) std::this_thread::yield();
    std::vector<double>& times = pinger.times();
    std::sort(times.begin(), times.end());
    std::printf("{\"one_way_us\": %.3f}\n", times[times.size() / 2] / 2);
    std::fflush(stdout);
    std::_Exit(0);
}

int usage() {
    std::fprintf(stderr, "usage: lnet_loop CONFIG SOCKET serve DEPTH BYTES | write|read NID DEPTH "
                         "BYTES SECONDS | ping NID BYTES SECONDS\n");
    return 2;
}

int run(tools::Daemon& daemon, const std::vector<std::string>& args) {
    Node& node = daemon.node();
    const auto number = [&](std::size_t i) { return static_cast<u32>(std::stoul(args[i])); };
    if (args[0] == "serve" && args.size() == 3) {
        std::vector<std::unique_ptr<Served>> served;
        run_on(node.sched(), 0, [&] {
            for (u32 i = 0; i < std::min(number(1), depth_max); ++i)
                served.push_back(std::make_unique<Served>(node, i, number(2)));
        });
        std::cout << "ready" << std::endl;
        std::cin.ignore(std::numeric_limits<std::streamsize>::max());
        std::_Exit(0);
    }
    const Result<Nid> to = parse_nid(args.size() > 1 ? args[1] : "");
    if (!to.ok()) return usage();
    if (args[0] == "ping" && args.size() == 4) ping(node, *to, number(2), std::stod(args[3]));
    if ((args[0] == "write" || args[0] == "read") && args.size() == 5)
        stream(node, *to, std::min(number(2), depth_max), number(3), args[0] == "read",
               std::stod(args[4]));
    return usage();
}

}  // namespace
}  // namespace ulnet::perf

int main(int argc, char** argv) {
    using namespace ulnet;
    if (argc < 4) return perf::usage();
    tools::DaemonOptions options;
    options.name = "loop";
    options.sched.pin = false;
    options.cpu_npartitions = 1;
    options.sched.workers_per_cpt = 1;  // as the loops it is compared with
    options.socket = argv[2];
    if (const Error error = ctl::read_yaml_file(argv[1], options.config); !error.ok()) {
        std::cerr << "lnet_loop: " << error.text << std::endl;
        return 2;
    }
    const auto sink = make_stderr_sink(LogLevel::info);
    set_log_sink(sink.get());
    tools::Daemon daemon(std::move(options));
    if (const Error error = daemon.start(); !error.ok()) {
        std::cerr << "lnet_loop: " << error.text << std::endl;
        return 1;
    }
    return perf::run(daemon, {argv + 3, argv + argc});
}
