// Timers of ThreadSched: not early, moved, cancelled, from many threads.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "cpt/threads.h"
#include "wait.h"

namespace ulnet {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::eventually;

CptTable two_cpts() {
    Topology topology;
    topology.nodes = {{0, 1, 2, 3}};
    topology.cores = {{0}, {1}, {2}, {3}};
    std::string why;
    return *CptTable::make(topology, 2, "", why);
}

class Alarm final : public Timer {
 public:
    explicit Alarm(Sched& sched) : sched_(sched) {}
    void fire() override {
        at = sched_.now();
        slot = sched_.this_slot();
        ++fired;
    }
    std::atomic<u64> fired{0};
    std::atomic<u32> slot{99};
    std::atomic<Instant> at{};

 private:
    Sched& sched_;
};

TEST(Timers, FireOnTheirCptAndNotEarly) {
    ThreadSched sched(two_cpts(), {.pin = false, .seed = 1});
    for (CptId cpt = 0; cpt < 2; ++cpt) {
        for (int delay_ms : {0, 1, 5, 30}) {
            Alarm alarm(sched);
            const Instant deadline = sched.now() + milliseconds(delay_ms);
            sched.arm(cpt, alarm, deadline);
            ASSERT_TRUE(eventually([&] { return alarm.fired == 1; }));
            EXPECT_GE(alarm.at.load(), deadline);
            EXPECT_EQ(alarm.slot / 2, cpt);
            EXPECT_FALSE(sched.cancel(alarm));
        }
    }
}

// The sleeping leader learns of a deadline sooner than the one it sleeps for.
TEST(Timers, SoonerDeadlineWakesTheLeader) {
    ThreadSched sched(two_cpts(), {.pin = false, .seed = 1});
    Alarm late(sched);
    sched.arm(0, late, sched.now() + hours(1));
    for (u32 round = 0; round < 300; ++round) {
        Alarm soon(sched);
        sched.arm(0, soon, sched.now() + microseconds(round));
        ASSERT_TRUE(eventually([&] { return soon.fired == 1; }));
    }
    EXPECT_TRUE(sched.cancel(late));
    EXPECT_FALSE(sched.cancel(late));
}

TEST(Timers, ArmingMovesAlsoToAnotherCpt) {
    ThreadSched sched(two_cpts(), {.pin = false, .seed = 1});
    Alarm alarm(sched);
    sched.arm(0, alarm, sched.now() + hours(1));
    sched.arm(1, alarm, sched.now() + hours(2));
    sched.arm(1, alarm, sched.now() + milliseconds(1));
    ASSERT_TRUE(eventually([&] { return alarm.fired == 1; }));
    EXPECT_GE(alarm.slot, 2u);
}

TEST(Timers, FireWhileEveryWorkerOfTheCptButOneIsHeld) {
    ThreadSched sched(two_cpts(), {.pin = false, .seed = 1});
    std::atomic<bool> holding{false};
    std::atomic<bool> release{false};
    std::atomic<bool> ended{false};
    FnTask hold([&] {
        holding = true;
        while (!release) std::this_thread::yield();
        ended = true;
    });
    sched.post(0, hold);
    ASSERT_TRUE(eventually([&] { return holding.load(); }));
    Alarm alarm(sched);
    sched.arm(0, alarm, sched.now() + milliseconds(2));
    EXPECT_TRUE(eventually([&] { return alarm.fired == 1; }));
    release = true;
    EXPECT_TRUE(eventually([&] { return ended.load(); }));
}

TEST(Timers, RearmedFromFire) {
    ThreadSched sched(CptTable::single(2), {.pin = false, .seed = 1});
    struct Ticking final : Timer {
        void fire() override {
            if (++fired < 20) sched->arm(0, *this, sched->now() + microseconds(100));
        }
        Sched* sched = nullptr;
        std::atomic<u32> fired{0};
    } timer;
    timer.sched = &sched;
    sched.arm(0, timer, sched.now());
    EXPECT_TRUE(eventually([&] { return timer.fired == 20; }));
}

// Each arm ends in exactly one of: cancel() returned true, fire() ran.
TEST(Timers, ArmedAndCancelledFromManyThreads) {
    ThreadSched sched(two_cpts(), {.pin = false, .seed = 1});
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 4; ++t)
        threads.emplace_back([&sched, t] {
            Prng prng(t + 1);
            Alarm alarm(sched);
            u64 expected = 0;
            for (u32 round = 0; round < 1000; ++round) {
                const auto delay = microseconds(prng.below(3) == 0 ? 0 : prng.below(3000));
                sched.arm(static_cast<CptId>(prng.below(2)), alarm, sched.now() + delay);
                if (prng.below(2) == 0) std::this_thread::yield();
                const bool wait = prng.below(20) == 0;
                if (wait)
                    ++expected;
                else if (!sched.cancel(alarm))
                    ++expected;
                ASSERT_TRUE(eventually([&] { return alarm.fired == expected; }));
            }
            EXPECT_FALSE(sched.cancel(alarm));
        });
    for (auto& thread : threads) thread.join();
}

// Several threads on the same timers: the wheel stays whole and nothing fires after the end.
TEST(Timers, SharedTimersFromManyThreads) {
    ThreadSched sched(CptTable::single(2), {.pin = false, .seed = 1});
    std::vector<std::unique_ptr<Alarm>> alarms;
    for (u32 i = 0; i < 8; ++i) alarms.push_back(std::make_unique<Alarm>(sched));
    std::vector<std::thread> threads;
    std::atomic<u64> arms{0};
    std::atomic<u64> cancels{0};
    for (u32 t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            Prng prng(t + 1);
            for (u32 round = 0; round < 3000; ++round) {
                Alarm& alarm = *alarms[prng.below(alarms.size())];
                if (prng.below(3) == 0) {
                    if (sched.cancel(alarm)) ++cancels;
                } else {
                    sched.arm(0, alarm, sched.now() + microseconds(prng.below(2000)));
                    ++arms;
                }
            }
        });
    for (auto& thread : threads) thread.join();
    for (auto& alarm : alarms)
        if (sched.cancel(*alarm)) ++cancels;
    // A fire() that had begun ends before the workers do.
    sched.stop();
    u64 fired = 0;
    for (auto& alarm : alarms) fired += alarm->fired;
    EXPECT_GT(fired + cancels, 0u);
    EXPECT_LE(fired + cancels, arms);
}

TEST(Timers, StillArmedAtStopDoNotFire) {
    auto sched = std::make_unique<ThreadSched>(CptTable::single(1),
                                               ThreadSchedOptions{.pin = false, .seed = 1});
    Alarm alarm(*sched);
    sched->arm(0, alarm, sched->now() + hours(1));
    sched->stop();
    EXPECT_EQ(alarm.fired, 0u);
    sched.reset();
    EXPECT_EQ(alarm.fired, 0u);
}

}  // namespace
}  // namespace ulnet
