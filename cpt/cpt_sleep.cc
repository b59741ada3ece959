// How workers of a CPT fall asleep and are woken. Idle workers hold one of two places: the leader
// blocks in epoll over all pollers, the others ("followers") in their Park. When the leader wakes
// to work it does not wake a successor at once, which would cost a futex call a message: while
// somebody is awake, one sleeper looks every watch_interval whether pollers and queue are still
// being served, and steps in when they are not. That is the deputy, one of the followers, or the
// leader when there is none. When all sleep undisturbed nobody looks.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "cpt/cpt_workers.h"

namespace ulnet {

namespace {

void pause_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

CptWorkers::CptWorkers(u32 workers, Duration spin, Drain& drain)
    : workers_(workers), spin_(spin), drain_(drain), wheel_(monotonic_now()),
      next_timer_ns_(instant_never.time_since_epoch().count()) {
    epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(epoll_fd_ >= 0);
    CHECK(event_fd_ >= 0);
    epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
    CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, event_fd_, &event) == 0);
}

CptWorkers::~CptWorkers() {
    wheel_.clear();
    close(event_fd_);
    close(epoll_fd_);
}

// A follower rather than the leader: then somebody keeps watching the pollers.
CptWorkers::Wake CptWorkers::pick_sleeper_locked() {
    if (Worker* follower = followers_.pop_front()) {
        follower->woken = true;
        if (deputy_ == follower) deputy_ = nullptr;
        set_sleeping_locked(sleeping_ - 1);
        ++coming_;
        return {.follower = follower};
    }
    if (leader_asleep_ && !kicked_) {
        kicked_ = true;
        set_sleeping_locked(sleeping_ - 1);
        ++coming_;
        return {.leader = true};
    }
    return {};
}

void CptWorkers::perform(const Wake& wake) {
    if (wake.follower != nullptr) wake.follower->park.signal();
    if (wake.leader) {
        const u64 one = 1;
        // Fails only when the counter is full, and then it is readable anyway.
        [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof one);
    }
}

void CptWorkers::kick_leader() {
    Wake wake;
    {
        std::lock_guard guard(lock_);
        if (!leader_asleep_ || kicked_) return;
        kicked_ = true;
        set_sleeping_locked(sleeping_ - 1);
        ++coming_;
        wake.leader = true;
    }
    perform(wake);
}

void CptWorkers::leave_spin_locked(Worker& self) {
    if (!self.spinning) return;
    self.spinning = false;
    spinning_.fetch_sub(1, std::memory_order_relaxed);
}

void CptWorkers::note_asleep() {
    if (!drain_.draining) return;
    std::lock_guard guard(drain_.mutex);
    drain_.changed.notify_all();
}

// Nothing to do. Returns false when the worker shall end.
bool CptWorkers::rest(Worker& self) {
    const bool busy_polled = busy_pollers_.load(std::memory_order_relaxed) > 0;
    if (spin_.count() > 0 || busy_polled) {
        if (!self.spinning) {
            self.spinning = true;
            self.spin_until = self.now + spin_;
            spinning_.fetch_add(1, std::memory_order_relaxed);
        }
        pause_cpu();
        if (self.now < self.spin_until && !drain_.draining) return true;
    }
    return try_claim() ? lead(self) : follow(self);
}

bool CptWorkers::lead(Worker& self) {
    if (!arm_pollers(self)) {
        release_claim();
        return true;
    }
    bool watching;
    {
        std::lock_guard guard(lock_);
        leave_spin_locked(self);
        if (exit_ || !queue_.empty() || !changes_.empty()) {
            release_claim();
            return !exit_;
        }
        leader_asleep_ = true;
        ++leads_;
        set_sleeping_locked(sleeping_ + 1);
        leader_watching_ = deputy_ == nullptr && sleeping_ < workers_;
        watching = leader_watching_;
    }
    note_asleep();
    sleep_until_event(self, watching ? watch_interval : lead_max);
    Worker* watch = nullptr;
    bool exiting;
    {
        std::lock_guard guard(lock_);
        leader_asleep_ = false;
        if (kicked_) {
            kicked_ = false;
            --coming_;
            add_owned(self.wakeups, 1);
        } else {
            set_sleeping_locked(sleeping_ - 1);
        }
        if (deputy_ != nullptr && deputy_quiet_) {
            deputy_quiet_ = false;
            watch = deputy_;
        }
        polled_ns_.store(self.now.time_since_epoch().count(), std::memory_order_relaxed);
        exiting = exit_;
    }
    if (watch != nullptr) watch->park.signal();
    release_claim();
    return !exiting;
}

// leader_asleep_ is set: whoever arms a timer from here on either is seen by next_deadline() or
// sees sleep_until_ and kicks.
void CptWorkers::sleep_until_event(Worker& self, Duration most) {
    Instant until;
    {
        std::lock_guard guard(timer_lock_);
        until = wheel_.next_deadline();
        if (drain_.draining) until = instant_never;
        sleep_until_ = until;
    }
    constexpr i64 ms = 1'000'000;
    const Duration rest = std::clamp(until - std::min(until, self.sample()), Duration{}, most);
    const int timeout_ms = static_cast<int>((rest.count() + ms - 1) / ms);
    std::array<epoll_event, 8> events;
    const int count =
        epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), timeout_ms);
    self.sample();
    {
        std::lock_guard guard(timer_lock_);
        sleep_until_ = Instant::min();
    }
    for (int i = 0; i < count; ++i) {
        if (events[static_cast<std::size_t>(i)].data.ptr == nullptr) {
            u64 value;
            [[maybe_unused]] const ssize_t got = read(event_fd_, &value, sizeof value);
        } else {
            self.tasks_since_poll = tasks_per_poll;
        }
    }
}

void CptWorkers::enlist_locked(Worker& self) {
    self.woken = false;
    if (deputy_ == nullptr) {
        deputy_ = &self;
        deputy_quiet_ = false;
        followers_.push_back(self);
    } else {
        followers_.push_front(self);
    }
    set_sleeping_locked(sleeping_ + 1);
}

// Somebody will look before long whether work is left lying.
bool CptWorkers::watched_locked() const {
    return (deputy_ != nullptr && !deputy_quiet_) || (leader_asleep_ && leader_watching_);
}

// Work waits and the deputy sleeps; or the pollers have no leader and nobody polled.
bool CptWorkers::must_take_over_locked(const Worker& self) const {
    if (!queue_.empty()) return true;
    if (leader_asleep_) return false;
    return self.now.time_since_epoch().count() - polled_ns_.load(std::memory_order_relaxed) >=
           watch_interval.count();
}

// Makes another follower the deputy; returns it, to be signalled without the lock.
Worker* CptWorkers::appoint_deputy_locked() {
    deputy_ = followers_.pop_front();
    if (deputy_ == nullptr) return nullptr;
    followers_.push_back(*deputy_);
    deputy_quiet_ = false;
    return deputy_;
}

bool CptWorkers::follow(Worker& self) {
    std::unique_lock lock(lock_);
    leave_spin_locked(self);
    if (exit_) return false;
    if (!queue_.empty()) return true;
    enlist_locked(self);
    lock.unlock();
    note_asleep();
    lock.lock();
    return follow_locked(self, lock);
}

// Sleeps until woken to work, until the deputy has to take over, or for good.
bool CptWorkers::follow_locked(Worker& self, std::unique_lock<std::mutex>& lock) {
    for (;;) {
        if (self.woken) {
            // Counted as awake already by pick_sleeper_locked.
            --coming_;
            self.woken = false;
            add_owned(self.wakeups, 1);
            return !exit_;
        }
        if (exit_) {
            followers_.remove(self);
            set_sleeping_locked(sleeping_ - 1);
            return false;
        }
        const bool watching = deputy_ == &self && !deputy_quiet_;
        const u64 leads_before = leads_;
        lock.unlock();
        self.park.wait(watching ? watch_interval : Park::forever);
        self.sample();
        lock.lock();
        if (self.woken || exit_ || !watching || deputy_ != &self) continue;
        if (!must_take_over_locked(self)) {
            // All asleep, and so it was for the whole interval.
            deputy_quiet_ = leads_ == leads_before && sleeping_ == workers_;
            continue;
        }
        followers_.remove(self);
        set_sleeping_locked(sleeping_ - 1);
        Worker* next = appoint_deputy_locked();
        lock.unlock();
        if (next != nullptr) next->park.signal();
        return true;
    }
}

bool CptWorkers::quiet_locked() const {
    return queue_.empty() && changes_.empty() && sleeping_ == workers_;
}

void CptWorkers::exit() {
    std::vector<Worker*> asleep;
    {
        std::lock_guard guard(lock_);
        exit_ = true;
        for (Worker& follower : followers_) asleep.push_back(&follower);
    }
    // Workers end only after join, so these stay valid.
    for (Worker* worker : asleep) worker->park.signal();
    perform({.leader = true});
}

}  // namespace ulnet
