// Engine and SimSched: time, order, cost, pausing, determinism.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/sim_sched.h"

namespace ulnet::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

Instant at(Duration since_start) {
    return Instant{} + since_start;
}

struct Mark final : Happening {
    Mark(std::vector<int>& list, int number) : marks(list), id(number) {}
    ~Mark() = default;
    void happen() override { marks.push_back(id); }
    std::vector<int>& marks;
    const int id;
};

void run(Engine& engine, Duration until = seconds(100)) {
    while (engine.step(at(until))) {
    }
}

TEST(Engine, HappensInOrderOfTimeThenOfScheduling) {
    Engine engine(1);
    std::vector<int> marks;
    Mark a(marks, 1), b(marks, 2), c(marks, 3), d(marks, 4);
    engine.schedule(a, at(microseconds(3)));
    engine.schedule(b, at(microseconds(1)));
    engine.schedule(c, at(microseconds(3)));
    engine.schedule(d, at(microseconds(2)));
    engine.withdraw(d);
    run(engine);
    EXPECT_EQ(marks, (std::vector<int>{2, 1, 3}));
    EXPECT_EQ(engine.now(), at(seconds(100)));
}

TEST(Engine, AgreesWithASortedModelUnderRandomSchedulingAndWithdrawing) {
    Engine engine(7);
    std::vector<int> marks, expected;
    std::vector<std::unique_ptr<Mark>> all;
    std::vector<std::pair<i64, int>> model;
    Prng prng(5);
    for (int i = 0; i < 20000; ++i) {
        all.push_back(std::make_unique<Mark>(marks, i));
        const auto time = static_cast<i64>(prng.below(1000));
        engine.schedule(*all.back(), at(Duration(time)));
        model.push_back({time, i});
    }
    for (int i = 0; i < 20000; ++i) {
        if (i % 8 == 0) continue;
        engine.withdraw(*all[static_cast<std::size_t>(i)]);
        model[static_cast<std::size_t>(i)].second = -1;
    }
    std::stable_sort(model.begin(), model.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });
    for (const auto& [time, id] : model)
        if (id >= 0) expected.push_back(id);
    run(engine);
    EXPECT_EQ(marks, expected);
}

TEST(Engine, MovesAnEventThatIsScheduledAgain) {
    Engine engine(1);
    std::vector<int> marks;
    Mark a(marks, 1), b(marks, 2);
    engine.schedule(a, at(microseconds(1)));
    engine.schedule(b, at(microseconds(2)));
    engine.schedule(a, at(microseconds(3)));
    run(engine);
    EXPECT_EQ(marks, (std::vector<int>{2, 1}));
}

class SchedTest : public testing::Test {
 protected:
    static SimSchedOptions options(u32 workers) {
        SimSchedOptions made;
        made.workers_per_cpt = workers;
        made.task_cost = microseconds(10);
        made.task_cost_spread = Duration{};
        made.wake_up_max = Duration{};
        made.window = 1;
        return made;
    }
    Engine engine_{3};
    CptTable table_ = CptTable::single(4);
};

TEST_F(SchedTest, WorkersShareTheWorkInVirtualTime) {
    for (const u32 workers : {1u, 2u, 4u, 8u}) {
        Engine engine(1);
        SimSched sched(engine, table_, options(workers));
        int done = 0;
        auto body = [&] { ++done; };
        std::vector<std::unique_ptr<FnTask<decltype(body)>>> tasks;
        for (int i = 0; i < 80; ++i) {
            tasks.push_back(std::make_unique<FnTask<decltype(body)>>(body));
            sched.post(0, *tasks.back());
        }
        while (!sched.idle()) ASSERT_TRUE(engine.step(at(seconds(1))));
        EXPECT_EQ(done, 80);
        // The last task began 80 / workers - 1 turns after the first.
        EXPECT_EQ(engine.now(), at(microseconds(10) * (80 / workers - 1)));
        for (const Duration busy : sched.busy()) EXPECT_EQ(busy, microseconds(10) * 80 / workers);
        run(engine);
    }
}

TEST_F(SchedTest, APostTakesEffectAtTheTimeItsTaskHasReached) {
    SimSched sched(engine_, table_, options(2));
    std::vector<Duration> times;
    FnTask late([&] { times.push_back(sched.now().time_since_epoch()); });
    FnTask first([&] {
        sched.charge(microseconds(30));
        sched.post(0, late);
        sched.charge(microseconds(60));
    });
    sched.post(0, first);
    run(engine_);
    // 10 us for the task, 30 charged; then the other worker takes it, at once.
    ASSERT_EQ(times.size(), 1u);
    EXPECT_EQ(times[0], microseconds(10 + 30 + 10));
}

class Counter final : public Strand {
 public:
    Counter(SimSched& sched, int turns) : Strand(sched, 0), left_(turns) {}
    ~Counter() = default;
    int overlaps = 0;
    std::vector<u32> slots;

 private:
    bool step(Budget&) override {
        const Instant begin = sched_.now();
        if (begin < end_) ++overlaps;
        static_cast<SimSched&>(sched_).charge(microseconds(5));
        end_ = sched_.now();
        slots.push_back(sched_.this_slot());
        return --left_ > 0;
    }
    int left_;
    Instant end_{};
};

TEST_F(SchedTest, AStrandNeverOverlapsItselfInVirtualTime) {
    SimSched sched(engine_, table_, options(4));
    Counter strand(sched, 100);
    strand.wake();
    run(engine_);
    EXPECT_TRUE(strand.idle());
    EXPECT_EQ(strand.slots.size(), 100u);
    EXPECT_EQ(strand.overlaps, 0);
}

struct Alarm final : Timer {
    explicit Alarm(SimSched& owner) : sched(owner) {}
    ~Alarm() = default;
    void fire() override { fired.push_back(sched.now().time_since_epoch()); }
    SimSched& sched;
    std::vector<Duration> fired;
};

TEST_F(SchedTest, TimersFireNearTheirTimeAndCanBeMovedAndCancelled) {
    SimSched sched(engine_, table_, options(1));
    Alarm kept(sched), moved(sched), cancelled(sched);
    sched.arm(0, kept, at(milliseconds(5)));
    sched.arm(0, moved, at(milliseconds(1)));
    sched.arm(0, moved, at(seconds(70)));
    sched.arm(0, cancelled, at(milliseconds(2)));
    EXPECT_TRUE(sched.cancel(cancelled));
    EXPECT_FALSE(sched.cancel(cancelled));
    run(engine_);
    ASSERT_EQ(kept.fired.size(), 1u);
    EXPECT_GE(kept.fired[0], milliseconds(5));
    EXPECT_LT(kept.fired[0], milliseconds(7));
    ASSERT_EQ(moved.fired.size(), 1u);
    EXPECT_GE(moved.fired[0], seconds(70));
    EXPECT_TRUE(cancelled.fired.empty());
    EXPECT_FALSE(sched.cancel(kept));
}

TEST_F(SchedTest, APausedNodeRunsNothingAndGoesOnLater) {
    SimSched sched(engine_, table_, options(2));
    Alarm due(sched), dropped(sched);
    sched.arm(0, due, at(milliseconds(1)));
    sched.arm(0, dropped, at(milliseconds(1)));
    int done = 0;
    FnTask task([&] { ++done; });
    sched.pause();
    sched.post(0, task);
    run(engine_, seconds(1));
    EXPECT_EQ(done, 0);
    EXPECT_TRUE(due.fired.empty());
    // Expired, but it has not fired: it can still be cancelled.
    EXPECT_TRUE(sched.cancel(dropped));
    sched.resume();
    run(engine_, seconds(2));
    EXPECT_EQ(done, 1);
    EXPECT_EQ(due.fired.size(), 1u);
    EXPECT_TRUE(dropped.fired.empty());
}

TEST_F(SchedTest, SlotsAreThoseOfTheContract) {
    SimSched sched(engine_, table_, options(3));
    EXPECT_EQ(sched.slots(), 4u);
    EXPECT_EQ(sched.this_slot(), 3u);
    u32 inside = 99;
    FnTask task([&] { inside = sched.this_slot(); });
    sched.post(0, task);
    run(engine_);
    EXPECT_LT(inside, 3u);
    EXPECT_EQ(sched.this_slot(), 3u);
}

TEST_F(SchedTest, WallClockJumpsAloneAndStartsWhereItWasTold) {
    SimSchedOptions made = options(1);
    made.wall_ns = 1000;
    SimSched sched(engine_, table_, made);
    run(engine_, seconds(1));
    EXPECT_EQ(sched.wall_ns(), 1000u + 1'000'000'000u);
    sched.jump_wall(-milliseconds(500));
    EXPECT_EQ(sched.wall_ns(), 1000u + 500'000'000u);
    EXPECT_EQ(sched.now(), at(seconds(1)));
}

// Random tasks that post others: the order is drawn from the seed and from nothing else.
std::pair<u64, std::vector<int>> shuffle(u64 seed) {
    Engine engine(seed);
    const CptTable table = CptTable::single(2);
    SimSched sched(engine, table, SimSchedOptions{});
    std::vector<int> order;
    struct Item final : Task {
        std::vector<int>* list;
        int id;
        void run() override { list->push_back(id); }
    };
    std::vector<Item> items(50);
    for (int i = 0; i < 50; ++i) {
        items[static_cast<std::size_t>(i)].list = &order;
        items[static_cast<std::size_t>(i)].id = i;
        sched.post(0, items[static_cast<std::size_t>(i)]);
    }
    run(engine);
    return {engine.hash(), order};
}

TEST(Determinism, TheSeedDecidesTheOrderOfTasksAndTheHash) {
    const auto one = shuffle(11), again = shuffle(11), other = shuffle(12);
    EXPECT_EQ(one, again);
    EXPECT_NE(one.first, other.first);
    EXPECT_NE(one.second, other.second);
    EXPECT_EQ(one.second.size(), 50u);
}

}  // namespace
}  // namespace ulnet::sim
