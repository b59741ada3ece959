// One worker thread of a CPT; internal to the threaded Sched (threads.cc, cpt_workers.cc).
#pragma once

#include <atomic>
#include <thread>

#include "cpt/base/list.h"
#include "cpt/base/park.h"
#include "cpt/base/prng.h"
#include "cpt/base/types.h"
#include "cpt/clock.h"

namespace ulnet {

struct Worker : ListHook<Worker> {
    // The worker of the calling thread; nullptr on threads of no Sched.
    static thread_local Worker* current;

    Worker(const void* owner, CptId cpt_id, u32 slot_number, u32 number, u64 seed)
        : sched(owner), cpt(cpt_id), slot(slot_number), index(number), prng(seed) {}
    Instant sample() { return now = monotonic_now(); }

    const void* const sched;  // whose worker this is; only compared
    const CptId cpt;
    const u32 slot;   // within the Sched
    const u32 index;  // within the CPT

    // Only its own thread uses these.
    Prng prng;
    Instant now = monotonic_now();
    Instant spin_until{};
    bool spinning = false;  // counted in CptWorkers::spinning_
    u32 tasks_since_poll = 0;

    Park park;           // where it sleeps when it does not lead
    bool woken = false;  // guarded by the lock of CptWorkers: taken off the sleepers to work

    // Written by its own thread, read by anyone.
    std::atomic<u64> busy_ns{0};
    std::atomic<u64> tasks{0};
    std::atomic<u64> hand_offs{0};
    std::atomic<u64> wakeups{0};

    std::thread thread;
};

// Adds to a value that only the calling thread writes.
inline void add_owned(std::atomic<u64>& value, u64 amount) {
    value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace ulnet
