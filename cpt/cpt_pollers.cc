// The pollers of a CPT: served by the worker that holds the claim, whichever that is at the moment.
#include <sys/epoll.h>

#include <algorithm>

#include "cpt/cpt_workers.h"

namespace ulnet {

bool CptWorkers::try_claim() {
    return !claimed_.load(std::memory_order_relaxed) &&
           !claimed_.exchange(true, std::memory_order_acquire);
}

// With an empty queue always; else often enough that a busy queue starves no poller.
bool CptWorkers::poll_due(const Worker& self) const {
    if (queued_.load(std::memory_order_relaxed) == 0) return true;
    if (self.tasks_since_poll >= tasks_per_poll) return true;
    if (changes_pending_.load(std::memory_order_relaxed)) return true;
    return self.now.time_since_epoch().count() - polled_ns_.load(std::memory_order_relaxed) >=
           poll_interval.count();
}

bool CptWorkers::poll(Worker& self) {
    if (!try_claim()) return false;
    self.tasks_since_poll = 0;
    polled_ns_.store(self.now.time_since_epoch().count(), std::memory_order_relaxed);
    apply_changes(self);
    unsigned found = 0;
    for (const PollerEntry& entry : pollers_) {
        Budget budget;
        found += entry.poller->poll(budget);
    }
    release_claim();
    return found > 0;
}

// With the claim held, so no worker is within a poller: a removed one is called no more.
void CptWorkers::apply_changes(Worker& self) {
    if (!changes_pending_.load(std::memory_order_relaxed)) return;
    std::vector<PollerChange> changes;
    {
        std::lock_guard guard(lock_);
        changes.swap(changes_);
        changes_pending_.store(false, std::memory_order_relaxed);
    }
    for (const PollerChange& change : changes) {
        if (change.removed == nullptr) {
            int fd = change.poller->wait_fd();
            epoll_event event{.events = EPOLLIN, .data = {.ptr = change.poller}};
            // What cannot be watched is asked all the time.
            if (fd >= 0 && epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) fd = -1;
            if (fd < 0) busy_pollers_.fetch_add(1, std::memory_order_relaxed);
            pollers_.push_back({change.poller, fd});
            continue;
        }
        const auto at = std::find_if(pollers_.begin(), pollers_.end(), [&](const auto& entry) {
            return entry.poller == change.poller;
        });
        CHECK(at != pollers_.end());
        if (at->fd >= 0)
            epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, at->fd, nullptr);
        else
            busy_pollers_.fetch_sub(1, std::memory_order_relaxed);
        pollers_.erase(at);
        post(*change.removed, &self);
    }
}

// True when every poller will make its descriptor readable: then the leader may sleep.
bool CptWorkers::arm_pollers(Worker& self) {
    apply_changes(self);
    if (busy_pollers_.load(std::memory_order_relaxed) > 0) return false;
    for (const PollerEntry& entry : pollers_)
        if (entry.poller->arm() == Armed::busy) return false;
    return true;
}

void CptWorkers::change_poller(const PollerChange& change) {
    {
        std::lock_guard guard(lock_);
        changes_.push_back(change);
        changes_pending_.store(true, std::memory_order_relaxed);
    }
    // Without a sleeping leader some worker is awake and polls before it sleeps.
    kick_leader();
}

void CptWorkers::add_poller(Poller& poller) {
    change_poller({&poller, nullptr});
}

void CptWorkers::remove_poller(Poller& poller, Task& done) {
    change_poller({&poller, &done});
}

}  // namespace ulnet
