// The table of tunables. Read by the core's control plane and at the opening of an NI; any thread.
#include "lnds/sock/tunables.h"

#include "lnds/sock/wire.h"

namespace ulnet::sock {
namespace {

constexpr std::string_view accept_words[] = {"secure", "all", "none"};

constexpr TunableSpec table[] = {
    {"accept", 0, 0, 2, accept_words, "", false,
     "whose connections are accepted: secure (source ports up to 1023), all, none"},
    {"accept_port", 988, 1, 65535, {}, "", false, "TCP port to listen on and to connect to"},
    {"accept_port_bulk",
     0,
     0,
     65535,
     {},
     "",
     false,
     "TCP port for connections of a bulk type and untyped ones; 0: accept_port"},
    {"accept_backlog", 127, 1, 65535, {}, "", false, "connections that may wait to be accepted"},
    {"accept_timeout",
     5,
     1,
     3600,
     {},
     "s",
     false,
     "time for the acceptor's request and again for the HELLO of an incoming connection"},
    {"privileged",
     1,
     0,
     1,
     {},
     "",
     false,
     "1: connect from ports 1023 down to 512, and take peers with higher ports as guests; 0: any "
     "port is as good"},
    {"bind_interface",
     0,
     0,
     1,
     {},
     "",
     false,
     "1: connections come and go by the interface of the NI only; 0: by the routes of the system"},
    {"typed_conns",
     1,
     0,
     1,
     {},
     "",
     true,
     "1: connections for small messages, bulk in and bulk out; 0: open untyped ones, which carry "
     "everything"},
    {"conns_per_peer",
     0,
     0,
     127,
     {},
     "",
     true,
     "connections of each bulk type, or untyped ones, to a peer; 0: from the speed of the link"},
    {"sock_timeout",
     50,
     1,
     3600,
     {},
     "s",
     true,
     "time without progress after which a connection is dead"},
    {"min_reconnectms", 1000, 1, 3600000, {}, "ms", true, "first wait before connecting again"},
    {"max_reconnectms", 60000, 1, 3600000, {}, "ms", true, "longest wait before connecting again"},
    {"eager_ack", 0, 0, 1, {}, "", true, "TCP acknowledges at once"},
    {"min_bulk", 1024, 0, 1 << 20, {}, "bytes", true, "smallest frame that is bulk"},
    {"tx_buffer_size",
     0,
     0,
     1 << 30,
     {},
     "bytes",
     true,
     "send buffer of new connections; 0: the system's choice"},
    {"rx_buffer_size",
     0,
     0,
     1 << 30,
     {},
     "bytes",
     true,
     "receive buffer of new connections; 0: the system's choice"},
    {"nagle", 0, 0, 1, {}, "", true, "leave Nagle's algorithm on"},
    {"round_robin",
     1,
     0,
     1,
     {},
     "",
     true,
     "of connections with equally many queued bytes take the least recently used"},
    {"keepalive", 30, 0, 3600, {}, "s", true, "silence after which a keepalive is sent; 0: never"},
    {"keepalive_idle", 30, 0, 32767, {}, "s", true, "TCP keepalive: idle time; 0: off"},
    {"keepalive_count", 5, 1, 127, {}, "", true, "TCP keepalive: probes until the end"},
    {"keepalive_intvl", 5, 1, 32767, {}, "s", true, "TCP keepalive: time between probes"},
    {"tos", -1, -1, 255, {}, "", true, "IP type of service of new connections; -1: leave it"},
    {"inject_rx_flip",
     0,
     0,
     1 << 30,
     {},
     "",
     true,
     "test aid: flip a byte of every Nth received payload of 1024 bytes and more; 0: never"},
    {"protocol",
     version_default,
     version_min,
     version_max,
     {},
     "",
     true,
     "version of the protocol that a peer of unknown version is spoken to in"},
    {"enable_csum", 0, 0, 1, {}, "", true, "send checksums to peers of version 2"},
    {"inject_csum_error",
     0,
     0,
     1,
     {},
     "",
     true,
     "test aid: make the next checksum sent a wrong one, then become 0"},
    {"nonblk_zcack",
     1,
     0,
     1,
     {},
     "",
     true,
     "versions 3 and 4: zero-copy acknowledgements go by BULK_IN, where no message holds them up"},
};
static_assert(std::size(table) == tunable_count);

}  // namespace

std::span<const TunableSpec> tunable_specs() {
    return table;
}

Tunables::Tunables(std::span<const i64> values) {
    for (std::size_t i = 0; i < tunable_count; ++i)
        values_[i].store(i < values.size() ? values[i] : table[i].def, std::memory_order_relaxed);
}

Status Tunables::set(std::size_t index, i64 value) {
    if (index >= tunable_count || value < table[index].low || value > table[index].high)
        return Status(-EINVAL);
    if (!table[index].per_ni) return Status(-EPERM);
    values_[index].store(value, std::memory_order_relaxed);
    return ok_status;
}

}  // namespace ulnet::sock
