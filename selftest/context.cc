// Shared state of a Selftest and the gate that its closing waits at.
#include "selftest/context.h"

#include "cpt/cpt.h"

namespace ulnet::lst {

Context::Context(Node& of, const SelftestOptions& chosen)
    : node(of), sched(of.sched()), options(chosen), counters(sched),
      // Seconds in the upper 16 bits: ids of an earlier life are not met again for hours.
      next_id_(((sched.wall_ns() / 1'000'000'000) << 48) + 1),
      errors_to_inject_(options.brw_inject_errors) {}

CptId Context::next_cpt() {
    return next_cpt_.fetch_add(1, std::memory_order_relaxed) % sched.cpts().size();
}

bool Context::inject_error() {
    u32 left = errors_to_inject_.load(std::memory_order_relaxed);
    if (left == 0 || sched.prng().below(2) == 0) return false;
    while (left > 0)
        if (errors_to_inject_.compare_exchange_weak(left, left - 1)) return true;
    return false;
}

void Context::release() {
    if (held_.fetch_sub(1, std::memory_order_acq_rel) == 1) sched.post(0, *done_);
}

void Context::control(std::function<void()> fn) {
    hold();
    node.control([this, fn = std::move(fn)]() mutable {
        {
            // What fn captured goes before the hold does: it may refer to the Selftest.
            const std::function<void()> once = std::move(fn);
            once();
        }
        release();
    });
}

void Context::begin_close(Task& done) {
    CHECK(done_ == nullptr);
    done_ = &done;
    closing_.store(true, std::memory_order_seq_cst);
}

void ControlTimer::arm(Duration after) {
    CHECK(!on_);
    on_ = true;
    context_.hold();
    context_.sched.arm(0, *this, context_.sched.now() + after);
}

void ControlTimer::stop() {
    // A timer that fires now runs fn soon, which finds nothing to do.
    if (on_ && context_.sched.cancel(*this)) {
        on_ = false;
        context_.release();
    }
}

void ControlTimer::fire() {
    context_.node.control([this] {
        on_ = false;
        fn_();
        context_.release();
    });
}

}  // namespace ulnet::lst
