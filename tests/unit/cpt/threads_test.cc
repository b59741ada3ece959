// ThreadSched: posts from everywhere, no lost wake-up, slots, hand-off, stop.
#include "cpt/threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <thread>

#include "wait.h"

namespace ulnet {
namespace {

using test::eventually;

// `cpts` partitions of `workers` each on a made-up machine, so that workers float.
CptTable made_up(u32 cpts, u32 workers) {
    Topology topology;
    topology.nodes.resize(1);
    for (u32 cpu = 0; cpu < cpts * workers; ++cpu) {
        topology.nodes[0].push_back(cpu);
        topology.cores.push_back({cpu});
    }
    std::string why;
    auto table = CptTable::make(topology, cpts, "", why);
    EXPECT_TRUE(table.ok()) << why;
    return *table;
}

ThreadSchedOptions floating() {
    return {.pin = false, .seed = 1};
}

// Holds a worker until released, as no task may do outside of tests.
class Blocker final : public Task {
 public:
    void run() override {
        held = true;
        while (!released) std::this_thread::yield();
        ended = true;
    }
    std::atomic<bool> held{false};
    std::atomic<bool> released{false};
    std::atomic<bool> ended{false};
};

class Counting final : public Task {
 public:
    void run() override { ++runs; }
    std::atomic<u64> runs{0};
};

TEST(ThreadSched, RunsTasksOnTheirCpt) {
    ThreadSched sched(made_up(3, 2), floating());
    EXPECT_EQ(sched.slots(), 7u);
    EXPECT_EQ(sched.this_slot(), 6u);
    for (CptId cpt = 0; cpt < 3; ++cpt) {
        for (int round = 0; round < 50; ++round) {
            u32 slot = 99;
            CptId here = 99;
            run_on(sched, cpt, [&] {
                slot = sched.this_slot();
                here = sched.this_cpt();
            });
            EXPECT_EQ(slot / 2, cpt);
            EXPECT_EQ(here, cpt);
        }
    }
}

TEST(ThreadSched, WorkersOfOtherSchedsCountAsOutside) {
    ThreadSched one(made_up(1, 2), floating());
    ThreadSched two(made_up(1, 1), floating());
    run_on(one, 0, [&] {
        EXPECT_LT(one.this_slot(), 2u);
        EXPECT_EQ(two.this_slot(), 1u);
        EXPECT_NE(&one.prng(), &two.prng());
    });
}

TEST(ThreadSched, NoLostWakeUpFromOutside) {
    for (const u32 workers : {1u, 2u, 4u}) {
        ThreadSched sched(made_up(1, workers), floating());
        Counting task;
        for (u64 round = 1; round <= 3000; ++round) {
            sched.post(0, task);
            ASSERT_TRUE(eventually([&] { return task.runs == round; }));
        }
    }
}

TEST(ThreadSched, NoLostWakeUpBetweenCpts) {
    ThreadSched sched(made_up(2, 2), floating());
    struct Bounce final : Task {
        void run() override {
            if (--left == 0)
                done = true;
            else
                sched->post(left % 2, *this);
        }
        Sched* sched = nullptr;
        u64 left = 20'000;
        std::atomic<bool> done{false};
    };
    std::vector<std::unique_ptr<Bounce>> balls;
    for (int i = 0; i < 4; ++i) {
        balls.push_back(std::make_unique<Bounce>());
        balls.back()->sched = &sched;
        sched.post(0, *balls.back());
    }
    for (const auto& ball : balls) EXPECT_TRUE(eventually([&] { return ball->done.load(); }));
}

TEST(ThreadSched, ManyPostersFromOutside) {
    ThreadSched sched(made_up(2, 2), floating());
    constexpr u32 threads = 4;
    constexpr u32 rounds = 2000;
    std::atomic<u64> runs{0};
    std::vector<std::thread> posters;
    for (u32 t = 0; t < threads; ++t)
        posters.emplace_back([&, t] {
            for (u32 round = 0; round < rounds; ++round)
                run_on(sched, (t + round) % 2, [&] { ++runs; });
        });
    for (auto& poster : posters) poster.join();
    EXPECT_EQ(runs, u64{threads} * rounds);
    u64 tasks = 0;
    sched.stop();
    for (const WorkerStats& stats : sched.worker_stats()) tasks += stats.tasks;
    EXPECT_EQ(tasks, u64{threads} * rounds);
    for (const CptStats& stats : sched.cpt_stats()) {
        EXPECT_EQ(stats.queue_length, 0u);
        EXPECT_GE(stats.queue_max, 1u);
    }
}

// A task behind a blocked worker goes to a sibling, also when it sat in the blocked one's batch.
TEST(ThreadSched, BlockedWorkerStrandsNothing) {
    ThreadSched sched(made_up(1, 2), floating());
    Blocker blocker;
    sched.post(0, blocker);
    ASSERT_TRUE(eventually([&] { return blocker.held.load(); }));
    std::vector<Counting> tasks(100);
    for (Counting& task : tasks) sched.post(0, task);
    for (Counting& task : tasks) EXPECT_TRUE(eventually([&] { return task.runs == 1; }));
    EXPECT_FALSE(blocker.ended);
    blocker.released = true;
    EXPECT_TRUE(eventually([&] { return blocker.ended.load(); }));
}

TEST(ThreadSched, TaskPostedByAWorkerThatThenBlocksIsRunByASibling) {
    for (const u32 workers : {2u, 3u, 4u}) {
        ThreadSched sched(made_up(1, workers), floating());
        for (u32 round = 0; round < 50; ++round) {
            Counting task;
            Blocker blocker;
            // One task queued: the poster is expected to take it, then is stuck.
            FnTask both([&] {
                sched.post(0, task);
                blocker.run();
            });
            sched.post(0, both);
            EXPECT_TRUE(eventually([&] { return task.runs == 1; }));
            EXPECT_FALSE(blocker.ended);
            blocker.released = true;
            EXPECT_TRUE(eventually([&] { return blocker.ended.load(); }));
        }
    }
}

TEST(ThreadSched, WorkSpreadsOverSiblings) {
    ThreadSched sched(made_up(1, 3), floating());
    std::vector<Blocker> blockers(3);
    for (Blocker& blocker : blockers) sched.post(0, blocker);
    for (Blocker& blocker : blockers) EXPECT_TRUE(eventually([&] { return blocker.held.load(); }));
    EXPECT_FALSE(sched.worth_handing_off(0, std::chrono::seconds(1)));
    for (Blocker& blocker : blockers) blocker.released = true;
    for (Blocker& blocker : blockers) EXPECT_TRUE(eventually([&] { return blocker.ended.load(); }));
    EXPECT_TRUE(eventually([&] { return sched.worth_handing_off(0, std::chrono::seconds(1)); }));
    EXPECT_FALSE(sched.worth_handing_off(0, std::chrono::microseconds(1)));
}

TEST(ThreadSched, SpinningSiblingTakesShortWork) {
    ThreadSchedOptions options = floating();
    options.spin = std::chrono::hours(1);
    ThreadSched sched(made_up(1, 2), options);
    EXPECT_TRUE(eventually([&] { return sched.worth_handing_off(0, Duration(1)); }));
    for (int round = 0; round < 100; ++round) run_on(sched, 0, [] {});
}

TEST(ThreadSched, StopRunsWhatIsQueuedAcrossCpts) {
    for (int round = 0; round < 50; ++round) {
        ThreadSched sched(made_up(2, 1), floating());
        struct Chain final : Task {
            void run() override {
                if (++runs < 100) sched->post(static_cast<CptId>(runs % 2), *this);
            }
            Sched* sched = nullptr;
            u64 runs = 0;
        } chain;
        chain.sched = &sched;
        sched.post(0, chain);
        sched.stop();
        EXPECT_EQ(chain.runs, 100u);
    }
}

TEST(ThreadSched, NowMovesWithTasks) {
    ThreadSched sched(made_up(1, 1), floating());
    Instant first, second;
    run_on(sched, 0, [&] {
        first = sched.now();
        EXPECT_EQ(first, sched.now());
    });
    run_on(sched, 0, [&] { second = sched.now(); });
    EXPECT_GT(second, first);
    EXPECT_GE(sched.now(), second);
    EXPECT_GT(sched.wall_ns(), 1'600'000'000'000'000'000u);
}

// Whoever acts on a deadline that another worker saw pass finds it passed, too.
TEST(ThreadSched, TimeDoesNotStepBackFromTaskToTask) {
    ThreadSchedOptions options = floating();
    options.spin = std::chrono::milliseconds(1);
    ThreadSched sched(made_up(1, 3), options);
    struct Chain final : Task {
        void run() override {
            if (sched->now() < posted) ++steps_back;
            posted = sched->now();
            if (++runs < 100000)
                sched->post(0, *this);
            else
                over = true;
        }
        ThreadSched* sched = nullptr;
        Instant posted{};
        u32 runs = 0, steps_back = 0;
        std::atomic<bool> over{false};
    };
    std::array<Chain, 2> chains;
    for (Chain& chain : chains) {
        chain.sched = &sched;
        sched.post(0, chain);
    }
    for (Chain& chain : chains) {
        ASSERT_TRUE(eventually([&] { return chain.over.load(); }));
        EXPECT_EQ(chain.steps_back, 0u);
    }
}

TEST(ThreadSched, TimersSeeTheirDeadlinePassed) {
    ThreadSchedOptions options = floating();
    options.spin = std::chrono::milliseconds(1);
    ThreadSched sched(made_up(1, 3), options);
    struct Due final : Timer {
        void fire() override {
            if (sched->now() < deadline) early = true;
            if (++fired == 300) {
                over = true;
                return;
            }
            deadline = sched->now() + std::chrono::microseconds(fired % 7 * 100);
            sched->arm(0, *this, deadline);
        }
        ThreadSched* sched = nullptr;
        Instant deadline{};
        u32 fired = 0;
        bool early = false;
        std::atomic<bool> over{false};
    };
    std::array<Due, 8> timers;
    for (Due& timer : timers) {
        timer.sched = &sched;
        sched.arm(0, timer, Instant{});
    }
    for (Due& timer : timers) {
        ASSERT_TRUE(eventually([&] { return timer.over.load(); }));
        EXPECT_FALSE(timer.early);
    }
}

TEST(ThreadSched, SeededGeneratorsRepeatAndDiffer) {
    const auto draw = [](u64 seed, CptId cpt) {
        ThreadSched sched(made_up(2, 1), {.pin = false, .seed = seed});
        u64 value = 0;
        run_on(sched, cpt, [&] { value = sched.prng().next(); });
        return value;
    };
    EXPECT_EQ(draw(7, 0), draw(7, 0));
    EXPECT_NE(draw(7, 0), draw(7, 1));
    EXPECT_NE(draw(7, 0), draw(8, 0));
}

TEST(ThreadSched, PinnedToThisMachine) {
    std::string why;
    auto table = CptTable::make(Topology::of_machine(), 0, "", why);
    ASSERT_TRUE(table.ok()) << why;
    ThreadSched sched(*table, {});
    for (CptId cpt = 0; cpt < sched.cpts().size(); ++cpt) {
        cpu_set_t set;
        run_on(sched, cpt, [&] { sched_getaffinity(0, sizeof set, &set); });
        EXPECT_EQ(static_cast<std::size_t>(CPU_COUNT(&set)), (*table)[cpt].cpus.size());
        for (const u32 cpu : (*table)[cpt].cpus) EXPECT_TRUE(CPU_ISSET(cpu, &set));
    }
}

}  // namespace
}  // namespace ulnet
