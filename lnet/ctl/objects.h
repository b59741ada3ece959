// The commands of the core's objects: net, peer, ping, stats, global, config; and cpt, which needs
// the threaded Sched. Each registers what it can be asked; the work runs on the control strand.
#pragma once

#include <functional>

#include "cpt/threads.h"
#include "lnet/ctl/interfaces.h"
#include "lnet/ctl/registry.h"
#include "lnet/inspect.h"

namespace ulnet::ctl {

struct ObjectsOptions {
    std::span<Lnd* const> lnds;
    // Where NIs get their interface from; tests give their own.
    std::function<std::vector<InterfaceAddress>()> addresses = interface_addresses;
};

// The Node and the drivers outlive the registry.
void register_objects(Node&, Registry&, const ObjectsOptions&);
// `cpt show`.
void register_cpt(const ThreadSched&, Registry&);

// Adds what a configuration tree asks for, all or nothing (control strand). The note is that of
// the plan. done may run within the call.
void apply_config(Node&, const ObjectsOptions&, const Value& tree,
                  std::function<void(Error, std::string note)> done);

// What the commands print, apart from where the views come from: levels as in lnetctl(8).
Value show_nets(std::span<const NiView>, Net only, i64 level, u32 cpts);
Value show_peers(std::span<const PeerView>, std::span<const NiView>, i64 level);
Value show_stats(const StatsView&);
Value show_global(const NodeOptions&);
Value show_cpts(const CptTable&, std::span<const CptStats>, std::span<const WorkerStats>);

}  // namespace ulnet::ctl
