// What a push tells of a peer is merged here (lnet-wire 7.3, 7.4, as far as a node needs that does
// not start discovery itself). Control strand.
#include <algorithm>
#include <set>

#include "lnet/node_impl.h"

namespace ulnet {
namespace {

// The NIDs of a push, each once, in its order.
struct Reported {
    explicit Reported(const PingInfo& info) {
        for (const PingInfo::Entry& entry : info.nis)
            if (!entry.nid.any() && !entry.nid.is_lo() && known.insert(entry.nid).second)
                in_order.push_back(entry.nid);
    }
    std::vector<Nid> in_order;
    std::set<Nid> known;
};

}  // namespace

bool PeerTable::set_primary(const Nid& nid, const Nid& primary_nid, bool learned) {
    std::unique_lock<std::mutex> guard;
    const Ni* through = nullptr;
    for (const Ni* ni : node_.topology.latest().nis)
        if (ni->nid().net() == nid.net()) through = ni;
    Shard& shard = shard_of(nid);
    PeerNi* const entry = find_or_make(shard, nid, through, guard);
    if (entry == nullptr) return false;
    entry->primary = primary_nid;
    entry->learned = learned;
    return true;
}

void PeerTable::forget_nid(const Nid& nid) {
    Shard& shard = shard_of(nid);
    const std::lock_guard guard(shard.lock);
    if (PeerNi* const entry = find(shard, nid)) {
        entry->primary = nid;
        entry->learned = false;
    }
}

std::vector<Nid> PeerTable::take_out(Peer& peer) {
    std::vector<Nid> nids = std::move(peer.nids);
    for (const Nid& nid : nids) by_nid_.erase(nid);
    by_age_.erase(peer.age);
    peers_.erase(Nid(peer.primary));  // a copy: the key's owner goes with it
    return nids;
}

void PeerTable::learn(const Nid& source, const PingInfo& info, bool truncated) {
    if ((info.features & ping_multi_rail) == 0 || !known(source)) return;
    if (truncated) {
        // What is missing must not count as removed. A ping would tell the rest.
        if (const auto owner = by_nid_.find(source); owner != by_nid_.end())
            owner->second->state |= peer_force_ping;
        return;
    }
    const Reported nids(info);
    // A peer tells of itself: one that does not name the interface it speaks from is not believed,
    // nor one that names an interface of ours.
    if (info.primary().any() || !nids.known.contains(source)) return;
    for (const Ni* ni : node_.topology.latest().nis)
        if (nids.known.contains(ni->nid())) return;
    // Without discovery on both ends only the states of the interfaces could be used.
    if (!node_.options.discovery || (info.features & ping_discovery) == 0) return;
    merge(info);
}

void PeerTable::merge(const PingInfo& info) {
    Reported reported(info);
    std::vector<Nid>& nids = reported.in_order;
    // All peers that had one of these NIDs become this one. Those of their NIDs that were not
    // reported are peers of their own again, but only after the others have their new primary
    // NID: a message must not find a NID without its peer meanwhile.
    std::vector<Nid> lost;
    const auto take_from = [&](Peer& owner) {
        for (const Nid& nid : take_out(owner))
            if (!reported.known.contains(nid)) lost.push_back(nid);
    };
    for (const Nid& nid : nids)
        if (const auto owner = by_nid_.find(nid); owner != by_nid_.end()) take_from(*owner->second);
    while (by_nid_.size() + nids.size() > learned_max && !by_age_.empty())
        take_from(*by_age_.begin()->second);
    auto peer = std::make_unique<Peer>();
    peer->primary = info.primary();
    std::stable_partition(nids.begin(), nids.end(),
                          [&](const Nid& nid) { return nid == peer->primary; });
    peer->features = info.features;
    peer->sequence = info.sequence;
    peer->multi_rail = true;
    peer->state = peer_multi_rail | peer_nids_uptodate;
    if ((info.features & ping_rte_disabled) == 0) peer->state |= peer_router_enabled;
    peer->age = ++ages_;
    for (const Nid& nid : nids) {
        if (!set_primary(nid, peer->primary, true)) continue;
        peer->nids.push_back(nid);
        by_nid_[nid] = peer.get();
    }
    for (const Nid& nid : lost) forget_nid(nid);
    if (peer->nids.empty()) return;
    by_age_[peer->age] = peer.get();
    peers_[peer->primary] = std::move(peer);
}

}  // namespace ulnet
