// The Node's counters (lnet-wire 16 and those of `stats show`) and the per-type counts of an NI.
#pragma once

#include <array>

#include "cpt/counters.h"
#include "lnet/inspect.h"

namespace ulnet {

enum class Count : u8 {
    errors,
    send_count,
    resend_count,
    response_timeout,
    local_interrupt,
    local_dropped,
    local_aborted,
    local_no_route,
    local_timeout,
    local_error,
    remote_dropped,
    remote_error,
    remote_timeout,
    network_timeout,
    failed_resends,
    successful_resends,
    recv_count,
    route_count,
    drop_count,
    send_length,
    recv_length,
    route_length,
    drop_length,
    count_,
};

// Messages of an NI by what happened and type: happened * types + type.
enum class Happened : u8 { sent, received, dropped };
constexpr u8 msg_types = 5;
enum class NiCount : u8 { count_ = 3 * msg_types };
constexpr NiCount ni_count(Happened happened, MsgType type) {
    return static_cast<NiCount>(static_cast<u32>(happened) * msg_types + static_cast<u32>(type));
}

// Counts by type in wire order, for owners that have a lock.
using ByType = std::array<u64, msg_types>;
TypeCounts to_counts(const ByType&);
u64 sum(const ByType&);

// Counts a message that did not end well; `ok` counts nothing.
void count_health(Counters<Count>&, Health);

}  // namespace ulnet
