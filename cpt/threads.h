// The threaded Sched: W pinned workers a CPT, one shared run queue each (design: threading.md).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpt/cpt.h"
#include "cpt/sched.h"

namespace ulnet {

struct ThreadSchedOptions {
    u32 workers_per_cpt = 0;  // 0 = one a CPU of the CPT
    bool pin = true;          // bind workers to the CPUs of their CPT
    Duration spin{};          // how long an idle worker polls before it sleeps
    u64 seed = 0;             // 0 = from the system's entropy
};

// What one worker did since start; for `lnetctl cpt show`.
struct WorkerStats {
    CptId cpt;
    u32 worker;    // index within the CPT
    u64 busy_ns;   // time spent in tasks, timers and pollers that found work
    u64 total_ns;  // time since start
    u64 tasks;
    u64 hand_offs;  // tasks this worker posted that woke or went to a sibling
    u64 wakeups;    // times it was woken from sleep
};
struct CptStats {
    CptId cpt;
    u64 queue_length;  // tasks waiting now
    u64 queue_max;     // most ever
};

class ThreadSched final : public Sched {
 public:
    // Starts the workers. The table is copied.
    ThreadSched(const CptTable&, const ThreadSchedOptions&);
    // stop() must have been called or is called here: runs what is queued, then joins.
    ~ThreadSched() override;
    // Ends the workers once their queues are empty. From an outside thread. Timers still armed do
    // not fire. Everything using the Sched must have been closed before.
    void stop();

    const CptTable& cpts() const override;
    void post(CptId, Task&) override;
    bool worth_handing_off(CptId, Duration work) const override;
    Instant now() const override;
    u64 wall_ns() const override;
    void arm(CptId, Timer&, Instant deadline) override;
    bool cancel(Timer&) override;
    Prng& prng() override;
    void add_poller(CptId, Poller&) override;
    void remove_poller(CptId, Poller&, Task& done) override;
    u32 slots() const override;
    u32 this_slot() const override;
    CptId this_cpt() const override;

    std::vector<WorkerStats> worker_stats() const;
    std::vector<CptStats> cpt_stats() const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Runs fn on a worker of the CPT and waits for its end: for threads outside the Sched (main,
// tests). Never call from a worker.
void run_on(Sched&, CptId, const std::function<void()>& fn);

}  // namespace ulnet
