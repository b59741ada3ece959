// What an NI shows of itself: connections, queues, counters. On the control strand.
#include "lnds/sock/listener.h"
#include "lnds/sock/ni.h"
#include "lnds/sock/peer.h"

namespace ulnet::sock {
namespace {

constexpr std::string_view count_names[] = {
    "rx_messages",
    "rx_bytes",
    "tx_messages",
    "tx_bytes",
    "zc_acks_sent",
    "keepalives_sent",
    "keepalives_received",
    "parked",
    "accepted",
    "refusals_sent",
    "connects",
    "connect_failures",
    "refusals_received",
    "protocol_errors",
    "checksum_errors",
    "timeouts",
    "connections_lost",
    "flips_injected",
};
static_assert(std::size(count_names) == static_cast<std::size_t>(Count::count_));

}  // namespace

void SockNi::describe(ctl::Value& out) const {
    if (!out.is_map()) out = ctl::Value::map();
    out.set("incarnation", incarnation_);
    out.set("guest", guest());
    out.set("conns_per_peer", conns_per_peer());
    {
        const std::lock_guard guard(listener_lock_);
        out.set("listen",
                listener_ != nullptr ? ctl::Value(to_text(listener_->wanted())) : ctl::Value());
        out.set("accept_dropped", listener_ != nullptr ? listener_->dropped() : u64{0});
        out.set("accept_shortages", listener_ != nullptr ? listener_->shortages() : u64{0});
    }
    ctl::Value counters = ctl::Value::map();
    for (std::size_t i = 0; i < std::size(count_names); ++i)
        counters.set(count_names[i], counters_.read(static_cast<Count>(i)));
    out.set("counters", std::move(counters));
    ctl::Value peers = ctl::Value::list();
    ctl::Value connections = ctl::Value::list();
    for (const auto& shard : shards_)
        for (const Ref<Peer>& peer : peers_of(*shard)) peer->describe(peers, connections);
    out.set("peers", std::move(peers));
    out.set("connections", std::move(connections));
}

}  // namespace ulnet::sock
