// Pollers of ThreadSched: served by whoever is free, never stranded, never called after removal.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "cpt/threads.h"
#include "wait.h"

namespace ulnet {
namespace {

using test::eventually;

// Counts what is written to its eventfd.
class EventPoller : public Poller {
 public:
    EventPoller() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
    virtual ~EventPoller() { close(fd_); }
    void signal() {
        const u64 one = 1;
        ASSERT_EQ(write(fd_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    }
    unsigned poll(Budget&) override {
        if (inside.exchange(true)) ++overlaps;
        if (removed) ++late_calls;
        u64 value = 0;
        if (read(fd_, &value, sizeof value) == sizeof value) seen += value;
        if (value > 0) found();
        inside = false;
        return static_cast<unsigned>(value);
    }
    Armed arm() override { return Armed::yes; }
    int wait_fd() const override { return fd_; }
    virtual void found() {}

    std::atomic<u64> seen{0};
    std::atomic<u64> overlaps{0};
    std::atomic<u64> late_calls{0};
    std::atomic<bool> inside{false};
    std::atomic<bool> removed{false};

 private:
    const int fd_;
};

void remove_and_wait(Sched& sched, Poller& poller) {
    std::atomic<bool> removed{false};
    FnTask done([&] { removed = true; });
    sched.remove_poller(0, poller, done);
    ASSERT_TRUE(eventually([&] { return removed.load(); }));
}

TEST(Pollers, ServedWhileEverybodySleeps) {
    for (const u32 workers : {1u, 2u, 4u}) {
        ThreadSched sched(CptTable::single(workers), {.pin = false, .seed = 1});
        EventPoller poller;
        sched.add_poller(0, poller);
        for (u64 round = 1; round <= 1000; ++round) {
            poller.signal();
            ASSERT_TRUE(eventually([&] { return poller.seen == round; }));
        }
        remove_and_wait(sched, poller);
        EXPECT_EQ(poller.overlaps, 0u);
    }
}

// The leader itself is held up by the work that its poller brought: another must take over.
TEST(Pollers, NotStrandedBehindABusyLeader) {
    ThreadSched sched(CptTable::single(2), {.pin = false, .seed = 1});
    struct Holding final : EventPoller {
        void found() override { sched->post(0, *held); }
        Sched* sched = nullptr;
        Task* held = nullptr;
    } poller;
    std::atomic<bool> holding{false};
    std::atomic<bool> release{false};
    std::atomic<u32> runs{0};
    FnTask hold([&] {
        ++runs;
        holding = true;
        while (!release) std::this_thread::yield();
        holding = false;
    });
    struct Quiet final : EventPoller {
    } quiet;
    poller.sched = &sched;
    poller.held = &hold;
    sched.add_poller(0, poller);
    sched.add_poller(0, quiet);
    for (u64 round = 1; round <= 100; ++round) {
        release = false;
        poller.signal();
        ASSERT_TRUE(eventually([&] { return holding.load(); }));
        quiet.signal();
        EXPECT_TRUE(eventually([&] { return quiet.seen == round; }));
        EXPECT_TRUE(holding);
        release = true;
        ASSERT_TRUE(eventually([&] { return !holding && runs == round; }));
    }
    remove_and_wait(sched, poller);
    remove_and_wait(sched, quiet);
}

// A worker held up by a task from outside, the leader being somebody else or itself.
TEST(Pollers, ServedBesideABlockedWorker) {
    for (const u32 workers : {2u, 3u}) {
        ThreadSched sched(CptTable::single(workers), {.pin = false, .seed = 1});
        EventPoller poller;
        sched.add_poller(0, poller);
        for (u64 round = 1; round <= 100; ++round) {
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
            poller.signal();
            EXPECT_TRUE(eventually([&] { return poller.seen == round; }));
            release = true;
            ASSERT_TRUE(eventually([&] { return ended.load(); }));
        }
        remove_and_wait(sched, poller);
    }
}

TEST(Pollers, NotStarvedByABusyQueue) {
    ThreadSched sched(CptTable::single(1), {.pin = false, .seed = 1});
    EventPoller poller;
    sched.add_poller(0, poller);
    struct Endless final : Task {
        void run() override {
            ++runs;
            if (stop)
                stopped = true;
            else
                sched->post(0, *this);
        }
        Sched* sched = nullptr;
        std::atomic<u64> runs{0};
        std::atomic<bool> stop{false};
        std::atomic<bool> stopped{false};
    } first, second;
    first.sched = second.sched = &sched;
    sched.post(0, first);
    sched.post(0, second);
    for (u64 round = 1; round <= 200; ++round) {
        poller.signal();
        ASSERT_TRUE(eventually([&] { return poller.seen == round; }));
    }
    EXPECT_GT(first.runs, 0u);
    first.stop = second.stop = true;
    ASSERT_TRUE(eventually([&] { return first.stopped && second.stopped; }));
    remove_and_wait(sched, poller);
}

TEST(Pollers, NeverCalledAfterRemoval) {
    ThreadSched sched(CptTable::single(3), {.pin = false, .seed = 1});
    std::vector<std::unique_ptr<EventPoller>> old;
    for (u32 round = 0; round < 500; ++round) {
        auto poller = std::make_unique<EventPoller>();
        sched.add_poller(0, *poller);
        poller->signal();
        if (round % 2 == 0) {
            ASSERT_TRUE(eventually([&] { return poller->seen == 1; }));
        }
        std::atomic<bool> removed{false};
        FnTask done([&] {
            poller->removed = true;
            removed = true;
        });
        sched.remove_poller(0, *poller, done);
        poller->signal();
        ASSERT_TRUE(eventually([&] { return removed.load(); }));
        old.push_back(std::move(poller));
    }
    for (const auto& poller : old) {
        EXPECT_EQ(poller->late_calls, 0u);
        EXPECT_EQ(poller->overlaps, 0u);
    }
}

// arm() that finds work already there sends the worker back to poll.
TEST(Pollers, BusyAtArmIsPolledAgain) {
    ThreadSched sched(CptTable::single(1), {.pin = false, .seed = 1});
    struct Shy final : EventPoller {
        Armed arm() override {
            ++arms;
            return arms % 3 == 0 ? Armed::yes : Armed::busy;
        }
        std::atomic<u64> arms{0};
    } poller;
    sched.add_poller(0, poller);
    for (u64 round = 1; round <= 100; ++round) {
        poller.signal();
        ASSERT_TRUE(eventually([&] { return poller.seen == round; }));
    }
    remove_and_wait(sched, poller);
}

TEST(Pollers, BusyPolledWithoutDescriptor) {
    ThreadSched sched(CptTable::single(2), {.pin = false, .seed = 1});
    struct Memory final : Poller {
        unsigned poll(Budget&) override {
            const u64 ready = ready_.exchange(0);
            seen += ready;
            return static_cast<unsigned>(ready);
        }
        Armed arm() override { return Armed::yes; }
        int wait_fd() const override { return -1; }
        std::atomic<u64> ready_{0};
        std::atomic<u64> seen{0};
    } poller;
    sched.add_poller(0, poller);
    for (u64 round = 1; round <= 200; ++round) {
        ++poller.ready_;
        ASSERT_TRUE(eventually([&] { return poller.seen == round; }));
        run_on(sched, 0, [] {});
    }
    remove_and_wait(sched, poller);
    run_on(sched, 0, [] {});
}

}  // namespace
}  // namespace ulnet
