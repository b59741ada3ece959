// A Node on a real ThreadSched with one scripted NI, and a recorder of events.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <set>
#include <thread>

#include "cpt/cpt.h"
#include "cpt/threads.h"
#include "lnet/inspect.h"
#include "lnet/node_impl.h"
#include "tests/unit/lnet/test_lnd.h"

namespace ulnet::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <class F> bool eventually(F condition) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

inline Nid tcp_nid(u32 last) {
    return Nid::ipv4(Net::of(NetType::tcp, 0), 0x0a4d0000 + last);
}
inline ProcessId process(u32 last) {
    return {tcp_nid(last), pid_lustre};
}

inline Bytes pattern(std::size_t size, u32 seed = 1) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<std::byte>((i * 7 + seed * 13) & 0xff);
    return bytes;
}

// Collects the events of MDs whose `user` it is, and checks the two promises: one handler at a time
// an MD, and nothing after `unlinked`. One recorder an MD where these matter.
class Recorder {
 public:
    static void handler(const Event& event) { static_cast<Recorder*>(event.user)->add(event); }
    void add(const Event& event) {
        if (inside_.exchange(true)) overlaps_.fetch_add(1);
        {
            const std::lock_guard guard(lock_);
            if (!events_.empty() && events_.back().unlinked) late_ = true;
            events_.push_back(event);
        }
        if (then) then(event);
        inside_.store(false);
    }
    std::vector<Event> events() const {
        const std::lock_guard guard(lock_);
        return events_;
    }
    std::size_t count() const {
        const std::lock_guard guard(lock_);
        return events_.size();
    }
    bool wait(std::size_t count_wanted) const {
        return eventually([&] { return count() >= count_wanted; });
    }
    bool wait_unlinked() const {
        return eventually([&] {
            const std::lock_guard guard(lock_);
            return !events_.empty() && events_.back().unlinked;
        });
    }
    u32 overlaps() const { return overlaps_.load(); }
    bool late() const { return late_; }
    u32 unlinked() const {
        u32 total = 0;
        for (const Event& event : events()) total += event.unlinked ? 1 : 0;
        return total;
    }
    std::function<void(const Event&)> then;

 private:
    std::atomic<bool> inside_{false};
    std::atomic<u32> overlaps_{0};
    std::atomic<bool> late_{false};
    mutable std::mutex lock_;
    std::vector<Event> events_;
};

// Bytes, the Mem over them, and the recorder of the MD on it.
struct Target {
    explicit Target(std::size_t size) : bytes(size), mem(bytes.data(), static_cast<u32>(size)) {}
    Bytes bytes;
    Mem mem;
    Recorder recorder;
    MdSpec spec(MdOptions options, u32 threshold = threshold_infinite, u32 max_size = 0) {
        return {.mem = &mem,
                .options = options,
                .threshold = threshold,
                .max_size = max_size,
                .handler = Recorder::handler,
                .user = &recorder};
    }
};

class NodeTest : public testing::Test {
 protected:
    explicit NodeTest(u32 workers = 2, u32 cpts = 1)
        : sched_(table(workers, cpts), options(workers)) {}
    ~NodeTest() override {
        if (node_ && !closed_) close();
        run([&] { node_.reset(); });
    }
    static CptTable table(u32 workers, u32 cpts) {
        if (cpts == 1) return CptTable::single(workers);
        Topology topology;
        topology.nodes.resize(cpts);
        for (u32 cpt = 0; cpt < cpts; ++cpt) {
            topology.nodes[cpt] = {cpt};
            topology.cores.push_back({cpt});
        }
        std::string why;
        Result<CptTable> made = CptTable::make(topology, cpts, "", why);
        CHECK(made.ok());
        return *made;
    }
    static ThreadSchedOptions options(u32 workers) {
        return {.workers_per_cpt = workers, .pin = false, .spin = {}, .seed = 7};
    }

    // Builds the Node; `with_ni` adds NID 1 on tcp.
    void start(bool with_ni = true) {
        std::vector<Lnd*> lnds{&lnd_};
        lnds.insert(lnds.end(), more_lnds_.begin(), more_lnds_.end());
        run([&] { node_ = std::make_unique<Node>(sched_, lnds, node_options_); });
        if (with_ni) add(1);
    }
    NiConfig config(u32 last) const {
        NiConfig made;
        made.net = Net::of(NetType::tcp, 0);
        made.nid = tcp_nid(last);
        made.interface = "eth0";
        made.credits = credits_;
        made.peer_credits = peer_credits_;
        made.tunables = {4, 0, 7};
        return made;
    }
    TestNi& add(u32 last) { return add(config(last)); }
    TestNi& add(const NiConfig& ni_config) {
        Error error;
        control([&] { error = node_->add_ni(ni_config); });
        EXPECT_TRUE(error.ok()) << error.text;
        ni_ = lnd_.last;
        return *ni_;
    }
    // Runs fn on a worker and waits.
    void run(const std::function<void()>& fn, CptId cpt = 0) { run_on(sched_, cpt, fn); }
    // Runs fn on the control strand and waits.
    void control(const std::function<void()>& fn) {
        std::atomic<bool> done{false};
        node_->control([&] {
            fn();
            done.store(true);
        });
        ASSERT_TRUE(eventually([&] { return done.load(); }));
    }
    void close() {
        std::atomic<bool> closed{false};
        FnTask done([&] { closed.store(true); });
        node_->close(done);
        ASSERT_TRUE(eventually([&] { return closed.load(); }));
        closed_ = true;
    }
    StatsView stats() {
        StatsView view{};
        control([&] { view = inspect_stats(*node_); });
        return view;
    }
    // No message, MD or credit is in use but what the ping targets hold.
    bool quiet() {
        return eventually([&] {
            u64 messages = 0;
            for (const auto& pool : node_->impl().msg_pools) messages += pool->use().now;
            return messages == 0;
        });
    }

    Hdr put_hdr(u32 portal, u64 bits, u32 length, u32 offset = 0, u32 from = 2, u32 to = 1) {
        Hdr hdr;
        hdr.type = MsgType::put;
        hdr.dest_nid = tcp_nid(to);
        hdr.src_nid = tcp_nid(from);
        hdr.portal = portal;
        hdr.match_bits = bits;
        hdr.payload_length = length;
        hdr.offset = offset;
        return hdr;
    }
    Hdr get_hdr(u32 portal, u64 bits, u32 sink, u32 offset = 0, u32 from = 2, u32 to = 1) {
        Hdr hdr = put_hdr(portal, bits, 0, offset, from, to);
        hdr.type = MsgType::get;
        hdr.sink_length = sink;
        hdr.handle.interface_cookie = 0x1122334455667788;
        hdr.handle.object_cookie = 0x99;
        return hdr;
    }
    // Injects from NID `from` on a worker; a PUT gets the payload its header tells of.
    Injected& inject(const Hdr& hdr, u32 from = 2) {
        Injected* injected = nullptr;
        run([&] {
            injected = &ni_->inject(hdr, process(from), pattern(hdr.payload_length, from));
        });
        return *injected;
    }
    // Attaches an ME and its MD; fails the test when refused.
    Md attach(u32 portal, const MatchSpec& match, const MdSpec& spec,
              Unlink unlink = Unlink::with_md, Place place = Place::after) {
        Md md;
        run([&] {
            Result<Me> me = node_->attach(portal, match, unlink, place);
            ASSERT_TRUE(me.ok()) << me.status().text();
            Result<Md> made = node_->attach(*me, spec);
            ASSERT_TRUE(made.ok()) << made.status().text();
            md = std::move(*made);
        });
        return md;
    }
    Md bind(const MdSpec& spec) {
        Md md;
        run([&] {
            Result<Md> made = node_->bind(spec);
            ASSERT_TRUE(made.ok()) << made.status().text();
            md = std::move(*made);
        });
        return md;
    }
    // Lives until the Node has closed, so that late events find it.
    Target& target(std::size_t size) { return targets_.emplace_back(size); }
    static MatchSpec any_bits(u64 bits, u64 ignore = 0) {
        return {.from = {}, .bits = bits, .ignore = ignore};
    }

    ThreadSched sched_;
    TestLnd lnd_;
    std::vector<Lnd*> more_lnds_;
    NodeOptions node_options_;
    u32 credits_ = 256, peer_credits_ = 8;
    std::deque<Target> targets_;
    std::unique_ptr<Node> node_;
    TestNi* ni_ = nullptr;
    bool closed_ = false;  // the Node; it is still there, so that handles may go out of scope
};

constexpr MdOptions accept_put{.put = true};
constexpr MdOptions accept_get{.get = true};

}  // namespace ulnet::test
