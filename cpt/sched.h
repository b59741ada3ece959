// The contract of time and scheduling: a Sched owns time, threads and randomness. ThreadSched
// (threads.h) is the real one; the simulator implements the same calls over virtual time.
//
// Rules. A task runs to its end and never blocks or waits for another task. Callbacks (run, step,
// fire, poll) come from a worker of the CPT they were posted to. Nothing here allocates.
#pragma once

#include <atomic>

#include "cpt/base/list.h"
#include "cpt/base/prng.h"
#include "cpt/base/types.h"
#include "cpt/strand_bits.h"

namespace ulnet {

class CptTable;

// A piece of work. The owner keeps it alive until it has run; it may be posted again from within
// run(), and is on at most one queue at a time.
class Task : public ListHook<Task> {
 public:
    virtual void run() = 0;

 protected:
    ~Task() = default;
};

// A Task made of a callable: FnTask done([&] { ... });
template <class F> class FnTask final : public Task {
 public:
    explicit FnTask(F fn) : fn_(std::move(fn)) {}
    void run() override { fn_(); }

 private:
    F fn_;
};

// What one slice of work may use before it gives way to others.
class Budget {
 public:
    static constexpr u32 messages_default = 16;
    static constexpr u64 bytes_default = 256 * 1024;
    explicit Budget(u32 messages = messages_default, u64 bytes = bytes_default)
        : messages_(messages), bytes_(bytes) {}
    // Accounts for work done; false once the budget is used up.
    bool take(u32 messages, u64 bytes) {
        messages_ -= messages < messages_ ? messages : messages_;
        bytes_ -= bytes < bytes_ ? bytes : bytes_;
        return left();
    }
    bool left() const { return messages_ > 0 && bytes_ > 0; }
    u32 messages() const { return messages_; }
    u64 bytes() const { return bytes_; }

 private:
    u32 messages_;
    u64 bytes_;
};

// A deadline. The owner keeps it alive until it has fired or cancel() returned true.
class Timer : public ListHook<Timer> {
 public:
    virtual void fire() = 0;  // on a worker of the CPT it was armed on

 protected:
    ~Timer() = default;

 private:
    friend class TimerWheel;
    friend class ThreadSched;
    friend class SimSched;
    std::atomic<bool> armed_{false};
    std::atomic<CptId> cpt_{0};
    Instant deadline_{};
};

enum class Armed : u8 { yes, busy };

// A source of work that must be asked: a kernel event queue, a completion queue.
class Poller : public ListHook<Poller> {
 public:
    // Takes what is ready and posts or does it; never blocks. Returns the amount of work found.
    // One worker at a time.
    virtual unsigned poll(Budget&) = 0;
    // A worker is about to sleep: from now on wait_fd() must become readable when work comes.
    // Armed::busy = work is there already, poll again.
    virtual Armed arm() = 0;
    // Readable (level-triggered) when poll() would find work; -1 = must be busy-polled.
    virtual int wait_fd() const = 0;

 protected:
    ~Poller() = default;
};

class Sched {
 public:
    virtual ~Sched() = default;
    virtual const CptTable& cpts() const = 0;
    // Queues the task on a CPT. Any thread may call; never fails.
    virtual void post(CptId, Task&) = 0;
    // True when work of this length is better given to a sibling worker: one is spinning idle, or
    // one sleeps and the work is worth more than a wake-up (about 10 us).
    virtual bool worth_handing_off(CptId, Duration work) const = 0;
    // Monotonic time, sampled at least once a task; cheap. A task never sees an earlier time than
    // whoever posted it, a timer none before its deadline.
    virtual Instant now() const = 0;
    // Nanoseconds since 1970 (incarnations, session stamps). Never used for waiting.
    virtual u64 wall_ns() const = 0;
    // Any thread. Arming an armed timer moves it. The deadline is met to about a millisecond. Calls
    // that arm one timer on different CPTs must not overlap.
    virtual void arm(CptId, Timer&, Instant deadline) = 0;
    // True: it was armed and will not fire. False: it was not armed, has fired or is firing now.
    virtual bool cancel(Timer&) = 0;
    // The generator of the calling worker.
    virtual Prng& prng() = 0;
    // The poller is served by whichever worker of the CPT is free until removal; `done` is posted
    // to that CPT once no worker will call it again.
    virtual void add_poller(CptId, Poller&) = 0;
    virtual void remove_poller(CptId, Poller&, Task& done) = 0;
    // Slots for per-worker data: workers have 0 ... slots-2, any other thread the last one.
    virtual u32 slots() const = 0;
    virtual u32 this_slot() const = 0;
    // The CPT of the calling worker; 0 for any other thread.
    virtual CptId this_cpt() const { return 0; }
};

// Work that must not overlap itself, run by any worker of its CPT. wake() may come from any thread,
// also from within step(). A wake during step() leads to another step().
class Strand : private Task {
 public:
    Strand(Sched& sched, CptId cpt) : sched_(sched), cpt_(cpt) {}
    void wake();
    CptId cpt() const { return cpt_; }
    // True when no step is queued or running (a wake may follow at any time).
    bool idle() const { return bits_.idle(); }

 protected:
    ~Strand() = default;
    // Works within the budget; true = there is more to do now.
    // A strand may be destroyed only when nothing wakes it any more and idle() is true: never from
    // within its own step(); post a Task that does it.
    virtual bool step(Budget&) = 0;

    Sched& sched_;

 private:
    void run() final;
    StrandBits bits_;
    const CptId cpt_;
};

}  // namespace ulnet
