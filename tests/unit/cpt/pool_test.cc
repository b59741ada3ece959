// Pools: nothing is lost, nothing handed out twice, bounds hold, buffers go home.
#include "cpt/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <thread>

#include "cpt/threads.h"

namespace ulnet {
namespace {

std::unique_ptr<BufPool> pool_of(u32 count, u32 bytes, u32 head_room = 0) {
    auto pool = BufPool::make(1, {.count = count, .bytes = bytes, .head_room = head_room});
    EXPECT_TRUE(pool.ok());
    return std::move(*pool);
}

TEST(BufPool, EndsAndRefills) {
    auto pool = pool_of(3, 100, 28);
    std::vector<Buf> held;
    std::set<std::byte*> places;
    for (u32 i = 0; i < 3; ++i) {
        held.push_back(pool->get());
        ASSERT_TRUE(held.back());
        places.insert(held.back().data());
        EXPECT_EQ(held.back().cpt(), 1u);
    }
    EXPECT_EQ(places.size(), 3u);
    EXPECT_FALSE(pool->get());
    EXPECT_EQ(pool->free(), 0u);
    held.pop_back();
    EXPECT_EQ(pool->free(), 1u);
    EXPECT_TRUE(pool->get());
    held.clear();
    EXPECT_EQ(pool->free(), 3u);
    EXPECT_EQ(pool->low(), 0u);
}

TEST(BufPool, NoneAndTooMuch) {
    EXPECT_FALSE(pool_of(0, 100)->get());
    const auto huge = BufPool::make(0, {.count = 1, .bytes = 0xffffffff, .head_room = 1});
    ASSERT_FALSE(huge.ok());
    EXPECT_EQ(huge.status().code(), -ENOMEM);
}

TEST(Buf, WindowMovesWithinTheBlock) {
    auto pool = pool_of(1, 100, 28);
    Buf buf = pool->get();
    EXPECT_EQ(buf.size(), 0u);
    EXPECT_EQ(buf.head_room(), 28u);
    EXPECT_EQ(buf.tail_room(), 100u);
    buf.resize(100);
    std::fill(buf.bytes().begin(), buf.bytes().end(), std::byte{7});
    const auto header = buf.prepend(28);
    EXPECT_EQ(header.size(), 28u);
    EXPECT_EQ(header.data(), buf.data());
    EXPECT_EQ(buf.size(), 128u);
    buf.skip(28);
    EXPECT_EQ(buf.bytes()[0], std::byte{7});
    buf.resize(1);
    EXPECT_EQ(buf.tail_room(), 99u);
}

TEST(Buf, LastHandleSendsHome) {
    auto pool = pool_of(1, 10);
    Buf first = pool->get();
    EXPECT_TRUE(first.unique());
    Buf second = first;
    second.resize(4);
    EXPECT_EQ(first.size(), 0u);
    EXPECT_FALSE(first.unique());
    first = Buf();
    EXPECT_EQ(pool->free(), 0u);
    Buf third = std::move(second);
    EXPECT_FALSE(second);  // NOLINT: the moved-from handle is empty by contract
    Buf& itself = third;
    third = itself;
    EXPECT_EQ(third.size(), 4u);
    third = Buf();
    EXPECT_EQ(pool->free(), 1u);
}

TEST(BufPool, ManyThreadsLoseNothing) {
    constexpr u32 count = 16;
    auto pool = pool_of(count, 64);
    std::vector<std::thread> threads;
    std::atomic<u64> got{0};
    for (u32 t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            Prng prng(t);
            std::vector<Buf> held;
            for (u32 round = 0; round < 20'000; ++round) {
                if (prng.below(2) == 0 && held.size() < 8) {
                    Buf buf = pool->get();
                    if (!buf) continue;
                    ++got;
                    // Exclusive: nobody else writes this block.
                    buf.resize(64);
                    std::fill(buf.bytes().begin(), buf.bytes().end(), static_cast<std::byte>(t));
                    held.push_back(std::move(buf));
                } else if (!held.empty()) {
                    for (const std::byte byte : held.back().bytes())
                        if (byte != static_cast<std::byte>(t)) ADD_FAILURE() << "shared";
                    held.pop_back();
                }
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_GT(got, 0u);
    EXPECT_EQ(pool->free(), count);
}

struct Object {
    explicit Object(u64 number) : value(number) { ++live; }
    ~Object() { --live; }
    u64 value;
    static inline std::atomic<i64> live{0};
};

TEST(ObjectPool, BoundedAndConserving) {
    ThreadSched sched(CptTable::single(2), {.pin = false, .seed = 1});
    ObjectPool<Object> pool(sched, 10);
    std::vector<Object*> held;
    for (u64 i = 0; i < 10; ++i) {
        held.push_back(pool.make(i));
        ASSERT_NE(held.back(), nullptr);
    }
    EXPECT_EQ(pool.make(u64{10}), nullptr);
    EXPECT_EQ(Object::live, 10);
    for (u64 i = 0; i < 10; ++i) EXPECT_EQ(held[i]->value, i);
    run_on(sched, 0, [&] {
        for (Object* object : held) pool.free(*object);
    });
    EXPECT_EQ(pool.in_use(), 0u);
    EXPECT_EQ(Object::live, 0);
    // A small pool keeps nothing in the caches: all of it is in reach again.
    for (u64 i = 0; i < 10; ++i) {
        held[i] = pool.make(i);
        ASSERT_NE(held[i], nullptr);
    }
    for (Object* object : held) pool.free(*object);
}

TEST(ObjectPool, Alignment) {
    struct alignas(64) Wide {
        std::array<char, 65> bytes;
    };
    ThreadSched sched(CptTable::single(1), {.pin = false, .seed = 1});
    ObjectPool<Wide> pool(sched, 100);
    std::vector<Wide*> held;
    for (u32 i = 0; i < 100; ++i) {
        held.push_back(pool.make());
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back()) % 64, 0u);
    }
    std::sort(held.begin(), held.end());
    for (u32 i = 1; i < 100; ++i)
        EXPECT_GE(reinterpret_cast<char*>(held[i]) - reinterpret_cast<char*>(held[i - 1]), 128);
    for (Wide* wide : held) pool.free(*wide);
}

// Made on one worker, freed on another or outside.
TEST(ObjectPool, TravellingObjects) {
    Topology topology;
    topology.nodes = {{0, 1, 2, 3}};
    topology.cores = {{0}, {1}, {2}, {3}};
    std::string why;
    ThreadSched sched(*CptTable::make(topology, 2, "", why), {.pin = false, .seed = 1});
    ObjectPool<Object> pool(sched, 100'000);
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (u32 round = 0; round < 100; ++round) {
                std::vector<Object*> objects;
                run_on(sched, t % 2, [&] {
                    for (u64 i = 0; i < 200; ++i) objects.push_back(pool.make(i));
                });
                std::set<Object*> distinct(objects.begin(), objects.end());
                EXPECT_EQ(distinct.size(), objects.size());
                for (u64 i = 0; i < 200; ++i) EXPECT_EQ(objects[i]->value, i);
                const auto free_all = [&] {
                    for (Object* object : objects) pool.free(*object);
                };
                if (round % 3 == 0)
                    free_all();
                else
                    run_on(sched, (t + 1) % 2, free_all);
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(pool.in_use(), 0u);
    EXPECT_EQ(Object::live, 0);
}

}  // namespace
}  // namespace ulnet
