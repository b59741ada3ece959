// Permission to have messages in flight: a count and the messages that wait for it.
#pragma once

#include "lnet/core_msg.h"

namespace ulnet {

// The one credit pool, for peer NIs and for an NI's queue of a CPT. Not thread-safe: each pool has
// an owner with a lock, which guards the pool and the wait flags of the messages in it. A release
// hands the credit to the first waiter, which the owner then posts: nothing is sent from within.
// Invariant: held credits = max - balance - waiting; there are waiters only when balance < 0, and
// then they are exactly -balance.
class CreditPool {
 public:
    explicit CreditPool(i64 max) : balance_(max), low_(max), max_(max) {}
    // True: the caller has a credit. False: the message waits at the end of the line.
    bool take(CoreMsg& msg);
    // Gives a credit back. The message that has it now, or null.
    CoreMsg* release();
    // A waiter leaves the line without a credit.
    void leave(CoreMsg& msg);
    // The first waiter whose deadline has passed, taken out of the line; looks at scan_max waiters.
    CoreMsg* expired(Instant now);
    // The nearest deadline of the first scan_max waiters.
    Instant next_deadline();

    // Negative: that many messages wait.
    i64 balance() const { return balance_; }
    i64 low() const { return low_; }
    i64 max() const { return max_; }
    List<CoreMsg, OnQueue>& waiters() { return waiters_; }

    // Deadlines of one pool rise from front to back but for changes of the tunables, so that a
    // look at the front finds nearly everything and the rest follows with the next look.
    static constexpr u32 scan_max = 64;

 private:
    i64 balance_, low_;
    const i64 max_;
    List<CoreMsg, OnQueue> waiters_;
};

// What of an NI's credits each of its CPT queues gets.
u32 queue_credits(u32 credits, u32 peer_credits, u32 queues);

}  // namespace ulnet
