// TimerWheel against a naive model.
#include "cpt/wheel.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

namespace ulnet {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Probe final : public Timer {
 public:
    explicit Probe(u32 number = 0) : id(number) {}
    void fire() override {}
    const u32 id;
};

const Instant start{seconds(1000)};

TEST(TimerWheel, FiresAtItsTickNotBefore) {
    TimerWheel wheel(start);
    Probe timer;
    wheel.arm(timer, start + microseconds(1500));
    EXPECT_EQ(wheel.next_deadline(), start + milliseconds(2));
    EXPECT_EQ(wheel.expire(start + microseconds(1999)), nullptr);
    EXPECT_EQ(wheel.expire(start + milliseconds(2)), &timer);
    EXPECT_EQ(wheel.expire(start + milliseconds(2)), nullptr);
    EXPECT_FALSE(wheel.cancel(timer));
    EXPECT_EQ(wheel.next_deadline(), instant_never);
}

TEST(TimerWheel, PastDeadlinesAreDueAtOnce) {
    TimerWheel wheel(start);
    EXPECT_EQ(wheel.expire(start + seconds(5)), nullptr);
    Probe early, now;
    wheel.arm(early, start - seconds(1));
    wheel.arm(now, start + seconds(5));
    EXPECT_LE(wheel.next_deadline(), start + seconds(5));
    EXPECT_EQ(wheel.expire(start + seconds(5)), &early);
    EXPECT_EQ(wheel.expire(start + seconds(4)), &now);
}

TEST(TimerWheel, ArmingAgainMoves) {
    TimerWheel wheel(start);
    Probe timer;
    wheel.arm(timer, start + hours(5));
    wheel.arm(timer, start + milliseconds(3));
    wheel.arm(timer, start + milliseconds(7));
    EXPECT_EQ(wheel.size(), 1u);
    EXPECT_EQ(wheel.expire(start + milliseconds(6)), nullptr);
    EXPECT_EQ(wheel.expire(start + milliseconds(7)), &timer);
}

TEST(TimerWheel, NeverIsNeverAndCanBeCancelled) {
    TimerWheel wheel(start);
    Probe timer;
    wheel.arm(timer, instant_never);
    EXPECT_EQ(wheel.next_deadline(), instant_never);
    EXPECT_EQ(wheel.expire(instant_never), nullptr);
    EXPECT_TRUE(wheel.cancel(timer));
    EXPECT_EQ(wheel.size(), 0u);
}

TEST(TimerWheel, ClearUnarms) {
    TimerWheel wheel(start);
    std::array<Probe, 3> timers;
    wheel.arm(timers[0], start);
    wheel.arm(timers[1], start + seconds(1));
    wheel.arm(timers[2], start + hours(1));
    wheel.clear();
    EXPECT_EQ(wheel.size(), 0u);
    for (Probe& timer : timers) EXPECT_FALSE(wheel.cancel(timer));
}

// The model: all armed timers by tick.
class Model {
 public:
    explicit Model(u64 seed) : prng_(seed) {
        for (u32 id = 0; id < timers_max; ++id) timers_.push_back(std::make_unique<Probe>(id));
    }
    void run(u32 steps) {
        for (u32 step = 0; step < steps; ++step) {
            const u64 choice = prng_.below(10);
            if (choice < 5)
                arm();
            else if (choice < 7)
                cancel();
            else
                advance(distance());
            ASSERT_EQ(wheel_.size(), ticks_.size());
            check_next();
            if (testing::Test::HasFatalFailure()) return;
        }
        wheel_.clear();
    }

 private:
    static constexpr u32 timers_max = 200;
    static i64 ceil_tick(Instant at) {
        const i64 ns = (at - start).count();
        return ns <= 0 ? 0 : (ns + 999'999) / 1'000'000;
    }
    // Near, far and very far alike.
    Duration distance() {
        const u64 bits = prng_.below(44) + 1;
        return Duration(static_cast<i64>(prng_.next() >> (64 - bits)));
    }
    void arm() {
        Probe& timer = *timers_[prng_.below(timers_max)];
        const Instant deadline = prng_.below(20) == 0 ? now_ - distance() : now_ + distance();
        wheel_.arm(timer, deadline);
        ticks_[timer.id] = ceil_tick(deadline);
    }
    void cancel() {
        Probe& timer = *timers_[prng_.below(timers_max)];
        EXPECT_EQ(wheel_.cancel(timer), ticks_.erase(timer.id) == 1);
    }
    void advance(Duration by) {
        now_ += by;
        const i64 now_tick = (now_ - start).count() / 1'000'000;
        i64 before = 0;
        while (Timer* fired = wheel_.expire(now_)) {
            const u32 id = static_cast<Probe*>(fired)->id;
            ASSERT_EQ(ticks_.count(id), 1u);
            const i64 tick = std::max(ticks_[id], reached_);
            EXPECT_LE(tick, now_tick);
            EXPECT_LE(before, tick) << "out of order";
            before = tick;
            ticks_.erase(id);
        }
        for (const auto& [id, tick] : ticks_) EXPECT_GT(tick, now_tick) << id;
        reached_ = now_tick;
    }
    // A lower bound, ahead of now, and exact when it is near.
    void check_next() {
        i64 first = INT64_MAX;
        for (const auto& [id, tick] : ticks_) first = std::min(first, tick);
        const Instant next = wheel_.next_deadline();
        if (first == INT64_MAX) {
            EXPECT_EQ(next, instant_never);
            return;
        }
        const i64 tick = (next - start).count() / 1'000'000;
        EXPECT_LE(tick, std::max(first, reached_));
        if (first > reached_) {
            EXPECT_GT(tick, reached_);
        }
        if (first / 64 == reached_ / 64) {
            EXPECT_EQ(tick, std::max(first, reached_));
        }
    }

    Prng prng_;
    TimerWheel wheel_{start};
    Instant now_ = start;
    i64 reached_ = 0;
    std::vector<std::unique_ptr<Probe>> timers_;
    std::map<u32, i64> ticks_;
};

TEST(TimerWheel, AgreesWithTheModel) {
    for (u64 seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(seed);
        Model(seed).run(2000);
        if (HasFatalFailure()) return;
    }
}

// Going from one next_deadline() to the next reaches a far timer in a few steps.
TEST(TimerWheel, NextDeadlineLeadsThere) {
    TimerWheel wheel(start);
    Probe timer;
    const Instant deadline = start + hours(30) + milliseconds(17);
    wheel.arm(timer, deadline);
    u32 steps = 0;
    Instant at = start;
    Timer* fired = nullptr;
    while (fired == nullptr && ++steps < 10) {
        at = wheel.next_deadline();
        fired = wheel.expire(at);
    }
    EXPECT_EQ(fired, &timer);
    EXPECT_EQ(at, deadline);
    EXPECT_LE(steps, 7u);
}

}  // namespace
}  // namespace ulnet
