// What all parts of one Selftest share: the Node, options, counters, ids, and the count of things
// under way that close() waits for. Any thread unless marked.
#pragma once

#include <atomic>
#include <functional>

#include "cpt/counters.h"
#include "selftest/selftest.h"

namespace ulnet::lst {

enum class RpcCount : u8 { errors, sent, rcvd, dropped, expired, bulk_get, bulk_put, count_ };

class Context {
 public:
    Context(Node& of, const SelftestOptions& chosen);

    Node& node;
    Sched& sched;
    const SelftestOptions options;
    Counters<RpcCount> counters;

    // Reply and bulk ids: unique, nonzero, from one counter as the kernel has it.
    u64 next_id() { return next_id_.fetch_add(1, std::memory_order_relaxed); }
    // A CPT for a new piece of work, in turn.
    CptId next_cpt();
    // True for a transfer that is to go wrong (brw_inject_errors), chosen by chance. From a worker.
    bool inject_error();
    u64 wall_ms() const { return sched.wall_ns() / 1'000'000; }
    Duration rpc_timeout() const { return std::chrono::seconds(options.rpc_timeout_s); }

    // Each hold keeps close() from completing until its release().
    void hold() { held_.fetch_add(1, std::memory_order_relaxed); }
    void release();
    // Runs fn on the control strand, held meanwhile.
    void control(std::function<void()> fn);

    bool closing() const { return closing_.load(std::memory_order_seq_cst); }
    // Once, then a release() of the hold that the Context was born with; `done` is posted after the
    // last release.
    void begin_close(Task& done);

 private:
    std::atomic<u64> next_id_;
    std::atomic<u32> next_cpt_{0};
    std::atomic<u32> errors_to_inject_;
    std::atomic<u64> held_{1};
    std::atomic<bool> closing_{false};
    Task* done_ = nullptr;
};

// A timer whose callback runs on the control strand. arm() only while it is off; all calls from the
// control strand. Its owner lives until the Context's last release.
class ControlTimer final : private Timer {
 public:
    ControlTimer(Context& context, std::function<void()> fn)
        : context_(context), fn_(std::move(fn)) {}
    bool on() const { return on_; }
    void arm(Duration after);
    // Off, or about to run fn once more.
    void stop();

 private:
    void fire() override;
    Context& context_;
    std::function<void()> fn_;
    bool on_ = false;
};

}  // namespace ulnet::lst
