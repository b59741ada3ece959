// A node for the tests of faults: lnetd's parts, a portal that takes every PUT and answers every
// GET, and operations whose ends are counted by status. Serves `lnetctl --socket`, and commands on
// its standard input, each answered by one line of JSON on the standard output.
//
//   start put|ack|get NID SLOTS BYTES COUNT  SLOTS operations at a time. Each slot goes on until
//                                            COUNT have ended (0 = for ever) or one ends badly.
//   stop                                     no slot begins another operation
//   wait                                     answers once no operation is under way
//   tally                                    {"running": N, "ends": {"0": N, "-104": N}}
//   reset                                    forgets the ends so far
//
// Usage: bulk_node --config FILE --socket PATH [--name NAME]
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>

#include "cpt/base/log.h"
#include "tools/daemon.h"

namespace ulnet::tests {
namespace {

constexpr PortalId portal = 20;
constexpr u64 bits_put = 1, bits_get = 2;

std::byte pattern(std::size_t at) {
    return static_cast<std::byte>(at * 131 >> 3);
}

// Memory that goes back to the system at once, so that what a node needs can be told from outside.
class Pages {
 public:
    explicit Pages(std::size_t bytes)
        : bytes_(std::max<std::size_t>(bytes, 1)),
          start_(
              ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        CHECK(start_ != MAP_FAILED);
    }
    Pages(const Pages&) = delete;
    ~Pages() { ::munmap(start_, bytes_); }
    std::byte* data() { return static_cast<std::byte*>(start_); }

 private:
    const std::size_t bytes_;
    void* const start_;
};

// Memory that PUTs come from and GETs are answered with.
class Pattern {
 public:
    Pattern() : bytes_(payload_max) {
        for (std::size_t at = 0; at < bytes_.size(); ++at) bytes_[at] = pattern(at);
    }
    Mem mem(u32 bytes) { return Mem(bytes_.data(), bytes); }
    bool begins_with(const std::byte* other, u32 bytes) const {
        return std::memcmp(bytes_.data(), other, bytes) == 0;
    }

 private:
    std::vector<std::byte> bytes_;
};

// The ends of operations. Any thread.
class Tally {
 public:
    void begun() {
        const std::lock_guard guard(lock_);
        ++running_;
    }
    // `again`: the slot begins another one at once.
    void ended(Status status, bool again) {
        const std::lock_guard guard(lock_);
        ++ends_[status.code()];
        if (!again && --running_ == 0) idle_.notify_all();
    }
    void reset() {
        const std::lock_guard guard(lock_);
        ends_.clear();
    }
    void wait() {
        std::unique_lock guard(lock_);
        idle_.wait(guard, [&] { return running_ == 0; });
    }
    ctl::Value value() {
        const std::lock_guard guard(lock_);
        ctl::Value ends = ctl::Value::map();
        for (const auto& [code, number] : ends_) ends.set(std::to_string(code), number);
        ctl::Value all = ctl::Value::map();
        all.set("running", running_);
        all.set("ends", std::move(ends));
        return all;
    }

 private:
    std::mutex lock_;
    std::condition_variable idle_;
    std::map<int, u64> ends_;
    u64 running_ = 0;
};

enum class Kind : u8 { put, ack, get };

struct Work {
    Kind kind = Kind::put;
    Nid to;
    u32 bytes = 0;
    u64 count = 0;
};

// One operation after the other, then it deletes itself. Belongs to whoever tells its events.
class Slot {
 public:
    Slot(Node& node, Pattern& pattern, Tally& tally, const std::atomic<bool>& stopped,
         const Work& work)
        : node_(node), pattern_(pattern), tally_(tally), stopped_(stopped), work_(work),
          received_(work.kind == Kind::get ? work.bytes : 0),
          mem_(work.kind == Kind::get ? Mem(received_.data(), work.bytes)
                                      : pattern.mem(work.bytes)) {}
    // On a worker.
    void begin() {
        status_ = ok_status;
        MdSpec spec;
        spec.mem = &mem_;
        spec.options.auto_unlink = true;
        spec.threshold = work_.kind == Kind::put ? 1 : 2;
        spec.handler = [](const Event& event) { static_cast<Slot*>(event.user)->told(event); };
        spec.user = this;
        Result<Md> md = node_.bind(spec);
        if (!md.ok()) {
            status_ = md.status();
            end();
            return;
        }
        md_ = std::move(*md);
        const Status status = send();
        if (status.ok()) return;  // whoever tells its events has it now
        status_ = status;
        node_.unlink(std::move(md_));
    }

 private:
    Status send() {
        const ProcessId to{work_.to, pid_lustre};
        if (work_.kind == Kind::get)
            return node_.get(md_, {.to = to, .portal = portal, .match_bits = bits_get, .from = {}});
        const Ack ack = work_.kind == Kind::ack ? Ack::yes : Ack::no;
        return node_.put(
            md_, {.to = to, .portal = portal, .match_bits = bits_put, .ack = ack, .from = {}});
    }
    void told(const Event& event) {
        if (!event.status.ok() && status_.ok()) status_ = event.status;
        if (event.kind == Event::Kind::reply && event.status.ok() &&
            (event.mlength != work_.bytes || !pattern_.begins_with(received_.data(), work_.bytes)))
            status_ = Status(-EBADMSG);
        if (!event.unlinked) {
            // No answer will come to what was not sent.
            if (!event.status.ok()) node_.unlink(std::move(md_));
            return;
        }
        md_.release();
        ++done_;
        if (status_.ok() && !stopped_.load() && (work_.count == 0 || done_ < work_.count)) {
            tally_.ended(ok_status, true);
            begin();
        } else {
            end();
        }
    }
    void end() {
        Tally& tally = tally_;
        const Status status = status_;
        delete this;
        tally.ended(status, false);
    }

    Node& node_;
    Pattern& pattern_;
    Tally& tally_;
    const std::atomic<bool>& stopped_;
    const Work work_;
    Pages received_;
    const Mem mem_;
    Md md_;
    Status status_;
    u64 done_ = 0;
};

class BulkNode {
 public:
    explicit BulkNode(tools::DaemonOptions options) : daemon_(std::move(options)) {}
    Error start() {
        if (Error error = daemon_.start(); !error.ok()) return error;
        run_on(daemon_.node().sched(), 0, [&] {
            serve(bits_put, {.put = true, .manage_remote = true, .discard = true});
            serve(bits_get, {.get = true, .manage_remote = true, .truncate = true});
        });
        return {};
    }
    // One command; false: not one.
    bool command(const std::string& line) {
        std::istringstream words(line);
        std::string verb, kind, nid;
        words >> verb;
        if (verb == "start") {
            Work work;
            u32 slots = 0;
            words >> kind >> nid >> slots >> work.bytes >> work.count;
            const Result<Nid> to = parse_nid(nid);
            if (!words || !to.ok() || work.bytes > payload_max) return false;
            work.kind = kind == "get" ? Kind::get : kind == "ack" ? Kind::ack : Kind::put;
            work.to = *to;
            begin(work, slots);
        } else if (verb == "stop") {
            stopped_ = true;
        } else if (verb == "wait") {
            tally_.wait();
        } else if (verb == "reset") {
            tally_.reset();
        } else if (verb != "tally") {
            return false;
        }
        std::cout << ctl::to_json(tally_.value()) << std::endl;
        return true;
    }
    bool stop() {
        run_on(daemon_.node().sched(), 0, [&] {
            mds_.clear();
            mes_.clear();
        });
        return daemon_.stop();
    }

 private:
    void serve(u64 bits, const MdOptions& options) {
        Node& node = daemon_.node();
        Result<Me> me = node.attach(portal, {.from = {}, .bits = bits}, Unlink::retain);
        CHECK(me.ok());
        MdSpec spec;
        spec.mem = &served_;
        spec.options = options;
        Result<Md> md = node.attach(*me, spec);
        CHECK(md.ok());
        mes_.push_back(std::move(*me));
        mds_.push_back(std::move(*md));
    }
    void begin(const Work& work, u32 slots) {
        Node& node = daemon_.node();
        stopped_ = false;
        run_on(node.sched(), 0, [&] {
            for (u32 i = 0; i < slots; ++i) {
                tally_.begun();
                (new Slot(node, pattern_, tally_, stopped_, work))->begin();
            }
        });
    }

    Pattern pattern_;
    const Mem served_ = pattern_.mem(payload_max);
    Tally tally_;
    std::atomic<bool> stopped_{false};
    tools::Daemon daemon_;
    std::vector<Me> mes_;
    std::vector<Md> mds_;
};

int serve(tools::DaemonOptions options) {
    BulkNode node(std::move(options));
    if (const Error error = node.start(); !error.ok()) {
        std::cerr << "bulk_node: " << error.text << std::endl;
        return 1;
    }
    std::string line;
    while (std::getline(std::cin, line)) {
        if (node.command(line)) continue;
        std::cerr << "bulk_node: '" << line << "' is no command" << std::endl;
        return 2;
    }
    return node.stop() ? 0 : 1;
}

}  // namespace
}  // namespace ulnet::tests

int main(int argc, char** argv) {
    using namespace ulnet;
    tools::DaemonOptions options;
    options.name = "bulk";
    options.sched.pin = false;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string key = argv[i];
        if (key == "--config") {
            if (const Error error = ctl::read_yaml_file(argv[i + 1], options.config); !error.ok()) {
                std::cerr << "bulk_node: " << error.text << std::endl;
                return 2;
            }
        } else if (key == "--socket") {
            options.socket = argv[i + 1];
        } else if (key == "--name") {
            options.name = argv[i + 1];
        } else if (key == "--sock-io") {
            options.sock_uring = std::string(argv[i + 1]) == "io_uring";
        }
    }
    const auto sink = make_stderr_sink(LogLevel::info);
    set_log_sink(sink.get());
    const int code = tests::serve(std::move(options));
    set_log_sink(nullptr);
    return code;
}
