// Histogram: buckets bounded by the quarter powers of two, found without floating point.
#include "cpt/counters.h"

#include <algorithm>
#include <cmath>

namespace ulnet {

namespace {

// 2^63 times 2^(0/4), 2^(1/4), 2^(2/4), 2^(3/4).
constexpr std::array<u64, 4> quarters = {0x8000000000000000, 0x9837f0518db8a96f, 0xb504f333f9de6484,
                                         0xd744fccad69d6af4};

u32 bucket_of(u64 value) {
    if (value == 0) return 0;
    const u32 zeros = static_cast<u32>(std::countl_zero(value));
    const u64 scaled = value << zeros;
    u32 quarter = 3;
    while (scaled < quarters[quarter]) --quarter;
    return (63 - zeros) * 4 + quarter;
}

// The largest value of a bucket.
u64 bucket_last(u32 bucket) {
    const u32 above = bucket + 1;
    if (above == Histogram::buckets) return ~u64{0};
    const u32 shift = 63 - above / 4;
    const u64 edge = quarters[above % 4];
    // The edge itself belongs to the bucket above when it is a whole number.
    const bool whole = (edge & ((u64{1} << shift) - 1)) == 0;
    return (edge >> shift) - (whole ? 1 : 0);
}

}  // namespace

void Histogram::add(Duration value) {
    value = std::max(value, Duration{});
    ++entries_[bucket_of(static_cast<u64>(value.count()))];
    ++count_;
    sum_ += value;
    max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) {
    for (u32 bucket = 0; bucket < buckets; ++bucket) entries_[bucket] += other.entries_[bucket];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
}

Duration Histogram::percentile(double share) const {
    if (count_ == 0) return {};
    const double wanted = std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(count_));
    const u64 rank = std::max<u64>(static_cast<u64>(wanted), 1);
    u64 seen = 0;
    for (u32 bucket = 0; bucket < buckets; ++bucket) {
        seen += entries_[bucket];
        if (seen < rank) continue;
        const u64 last = bucket_last(bucket);
        return Duration(static_cast<i64>(std::min(last, static_cast<u64>(max_.count()))));
    }
    return max_;
}

}  // namespace ulnet
