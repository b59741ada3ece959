// What can be set of a kfi NI. The table feeds lnetctl and the man pages.
#pragma once

#include <array>
#include <atomic>

#include "lnds/ofi/endpoint.h"
#include "lnet/lnd.h"

namespace ulnet::ofi {

// Order of the table.
enum class Tunable : u8 {
    provider,
    service,
    immediate_max,
    timeout,
    hello_interval,
    poll_us,
    rx_buffers,
    count_,
};
constexpr std::size_t tunable_count = static_cast<std::size_t>(Tunable::count_);

std::span<const TunableSpec> tunable_specs();

// Values of one NI. Any thread reads; tune() writes.
class Tunables {
 public:
    // Fewer values than tunables: the rest has its defaults.
    explicit Tunables(std::span<const i64> values);
    i64 get(Tunable which) const { return at(which).load(std::memory_order_relaxed); }
    u32 get_u32(Tunable which) const { return static_cast<u32>(get(which)); }
    Provider provider() const { return static_cast<Provider>(get(Tunable::provider)); }
    Duration timeout() const { return std::chrono::seconds(get(Tunable::timeout)); }
    // EINVAL: no such tunable, or out of its range; EPERM: fixed once the NI is open.
    Status set(std::size_t index, i64 value);

 private:
    const std::atomic<i64>& at(Tunable which) const {
        return values_[static_cast<std::size_t>(which)];
    }
    std::array<std::atomic<i64>, tunable_count> values_;
};

}  // namespace ulnet::ofi
