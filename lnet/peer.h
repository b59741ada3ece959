// The peers: one entry a peer NI, and what pushes have told of multi-rail peers.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lnet/credit.h"
#include "lnet/hash_lists.h"
#include "lnet/stats.h"

namespace ulnet {

class Ni;
class PeerTable;

struct OnPeerBucket;  // hook: entries of a shard's hash
struct OnPeerUse;     // hook: entries of a shard, least recently used first

// One interface of a remote node. Its timer is armed while messages wait for a credit.
struct PeerNi final : Timer, ListHook<OnPeerBucket>, ListHook<OnPeerUse> {
    PeerNi(PeerTable& table_of_entry, const Nid& its_nid, i64 credits)
        : table(table_of_entry), nid(its_nid), primary(its_nid), pool(credits) {}
    ~PeerNi() = default;
    void fire() override;
    // REPLYs and ACKs that may wait for a credit: a peer that asks and does not take the answers
    // must not use up the messages of all.
    static constexpr u32 answers_waiting_max = 4096;

    PeerTable& table;
    const Nid nid;
    CptId cpt = 0;             // where its timer is armed
    std::atomic<u32> refs{0};  // taken under the shard's lock, dropped anywhere
    // Guarded by the shard's lock.
    Nid primary;
    bool learned = false;  // belongs to a Peer; not to be evicted
    bool alive = true;
    Instant last_heard{};
    ByType received{}, dropped{};
    // Guarded by `lock`.
    std::mutex lock;
    CreditPool pool;
    bool armed = false;
    ByType sent{};
    std::unique_ptr<Histogram> latency;  // send to finished; made with the first that ended well
    i32 health = 1000;
};

// What a multi-rail peer has told of itself. Of the control strand.
struct Peer {
    Nid primary;
    std::vector<Nid> nids;  // primary first
    u32 features = 0, sequence = 0, state = 0;
    bool multi_rail = false;
    u64 age = 0;  // rises from one that was told to the next
};
// Bits of Peer::state as `peer show` prints them.
enum PeerState : u32 {
    peer_multi_rail = 1u << 0,
    peer_no_discovery = 1u << 1,
    peer_router_enabled = 1u << 2,
    peer_nids_uptodate = 1u << 8,
    peer_force_ping = 1u << 13,
};

class PeerTable {
 public:
    // Entries made because a header came in or a message goes out; idle ones are replaced when
    // there are more.
    static constexpr u32 shards = 16;
    static constexpr u32 entries_max = 1u << 16;
    static constexpr u32 evict_scan_max = 32;  // busy entries looked at before giving up
    // NIDs that all Peers together may have.
    static constexpr u32 learned_max = 1u << 14;

    explicit PeerTable(NodeImpl& node) : node_(node), shards_(shards) {}
    ~PeerTable();

    // The entry to send to, held; made when missing. Null: the table is full of busy peers.
    PeerNi* hold(const Nid& nid, const Ni& through);
    void release(PeerNi& peer) { peer.refs.fetch_sub(1); }
    // Notes a header from `from` and tells its primary NID. False: no entry could be made.
    bool heard(const Nid& from, const Ni& through, MsgType type, Nid& primary);
    // What the shard's lock guards of an entry that is held.
    struct Heard {
        Nid primary;
        ByType received, dropped;
    };
    Heard heard_of(const PeerNi& entry) const;
    void dropped(const Nid& from, MsgType type);
    void set_alive(const Nid& nid, bool alive);
    Nid primary(const Nid& nid) const;

    // Control strand. Applies a push that came from `source`.
    void learn(const Nid& source, const PingInfo& info, bool truncated);
    const std::map<Nid, std::unique_ptr<Peer>>& peers() const { return peers_; }
    // Calls fn(PeerNi&) for all entries, each held meanwhile and no lock held.
    template <class F> void for_each(F fn);
    // Idle entries of the net go, when its last NI has gone.
    void forget_net(Net net);
    // Ends waiting for credits: timers that will not fire any more give their hold back.
    void stop_timers();
    bool idle() const;
    u64 size() const;
    NodeImpl& node() { return node_; }

 private:
    struct Shard {
        mutable std::mutex lock;  // guards the rest
        HashLists<PeerNi, OnPeerBucket> buckets{8};
        List<PeerNi, OnPeerUse> by_use;
    };
    Shard& shard_of(const Nid& nid) const;
    static PeerNi* find(Shard& shard, const Nid& nid);
    std::unique_ptr<PeerNi> make(const Nid& nid, const Ni* through);
    // Returns the entry of the NID with the lock held by `guard`; null: full.
    PeerNi* find_or_make(Shard& shard, const Nid& nid, const Ni* through,
                         std::unique_lock<std::mutex>& guard);
    static void unlink(Shard& shard, PeerNi& entry);
    bool set_primary(const Nid& nid, const Nid& primary, bool learned);
    void merge(const PingInfo& info);
    void forget_nid(const Nid& nid);
    // Takes the peer out of all maps; its NIDs, whose entries still name it.
    std::vector<Nid> take_out(Peer& peer);
    bool known(const Nid& nid) const;
    static bool shard_crowded(Shard& shard);
    static void grow(Shard& shard);
    // The entry that was used longest ago and is idle, taken out; null: all looked at are busy.
    static PeerNi* evict(Shard& shard);

    NodeImpl& node_;
    mutable std::vector<Shard> shards_;
    // Control strand.
    std::map<Nid, std::unique_ptr<Peer>> peers_;  // by primary NID
    std::map<Nid, Peer*> by_nid_;
    std::map<u64, Peer*> by_age_;
    u64 ages_ = 0;
};

template <class F> void PeerTable::for_each(F fn) {
    for (Shard& shard : shards_) {
        std::size_t room;
        {
            const std::lock_guard guard(shard.lock);
            room = shard.by_use.size();
        }
        std::vector<PeerNi*> held;
        held.reserve(room);
        {
            const std::lock_guard guard(shard.lock);
            for (PeerNi& entry : shard.by_use) {
                if (held.size() == room) break;
                entry.refs.fetch_add(1);
                held.push_back(&entry);
            }
        }
        for (PeerNi* entry : held) {
            fn(*entry);
            release(*entry);
        }
    }
}

}  // namespace ulnet
