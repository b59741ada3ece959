// The slots between the kernel's events and the sinks.
#include "lnds/sock/readiness.h"

#include "cpt/base/check.h"

namespace ulnet::sock {

u64 ReadinessSlots::take(StreamSink& sink, Poller& source, u32& slot) {
    std::unique_lock guard(lock_);
    const bool first = !std::exchange(started_, true);
    if (free_.empty()) {
        slots_.emplace_back();
        free_.push_back(static_cast<u32>(slots_.size() - 1));
    }
    slot = free_.back();
    free_.pop_back();
    slots_[slot].sink = &sink;
    slots_[slot].used = true;
    const u64 key = (u64{slots_[slot].generation} << 32) | slot;
    guard.unlock();
    if (first) sched_.add_poller(cpt_, source);
    return key;
}

void ReadinessSlots::give_back(u32 slot) {
    const std::lock_guard guard(lock_);
    static_cast<void>(release(slot));
}

void ReadinessSlots::end(u32 slot, bool more, Task& done) {
    {
        const std::lock_guard guard(lock_);
        Slot& ended = slots_[slot];
        ended.sink = nullptr;
        ended.done = &done;
        ended.more = more;
        if (ended.busy || more) return;
        static_cast<void>(release(slot));
    }
    sched_.post(cpt_, done);
}

void ReadinessSlots::tell(std::span<const Happened> events) {
    CHECK(events.size() <= batch_max);
    StreamSink* sinks[batch_max];
    Task* gone[batch_max];
    unsigned count = 0;
    {
        const std::lock_guard guard(lock_);
        for (std::size_t i = 0; i < events.size(); ++i) {
            Slot* const slot = find(events[i].key);
            sinks[i] = slot != nullptr ? slot->sink : nullptr;
            if (sinks[i] != nullptr) slot->busy = true;
        }
    }
    for (std::size_t i = 0; i < events.size(); ++i)
        if (sinks[i] != nullptr) sinks[i]->ready(events[i].what);
    {
        const std::lock_guard guard(lock_);
        for (std::size_t i = 0; i < events.size(); ++i) {
            Slot* const slot = find(events[i].key);
            if (slot == nullptr) continue;
            if (sinks[i] != nullptr) slot->busy = false;
            if (events[i].last) slot->more = false;
            if (slot->done == nullptr || slot->busy || slot->more) continue;
            gone[count++] = release(static_cast<u32>(events[i].key));
        }
    }
    for (unsigned i = 0; i < count; ++i) sched_.post(cpt_, *gone[i]);
}

bool ReadinessSlots::started() const {
    const std::lock_guard guard(lock_);
    return started_;
}

ReadinessSlots::Slot* ReadinessSlots::find(u64 key) {
    const u32 slot = static_cast<u32>(key);
    if (slot >= slots_.size()) return nullptr;
    Slot& found = slots_[slot];
    return found.used && found.generation == static_cast<u32>(key >> 32) ? &found : nullptr;
}

Task* ReadinessSlots::release(u32 slot) {
    Slot& ended = slots_[slot];
    Task* const done = ended.done;
    ended = {.generation = ended.generation + 1};
    free_.push_back(slot);
    return done;
}

}  // namespace ulnet::sock
