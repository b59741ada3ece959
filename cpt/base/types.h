// Fixed-width names used everywhere, and the two units of time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ulnet {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

using Duration = std::chrono::nanoseconds;

// Clock of a Sched: monotonic time, real or simulated. It has no now(): ask the Sched.
struct SchedClock {
    using duration = Duration;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<SchedClock>;
    static constexpr bool is_steady = true;
};
using Instant = SchedClock::time_point;
constexpr Instant instant_never = Instant::max();

// Index of a CPU partition within the CptTable of a Sched: 0 ... count-1.
using CptId = u32;

}  // namespace ulnet
