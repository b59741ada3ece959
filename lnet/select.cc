// Path selection. Pure; any worker, with the NetTopology pinned.
#include <cerrno>

#include "lnet/ni.h"
#include "lnet/topology.h"

namespace ulnet {

Ni* NetTopology::find(const Nid& nid) const {
    for (Ni* ni : nis)
        if (ni->nid() == nid) return ni;
    return nullptr;
}

Ni* NetTopology::loopback() const {
    return !nis.empty() && nis.front()->loopback() ? nis.front() : nullptr;
}

bool NetTopology::has_net(Net net) const {
    for (const Ni* ni : nis)
        if (ni->nid().net() == net) return true;
    return false;
}

namespace {

// One NI of the net for each destination, the same every time: the peer learns one NID of ours.
// NIs that are down come last, they are not left out.
Ni* choose_on_net(const NetTopology& topology, Net net, u64 hash) {
    u32 up = 0, all = 0;
    for (const Ni* ni : topology.nis) {
        if (ni->nid().net() != net) continue;
        ++all;
        if (ni->up()) ++up;
    }
    if (all == 0) return nullptr;
    u64 index = hash % (up > 0 ? up : all);
    for (Ni* ni : topology.nis) {
        if (ni->nid().net() != net || (up > 0 && !ni->up())) continue;
        if (index-- == 0) return ni;
    }
    return nullptr;  // the states changed meanwhile
}

}  // namespace

Way select_way(const NetTopology& topology, const Nid& from, const Nid& to) {
    if (to.any()) return {.status = Status(-EINVAL)};
    Ni* const source = from.any() ? nullptr : topology.find(from);
    if (!from.any() && source == nullptr) return {.status = Status(-EINVAL)};
    if (to.is_lo() || topology.find(to) != nullptr) {
        Ni* const lo = topology.loopback();
        if (lo == nullptr) return {.status = Status(-EHOSTUNREACH)};
        return {lo, to, ok_status};
    }
    if (source != nullptr) {
        if (source->loopback()) return {.status = Status(-EINVAL)};
        if (source->nid().net() != to.net()) return {.status = Status(-EHOSTUNREACH)};
        return {source, to, ok_status};
    }
    Ni* const ni = choose_on_net(topology, to.net(), to.hash());
    if (ni == nullptr) return {.status = Status(-EHOSTUNREACH)};
    return {ni, to, ok_status};
}

}  // namespace ulnet
