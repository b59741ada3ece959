// TimerWheel: placing by the highest differing digit, so that a timer's slot can always be found
// again from its deadline and the current tick alone.
#include "cpt/wheel.h"

#include <algorithm>
#include <bit>

namespace ulnet {

namespace {

// The highest base-64 digit in which two different ticks differ.
u32 highest_digit(u64 a, u64 b, u32 bits) {
    return (63 - static_cast<u32>(std::countl_zero(a ^ b))) / bits;
}

}  // namespace

TimerWheel::TimerWheel(Instant start, Duration tick) : start_(start), tick_(tick) {
    CHECK(tick.count() > 0);
}

u64 TimerWheel::tick_of(Instant deadline) const {
    if (deadline <= start_) return 0;
    const u64 ahead = static_cast<u64>((deadline - start_).count());
    const u64 tick = static_cast<u64>(tick_.count());
    return std::min(ahead / tick + (ahead % tick != 0 ? 1 : 0), tick_last);
}

void TimerWheel::place(Timer& timer) {
    const u64 tick = tick_of(timer.deadline_);
    if (tick <= current_ || tick == tick_last) {
        (tick == tick_last ? never_ : due_).push_back(timer);
        return;
    }
    const u32 level = highest_digit(tick, current_, digit_bits);
    const u64 slot = (tick >> (level * digit_bits)) % slots;
    level_[level].slot[slot].push_back(timer);
    level_[level].occupied |= u64{1} << slot;
}

void TimerWheel::unplace(Timer& timer) {
    const u64 tick = tick_of(timer.deadline_);
    if (tick <= current_ || tick == tick_last) {
        (tick == tick_last ? never_ : due_).remove(timer);
        return;
    }
    const u32 level = highest_digit(tick, current_, digit_bits);
    const u64 slot = (tick >> (level * digit_bits)) % slots;
    level_[level].slot[slot].remove(timer);
    if (level_[level].slot[slot].empty()) level_[level].occupied &= ~(u64{1} << slot);
}

void TimerWheel::arm(Timer& timer, Instant deadline) {
    cancel(timer);
    timer.deadline_ = deadline;
    place(timer);
    timer.armed_.store(true, std::memory_order_release);
    ++size_;
}

bool TimerWheel::cancel(Timer& timer) {
    if (!timer.armed_.load(std::memory_order_relaxed)) return false;
    unplace(timer);
    timer.armed_.store(false, std::memory_order_release);
    --size_;
    return true;
}

// Within a level the occupied slots lie ahead of the current digit, and every slot of a level comes
// before any slot of the level above: the lowest occupied level has the next one.
bool TimerWheel::next(Next& out) const {
    for (u32 level = 0; level < levels; ++level) {
        if (level_[level].occupied == 0) continue;
        const u32 shift = level * digit_bits;
        const u64 slot = static_cast<u64>(std::countr_zero(level_[level].occupied));
        const u64 above = current_ >> (shift + digit_bits) << (shift + digit_bits);
        out = {.tick = above | slot << shift, .level = level};
        return true;
    }
    return false;
}

void TimerWheel::advance(u64 target) {
    Next step{};
    while (current_ < target && next(step) && step.tick <= target) {
        current_ = step.tick;
        Level& level = level_[step.level];
        const u64 slot = (step.tick >> (step.level * digit_bits)) % slots;
        level.occupied &= ~(u64{1} << slot);
        // Every timer of the slot now has a lower digit to differ in, or is due: bounded by levels.
        List<Timer> moving;
        moving.splice_back(level.slot[slot]);
        while (Timer* timer = moving.pop_front()) place(*timer);
    }
    current_ = std::max(current_, target);
}

Timer* TimerWheel::expire(Instant now) {
    if (now > start_) advance(std::min(static_cast<u64>((now - start_) / tick_), tick_last - 1));
    Timer* timer = due_.pop_front();
    if (timer == nullptr) return nullptr;
    timer->armed_.store(false, std::memory_order_release);
    --size_;
    return timer;
}

Instant TimerWheel::next_deadline() const {
    if (!due_.empty()) return instant_of(current_);
    Next step{};
    return next(step) ? instant_of(step.tick) : instant_never;
}

void TimerWheel::clear() {
    const auto drop = [this](List<Timer>& list) {
        while (Timer* timer = list.pop_front()) {
            timer->armed_.store(false, std::memory_order_release);
            --size_;
        }
    };
    drop(due_);
    drop(never_);
    for (Level& level : level_) {
        level.occupied = 0;
        for (List<Timer>& list : level.slot) drop(list);
    }
}

}  // namespace ulnet
