// The two bits of a strand, alone so that a test can walk every interleaving of them: `queued` =
// on a run queue or running, `signalled` = woken since the running step began.
#pragma once

#include <atomic>

#include "cpt/base/types.h"

namespace ulnet {

class StrandBits {
 public:
    explicit StrandBits(u32 bits = 0) : bits_(bits) {}
    // True: the caller posts the strand.
    bool wake() {
        return (bits_.fetch_or(queued | signalled, std::memory_order_acq_rel) & queued) == 0;
    }
    // Before the step: wakes from here on lead to another one.
    void begin() { bits_.fetch_and(~signalled, std::memory_order_acq_rel); }
    // After the step. True: the caller posts the strand again. False: it must not be touched.
    bool end(bool more) {
        if (more) return true;
        u32 expected = queued;
        return !bits_.compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
    }
    bool idle() const { return (bits_.load(std::memory_order_acquire) & queued) == 0; }
    u32 bits() const { return bits_.load(std::memory_order_relaxed); }

 private:
    static constexpr u32 queued = 1;
    static constexpr u32 signalled = 2;
    std::atomic<u32> bits_;
};

}  // namespace ulnet
