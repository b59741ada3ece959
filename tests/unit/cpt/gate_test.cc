// Gate: closes once, tells once, after the last has left.
#include "cpt/gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "cpt/threads.h"
#include "wait.h"

namespace ulnet {
namespace {

TEST(Gate, ClosedEmptyTellsAtOnce) {
    ThreadSched sched(CptTable::single(1), {.pin = false, .seed = 1});
    std::atomic<u32> told{0};
    FnTask done([&] { ++told; });
    Gate gate;
    EXPECT_TRUE(gate.enter());
    gate.leave();
    EXPECT_FALSE(gate.closed());
    gate.close(sched, 0, done);
    EXPECT_TRUE(test::eventually([&] { return told == 1; }));
    EXPECT_FALSE(gate.enter());
    EXPECT_TRUE(gate.closed());
}

TEST(Gate, WaitsForThoseInside) {
    ThreadSched sched(CptTable::single(1), {.pin = false, .seed = 1});
    std::atomic<u32> told{0};
    FnTask done([&] { ++told; });
    Gate gate;
    EXPECT_TRUE(gate.enter());
    EXPECT_TRUE(gate.enter());
    gate.close(sched, 0, done);
    gate.leave();
    run_on(sched, 0, [] {});
    EXPECT_EQ(told, 0u);
    EXPECT_EQ(gate.inside(), 1u);
    gate.leave();
    EXPECT_TRUE(test::eventually([&] { return told == 1; }));
}

// Destroyed by `done` while others come and go: ASan and TSan watch.
TEST(Gate, ManyThreads) {
    ThreadSched sched(CptTable::single(2), {.pin = false, .seed = 1});
    for (u32 round = 0; round < 50; ++round) {
        Gate gate;
        std::atomic<u64> inside{0};
        std::atomic<u32> told{0};
        std::atomic<u64> entered{0};
        FnTask done([&] {
            EXPECT_EQ(inside, 0u);
            ++told;
        });
        std::vector<std::thread> threads;
        for (u32 t = 0; t < 3; ++t)
            threads.emplace_back([&] {
                while (gate.enter()) {
                    ++inside;
                    ++entered;
                    --inside;
                    gate.leave();
                }
            });
        EXPECT_TRUE(test::eventually([&] { return entered > 100; }));
        gate.close(sched, 0, done);
        for (auto& thread : threads) thread.join();
        EXPECT_TRUE(test::eventually([&] { return told == 1; }));
    }
}

}  // namespace
}  // namespace ulnet
