// A Sched over virtual time: W virtual workers a CPT, run one task at a time on the thread of the
// Engine. A task starts at an instant and costs time; what it posts becomes runnable at the time it
// had reached when it posted. One SimSched a node.
#pragma once

#include <memory>
#include <vector>

#include "cpt/cpt.h"
#include "cpt/sched.h"
#include "tests/sim/engine.h"

namespace ulnet {

struct SimSchedOptions {
    u32 workers_per_cpt = 2;
    Duration task_cost{300};  // of every task, plus up to task_cost_spread drawn
    Duration task_cost_spread{200};
    Duration wake_up_max{2000};  // an idle worker takes 0 ... this to come
    u32 window = 4;              // a worker takes one of the first so many tasks; 1 = in order
    u32 hand_off_percent = 50;   // how often short work is said to be worth handing off
    u64 wall_ns = 1'700'000'000'000'000'000;  // at virtual time 0
};

class SimSched final : public Sched {
 public:
    SimSched(sim::Engine&, const CptTable&, const SimSchedOptions&);
    // Nothing may be queued or armed.
    ~SimSched() override;

    const CptTable& cpts() const override { return table_; }
    void post(CptId, Task&) override;
    bool worth_handing_off(CptId, Duration work) const override;
    Instant now() const override { return engine_.now() + spent_; }
    u64 wall_ns() const override;
    void arm(CptId, Timer&, Instant deadline) override;
    bool cancel(Timer&) override;
    Prng& prng() override { return prng_; }
    // Not supported: simulated drivers post.
    void add_poller(CptId, Poller&) override;
    void remove_poller(CptId, Poller&, Task& done) override;
    u32 slots() const override { return static_cast<u32>(workers_.size()) + 1; }
    u32 this_slot() const override { return running_; }
    CptId this_cpt() const override {
        return running_ + 1 == slots() ? 0 : running_ / options_.workers_per_cpt;
    }

    // The running task takes this much longer. Nothing when none runs.
    void charge(Duration);
    // Nothing runs meanwhile; timers expire and tasks queue.
    void pause();
    void resume();
    bool paused() const { return paused_; }
    void jump_wall(Duration by) { wall_offset_ += by; }
    // Nothing runs or is queued (timers may be armed).
    bool idle() const { return queued_ == 0 && staged_ == 0 && busy_ == 0; }
    // Virtual time that each worker was busy.
    std::vector<Duration> busy() const;
    u64 tasks_run() const { return tasks_run_; }
    sim::Engine& engine() { return engine_; }

 private:
    friend class sim::Engine;
    static constexpr u32 cpt_bits = 8;
    struct Posted {
        Task* task;
        CptId cpt;
        Duration at;  // since the running task began
    };
    struct Worker final : sim::Happening {
        Worker(SimSched& owner, CptId at) : sched(owner), cpt(at) {}
        ~Worker() = default;
        void happen() override { sched.turn(*this); }
        SimSched& sched;
        const CptId cpt;
        bool idle = true;
        Duration busy{};
        std::vector<Posted> tail;  // posted at the very end of its task
    };
    // A task posted by a running one becomes runnable while that one goes on.
    struct Staged final : sim::Happening {
        explicit Staged(SimSched& owner) : sched(owner) {}
        ~Staged() = default;
        void happen() override { sched.release(*this); }
        SimSched& sched;
        Task* task = nullptr;
        CptId cpt = 0;
    };
    struct Queue {
        List<Task> tasks;
        List<Timer> due;
        u32 idle_workers = 0;
    };

    static u32 sched_of(const Timer& timer) {
        return timer.cpt_.load(std::memory_order_relaxed) >> cpt_bits;
    }
    void expired(Timer&);
    void turn(Worker&);
    void run_one(Queue&);
    Task& choose(List<Task>&);
    void enqueue(CptId, Task&);
    void release_tail(Worker&);
    void kick(CptId);
    void flush(Worker&, Duration spent);
    void release(Staged&);

    sim::Engine& engine_;
    const CptTable& table_;
    const SimSchedOptions options_;
    const u32 index_;
    mutable Prng prng_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::unique_ptr<Queue>> queues_;
    u32 running_;                 // slot of the running worker, or slots() - 1
    Duration spent_{};            // by the running task
    std::vector<Posted> posted_;  // by the running task
    std::vector<std::unique_ptr<Staged>> stages_;
    std::vector<Staged*> free_stages_;
    u64 queued_ = 0, staged_ = 0, busy_ = 0;
    u64 tasks_run_ = 0;
    Duration wall_offset_{};
    bool paused_ = false;
};

}  // namespace ulnet
