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
        const std::lock_guard guard(listeners_lock_);
        const auto place = [](const Listener* listener) {
            return listener != nullptr ? ctl::Value(to_text(listener->wanted())) : ctl::Value();
        };
        out.set("listen", place(listeners_[0]));
        if (listeners_[1] != nullptr) out.set("listen_bulk", place(listeners_[1]));
        u64 dropped = 0, shortages = 0;
        for (const Listener* const listener : listeners_) {
            if (listener == nullptr) continue;
            dropped += listener->dropped();
            shortages += listener->shortages();
        }
        out.set("accept_dropped", dropped);
        out.set("accept_shortages", shortages);
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
