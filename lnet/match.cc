// Matching. Any worker; the caller holds the table's lock where the header says so.
#include "lnet/match.h"

#include <algorithm>

namespace ulnet {

Room room_for(const MdImpl& md, const MatchRequest& request) {
    const u32 offset = md.options.manage_remote ? request.offset : md.offset;
    u32 room = offset < md.length ? md.length - offset : 0;
    if (md.max_size > 0) room = std::min(room, md.max_size);
    return {offset, room};
}

namespace {

// The NID rule: ANY, the initiator's primary NID, or another NID of the same peer.
bool wants_nid(const MeImpl& me, const MatchRequest& request) {
    return me.nid.any() || me.nid == request.initiator.nid || me.nid == request.source ||
           me.primary == request.initiator.nid;
}

bool wants(const MeImpl& me, const MatchRequest& request) {
    if (me.md == nullptr || me.md->exhausted()) return false;
    if (request.get ? !me.md->options.get : !me.md->options.put) return false;
    if (((me.bits ^ request.bits) & ~me.ignore) != 0) return false;
    if (me.pid != pid_any && me.pid != request.initiator.pid) return false;
    return wants_nid(me, request);
}

// The ME wants the request; puts the message on its MD unless there is no room.
Match take(MdImpl& md, const MatchRequest& request, CoreMsg& msg) {
    const Room room = room_for(md, request);
    if (request.length > room.length && !md.options.truncate) return Match::drop;
    const u32 moved = std::min(request.length, room.length);
    // A remote offset beyond the end moves nothing and leaves the running offset alone; otherwise
    // offset + moved <= md.length.
    if (room.offset <= md.length) md.offset = room.offset + moved;
    md.count_operation();
    ++md.busy;
    md.messages.push_back(msg);
    msg.md = &md;
    if (request.get || !md.options.discard)
        msg.payload = MemView{md.mem, moved > 0 ? room.offset : 0, moved};
    msg.event.mlength = moved;
    msg.event.offset = room.offset;
    msg.event.user = md.user;
    return Match::taken;
}

}  // namespace

MatchTable::~MatchTable() {
    while (ignoring_.pop_front() != nullptr) {
    }
    for (u32 i = 0; i < exact_.buckets(); ++i)
        while (exact_.bucket(i).pop_front() != nullptr) {
        }
}

void MatchTable::insert(MeImpl& me, Place place) {
    List<MeImpl, OnBucket>& list = me.ignore != 0 ? ignoring_ : exact_.at(me.hash);
    if (place == Place::before)
        list.push_front(me);
    else
        list.push_back(me);
    if (me.ignore == 0) ++exact_entries_;
    size_.fetch_add(1);
}

void MatchTable::remove(MeImpl& me) {
    if (me.ignore != 0) {
        ignoring_.remove(me);
    } else {
        exact_.at(me.hash).remove(me);
        --exact_entries_;
    }
    size_.fetch_sub(1);
}

Match MatchTable::try_list(List<MeImpl, OnBucket>& list, const MatchRequest& request,
                           CoreMsg& msg) {
    for (MeImpl& me : list)
        if (wants(me, request)) return take(*me.md, request, msg);
    return Match::none;
}

Match MatchTable::match(const MatchRequest& request, u64 hash, CoreMsg& msg) {
    if (!unique_) {
        const Match result = try_list(ignoring_, request, msg);
        if (result != Match::none) return result;
    }
    return try_list(exact_.at(hash), request, msg);
}

void MatchTable::grow_if_crowded() {
    u32 wanted;
    {
        const std::lock_guard guard(lock);
        if (!exact_.crowded(exact_entries_)) return;
        wanted = exact_.buckets() * 2;
    }
    HashLists<MeImpl, OnBucket> larger(wanted);
    const std::lock_guard guard(lock);
    if (exact_.buckets() >= wanted) return;
    larger.take_all(exact_, [](const MeImpl& me) { return me.hash; });
    exact_.swap(larger);
}

}  // namespace ulnet
