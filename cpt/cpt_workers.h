// What the workers of one CPT share: the run queue, the sleepers, the pollers and the timers.
// Internal to the threaded Sched. docs/threading.md tells the whole story.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "cpt/sched.h"
#include "cpt/wheel.h"
#include "cpt/worker.h"

namespace ulnet {

// How stop() learns that all workers of all CPTs sleep and nothing is queued.
struct Drain {
    std::atomic<bool> draining{false};
    std::mutex mutex;
    std::condition_variable changed;
};

class CptWorkers {
 public:
    static constexpr u32 batch_max = 8;         // tasks taken from the queue at once
    static constexpr u32 tasks_per_poll = 8;    // tasks a worker runs before it polls again
    static constexpr u32 timers_per_turn = 64;  // timers one worker fires in a turn
    static constexpr Duration poll_interval = std::chrono::microseconds(100);
    static constexpr Duration watch_interval = std::chrono::microseconds(500);
    static constexpr Duration lead_max = std::chrono::seconds(60);  // longest sleep of the leader
    static constexpr Duration wake_cost = std::chrono::microseconds(10);

    // `workers` = how many will call run().
    CptWorkers(u32 workers, Duration spin, Drain&);
    ~CptWorkers();
    CptWorkers(const CptWorkers&) = delete;
    CptWorkers& operator=(const CptWorkers&) = delete;

    // The life of one worker; returns after exit().
    void run(Worker& self);

    // `self`: the calling thread if it is a worker of this CPT, else nullptr.
    void post(Task&, Worker* self);
    bool worth_handing_off(Duration work, const Worker* self) const;
    // For a timer that is on no other wheel.
    void arm(Timer&, Instant deadline);
    bool cancel(Timer&);
    void add_poller(Poller&);
    void remove_poller(Poller&, Task& done);

    // All locks of a Sched are taken for one moment to see whether it is quiet.
    std::unique_lock<std::mutex> lock() { return std::unique_lock(lock_); }
    bool quiet_locked() const;
    void exit();

    u64 queue_length() const { return queued_.load(std::memory_order_relaxed); }
    u64 queue_max() const { return queue_max_.load(std::memory_order_relaxed); }

 private:
    // Whom to wake once the lock is released.
    struct Wake {
        Worker* follower = nullptr;
        bool leader = false;
        bool any() const { return follower != nullptr || leader; }
    };
    struct PollerChange {
        Poller* poller;
        Task* removed;  // nullptr: add
    };
    struct PollerEntry {
        Poller* poller;
        int fd;
    };

    // A turn of the loop (cpt_workers.cc).
    bool turn(Worker& self);
    bool run_tasks(Worker& self);
    bool take(Worker& self, List<Task>& batch);
    void give_back(List<Task>& batch);
    bool fire_timers(Worker& self);

    // Waking and sleeping (cpt_sleep.cc).
    Wake pick_sleeper_locked();
    void perform(const Wake&);
    void kick_leader();
    void set_sleeping_locked(u32 count) { sleeping_.store(count, std::memory_order_relaxed); }
    bool rest(Worker& self);
    bool lead(Worker& self);
    void sleep_until_event(Worker& self, Duration most);
    bool follow(Worker& self);
    bool follow_locked(Worker& self, std::unique_lock<std::mutex>& lock);
    void enlist_locked(Worker& self);
    void leave_spin_locked(Worker& self);
    bool watched_locked() const;
    bool must_take_over_locked(const Worker& self) const;
    Worker* appoint_deputy_locked();
    void note_asleep();

    // Pollers (cpt_pollers.cc). The claim makes one worker at a time their leader.
    bool try_claim();
    void release_claim() { claimed_.store(false, std::memory_order_release); }
    bool poll_due(const Worker& self) const;
    bool poll(Worker& self);
    void apply_changes(Worker& self);
    bool arm_pollers(Worker& self);
    void change_poller(const PollerChange&);

    const u32 workers_;
    const Duration spin_;
    Drain& drain_;
    int epoll_fd_ = -1;
    int event_fd_ = -1;

    // lock_ guards what follows. The atomics among it are written under it and read anywhere.
    alignas(64) mutable std::mutex lock_;
    List<Task> queue_;
    std::atomic<u64> queued_{0};  // = queue_.size()
    std::atomic<u64> queue_max_{0};
    List<Worker> followers_;        // asleep in their Park; the deputy is the last
    std::atomic<u32> sleeping_{0};  // followers, and the leader while asleep and not kicked
    u32 coming_ = 0;                // woken, and not yet here
    std::atomic<u32> spinning_{0};  // raised without the lock, lowered with it
    Worker* deputy_ = nullptr;      // the follower that watches over those who are awake
    bool deputy_quiet_ = false;     // nobody is; the deputy sleeps without a clock
    bool leader_asleep_ = false;
    bool leader_watching_ = false;  // for want of a deputy the leader sleeps with a clock
    bool kicked_ = false;           // the sleeping leader has been called
    u64 leads_ = 0;                 // how often a leader went to sleep
    bool exit_ = false;
    std::vector<PollerChange> changes_;
    std::atomic<bool> changes_pending_{false};

    // Owned by the holder of the claim.
    alignas(64) std::atomic<bool> claimed_{false};
    std::atomic<i64> polled_ns_{0};  // when the pollers were last asked; anyone may read it
    std::atomic<u32> busy_pollers_{0};
    std::vector<PollerEntry> pollers_;

    // timer_lock_ guards what follows.
    alignas(64) std::mutex timer_lock_;
    TimerWheel wheel_;
    std::atomic<i64> next_timer_ns_;
    Instant sleep_until_ = Instant::min();  // when the sleeping leader wakes by itself
};

}  // namespace ulnet
