// Trace: rings, order, hash, reading while others write.
#include "cpt/trace.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "cpt/base/hash.h"
#include "cpt/threads.h"
#include "wait.h"

namespace ulnet {
namespace {

std::string_view name_of_kind(u32 kind) {
    return kind == 1 ? "one" : "other";
}

TEST(Trace, KeepsTheLastRecordsOfEachRing) {
    ThreadSched sched(CptTable::single(1), {.pin = false, .seed = 1});
    Trace trace(sched, 4, Trace::Hashing::no);
    run_on(sched, 0, [&] {
        for (u64 i = 0; i < 10; ++i) trace.add(1, 2, i, i * i);
    });
    trace.add(2, 0, 77, 0);
    const auto entries = trace.entries();
    ASSERT_EQ(entries.size(), 5u);
    for (u64 i = 0; i < 4; ++i) {
        EXPECT_EQ(entries[i].slot, 0u);
        EXPECT_EQ(entries[i].record.b, 6 + i);
        EXPECT_EQ(entries[i].record.c, (6 + i) * (6 + i));
    }
    EXPECT_EQ(entries[4].slot, 1u);
    EXPECT_EQ(entries[4].record.b, 77u);
    EXPECT_EQ(trace.hash(), 0u);
    const std::string text = trace.text(name_of_kind);
    EXPECT_NE(text.find(" 0 one 2 6 36\n"), std::string::npos) << text;
    EXPECT_NE(text.find(" 1 other 0 77 0\n"), std::string::npos) << text;
}

TEST(Trace, HashDependsOnEveryRecordAndItsPlace) {
    EXPECT_NE(hash_mix(hash_mix(0, 1), 2), hash_mix(hash_mix(0, 2), 1));
    std::set<u64> hashes;
    for (u64 bit = 0; bit < 64; ++bit) hashes.insert(hash_mix(7, u64{1} << bit));
    EXPECT_EQ(hashes.size(), 64u);
    ThreadSched sched(CptTable::single(1), {.pin = false, .seed = 1});
    Trace trace(sched, 1, Trace::Hashing::yes);
    std::set<u64> seen{trace.hash()};
    for (u32 i = 0; i < 5; ++i) {
        trace.add(1, 1, 1, 1);
        EXPECT_TRUE(seen.insert(trace.hash()).second);
    }
}

TEST(Trace, ReadWhileWritten) {
    ThreadSched sched(CptTable::single(2), {.pin = false, .seed = 1});
    Trace trace(sched, 64, Trace::Hashing::yes);
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        for (u64 round = 0; !stop; ++round)
            run_on(sched, 0, [&] {
                for (u64 i = 0; i < 200; ++i) trace.add(3, static_cast<u32>(i), round, ~round);
            });
    });
    EXPECT_TRUE(test::eventually([&] { return !trace.entries().empty(); }));
    for (u32 round = 0; round < 300; ++round)
        for (const auto& entry : trace.entries()) {
            ASSERT_EQ(entry.record.c, ~entry.record.b);
            ASSERT_EQ(entry.record.kind, 3u);
        }
    stop = true;
    writer.join();
}

}  // namespace
}  // namespace ulnet
