// Counters and histograms without shared writes: one cache line a worker, summed when read.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <memory>

#include "cpt/base/types.h"
#include "cpt/sched.h"

namespace ulnet {

// A fixed set of counters, E being an enum with a last member `count_`. add() from any thread
// (threads outside the Sched share one slot); read() sums a moment's values, which only grow.
template <class E> class Counters {
    static constexpr std::size_t kinds = static_cast<std::size_t>(E::count_);
    struct alignas(64) Slot {
        std::array<std::atomic<u64>, kinds> values{};
    };

 public:
    explicit Counters(const Sched& sched)
        : sched_(sched), slots_(std::make_unique<Slot[]>(sched.slots())) {}
    void add(E kind, u64 amount = 1) {
        const u32 slot = sched_.this_slot();
        std::atomic<u64>& value = slots_[slot].values[static_cast<std::size_t>(kind)];
        if (slot + 1 == sched_.slots())
            value.fetch_add(amount, std::memory_order_relaxed);
        else
            value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
    u64 read(E kind) const {
        u64 sum = 0;
        for (u32 slot = 0; slot < sched_.slots(); ++slot)
            sum +=
                slots_[slot].values[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
        return sum;
    }

 private:
    const Sched& sched_;
    std::unique_ptr<Slot[]> slots_;
};

// Durations in buckets of a quarter power of two (error of a percentile at most 19 %), 1 ns to
// hours. add() by one thread at a time; merge and percentile on a copy.
class Histogram {
 public:
    static constexpr u32 buckets = 64 * 4;
    void add(Duration value);
    void merge(const Histogram& other);
    u64 count() const { return count_; }
    // The value that `share` (0...1) of the entries do not exceed: upper edge of its bucket,
    // clipped to the largest entry; 0 when empty.
    Duration percentile(double share) const;
    Duration max() const { return max_; }
    Duration mean() const { return count_ ? sum_ / static_cast<i64>(count_) : Duration{}; }

 private:
    std::array<u64, buckets> entries_{};
    u64 count_ = 0;
    Duration sum_{};
    Duration max_{};
};

}  // namespace ulnet
