// Messages to peers: what goes within one and what the peer reads, credits, and what the endpoint
// does not take at once. The strand.
#include <cerrno>

#include "lnds/ofi/context.h"

namespace ulnet::ofi {
namespace {

constexpr std::size_t free_outs_max = 256;

Health health_of(Status status) {
    return status == Status(-ETIMEDOUT) ? Health::network_timeout : Health::remote_error;
}

// What the peer may read.
std::vector<Segment> segments_of(const MemView& payload, const MemCache<Region>::Use& use) {
    std::vector<Segment> segments;
    u64 skip = payload.offset, left = payload.len;
    const std::span<const Frag> frags = payload.mem->frags();
    for (std::size_t i = 0; i < frags.size() && left > 0; ++i) {
        if (skip >= frags[i].len) {
            skip -= frags[i].len;
            continue;
        }
        const Region& region = use.entries()[i]->reg();
        const u64 len = std::min<u64>(frags[i].len - skip, left);
        segments.push_back({.address = region.address() + skip,
                            .key = region.key(),
                            .len = static_cast<u32>(len)});
        left -= len;
        skip = 0;
    }
    return segments;
}

}  // namespace

// Sends what may be sent now.
void Context::pump(Peer& peer) {
    while (!peer.waiting.empty() && !closing_) {
        if (peer.sessions.state() == PeerState::idle) return ask(peer, sched_.now());
        if (peer.sessions.state() == PeerState::asking || peer.credits == 0) return;
        Msg& msg = *peer.waiting.pop_front();
        if (msg.payload.len <= std::min(tunables_.get_u32(Tunable::immediate_max),
                                        peer.sessions.hello().message_max - immediate_bytes))
            send_immediate(peer, msg);
        else
            send_bulk(peer, msg);
    }
}

std::unique_ptr<Out> Context::make_out(Peer& peer) {
    std::unique_ptr<Out> out;
    if (free_outs_.empty()) {
        out = std::make_unique<Out>();
    } else {
        out = std::move(free_outs_.back());
        free_outs_.pop_back();
    }
    out->kind = Op::Kind::send;
    out->peer = &peer;
    out->place = peer.place;
    out->msg = nullptr;
    return out;
}

Head Context::head_for(Peer& peer, Type type) const {
    peer.granted += peer.owed;
    return {.version = version_max,
            .type = type,
            .length = 0,
            .credits = std::exchange(peer.owed, 0),
            .session = peer.sessions.theirs(),
            .source = setup_.nid,
            .target = peer.nid};
}

void Context::send_immediate(Peer& peer, Msg& msg) {
    --peer.credits;
    std::unique_ptr<Out> out = make_out(peer);
    out->msg = &msg;
    out->len = encode_immediate(head_for(peer, Type::immediate), msg.hdr, msg.payload, out->bytes);
    post(std::move(out));
}

void Context::send_bulk(Peer& peer, Msg& msg) {
    Transfer transfer;
    transfer.msg = &msg;
    transfer.peer = &peer;
    transfer.deadline = std::min(msg.deadline, sched_.now() + tunables_.timeout());
    transfer.move.len = msg.payload.len;
    Bulk bulk{.hdr = msg.hdr, .transfer = next_id_++, .segments = {}};
    if (!writes(tunables_.provider())) {
        Result<MemCache<Region>::Use> use = cache_->use(*msg.payload.mem);
        if (!use.ok()) return up_.finished(msg, use.status(), Health::local_error);
        transfer.use = std::move(*use);
        bulk.segments = segments_of(msg.payload, transfer.use);
    }
    const u64 length = bulk_bytes + bulk.segments.size() * segment_bytes;
    if (length > peer.sessions.hello().message_max)
        return up_.finished(msg, Status(-EMSGSIZE), Health::local_error);
    --peer.credits;
    std::unique_ptr<Out> out = make_out(peer);
    out->len = encode(head_for(peer, Type::bulk), bulk, out->bytes);
    transfers_.emplace(bulk.transfer, std::move(transfer));
    post(std::move(out));
}

// A message without payload; nothing is said to a peer that has no session.
void Context::say_head(Peer& peer, Type type) {
    if (peer.place == no_place || peer.sessions.theirs() == 0) return;
    std::unique_ptr<Out> out = make_out(peer);
    out->len = encode_head(head_for(peer, type), out->bytes);
    post(std::move(out));
}

void Context::post(std::unique_ptr<Out> out) {
    if (endpoint_closed_) return;
    // What was not taken goes first, of any peer: the order of messages must stay.
    Status status(-EAGAIN);
    const bool behind = std::any_of(blocked_outs_.begin(), blocked_outs_.end(),
                                    [&](const auto& each) { return each->place == out->place; });
    if (!behind) status = try_post(*out);
    if (status.ok()) {
        posted_.push_back(*out.release());
        add(Count::sent);
    } else if (status == Status(-EAGAIN)) {
        blocked_outs_.push_back(std::move(out));
    } else {
        posted_.push_back(*out);
        sent(*out.release(), status);
    }
}

Status Context::try_post(Out& out) {
    Status status;
    {
        const std::lock_guard guard(endpoint_lock_);
        status = endpoint_->send(out, std::span(out.bytes).first(out.len), out.place);
    }
    // Also when it found no room: to make some the peer must be awake.
    if (const auto ringer = ringers_.find(out.place); ringer != ringers_.end())
        ringer->second->ring(bell_->fd());
    return status;
}

// What the endpoint did not take before, each place in its order.
void Context::repost() {
    std::vector<u64> stuck;
    for (std::size_t left = blocked_outs_.size(); left > 0 && !endpoint_closed_; --left) {
        std::unique_ptr<Out> out = std::move(blocked_outs_.front());
        blocked_outs_.pop_front();
        Status status(-EAGAIN);
        if (std::find(stuck.begin(), stuck.end(), out->place) == stuck.end())
            status = try_post(*out);
        if (status == Status(-EAGAIN)) {
            stuck.push_back(out->place);
            blocked_outs_.push_back(std::move(out));
            continue;
        }
        posted_.push_back(*out);
        add(Count::sent);
        if (!status.ok())
            sent(*out.release(), status);
        else
            out.release();
    }
    std::vector<u64> moves;
    moves.swap(blocked_moves_);
    for (const u64 id : moves) {
        if (rxs_.contains(id)) read_more(id);
        if (transfers_.contains(id)) write_more(id);
    }
    std::vector<RxBuffer*> empty;
    empty.swap(empty_);
    for (RxBuffer* const buffer : empty) give(*buffer);
}

void Context::sent(Out& done, Status status) {
    posted_.remove(done);
    std::unique_ptr<Out> out(&done);
    if (out->msg != nullptr)
        up_.finished(*out->msg, status, status.ok() ? Health::ok : health_of(status));
    Peer& peer = *out->peer;
    // To a place where the peer is no more: of no meaning for it.
    const bool present = out->place == peer.place && peer.sessions.state() == PeerState::up;
    if (free_outs_.size() < free_outs_max) free_outs_.push_back(std::move(out));
    if (!status.ok() && present && !closing_) lose(peer, status, health_of(status));
}

// One more message has been worked off. Credits go back with other messages, or alone when many are
// owed or the peer has none left.
void Context::return_credit(Peer& peer) {
    ++peer.owed;
    if (closing_ || (peer.owed * 2 < setup_.credits && peer.granted > 0)) return;
    say_head(peer, Type::credits);
}

}  // namespace ulnet::ofi
