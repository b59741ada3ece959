// The timer wheel: O(1) arm and cancel, because timers are normally cancelled. A pure structure
// over the time it is told; the caller's lock guards it. ThreadSched has one a CPT, the simulator
// its own.
#pragma once

#include <array>

#include "cpt/base/list.h"
#include "cpt/sched.h"

namespace ulnet {

// Levels of 64 slots, each level 64 times coarser than the one below. A timer sits on the level of
// the highest digit (base 64) in which its tick differs from the current one; reaching its slot
// moves it to lower levels until its own tick has come. Never early, at most one tick late.
class TimerWheel {
 public:
    static constexpr Duration tick_default = std::chrono::milliseconds(1);

    explicit TimerWheel(Instant start, Duration tick = tick_default);
    // All timers must have been cancelled or have expired.
    ~TimerWheel() = default;
    // Arming an armed timer of this wheel moves it. instant_never is never reached.
    void arm(Timer& timer, Instant deadline);
    // True: it was armed on this wheel and is not any more.
    bool cancel(Timer& timer);
    // Moves the wheel to `now` (never back) and takes out the next expired timer, no longer armed;
    // nullptr when there is none. In order of ticks, and in the order of arming within a tick as
    // far as timers were armed at the same distance.
    Timer* expire(Instant now);
    // No timer expires before this time: exact within the last 64 ticks, earlier than the true
    // deadline above (there is then nothing to expire yet). instant_never when there is none to
    // come.
    Instant next_deadline() const;
    std::size_t size() const { return size_; }
    // Cancels every timer: for the end of a Sched.
    void clear();

 private:
    static constexpr u32 digit_bits = 6;
    static constexpr u32 slots = 1u << digit_bits;
    static constexpr u32 levels = 7;  // 64^7 ticks of 1 ms are 139 years
    static constexpr u64 tick_last = (u64{1} << (digit_bits * levels)) - 1;

    struct Level {
        u64 occupied = 0;  // bit s: slot s has timers
        std::array<List<Timer>, slots> slot;
    };
    struct Next {
        u64 tick;
        u32 level;
    };
    u64 tick_of(Instant deadline) const;
    Instant instant_of(u64 tick) const { return start_ + static_cast<i64>(tick) * tick_; }
    void place(Timer& timer);
    void unplace(Timer& timer);
    bool next(Next& out) const;
    void advance(u64 target);

    const Instant start_;
    const Duration tick_;
    u64 current_ = 0;  // all timers of earlier ticks and of this one are in due_
    std::size_t size_ = 0;
    List<Timer> due_;
    List<Timer> never_;  // beyond the last tick
    std::array<Level, levels> level_;
};

}  // namespace ulnet
