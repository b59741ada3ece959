// The views of a Node. Control strand.
#include "lnet/inspect.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>

#include "lnet/ni_check.h"
#include "lnet/node_impl.h"

namespace ulnet {
namespace {

ByType read(const Counters<NiCount>& counters, Happened happened) {
    ByType by_type{};
    for (u32 type = 0; type < msg_types; ++type)
        by_type[type] = counters.read(ni_count(happened, static_cast<MsgType>(type)));
    return by_type;
}

// Of all CPT queues together.
void add_credits(Ni& ni, NiView& view) {
    for (u32 i = 0; i < ni.queues(); ++i) {
        NiQueue& queue = ni.queue(i);
        const std::lock_guard guard(queue.lock);
        view.credits_free += queue.pool.balance();
        view.credits_low += queue.pool.low();
    }
}

PeerNiView view_of(PeerNi& entry, const ByType& received, const ByType& dropped) {
    PeerNiView view{};
    view.nid = entry.nid;
    view.recv_count = sum(received);
    view.drop_count = sum(dropped);
    view.received = to_counts(received);
    view.dropped = to_counts(dropped);
    view.refcount = entry.refs.load();
    const std::lock_guard guard(entry.lock);
    view.credits_max = static_cast<i32>(entry.pool.max());
    view.credits_free = entry.pool.balance();
    view.credits_low = entry.pool.low();
    view.queued = entry.pool.waiters().size();
    view.send_count = sum(entry.sent);
    view.sent = to_counts(entry.sent);
    view.health = entry.health;
    if (entry.latency != nullptr && entry.latency->count() > 0) {
        view.latency_p50_ns = static_cast<u64>(entry.latency->percentile(0.5).count());
        view.latency_p99_ns = static_cast<u64>(entry.latency->percentile(0.99).count());
    }
    return view;
}

}  // namespace

std::vector<NiView> inspect_nis(Node& node) {
    std::vector<NiView> views;
    for (const std::unique_ptr<Ni>& ni : node.impl().nis) {
        NiView view{};
        view.config = ni->config;
        view.config.tunables = ni->tunables;
        view.up = ni->up();
        view.driver = ni->driver.name();
        view.tunables = ni->driver.tunables();
        const ByType sent = read(ni->counters, Happened::sent);
        const ByType received = read(ni->counters, Happened::received);
        const ByType dropped = read(ni->counters, Happened::dropped);
        view.send_count = sum(sent);
        view.recv_count = sum(received);
        view.drop_count = sum(dropped);
        view.sent = to_counts(sent);
        view.received = to_counts(received);
        view.dropped = to_counts(dropped);
        view.health = ni->health.load(std::memory_order_relaxed);
        add_credits(*ni, view);
        view.dev_cpt = ni->loopback() ? 0 : -1;
        ni->lnd()->describe(view.driver_view);
        views.push_back(std::move(view));
    }
    return views;
}

std::vector<PeerView> inspect_peers(Node& node) {
    NodeImpl& impl = node.impl();
    std::map<Nid, PeerView> views;
    for (const auto& [primary, peer] : impl.peers.peers())
        views[primary] = PeerView{primary, peer->multi_rail, peer->state, {}};
    impl.peers.for_each([&](PeerNi& entry) {
        const PeerTable::Heard heard = impl.peers.heard_of(entry);
        PeerView& view = views[heard.primary];
        view.primary = heard.primary;
        view.nis.push_back(view_of(entry, heard.received, heard.dropped));
        view.nis.back().refcount -= 1;  // the visitor's own
    });
    std::vector<PeerView> sorted;
    for (auto& [nid, view] : views) {
        const Nid& first = nid;
        std::stable_sort(view.nis.begin(), view.nis.end(),
                         [&first](const PeerNiView& a, const PeerNiView& b) {
                             if ((a.nid == first) != (b.nid == first)) return a.nid == first;
                             return a.nid < b.nid;
                         });
        sorted.push_back(std::move(view));
    }
    return sorted;
}

StatsView inspect_stats(Node& node) {
    NodeImpl& impl = node.impl();
    const auto count = [&](Count kind) { return impl.counters.read(kind); };
    StatsView now{};
    for (const auto& pool : impl.msg_pools) {
        const MsgPool::Use use = pool->use();
        now.msgs_alloc += use.now;
        now.msgs_max += use.max;
    }
    now.rst_alloc = impl.tracked();
    const StatsView& base = impl.stats_base;
    now.errors = count(Count::errors) - base.errors;
    now.send_count = count(Count::send_count) - base.send_count;
    now.resend_count = count(Count::resend_count) - base.resend_count;
    now.response_timeout_count = count(Count::response_timeout) - base.response_timeout_count;
    now.local_interrupt_count = count(Count::local_interrupt) - base.local_interrupt_count;
    now.local_dropped_count = count(Count::local_dropped) - base.local_dropped_count;
    now.local_aborted_count = count(Count::local_aborted) - base.local_aborted_count;
    now.local_no_route_count = count(Count::local_no_route) - base.local_no_route_count;
    now.local_timeout_count = count(Count::local_timeout) - base.local_timeout_count;
    now.local_error_count = count(Count::local_error) - base.local_error_count;
    now.remote_dropped_count = count(Count::remote_dropped) - base.remote_dropped_count;
    now.remote_error_count = count(Count::remote_error) - base.remote_error_count;
    now.remote_timeout_count = count(Count::remote_timeout) - base.remote_timeout_count;
    now.network_timeout_count = count(Count::network_timeout) - base.network_timeout_count;
    now.failed_resends = count(Count::failed_resends) - base.failed_resends;
    now.successful_resends = count(Count::successful_resends) - base.successful_resends;
    now.recv_count = count(Count::recv_count) - base.recv_count;
    now.route_count = count(Count::route_count) - base.route_count;
    now.drop_count = count(Count::drop_count) - base.drop_count;
    now.send_length = count(Count::send_length) - base.send_length;
    now.recv_length = count(Count::recv_length) - base.recv_length;
    now.route_length = count(Count::route_length) - base.route_length;
    now.drop_length = count(Count::drop_length) - base.drop_length;
    return now;
}

void reset_stats(Node& node) {
    // Counters only grow, so the reset is a base that inspect_stats() takes off.
    NodeImpl& impl = node.impl();
    impl.stats_base = StatsView{};
    impl.stats_base = inspect_stats(node);
    for (const auto& pool : impl.msg_pools) pool->reset_max();
}

Error set_ni_tunable(Node& node, const Nid& nid, std::string_view name, std::string_view value) {
    NodeImpl& impl = node.impl();
    const auto found = std::find_if(impl.nis.begin(), impl.nis.end(),
                                    [&](const auto& ni) { return ni->nid() == nid; });
    if (found == impl.nis.end())
        return {Status(-ENOENT), "net: there is no interface '" + to_text(nid) + "'"};
    Ni& ni = **found;
    std::string known = "health";
    const std::span<const TunableSpec> specs = ni.driver.tunables();
    for (std::size_t i = 0; i < specs.size(); ++i) {
        if (!specs[i].per_ni) continue;
        known += ", " + std::string(specs[i].name);
        if (specs[i].name != name) continue;
        i64 number = 0;
        Error error = check_tunable(specs[i], value, number);
        if (!error.ok()) return error;
        const Status status = ni.lnd()->tune(i, number);
        if (!status.ok())
            return {status, std::string(name) + ": '" + std::string(value) +
                                "' was refused by driver '" + std::string(ni.driver.name()) +
                                "': " + status.text()};
        ni.tunables[i] = number;
        return {};
    }
    if (name == "health") {
        static constexpr TunableSpec health{.name = "health",
                                            .def = 1000,
                                            .low = 0,
                                            .high = 1000,
                                            .words = {},
                                            .unit = "",
                                            .per_ni = true,
                                            .help = ""};
        i64 number = 0;
        Error error = check_tunable(health, value, number);
        if (error.ok()) ni.health.store(static_cast<i32>(number), std::memory_order_relaxed);
        return error;
    }
    return {Status(-EINVAL),
            "'" + std::string(name) + "' cannot be set on an interface, these can: " + known};
}

const NodeOptions& inspect_options(Node& node) {
    return node.impl().options;
}

}  // namespace ulnet
