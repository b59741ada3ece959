// The tables of the objects: data only. The help texts end up in `lnetctl OBJECT --help` and, as
// they are, in lnetctl(8).
#include "lnet/ctl/schema.h"

namespace ulnet::ctl {
namespace {

constexpr i64 credits_max = 65535;
constexpr i64 seconds_max = 1000000;

// Short forms for the lines below.
using T = FieldType;
constexpr Field ignored(std::string_view key) {
    return {key, "", 0, T::ignored, 0, 0, "", "", key, ""};
}

constexpr Field verbose{
    "verbose", "verbose", 'v', T::level, 0,
    5,         "",        "",  "",       "how much to show: 1 (when no LEVEL follows) ... 5"};

constexpr Field net_add_fields[] = {
    {"net", "net", 'n', T::net, 0, 0, "", "", "net type", "network of the interface, e.g. tcp1"},
    {"if", "if", 'i', T::interfaces, 0, 0, "", "", "interfaces",
     "interfaces IF[,IF...], each with its partitions if wanted: eth0[0,1]"},
    {"nid", "nid", 0, T::nids, 0, 0, "", "", "nid",
     "NIDs instead of --net and --if: the interface is the one that has the address"},
    {"peer_timeout", "peer-timeout", 't', T::integer, -1, seconds_max, "s", "tunables",
     "peer_timeout", "silence after which a peer counts as dead, 0 = never"},
    {"peer_credits", "peer-credits", 'c', T::integer, 1, credits_max, "", "tunables",
     "peer_credits", "messages in flight to one peer"},
    {"peer_buffer_credits", "peer-buffer-credits", 'b', T::integer, 0, credits_max, "", "tunables",
     "peer_buffer_credits", "router buffers for one peer, 0 = as peer_credits"},
    {"credits", "credits", 'r', T::integer, 1, credits_max, "", "tunables", "credits",
     "messages in flight on the interface"},
    {"cpt", "cpt", 's', T::cpts, 0, 0, "", "", "CPT",
     "partitions that serve the interface, e.g. [0,1]; all when left out"},
    {"conns_per_peer", "conns-per-peer", 'm', T::tunable, 0, 0, "", "", "",
     "connections of each type to a peer, 0 = by link speed"},
    {"tos", "tos", 0, T::tunable, 0, 0, "", "", "", "IP type of service, -1 = the system's"},
    {"tunables", "tunable", 'T', T::tunables, 0, 0, "", "", "lnd tunables",
     "NAME=VALUE: any tunable of the driver (see lnetd(8)); repeatable"},
    {"addresses", "address", 0, T::addresses, 0, 0, "", "", "addresses",
     "kfi: NID=ADDRESS, where a NID of the network is (see lnetd(8)); repeatable"},
    {"skip_mr_route_setup", "skip-mr-route-setup", 'k', T::flag, 0, 0, "", "", "",
     "accepted for scripts: ulnet never changes the routes of the system"},
    ignored("status"),
    ignored("statistics"),
    ignored("sent_stats"),
    ignored("received_stats"),
    ignored("dropped_stats"),
    ignored("udsp info"),
    ignored("health stats"),
    ignored("driver"),
    ignored("dev cpt"),
};

constexpr Field net_del_fields[] = {
    {"net", "net", 'n', T::net, 0, 0, "", "", "", "network; all its interfaces go without --if"},
    {"if", "if", 'i', T::interfaces, 0, 0, "", "", "", "interfaces of that network"},
    {"nid", "nid", 0, T::nids, 0, 0, "", "", "", "NIDs instead of --net and --if"},
};

constexpr Field net_show_fields[] = {
    {"net", "net", 'n', T::net, 0, 0, "", "", "", "only this network"},
    verbose,
};

constexpr Field net_set_fields[] = {
    {"nid", "nid", 'n', T::nid, 0, 0, "", "", "", "the interface with this NID"},
    {"all", "all", 'a', T::flag, 0, 0, "", "", "", "all interfaces but the loopback"},
    {"net", "net", 0, T::net, 0, 0, "", "", "", "all interfaces of this network"},
    {"timeout", "lnd-timeout", 0, T::tunable, 0, 0, "s", "", "",
     "time-out of the driver for one message"},
    {"conns_per_peer", "conns-per-peer", 'm', T::tunable, 0, 0, "", "", "",
     "connections of each type to a peer, 0 = by link speed"},
    {"tunables", "tunable", 'T', T::tunables, 0, 0, "", "", "",
     "NAME=VALUE: a tunable of the driver that may change while it runs; repeatable"},
};

constexpr Verb net_verbs[] = {
    {"add", Access::write, "add an interface to a network", net_add_fields, ""},
    {"del", Access::write, "remove interfaces from a network", net_del_fields, ""},
    {"show", Access::read, "show networks and their interfaces", net_show_fields, ""},
    {"set", Access::write, "change a running interface", net_set_fields, ""},
};

constexpr Field ping_fields[] = {
    {"nids", "", 0, T::nids, 0, 0, "", "", "", "NIDs to ping, ranges as 10.0.0.[1-5]@tcp"},
    {"source", "source", 's', T::nid, 0, 0, "", "", "", "NID of this node to ping from"},
    {"timeout", "timeout", 't', T::integer, 1, 1000, "s", "", "",
     "longest wait for each answer, 15 s when left out"},
};
constexpr Verb ping_verbs[] = {
    {"run", Access::read, "ask nodes for their NIDs", ping_fields, "nids"},
};

constexpr Field peer_show_fields[] = {
    {"nid", "nid", 'n', T::nid, 0, 0, "", "", "", "only the peer that has this NID"},
    verbose,
};
constexpr Verb peer_verbs[] = {
    {"show", Access::read, "show peers", peer_show_fields, ""},
    {"list", Access::read, "show the primary NIDs of all peers", {}, ""},
};

constexpr Verb stats_verbs[] = {
    {"show", Access::read, "show the counters of the node", {}, ""},
    {"reset", Access::write, "set the counters of the node to 0", {}, ""},
};

constexpr Verb cpt_verbs[] = {
    {"show", Access::read, "show the load of every partition and worker", {}, ""},
};

// Settable by the file that lnetd starts with; what an export of the kernel's tool holds beyond
// them is accepted, and named in the plan's note unless it is 0.
constexpr Field global_set_fields[] = {
    ignored("numa_range"),
    ignored("max_interfaces"),
    {"discovery", "", 0, T::integer, 0, 1, "", "", "discovery",
     "1 = tell peers that this node takes part in discovery"},
    ignored("drop_asym_route"),
    {"retry_count", "", 0, T::integer, 0, 1000, "", "", "retry_count", "how often to resend"},
    {"transaction_timeout", "", 0, T::integer, 1, seconds_max, "s", "", "transaction_timeout",
     "life of a message; greater than retry_count"},
    ignored("health_sensitivity"),
    ignored("recovery_interval"),
    ignored("router_sensitivity"),
    ignored("lnd_timeout"),
    {"response_tracking", "", 0, T::integer, 0, 3, "", "", "response_tracking",
     "whose answers have a deadline: 0 LNet's own, 1 GETs, 2 PUTs with ACK, 3 all"},
    ignored("recovery_limit"),
    ignored("max_recovery_ping_interval"),
};
constexpr Verb global_verbs[] = {
    {"show", Access::read, "show the settings of the node", {}, ""},
    {"set", Access::write, "settings of the node at its start", global_set_fields, ""},
};

constexpr Object all[] = {
    {"net", net_verbs},     {"ping", ping_verbs}, {"peer", peer_verbs},
    {"stats", stats_verbs}, {"cpt", cpt_verbs},   {"global", global_verbs},
};

}  // namespace

std::span<const Object> objects() {
    return all;
}

}  // namespace ulnet::ctl
