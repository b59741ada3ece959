// Counters from many threads; percentiles of the histogram against sorted values.
#include "cpt/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "cpt/threads.h"

namespace ulnet {
namespace {

enum class Kind { sent, received, count_ };

TEST(Counters, SumOverWorkersAndOutsiders) {
    ThreadSched sched(CptTable::single(3), {.pin = false, .seed = 1});
    Counters<Kind> counters(sched);
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (u32 i = 0; i < 500; ++i) {
                run_on(sched, 0, [&] { counters.add(Kind::sent); });
                counters.add(Kind::received, 3);
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(counters.read(Kind::sent), 2000u);
    EXPECT_EQ(counters.read(Kind::received), 6000u);
}

TEST(Histogram, PercentilesAreCloseFromAbove) {
    Prng prng(5);
    for (u32 round = 0; round < 50; ++round) {
        Histogram histogram;
        std::vector<i64> values;
        const u64 bits = 1 + prng.below(45);
        for (u32 i = 0; i < 500; ++i) {
            values.push_back(static_cast<i64>(prng.next() >> (64 - bits)));
            histogram.add(Duration(values.back()));
        }
        std::sort(values.begin(), values.end());
        for (const double share : {0.0, 0.01, 0.5, 0.9, 0.99, 1.0}) {
            const auto rank = std::max(std::ceil(share * 500), 1.0);
            const i64 exact = values[static_cast<std::size_t>(rank) - 1];
            const i64 got = histogram.percentile(share).count();
            EXPECT_GE(got, exact);
            EXPECT_LE(static_cast<double>(got), std::max(1.0, static_cast<double>(exact) * 1.19));
        }
        EXPECT_EQ(histogram.percentile(1.0), histogram.max());
        EXPECT_EQ(histogram.max().count(), values.back());
    }
}

TEST(Histogram, EmptyAndExtremes) {
    Histogram histogram;
    EXPECT_EQ(histogram.percentile(0.5), Duration{});
    EXPECT_EQ(histogram.mean(), Duration{});
    histogram.add(Duration(-5));
    EXPECT_EQ(histogram.percentile(1.0), Duration{});
    histogram.add(Duration::max());
    EXPECT_EQ(histogram.percentile(1.0), Duration::max());
    EXPECT_EQ(histogram.percentile(0.5), Duration(1));
    EXPECT_EQ(histogram.count(), 2u);
}

TEST(Histogram, PowersOfTwoStartTheirBucket) {
    for (u32 bit = 2; bit < 62; ++bit) {
        Histogram histogram;
        histogram.add(Duration((i64{1} << bit) - 1));
        histogram.add(Duration(i64{1} << bit));
        EXPECT_EQ(histogram.percentile(0.5).count(), (i64{1} << bit) - 1);
    }
}

TEST(Histogram, MergeIsTheSameAsAddingAll) {
    Histogram one, two, all;
    Prng prng(6);
    for (u32 i = 0; i < 1000; ++i) {
        const Duration value(static_cast<i64>(prng.below(1'000'000)));
        (i % 3 == 0 ? one : two).add(value);
        all.add(value);
    }
    one.merge(two);
    EXPECT_EQ(one.count(), all.count());
    EXPECT_EQ(one.mean(), all.mean());
    for (const double share : {0.1, 0.5, 0.999})
        EXPECT_EQ(one.percentile(share), all.percentile(share));
}

}  // namespace
}  // namespace ulnet
