// The clocks of the machine; only ThreadSched and tools ask them, all others ask their Sched.
#pragma once

#include <ctime>

#include "cpt/base/types.h"

namespace ulnet {

inline u64 clock_ns(clockid_t clock) {
    timespec spec{};
    clock_gettime(clock, &spec);
    return static_cast<u64>(spec.tv_sec) * 1'000'000'000 + static_cast<u64>(spec.tv_nsec);
}
inline Instant monotonic_now() {
    return Instant(Duration(static_cast<i64>(clock_ns(CLOCK_MONOTONIC))));
}
inline u64 wall_clock_ns() {
    return clock_ns(CLOCK_REALTIME);
}

}  // namespace ulnet
