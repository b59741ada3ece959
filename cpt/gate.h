// The gate of something that ends: counts the operations inside, and tells when the last has left
// after it was closed. Any thread may call. For operations on objects (calls into a driver,
// requests of a service); one shared write each way, so not for every message of a hot path.
#pragma once

#include <atomic>

#include "cpt/sched.h"

namespace ulnet {

class Gate {
 public:
    Gate() = default;
    ~Gate() { CHECK(inside() == 0); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    // False once closed; otherwise leave() must follow.
    bool enter() {
        u64 state = state_.load(std::memory_order_relaxed);
        do {
            if ((state & closed_bit) != 0) return false;
        } while (!state_.compare_exchange_weak(state, state + one, std::memory_order_acq_rel));
        return true;
    }
    // The gate may be gone when this returns: `done` may have run.
    void leave() {
        const u64 before = state_.fetch_sub(one, std::memory_order_acq_rel);
        CHECK(before >= one);
        if (before == (one | closed_bit)) sched_->post(cpt_, *done_);
    }
    // Once. Nobody enters any more; `done` is posted when nobody is inside.
    void close(Sched& sched, CptId cpt, Task& done) {
        sched_ = &sched;
        cpt_ = cpt;
        done_ = &done;
        const u64 before = state_.fetch_or(closed_bit, std::memory_order_acq_rel);
        CHECK((before & closed_bit) == 0);
        if (before == 0) sched.post(cpt, done);
    }
    bool closed() const { return (state_.load(std::memory_order_acquire) & closed_bit) != 0; }
    u64 inside() const { return state_.load(std::memory_order_acquire) / one; }

 private:
    static constexpr u64 closed_bit = 1;
    static constexpr u64 one = 2;
    std::atomic<u64> state_{0};  // twice the number inside, plus closed_bit
    Sched* sched_ = nullptr;
    CptId cpt_ = 0;
    Task* done_ = nullptr;
};

}  // namespace ulnet
