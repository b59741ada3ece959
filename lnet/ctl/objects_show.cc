// Views of the Node as the trees that lnetctl prints, in the order of the kernel's tool (levels:
// protocol facts in docs/wire, lnetctl(8)). Control strand; no state.
#include <algorithm>

#include "lnet/ctl/ni_config.h"
#include "lnet/ctl/objects.h"

namespace ulnet::ctl {
namespace {

Value counts_of(const TypeCounts& counts) {
    Value map = Value::map();
    map.set("put", counts.put);
    map.set("get", counts.get);
    map.set("reply", counts.reply);
    map.set("ack", counts.ack);
    map.set("hello", counts.hello);
    return map;
}

template <class View> void add_statistics(Value& map, const View& view) {
    Value& statistics = map.set("statistics", Value::map());
    statistics.set("send_count", view.send_count);
    statistics.set("recv_count", view.recv_count);
    statistics.set("drop_count", view.drop_count);
}

// No selection policies exist, which the kernel's tool shows as -1.
void add_udsp(Value& map) {
    Value& info = map.set("udsp info", Value::map());
    info.set("net priority", -1);
    info.set("nid priority", -1);
}

template <class View> void add_type_counts(Value& map, const View& view) {
    map.set("sent_stats", counts_of(view.sent));
    map.set("received_stats", counts_of(view.received));
    map.set("dropped_stats", counts_of(view.dropped));
    map.set("health stats", Value::map()).set("health value", static_cast<i64>(view.health));
}

void add_tunables(Value& map, const NiView& ni, i64 level) {
    const bool lo = ni.config.net == net_lo;
    Value& tunables = map.set("tunables", Value::map());
    tunables.set("peer_timeout", lo ? 0 : static_cast<i64>(ni.config.peer_timeout_s));
    tunables.set("peer_credits", lo ? 0 : ni.config.peer_credits);
    tunables.set("peer_buffer_credits", lo ? 0 : ni.config.peer_buffer_credits);
    tunables.set("credits", lo ? 0 : ni.config.credits);
    if (lo) return;
    // What else our driver has is shown from level 5.
    Value lnd = Value::map();
    const auto value_of = [&](const TunableSpec& spec) {
        const i64 value = ni.config.tunables[static_cast<std::size_t>(&spec - ni.tunables.data())];
        return spec.words.empty() ? Value(value) : Value(tunable_text(spec, value));
    };
    const bool complete = ni.tunables.size() == ni.config.tunables.size();
    for (const KernelTunable& known : kernel_tunables)
        if (const TunableSpec* spec = find_tunable(ni.tunables, known.shown); spec && complete)
            lnd.set(known.shown, value_of(*spec));
    for (const TunableSpec& spec : ni.tunables)
        if (level >= 5 && complete && !lnd.has(spec.name)) lnd.set(spec.name, value_of(spec));
    if (lnd.size() > 0) map.set("lnd tunables", std::move(lnd));
}

Value show_ni(const NiView& ni, i64 level, u32 cpts) {
    Value map = Value::map();
    map.set("nid", to_text(ni.config.nid));
    map.set("status", ni.up ? "up" : "down");
    if (!ni.config.interface.empty() && ni.config.net != net_lo)
        map.set("interfaces", Value::map({{"0", Value(ni.config.interface)}}));
    if (level < 1) return map;
    add_statistics(map, ni);
    if (level >= 4) add_udsp(map);
    if (level >= 2) add_type_counts(map, ni);
    add_tunables(map, ni, level);
    map.set("dev cpt", static_cast<i64>(ni.dev_cpt));
    map.set("CPT", cpts_text(ni.config.cpts, cpts));
    if (level >= 5 && ni.config.net != net_lo) {
        Value& driver = map.set("driver", Value::map());
        driver.set("name", ni.driver);
        driver.set("credits_free", ni.credits_free);
        driver.set("credits_low", ni.credits_low);
        for (const auto& [key, value] : ni.driver_view.members()) driver.set(key, value);
    }
    return map;
}

// Router credits follow peer_buffer_credits of the NI's net, or the peer's credits when it is 0;
// a node that does not route takes none of them.
i64 router_credits(const PeerNiView& peer, std::span<const NiView> nis) {
    for (const NiView& ni : nis)
        if (ni.config.net == peer.nid.net() && ni.config.peer_buffer_credits > 0)
            return ni.config.peer_buffer_credits;
    return peer.credits_max;
}

Value show_peer_ni(const PeerNiView& peer, std::span<const NiView> nis, i64 level) {
    Value map = Value::map();
    map.set("nid", to_text(peer.nid));
    if (level >= 4) add_udsp(map);
    map.set("state", "NA");
    if (level < 1) return map;
    map.set("max_ni_tx_credits", static_cast<i64>(peer.credits_max));
    map.set("available_tx_credits", peer.credits_free);
    map.set("min_tx_credits", peer.credits_low);
    map.set("tx_q_num_of_buf", peer.queued);
    map.set("available_rtr_credits", router_credits(peer, nis));
    map.set("min_rtr_credits", router_credits(peer, nis));
    map.set("refcount", peer.refcount);
    add_statistics(map, peer);
    if (level >= 2) add_type_counts(map, peer);
    if (level >= 5) {
        Value& latency = map.set("latency", Value::map());
        latency.set("p50_us", static_cast<double>(peer.latency_p50_ns) / 1e3);
        latency.set("p99_us", static_cast<double>(peer.latency_p99_ns) / 1e3);
    }
    return map;
}

struct StatsKey {
    std::string_view name;
    u64 StatsView::*value;
};
constexpr StatsKey stats_keys[] = {
    {"msgs_alloc", &StatsView::msgs_alloc},
    {"msgs_max", &StatsView::msgs_max},
    {"rst_alloc", &StatsView::rst_alloc},
    {"errors", &StatsView::errors},
    {"send_count", &StatsView::send_count},
    {"resend_count", &StatsView::resend_count},
    {"response_timeout_count", &StatsView::response_timeout_count},
    {"local_interrupt_count", &StatsView::local_interrupt_count},
    {"local_dropped_count", &StatsView::local_dropped_count},
    {"local_aborted_count", &StatsView::local_aborted_count},
    {"local_no_route_count", &StatsView::local_no_route_count},
    {"local_timeout_count", &StatsView::local_timeout_count},
    {"local_error_count", &StatsView::local_error_count},
    {"remote_dropped_count", &StatsView::remote_dropped_count},
    {"remote_error_count", &StatsView::remote_error_count},
    {"remote_timeout_count", &StatsView::remote_timeout_count},
    {"network_timeout_count", &StatsView::network_timeout_count},
    {"failed_resends", &StatsView::failed_resends},
    {"successful_resends", &StatsView::successful_resends},
    {"recv_count", &StatsView::recv_count},
    {"route_count", &StatsView::route_count},
    {"drop_count", &StatsView::drop_count},
    {"send_length", &StatsView::send_length},
    {"recv_length", &StatsView::recv_length},
    {"route_length", &StatsView::route_length},
    {"drop_length", &StatsView::drop_length},
};

}  // namespace

Value show_nets(std::span<const NiView> nis, Net only, i64 level, u32 cpts) {
    Value nets = Value::list();
    std::vector<Net> done;
    for (const NiView& first : nis) {
        const Net net = first.config.net;
        if ((!only.any() && net != only) || std::find(done.begin(), done.end(), net) != done.end())
            continue;
        done.push_back(net);
        Value list = Value::list();
        for (const NiView& ni : nis)
            if (ni.config.net == net) list.push(show_ni(ni, level, cpts));
        Value block = Value::map();
        block.set("net type", to_text(net));
        block.set("local NI(s)", std::move(list));
        nets.push(std::move(block));
    }
    return Value::map({{"net", std::move(nets)}});
}

Value show_peers(std::span<const PeerView> peers, std::span<const NiView> nis, i64 level) {
    Value list = Value::list();
    for (const PeerView& peer : peers) {
        Value map = Value::map();
        map.set("primary nid", to_text(peer.primary));
        map.set("Multi-Rail", peer.multi_rail);
        if (level >= 3) map.set("peer state", peer.state);
        Value peer_nis = Value::list();
        for (const PeerNiView& ni : peer.nis) peer_nis.push(show_peer_ni(ni, nis, level));
        map.set("peer ni", std::move(peer_nis));
        list.push(std::move(map));
    }
    return Value::map({{"peer", std::move(list)}});
}

Value show_stats(const StatsView& stats) {
    Value map = Value::map();
    for (const StatsKey& key : stats_keys) map.set(key.name, stats.*key.value);
    return Value::map({{"statistics", std::move(map)}});
}

Value show_global(const NodeOptions& options) {
    Value map = Value::map();
    map.set("discovery", options.discovery ? 1 : 0);
    map.set("retry_count", options.retry_count);
    map.set("transaction_timeout", options.transaction_timeout_s);
    // The life of a message, shared by its attempts.
    map.set("lnd_timeout", (options.transaction_timeout_s - 1) / (options.retry_count + 1));
    map.set("response_tracking", static_cast<i64>(options.response_tracking));
    return Value::map({{"global", std::move(map)}});
}

Value show_cpts(const CptTable& table, std::span<const CptStats> cpts,
                std::span<const WorkerStats> workers) {
    Value list = Value::list();
    for (const CptStats& cpt : cpts) {
        Value map = Value::map();
        map.set("cpt", cpt.cpt);
        map.set("cpus", cpts_text(table[cpt.cpt].cpus, 0));
        map.set("node", table[cpt.cpt].node);
        map.set("queue_length", cpt.queue_length);
        map.set("queue_max", cpt.queue_max);
        Value& shown = map.set("workers", Value::list());
        for (const WorkerStats& worker : workers) {
            if (worker.cpt != cpt.cpt) continue;
            const double busy = worker.total_ns == 0 ? 0
                                                     : 100.0 * static_cast<double>(worker.busy_ns) /
                                                           static_cast<double>(worker.total_ns);
            Value entry = Value::map();
            entry.set("worker", worker.worker);
            entry.set("busy_percent", static_cast<double>(static_cast<i64>(busy * 10 + 0.5)) / 10);
            entry.set("busy_ns", worker.busy_ns);
            entry.set("total_ns", worker.total_ns);
            entry.set("tasks", worker.tasks);
            entry.set("hand_offs", worker.hand_offs);
            entry.set("wakeups", worker.wakeups);
            shown.push(std::move(entry));
        }
        list.push(std::move(map));
    }
    return Value::map({{"cpt", std::move(list)}});
}

}  // namespace ulnet::ctl
