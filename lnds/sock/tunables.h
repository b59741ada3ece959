// The tunables of the driver: one table that feeds lnetctl, validation and the man pages, and the
// values of one NI, which may change while it works.
#pragma once

#include <array>
#include <atomic>
#include <span>

#include "lnet/lnd.h"

namespace ulnet::sock {

// Index into the table; the order of NiConfig::tunables.
enum class Tunable : u8 {
    accept,
    accept_port,
    accept_port_bulk,
    accept_backlog,
    accept_timeout,
    privileged,
    bind_interface,
    typed_conns,
    conns_per_peer,
    sock_timeout,
    min_reconnect_ms,
    max_reconnect_ms,
    eager_ack,
    min_bulk,
    tx_buffer_size,
    rx_buffer_size,
    nagle,
    round_robin,
    keepalive,
    keepalive_idle,
    keepalive_count,
    keepalive_intvl,
    tos,
    inject_rx_flip,
    protocol,
    enable_csum,
    inject_csum_error,
    nonblk_zcack,
    count_,
};
constexpr std::size_t tunable_count = static_cast<std::size_t>(Tunable::count_);

enum class Accept : u8 { secure, all, none };

std::span<const TunableSpec> tunable_specs();

// Values of one NI. Any thread reads; tune() writes.
class Tunables {
 public:
    // Fewer values than tunables: the rest has its defaults.
    explicit Tunables(std::span<const i64> values);
    i64 get(Tunable which) const { return at(which).load(std::memory_order_relaxed); }
    u32 get_u32(Tunable which) const { return static_cast<u32>(get(which)); }
    Duration seconds(Tunable which) const { return std::chrono::seconds(get(which)); }
    Duration milliseconds(Tunable which) const { return std::chrono::milliseconds(get(which)); }
    // For test aids that work one time: whether it is 1; it is 0 from now on.
    bool take_once(Tunable which) {
        i64 one = 1;
        return values_[static_cast<std::size_t>(which)].compare_exchange_strong(one, 0);
    }
    // EINVAL: no such tunable, or out of its range; EPERM: fixed once the NI is open.
    Status set(std::size_t index, i64 value);

 private:
    const std::atomic<i64>& at(Tunable which) const {
        return values_[static_cast<std::size_t>(which)];
    }
    std::array<std::atomic<i64>, tunable_count> values_;
};

}  // namespace ulnet::sock
