// Strands: every interleaving of the two bits, and real threads.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <thread>

#include "cpt/threads.h"
#include "wait.h"

namespace ulnet {
namespace {

// The model: wakers that add work and wake, workers that take the strand off a queue and step it.
// Every atomic operation is one move; all orders of moves are walked.
template <class Bits> class StrandModel {
    static constexpr u32 wakers = 2;
    static constexpr u32 wakes_each = 2;
    static constexpr u32 workers = 2;
    enum Waker : u8 { adding, waking, posting };
    enum Worker : u8 { free, beginning, stepping, ending_idle, ending_more, reposting };
    struct State {
        u32 bits = 0;
        u8 queued = 0;
        u8 work = 0;
        u8 more_left = 1;  // how often a step may still say that there is more
        std::array<u8, wakers> waker{};
        std::array<u8, wakers> wakes{};
        std::array<u8, workers> worker{};
        bool owed = false;  // a step said "more" and none has followed
        auto operator<=>(const State&) const = default;
    };

 public:
    // Walks all states; the first broken rule, or nothing.
    std::string check() {
        walk(State{});
        return broken_;
    }
    std::size_t states() const { return seen_.size(); }

 private:
    void walk(const State& from) {
        if (!broken_.empty() || !seen_.insert(from).second) return;
        u32 inside = 0;
        for (const u8 at : from.worker) inside += at != free && at != reposting ? 1 : 0;
        if (inside > 1) broken_ = "two workers within the strand";
        if (from.queued > 1) broken_ = "queued twice";
        bool moved = false;
        for (u32 i = 0; i < wakers; ++i) moved |= move_waker(from, i);
        for (u32 i = 0; i < workers; ++i) moved |= move_worker(from, i);
        if (moved) return;
        if (from.work != 0) broken_ = "a wake was lost";
        if (from.owed) broken_ = "\"more\" was forgotten";
        if (!Bits(from.bits).idle()) broken_ = "not idle at the end";
    }
    bool move_waker(State to, u32 i) {
        if (to.wakes[i] == wakes_each) return false;
        if (to.waker[i] == adding) {
            ++to.work;
            to.waker[i] = waking;
        } else if (to.waker[i] == waking) {
            Bits bits(to.bits);
            const bool post = bits.wake();
            to.bits = bits.bits();
            to.waker[i] = post ? posting : adding;
            if (!post) ++to.wakes[i];
        } else {
            ++to.queued;
            ++to.wakes[i];
            to.waker[i] = adding;
        }
        walk(to);
        return true;
    }
    bool move_worker(State to, u32 i) {
        Bits bits(to.bits);
        switch (to.worker[i]) {
        case free:
            if (to.queued == 0) return false;
            --to.queued;
            to.worker[i] = beginning;
            break;
        case beginning:
            bits.begin();
            to.worker[i] = stepping;
            break;
        case stepping:
            to.work = 0;
            to.owed = false;
            to.worker[i] = ending_idle;
            if (to.more_left > 0) {
                State more = to;
                --more.more_left;
                more.owed = true;
                more.worker[i] = ending_more;
                walk(more);
            }
            break;
        case ending_idle:
        case ending_more:
            to.worker[i] = bits.end(to.worker[i] == ending_more) ? reposting : free;
            break;
        case reposting:
            ++to.queued;
            to.worker[i] = free;
            break;
        }
        to.bits = bits.bits();
        walk(to);
        return true;
    }

    std::set<State> seen_;
    std::string broken_;
};

TEST(StrandBits, EveryInterleaving) {
    StrandModel<StrandBits> model;
    EXPECT_EQ(model.check(), "");
    EXPECT_GT(model.states(), 1000u);
}

// The model must be able to find faults: without the second bit a wake during a step is lost.
class OneBit {
 public:
    explicit OneBit(u32 bits) : bits_(bits) {}
    bool wake() { return std::exchange(bits_, 1) == 0; }
    void begin() {}
    bool end(bool more) {
        if (!more) bits_ = 0;
        return more;
    }
    bool idle() const { return bits_ == 0; }
    u32 bits() const { return bits_; }

 private:
    u32 bits_;
};
// Clearing at the beginning lets two workers in.
class ClearsEarly : public OneBit {
 public:
    using OneBit::OneBit;
    void begin() { OneBit::end(false); }
};

TEST(StrandBits, TheModelFindsFaults) {
    EXPECT_EQ(StrandModel<OneBit>().check(), "a wake was lost");
    EXPECT_NE(StrandModel<ClearsEarly>().check(), "");
}

class CountingStrand final : public Strand {
 public:
    CountingStrand(Sched& sched, CptId cpt) : Strand(sched, cpt) {}
    std::atomic<u64> added{0};
    std::atomic<u64> done{0};
    std::atomic<u64> overlaps{0};
    std::atomic<bool> running{false};
    u64 plain = 0;  // without protection: TSan would see steps that are not ordered

 private:
    bool step(Budget& budget) override {
        if (running.exchange(true)) ++overlaps;
        bool more = false;
        while (done < added) {
            ++done;
            ++plain;
            if (!budget.take(1, 0)) {
                more = true;
                break;
            }
        }
        running = false;
        return more;
    }
};

TEST(Strand, NeverOverlapsAndLosesNoWake) {
    std::string why;
    Topology topology;
    topology.nodes = {{0, 1, 2, 3, 4, 5}};
    for (u32 cpu = 0; cpu < 6; ++cpu) topology.cores.push_back({cpu});
    ThreadSched sched(*CptTable::make(topology, 2, "", why), {.pin = false, .seed = 3});
    constexpr u32 strands_count = 4;
    constexpr u32 rounds = 5000;
    std::vector<std::unique_ptr<CountingStrand>> strands;
    for (u32 i = 0; i < strands_count; ++i)
        strands.push_back(std::make_unique<CountingStrand>(sched, i % 2));
    std::vector<std::thread> wakers;
    for (u32 w = 0; w < 3; ++w)
        wakers.emplace_back([&] {
            for (u32 round = 0; round < rounds; ++round) {
                CountingStrand& strand = *strands[round % strands_count];
                ++strand.added;
                strand.wake();
            }
        });
    for (auto& waker : wakers) waker.join();
    for (auto& strand : strands) {
        EXPECT_TRUE(test::eventually([&] { return strand->done == strand->added; }));
        EXPECT_TRUE(test::eventually([&] { return strand->idle(); }));
        EXPECT_EQ(strand->overlaps, 0u);
        EXPECT_EQ(strand->plain, strand->added);
    }
}

TEST(Strand, WakeFromItsOwnStepLeadsToAnother) {
    ThreadSched sched(CptTable::single(1), {.pin = false, .seed = 3});
    struct Self final : Strand {
        explicit Self(Sched& s) : Strand(s, 0) {}
        std::atomic<u32> steps{0};
        bool step(Budget&) override {
            if (++steps < 10) wake();
            return false;
        }
    } strand(sched);
    strand.wake();
    EXPECT_TRUE(test::eventually([&] { return strand.idle(); }));
    EXPECT_EQ(strand.steps, 10u);
}

// Idle means that the strand may be destroyed, also while its last run() returns.
TEST(Strand, DestroyedWhenIdle) {
    ThreadSched sched(CptTable::single(2), {.pin = false, .seed = 3});
    for (u32 round = 0; round < 500; ++round) {
        auto strand = std::make_unique<CountingStrand>(sched, 0);
        ++strand->added;
        strand->wake();
        ASSERT_TRUE(test::eventually([&] { return strand->idle(); }));
        ASSERT_EQ(strand->done, 1u);
    }
}

}  // namespace
}  // namespace ulnet
