// The peer table: entries come with traffic and go when idle and many. Any worker, but for what
// the header gives to the control strand.
#include "lnet/peer.h"

#include "lnet/node_impl.h"

namespace ulnet {
namespace {

constexpr i64 peer_credits_default = 8;  // of an entry that no NI of ours reaches yet

u64 hash_of(const PeerNi& entry) {
    return mix_hash(entry.nid.hash());
}

}  // namespace

PeerTable::~PeerTable() {
    for (Shard& shard : shards_)
        while (!shard.by_use.empty()) {
            const std::unique_ptr<PeerNi> entry(&shard.by_use.front());
            CHECK(entry->refs.load() == 0);
            unlink(shard, *entry);
        }
}

PeerTable::Shard& PeerTable::shard_of(const Nid& nid) const {
    return shards_[(mix_hash(nid.hash()) >> 56) % shards];
}

PeerNi* PeerTable::find(Shard& shard, const Nid& nid) {
    for (PeerNi& entry : shard.buckets.at(mix_hash(nid.hash())))
        if (entry.nid == nid) return &entry;
    return nullptr;
}

void PeerTable::unlink(Shard& shard, PeerNi& entry) {
    shard.buckets.at(hash_of(entry)).remove(entry);
    shard.by_use.remove(entry);
}

std::unique_ptr<PeerNi> PeerTable::make(const Nid& nid, const Ni* through) {
    const i64 credits = through != nullptr ? through->config.peer_credits : peer_credits_default;
    auto entry = std::make_unique<PeerNi>(*this, nid, credits);
    if (through != nullptr) entry->cpt = through->cpts[through->queue_of(nid.hash())];
    return entry;
}

PeerNi* PeerTable::find_or_make(Shard& shard, const Nid& nid, const Ni* through,
                                std::unique_lock<std::mutex>& guard) {
    guard = std::unique_lock(shard.lock);
    if (PeerNi* entry = find(shard, nid)) {
        shard.by_use.remove(*entry);
        shard.by_use.push_back(*entry);
        return entry;
    }
    guard.unlock();
    std::unique_ptr<PeerNi> fresh = make(nid, through);
    std::unique_ptr<PeerNi> evicted;  // freed after the lock
    if (shard_crowded(shard)) grow(shard);
    guard.lock();
    if (PeerNi* entry = find(shard, nid)) return entry;
    if (shard.by_use.size() >= entries_max / shards) {
        evicted.reset(evict(shard));
        if (!evicted) return nullptr;
    }
    PeerNi* const entry = fresh.release();
    shard.buckets.at(hash_of(*entry)).push_back(*entry);
    shard.by_use.push_back(*entry);
    return entry;
}

PeerNi* PeerTable::evict(Shard& shard) {
    for (u32 seen = 0; seen < evict_scan_max && !shard.by_use.empty(); ++seen) {
        PeerNi& oldest = shard.by_use.front();
        if (oldest.refs.load() == 0 && !oldest.learned) {
            unlink(shard, oldest);
            return &oldest;
        }
        shard.by_use.remove(oldest);
        shard.by_use.push_back(oldest);
    }
    return nullptr;
}

bool PeerTable::shard_crowded(Shard& shard) {
    const std::lock_guard guard(shard.lock);
    return shard.buckets.crowded(shard.by_use.size());
}

void PeerTable::grow(Shard& shard) {
    u32 wanted;
    {
        const std::lock_guard guard(shard.lock);
        wanted = shard.buckets.buckets() * 2;
    }
    HashLists<PeerNi, OnPeerBucket> larger(wanted);
    const std::lock_guard guard(shard.lock);
    if (shard.buckets.buckets() >= wanted) return;
    larger.take_all(shard.buckets, hash_of);
    shard.buckets.swap(larger);
}

PeerNi* PeerTable::hold(const Nid& nid, const Ni& through) {
    std::unique_lock<std::mutex> guard;
    PeerNi* const entry = find_or_make(shard_of(nid), nid, &through, guard);
    if (entry != nullptr) entry->refs.fetch_add(1);
    return entry;
}

bool PeerTable::heard(const Nid& from, const Ni& through, MsgType type, Nid& primary_nid) {
    std::unique_lock<std::mutex> guard;
    PeerNi* const entry = find_or_make(shard_of(from), from, &through, guard);
    if (entry == nullptr) return false;
    ++entry->received[static_cast<u32>(type)];
    entry->alive = true;
    entry->last_heard = node_.sched.now();
    primary_nid = entry->primary;
    return true;
}

PeerTable::Heard PeerTable::heard_of(const PeerNi& entry) const {
    const std::lock_guard guard(shard_of(entry.nid).lock);
    return {entry.primary, entry.received, entry.dropped};
}

void PeerTable::dropped(const Nid& from, MsgType type) {
    Shard& shard = shard_of(from);
    const std::lock_guard guard(shard.lock);
    if (PeerNi* const entry = find(shard, from)) ++entry->dropped[static_cast<u32>(type)];
}

void PeerTable::set_alive(const Nid& nid, bool alive) {
    Shard& shard = shard_of(nid);
    const std::lock_guard guard(shard.lock);
    if (PeerNi* const entry = find(shard, nid)) entry->alive = alive;
}

Nid PeerTable::primary(const Nid& nid) const {
    Shard& shard = shard_of(nid);
    const std::lock_guard guard(shard.lock);
    const PeerNi* const entry = find(shard, nid);
    return entry != nullptr ? entry->primary : nid;
}

bool PeerTable::known(const Nid& nid) const {
    Shard& shard = shard_of(nid);
    const std::lock_guard guard(shard.lock);
    return find(shard, nid) != nullptr;
}

void PeerTable::forget_net(Net net) {
    for (Shard& shard : shards_) {
        List<PeerNi, OnPeerUse> kept, gone;
        {
            const std::lock_guard guard(shard.lock);
            while (PeerNi* entry = shard.by_use.pop_front()) {
                if (entry->nid.net() == net && entry->refs.load() == 0 && !entry->learned) {
                    shard.buckets.at(hash_of(*entry)).remove(*entry);
                    gone.push_back(*entry);
                } else {
                    kept.push_back(*entry);
                }
            }
            shard.by_use.splice_back(kept);
        }
        while (PeerNi* entry = gone.pop_front()) delete entry;
    }
}

void PeerTable::stop_timers() {
    for_each([this](PeerNi& entry) {
        {
            const std::lock_guard guard(entry.lock);
            if (!entry.armed) return;
        }
        if (!node_.sched.cancel(entry)) return;  // it fires, or is about to be armed: next time
        {
            const std::lock_guard guard(entry.lock);
            entry.armed = false;
        }
        release(entry);
    });
}

bool PeerTable::idle() const {
    for (Shard& shard : shards_) {
        const std::lock_guard guard(shard.lock);
        for (const PeerNi& entry : shard.by_use)
            if (entry.refs.load() != 0) return false;
    }
    return true;
}

u64 PeerTable::size() const {
    u64 total = 0;
    for (Shard& shard : shards_) {
        const std::lock_guard guard(shard.lock);
        total += shard.by_use.size();
    }
    return total;
}

}  // namespace ulnet
