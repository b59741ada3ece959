// What tells a CPT's workers that sockets are ready: one source a CPT, served by whichever worker
// is free. Slots stand between the kernel's events and the sinks, so that an event that was fetched
// before remove() reaches nobody after it.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lnds/sock/stream.h"

namespace ulnet::sock {

// The slots of a source. One worker tells at a time; add and remove come from any thread.
class ReadinessSlots {
 public:
    static constexpr unsigned batch_max = 64;
    struct Happened {
        u64 key;
        Readiness what;
        bool last = false;  // nothing more comes for this key
    };

    ReadinessSlots(Sched& sched, CptId cpt) : sched_(sched), cpt_(cpt) {}
    // A slot and the key that events must carry. With the first one workers begin to ask `source`:
    // only where there is something to hear of.
    u64 take(StreamSink& sink, Poller& source, u32& slot);
    // The slot was not put to use.
    void give_back(u32 slot);
    // No ready() begins any more. `done` is posted when none runs and, if the source will still
    // hear of the key (`more`), when the last event has come.
    void end(u32 slot, bool more, Task& done);
    // Calls the sinks, at most batch_max events.
    void tell(std::span<const Happened>);
    bool started() const;  // take() was called

 private:
    struct Slot {
        StreamSink* sink = nullptr;
        Task* done = nullptr;  // ended, but not all is over
        u32 generation = 0;
        bool busy = false;  // a ready() runs
        bool more = false;  // ended, and the last event has not come
        bool used = false;
    };
    // With the lock held.
    Slot* find(u64 key);
    Task* release(u32 slot);

    Sched& sched_;
    const CptId cpt_;
    mutable std::mutex lock_;  // guards: all below
    bool started_ = false;
    std::vector<Slot> slots_;
    std::vector<u32> free_;
};

class ReadinessSource : public Poller {
 public:
    ReadinessSource(Sched& sched, CptId cpt) : slots_(sched, cpt) {}
    virtual ~ReadinessSource() = default;
    // The sink is told from now on, edge by edge. ENOMEM, ENOSPC and the like when it cannot be.
    virtual Status add(int fd, StreamSink&, u32& slot) = 0;
    // `done` is posted to the CPT once no ready() runs or follows.
    virtual void remove(int fd, u32 slot, Task& done) = 0;
    // False: add() was never called.
    bool started() const { return slots_.started(); }

 protected:
    ReadinessSlots slots_;
};
using ReadinessSources = std::vector<std::unique_ptr<ReadinessSource>>;  // by CPT

// Kernel TCP over these sources.
std::unique_ptr<StreamOs> make_kernel_os(Sched&, ReadinessSources);

}  // namespace ulnet::sock
