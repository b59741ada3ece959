// Read-only views of a Node for the control plane, taken on the control strand.
#pragma once

#include <string>
#include <vector>

#include "lnet/lnd.h"
#include "lnet/lnet.h"

namespace ulnet {

struct TypeCounts {
    u64 put, get, reply, ack, hello;
};
struct NiView {
    NiConfig config;
    bool up;
    std::string_view driver;
    std::span<const TunableSpec> tunables;
    u64 send_count, recv_count, drop_count;
    TypeCounts sent, received, dropped;
    i32 health;
    i64 credits_free, credits_low;
    i32 dev_cpt;  // CPT of the device's NUMA node, -1 unknown
    ctl::Value driver_view;
};
struct PeerNiView {
    Nid nid;
    i32 credits_max;
    i64 credits_free, credits_low;
    u64 queued;  // messages that wait for a credit
    u64 send_count, recv_count, drop_count;
    TypeCounts sent, received, dropped;
    i32 health;
    u32 refcount;
    u64 latency_p50_ns, latency_p99_ns;  // send to finished, of what ended well; 0 = none
};
struct PeerView {
    Nid primary;
    bool multi_rail;
    u32 state;
    std::vector<PeerNiView> nis;
};
// The counters of `stats show`, in the order of the protocol book.
struct StatsView {
    u64 msgs_alloc, msgs_max, rst_alloc, errors, send_count, resend_count, response_timeout_count,
        local_interrupt_count, local_dropped_count, local_aborted_count, local_no_route_count,
        local_timeout_count, local_error_count, remote_dropped_count, remote_error_count,
        remote_timeout_count, network_timeout_count, failed_resends, successful_resends, recv_count,
        route_count, drop_count, send_length, recv_length, route_length, drop_length;
};

std::vector<NiView> inspect_nis(Node&);
std::vector<PeerView> inspect_peers(Node&);
StatsView inspect_stats(Node&);
void reset_stats(Node&);
// Changes a per-NI tunable at run time (validated here); the Error's text is for the user.
Error set_ni_tunable(Node&, const Nid&, std::string_view name, std::string_view value);
const NodeOptions& inspect_options(Node&);

}  // namespace ulnet
