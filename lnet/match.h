// Match tables: the MEs of one portal that one lock guards, and the rules by which a message finds
// its MD (lnet-wire 12.3).
#pragma once

#include <atomic>
#include <memory>

#include "lnet/hash_lists.h"
#include "lnet/md.h"

namespace ulnet {

// What a PUT or GET asks for.
struct MatchRequest {
    ProcessId initiator;  // primary NID of the peer that owns the source NID
    Nid source;           // source NID of the header
    u64 bits = 0;
    bool get = false;
    u32 offset = 0, length = 0;
};
enum class Match : u8 {
    none,   // no ME wants it
    taken,  // the message is on the MD now
    drop,   // the first ME that wants it has no room: the search ends
};

// An MD's offset and room for a request (pure).
struct Room {
    u32 offset, length;
};
Room room_for(const MdImpl&, const MatchRequest&);

class MatchTable final : public MdHome {
 public:
    MatchTable(CptId cpt_of_table, bool unique)
        : MdHome(cpt_of_table), unique_(unique), exact_(first_buckets) {}
    ~MatchTable();

    // Number of MEs, without the lock. Sequentially consistent: a message that sees none has
    // been put in a lazy portal's line where the attaching worker looks afterwards.
    u32 size() const { return size_.load(); }
    // With the lock held.
    void insert(MeImpl& me, Place place);
    void remove(MeImpl& me);
    // Finds the MD and puts the message on it: payload, event offset and mlength are set.
    Match match(const MatchRequest& request, u64 hash, CoreMsg& msg);
    // Without the lock: makes room for more MEs when it is time.
    void grow_if_crowded();

    static u64 hash_unique(u64 bits, const ProcessId& from) {
        return mix_hash(mix_hash(bits) ^ from.nid.hash() ^ (u64{from.pid} << 32));
    }
    static u64 hash_wildcard(u64 bits) { return mix_hash(bits); }

 private:
    static constexpr u32 first_buckets = 16;
    Match try_list(List<MeImpl, OnBucket>& list, const MatchRequest& request, CoreMsg& msg);

    const bool unique_;
    std::atomic<u32> size_{0};
    // Guarded by `lock`. MEs with ignore bits are searched first, in order.
    List<MeImpl, OnBucket> ignoring_;
    HashLists<MeImpl, OnBucket> exact_;
    u32 exact_entries_ = 0;
};

}  // namespace ulnet
