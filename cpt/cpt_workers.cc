// A turn of a worker: expired timers, pollers when due, a batch of tasks. Also posting and timers,
// called from any thread.
#include "cpt/cpt_workers.h"

#include <algorithm>

namespace ulnet {

thread_local Worker* Worker::current = nullptr;

namespace {

i64 ns_of(Instant instant) {
    return instant.time_since_epoch().count();
}

}  // namespace

void CptWorkers::run(Worker& self) {
    Worker::current = &self;
    self.sample();
    for (;;) {
        const Instant before = self.now;
        if (turn(self)) {
            self.sample();
            add_owned(self.busy_ns, static_cast<u64>((self.now - before).count()));
            if (self.spinning) self.spin_until = self.now + spin_;
        } else if (!rest(self)) {
            break;
        } else {
            self.sample();
        }
    }
    Worker::current = nullptr;
}

bool CptWorkers::turn(Worker& self) {
    bool worked = fire_timers(self);
    if (poll_due(self)) worked |= poll(self);
    worked |= run_tasks(self);
    return worked;
}

void CptWorkers::post(Task& task, Worker* self) {
    Wake wake;
    bool to_sibling;
    {
        std::lock_guard guard(lock_);
        queue_.push_back(task);
        const u64 size = queue_.size();
        queued_.store(size, std::memory_order_relaxed);
        if (size > queue_max_.load(std::memory_order_relaxed))
            queue_max_.store(size, std::memory_order_relaxed);
        // A worker that posts takes one task itself (unless it counts as spinning already). Should
        // it be long in coming, somebody must be watching.
        const u32 spinning = spinning_.load(std::memory_order_relaxed);
        const u32 own = self != nullptr && !self->spinning && watched_locked() ? 1 : 0;
        if (size > coming_ + spinning + own) wake = pick_sleeper_locked();
        to_sibling = wake.any() || spinning > 0;
    }
    perform(wake);
    if (self != nullptr && to_sibling) add_owned(self->hand_offs, 1);
}

bool CptWorkers::worth_handing_off(Duration work, const Worker* self) const {
    const u32 own = self != nullptr && self->spinning ? 1 : 0;
    if (spinning_.load(std::memory_order_relaxed) > own) return true;
    return work > wake_cost && sleeping_.load(std::memory_order_relaxed) > 0;
}

bool CptWorkers::run_tasks(Worker& self) {
    List<Task> batch;
    if (!take(self, batch)) return false;
    self.sample();  // no task sees an earlier time than who posted it
    while (Task* task = batch.pop_front()) {
        task->run();
        self.sample();
        add_owned(self.tasks, 1);
        ++self.tasks_since_poll;
        // Siblings slept while this task ran: the rest is theirs as much as ours.
        if (!batch.empty() && sleeping_.load(std::memory_order_relaxed) > 0) give_back(batch);
    }
    return true;
}

bool CptWorkers::take(Worker& self, List<Task>& batch) {
    // A stale zero is harmless: nobody sleeps without looking under the lock.
    if (queued_.load(std::memory_order_relaxed) == 0) return false;
    Wake wake;
    {
        std::lock_guard guard(lock_);
        const u64 size = queue_.size();
        if (size == 0) return false;
        const u64 count = std::clamp<u64>(size / workers_, 1, batch_max);
        for (u64 i = 0; i < count; ++i) batch.push_back(*queue_.pop_front());
        queued_.store(size - count, std::memory_order_relaxed);
        leave_spin_locked(self);
        if (size - count > coming_ + spinning_.load(std::memory_order_relaxed))
            wake = pick_sleeper_locked();
    }
    perform(wake);
    return true;
}

void CptWorkers::give_back(List<Task>& batch) {
    Wake wake;
    {
        std::lock_guard guard(lock_);
        // They were first in the queue and return to its front in their order.
        batch.splice_back(queue_);
        queue_.splice_back(batch);
        queued_.store(queue_.size(), std::memory_order_relaxed);
        wake = pick_sleeper_locked();
    }
    perform(wake);
}

bool CptWorkers::fire_timers(Worker& self) {
    if (next_timer_ns_.load(std::memory_order_relaxed) > ns_of(self.now)) return false;
    if (drain_.draining.load(std::memory_order_relaxed)) return false;
    bool fired = false;
    for (u32 count = 0; count < timers_per_turn; ++count) {
        Timer* timer;
        {
            std::lock_guard guard(timer_lock_);
            timer = wheel_.expire(self.now);
            next_timer_ns_.store(ns_of(wheel_.next_deadline()), std::memory_order_relaxed);
        }
        if (timer == nullptr) break;
        self.sample();  // a sibling with a later time may have found it due
        timer->fire();
        fired = true;
    }
    if (fired) self.sample();
    return fired;
}

void CptWorkers::arm(Timer& timer, Instant deadline) {
    bool sooner;
    {
        std::lock_guard guard(timer_lock_);
        wheel_.arm(timer, deadline);
        const Instant next = wheel_.next_deadline();
        next_timer_ns_.store(ns_of(next), std::memory_order_relaxed);
        sooner = next < sleep_until_;
        if (sooner) sleep_until_ = next;
    }
    if (sooner) kick_leader();
}

bool CptWorkers::cancel(Timer& timer) {
    std::lock_guard guard(timer_lock_);
    const bool cancelled = wheel_.cancel(timer);
    next_timer_ns_.store(ns_of(wheel_.next_deadline()), std::memory_order_relaxed);
    return cancelled;
}

}  // namespace ulnet
