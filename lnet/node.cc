// The life of a Node: made with its loopback NI, interfaces come and go, everything ends. Control
// strand, except where a function says otherwise.
#include <algorithm>
#include <cerrno>

#include "cpt/cpt.h"
#include "lnet/ni_check.h"
#include "lnet/node_impl.h"

namespace ulnet {
namespace {

std::vector<CptId> all_cpts(CptId count) {
    std::vector<CptId> all(count);
    for (CptId i = 0; i < count; ++i) all[i] = i;
    return all;
}

NiConfig loopback_config(const Lnd& driver) {
    NiConfig config;
    config.net = net_lo;
    config.nid = nid_lo();
    config.credits = config.peer_credits = 0;
    config.peer_timeout_s = 0;
    for (const TunableSpec& spec : driver.tunables()) config.tunables.push_back(spec.def);
    return config;
}

}  // namespace

NodeImpl::NodeImpl(Sched& its_sched, std::span<Lnd* const> its_lnds, const NodeOptions& its_options)
    : sched(its_sched), lnds(its_lnds.begin(), its_lnds.end()), options(its_options),
      interface_cookie(its_sched.wall_ns()), counters(its_sched), peers(*this),
      topology(its_sched, std::make_unique<NetTopology>()), ping_target(*this), control(its_sched) {
    const CptId count = sched.cpts().size();
    CHECK(count > 0 && count <= 1u << Cookie::cpt_bits);
    for (CptId cpt = 0; cpt < count; ++cpt) {
        msg_pools.push_back(std::make_unique<MsgPool>(*this, cpt, options.messages_max));
        mds.push_back(std::make_unique<SlotTable<MdImpl>>(cpt, Cookie::kind_md));
        mes.push_back(std::make_unique<SlotTable<MeImpl>>(cpt, Cookie::kind_me));
        for (u32 i = 0; i < homes_a_cpt; ++i)
            homes.push_back(std::make_unique<FloatHome>(*this, cpt));
    }
    for (Lnd* const driver : lnds) {
        if (driver->net_type() != NetType::lo) continue;
        std::string why;
        Result<std::unique_ptr<Ni>> lo = open_ni(loopback_config(*driver), *driver, why);
        if (!lo.ok()) {
            log_line(LogLevel::error, "lnet: no loopback: " + why);
            continue;
        }
        auto next = std::make_unique<NetTopology>();
        next->nis.push_back(lo->get());
        nis.push_back(std::move(*lo));
        publish(std::move(next));
        break;
    }
    ping_target.start();
}

NodeImpl::~NodeImpl() {
    CHECK(completed.load());
}

Portal& NodeImpl::make_portal(PortalId id) {
    if (Portal* found = portal(id)) return *found;
    auto made = std::make_unique<Portal>(*this, id % cpts());
    const std::lock_guard guard(portals_lock);
    if (!portals_owned[id]) {
        portals_owned[id] = std::move(made);
        portals[id].store(portals_owned[id].get(), std::memory_order_release);
    }
    return *portals_owned[id];
}

std::unique_ptr<NetTopology> NodeImpl::topology_copy() const {
    return std::make_unique<NetTopology>(topology.latest());
}

void NodeImpl::publish(std::unique_ptr<NetTopology> next) {
    topology.publish(std::move(next));
    topology.settle();
}

Result<std::unique_ptr<Ni>> NodeImpl::open_ni(const NiConfig& config, Lnd& driver,
                                              std::string& why) {
    auto ni = std::make_unique<Ni>(*this, config, driver,
                                   config.cpts.empty() ? all_cpts(cpts()) : config.cpts);
    Result<std::unique_ptr<LndNi>> lnd = driver.open(config, *ni, sched, why);
    if (!lnd.ok()) return lnd.status();
    ni->opened(std::move(*lnd));
    return ni;
}

Error NodeImpl::add_ni(const NiConfig& config) {
    if (life != Life::open) return {Status(-ESHUTDOWN), "net: the node is closing"};
    Error error = check_ni_config(config, lnds, cpts());
    if (!error.ok()) return error;
    const auto same = [&](const std::unique_ptr<Ni>& ni) { return ni->nid() == config.nid; };
    if (std::any_of(nis.begin(), nis.end(), same))
        return {Status(-EEXIST), "net: '" + to_text(config.nid) + "' is configured already"};
    if (std::any_of(closing_nis.begin(), closing_nis.end(), same))
        return {Status(-EBUSY), "net: '" + to_text(config.nid) + "' is still being removed"};
    if (nis.size() + closing_nis.size() >= nis_max)
        return {Status(-ENOSPC), "net: '" + to_text(config.nid) + "' would be interface number " +
                                     std::to_string(nis.size() + 1) + ", at most " +
                                     std::to_string(nis_max) + " are allowed"};
    Lnd& driver = *find_driver(lnds, config.net.type());
    std::string why;
    Result<std::unique_ptr<Ni>> ni = open_ni(config, driver, why);
    if (!ni.ok())
        return {ni.status(), "net: '" + to_text(config.nid) +
                                 "' cannot be opened: " + (why.empty() ? ni.status().text() : why)};
    std::unique_ptr<NetTopology> next = topology_copy();
    next->nis.push_back(ni->get());
    nis.push_back(std::move(*ni));
    publish(std::move(next));
    ping_target.rebuild();
    advance_closing();
    log_line(LogLevel::info, "lnet: interface " + to_text(config.nid) + " added");
    return {};
}

Error NodeImpl::del_ni(const Nid& nid, std::function<void()> done) {
    if (life != Life::open) return {Status(-ESHUTDOWN), "net: the node is closing"};
    if (nid.is_lo()) return {Status(-EINVAL), "net: '0@lo' is always there, it cannot be removed"};
    const auto found =
        std::find_if(nis.begin(), nis.end(), [&](const auto& ni) { return ni->nid() == nid; });
    if (found == nis.end())
        return {Status(-ENOENT), "net: there is no interface '" + to_text(nid) + "'"};
    log_line(LogLevel::info, "lnet: interface " + to_text(nid) + " is being removed");
    std::unique_ptr<NetTopology> next = topology_copy();
    std::erase(next->nis, found->get());
    publish(std::move(next));
    begin_close(**found, std::move(done));
    closing_nis.push_back(std::move(*found));
    nis.erase(found);
    ping_target.rebuild();
    advance_closing();
    return {};
}

void NodeImpl::close(Task& done) {  // any worker
    control.queue([this, &done] {
        CHECK(life == Life::open);
        life = Life::nis_close;
        close_done = &done;
        auto next = std::make_unique<NetTopology>();
        next->closing = true;
        publish(std::move(next));
        last_epoch = topology.published();
        for (std::unique_ptr<Ni>& ni : nis) {
            begin_close(*ni, {});
            closing_nis.push_back(std::move(ni));
        }
        nis.clear();
        advance_closing();
    });
}

}  // namespace ulnet
