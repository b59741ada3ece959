// Portals: typed at the first attach, searched by PUTs and GETs, lazy when asked. Any worker.
#include "lnet/portal.h"

#include <cerrno>

#include "lnet/node_impl.h"

namespace ulnet {
namespace {

constexpr u32 unique_tables_a_cpt = 4;

// What a message asks for. Until it matches, its event holds the offset that was asked for.
MatchRequest request_of(const CoreMsg& msg) {
    return {.initiator = msg.event.initiator,
            .source = msg.event.source,
            .bits = msg.event.match_bits,
            .get = msg.event.kind == Event::Kind::get,
            .offset = msg.event.offset,
            .length = msg.event.rlength};
}

}  // namespace

Portal::Portal(NodeImpl& node, CptId cpt) : Strand(node.sched, cpt), node_(node) {}

Portal::~Portal() = default;

PortalTables* Portal::tables_for(bool unique) {
    PortalTables* found = tables_.load(std::memory_order_acquire);
    if (found == nullptr) {
        auto made = std::make_unique<PortalTables>();
        made->unique = unique;
        const u32 count = node_.cpts() * (unique ? unique_tables_a_cpt : 1);
        for (u32 i = 0; i < count; ++i)
            made->tables.push_back(std::make_unique<MatchTable>(i % node_.cpts(), unique));
        const std::lock_guard guard(lock_);
        if (!owned_) {
            owned_ = std::move(made);
            tables_.store(owned_.get(), std::memory_order_release);
        }
        found = owned_.get();
    }
    return found->unique == unique ? found : nullptr;
}

Match Portal::match(CoreMsg& msg) {
    const PortalTables* const tables = tables_.load(std::memory_order_acquire);
    if (tables == nullptr) return Match::none;
    const MatchRequest request = request_of(msg);
    if (tables->unique) {
        u64 hash = MatchTable::hash_unique(request.bits, request.initiator);
        MatchTable& table = tables->choose(hash, 0);
        {
            const std::lock_guard guard(table.lock);
            const Match result = table.match(request, hash, msg);
            if (result != Match::none || request.source == request.initiator.nid) return result;
        }
        // An ME that was posted for this NID before its peer's primary NID was known.
        hash = MatchTable::hash_unique(request.bits, {request.source, request.initiator.pid});
        MatchTable& other = tables->choose(hash, 0);
        const std::lock_guard guard(other.lock);
        return other.match(request, hash, msg);
    }
    const u64 hash = MatchTable::hash_wildcard(request.bits);
    const u32 count = static_cast<u32>(tables->tables.size());
    const u32 first = static_cast<u32>(mix_hash(msg.peer_hash) % count);
    for (u32 i = 0; i < count; ++i) {
        MatchTable& table = *tables->tables[(first + i) % count];
        if (table.size() == 0) continue;
        const std::lock_guard guard(table.lock);
        const Match result = table.match(request, hash, msg);
        if (result != Match::none) return result;
    }
    return Match::none;
}

void Portal::set_lazy(bool lazy) {
    lazy_.store(lazy);
    look_again();
}

void Portal::look_again() {
    changes_.fetch_add(1);
    wake();
}

bool Portal::delay(CoreMsg& msg) {
    {
        const std::lock_guard guard(lock_);
        if (delayed_.size() >= delayed_max) return false;
        delayed_.push_back(msg);
        delayed_count_.store(static_cast<u32>(delayed_.size()));
        if (next_ == nullptr) next_ = &msg;
    }
    // An MD may have come between the search and the queueing.
    wake();
    return true;
}

void Portal::forget(const Ni& ni, const Nid& sender) {
    if (!has_delayed()) return;
    {
        const std::lock_guard guard(lock_);
        for (CoreMsg& msg : delayed_)
            if (msg.ni == &ni && msg.event.sender == sender) msg.sender_gone.store(true);
    }
    look_again();
}

bool Portal::step(Budget& budget) {
    while (budget.left()) {
        CoreMsg* msg;
        {
            const std::lock_guard guard(lock_);
            const u64 changes = changes_.load();
            if (changes != seen_) {
                seen_ = changes;
                next_ = delayed_.empty() ? nullptr : &delayed_.front();
            }
            msg = next_;
        }
        if (msg == nullptr) return false;
        const bool gone = msg->ni->closing() || msg->sender_gone.load();
        const Match result = gone ? Match::drop : match(*msg);
        const bool leaves = result != Match::none || !lazy();
        {
            const std::lock_guard guard(lock_);
            auto after = List<CoreMsg, OnQueue>::Iterator(msg);
            ++after;
            next_ = after == delayed_.end() ? nullptr : &*after;
            if (leaves) delayed_.remove(*msg);
            delayed_count_.store(static_cast<u32>(delayed_.size()));
        }
        if (leaves) {
            msg->ni->parked.fetch_sub(1);
            if (result == Match::taken)
                msg->ni->receive_parked(*msg);
            else
                msg->ni->drop_parked(*msg);
        }
        budget.take(1, 0);
    }
    return true;
}

}  // namespace ulnet
