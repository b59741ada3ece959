// The credit pool. Any worker, under the lock of the pool's owner.
#include "lnet/credit.h"

#include <algorithm>

namespace ulnet {

bool CreditPool::take(CoreMsg& msg) {
    --balance_;
    low_ = std::min(low_, balance_);
    if (balance_ >= 0) return true;
    waiters_.push_back(msg);
    return false;
}

CoreMsg* CreditPool::release() {
    CHECK(balance_ < max_);
    ++balance_;
    return waiters_.pop_front();
}

void CreditPool::leave(CoreMsg& msg) {
    CHECK(balance_ < 0);
    waiters_.remove(msg);
    ++balance_;
}

CoreMsg* CreditPool::expired(Instant now) {
    u32 seen = 0;
    for (CoreMsg& msg : waiters_) {
        if (msg.deadline <= now) {
            leave(msg);
            return &msg;
        }
        if (++seen == scan_max) break;
    }
    return nullptr;
}

Instant CreditPool::next_deadline() {
    Instant next = instant_never;
    u32 seen = 0;
    for (const CoreMsg& msg : waiters_) {
        next = std::min(next, msg.deadline);
        if (++seen == scan_max) break;
    }
    return next;
}

u32 queue_credits(u32 credits, u32 peer_credits, u32 queues) {
    const u32 share = std::max(credits / queues, 8 * peer_credits);
    return std::min(share, credits);
}

}  // namespace ulnet
