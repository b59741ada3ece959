// The answers of the core, and the moving of payload. Either the receiver reads: all reads at once
// as far as the endpoint takes them, then DONE, then FIN. Or it says READY, and the sender writes,
// and says WRITTEN behind the data. The strand.
#include <cerrno>

#include "lnds/ofi/context.h"

namespace ulnet::ofi {

void Context::answered(Rx& rx) {
    Peer& peer = *rx.peer;
    const bool present =
        peer.sessions.state() == PeerState::up && rx.session == peer.sessions.mine() && !closing_;
    if (!rx.bulk) {
        if (rx.buffer != nullptr) release(*rx.buffer);
        conclude(rx, ok_status, Health::ok);
        if (present) return_credit(peer);
        return;
    }
    if (!present) return conclude(rx, Status(-ECONNRESET), Health::remote_error);
    if (rx.into != nullptr && rx.len > 0) {
        rx.deadline = sched_.now() + tunables_.timeout();
        if (rx.segments.segments.empty()) return say_ready(rx);
        rx.state = Rx::State::reading;
        rx.move.len = rx.len;
        return read_more(rx.id);
    }
    const Done nothing{.transfer = rx.segments.transfer, .reading = 0, .status = 0, .bytes = 0};
    ++peer.owed;
    std::unique_ptr<Out> out = make_out(peer);
    out->len = encode(head_for(peer, Type::done), nothing, out->bytes);
    conclude(rx, ok_status, Health::ok);
    post(std::move(out));
}

// Registered for this message alone: whatever comes later with these keys finds nothing.
void Context::say_ready(Rx& rx) {
    Peer& peer = *rx.peer;
    Ready ready{.transfer = rx.segments.transfer, .reading = rx.id, .segments = {}};
    std::array<iovec, 16> pieces;
    for (u32 at = 0; at < rx.len;) {
        const unsigned count = rx.into->payload.gather(at, pieces);
        for (unsigned i = 0; i < count && at < rx.len; ++i) {
            const u32 len = static_cast<u32>(std::min<std::size_t>(pieces[i].iov_len, rx.len - at));
            Result<Region> region =
                endpoint_->expose(static_cast<std::byte*>(pieces[i].iov_base), len);
            if (!region.ok()) {
                rx.status = region.status();
                return all_read(rx);
            }
            ready.segments.push_back(
                {.address = region->address(), .key = region->key(), .len = len});
            rx.regions.push_back(std::move(*region));
            at += len;
        }
    }
    rx.state = Rx::State::writing;
    ++peer.owed;
    std::unique_ptr<Out> out = make_out(peer);
    out->len = encode(head_for(peer, Type::ready), ready, out->bytes);
    post(std::move(out));
}

// The receiver may want less than there is; more is against the rules.
void Context::ready(Peer& peer, Ready said) {
    const auto found = transfers_.find(said.transfer);
    if (found == transfers_.end() || found->second.peer != &peer || found->second.moving) return;
    Transfer& transfer = found->second;
    u64 total = 0;
    for (const Segment& segment : said.segments) total += segment.len;
    if (total > transfer.move.len || !writes(tunables_.provider()))
        return lose(peer, Status(-EPROTO), Health::remote_error);
    transfer.move.len = static_cast<u32>(total);
    transfer.ready = std::move(said);
    transfer.moving = true;
    write_more(transfer.ready.transfer);
}

// As much as the endpoint takes. EAGAIN: not all.
template <class Mover>
Status Context::move(Mover& mover, Op::Kind kind, u64 id, const MemView& here,
                     const std::vector<Segment>& there, u64 place) {
    while (!mover.all_asked()) {
        const Move::Next next = mover.next(here, there, endpoint_->pieces_max());
        auto op = std::make_unique<MoveOp>();
        op->kind = kind;
        op->id = id;
        Status status;
        {
            const std::lock_guard guard(endpoint_lock_);
            status = endpoint_->move(*op, std::span(next.pieces).first(next.count), next.address,
                                     next.key, place);
        }
        if (!status.ok()) return status;
        moves_.push_back(*op.release());
        mover.took(next, there);
    }
    return ok_status;
}

void Context::read_more(u64 id) {
    Rx& rx = *rxs_.at(id);
    if (rx.state != Rx::State::reading || !rx.status.ok()) return;
    const Status status =
        move(rx.move, Op::Kind::read, id, rx.into->payload, rx.segments.segments, rx.peer->place);
    if (status == Status(-EAGAIN)) return blocked_moves_.push_back(id);
    if (!status.ok()) rx.status = status;
    if (rx.move.under_way == 0) all_read(rx);
}

// Behind the last write goes WRITTEN; the message ends when the endpoint is done with its memory.
void Context::write_more(u64 id) {
    Transfer& transfer = transfers_.at(id);
    if (!transfer.moving || transfer.move.all_asked()) return;
    Peer& peer = *transfer.peer;
    const Status status = move(transfer.move, Op::Kind::write, id, transfer.msg->payload,
                               transfer.ready.segments, peer.place);
    if (status == Status(-EAGAIN)) return blocked_moves_.push_back(id);
    if (!status.ok()) return lose(peer, status, Health::remote_error);
    const Fin said{.reading = transfer.ready.reading, .status = 0};
    std::unique_ptr<Out> out = make_out(peer);
    out->len = encode(head_for(peer, Type::written), said, out->bytes);
    post(std::move(out));
}

void Context::moved(MoveOp& op, Status status) {
    moves_.remove(op);
    const u64 id = op.id;
    const bool write = op.kind == Op::Kind::write;
    delete &op;
    if (write) {
        const auto found = transfers_.find(id);
        if (found == transfers_.end()) return;
        Transfer& transfer = found->second;
        if (!status.ok()) return lose(*transfer.peer, status, Health::remote_error);
        if (--transfer.move.under_way == 0 && transfer.move.all_asked())
            end_transfer(id, ok_status, Health::ok);
        return;
    }
    const auto found = rxs_.find(id);
    if (found == rxs_.end()) return;
    Rx& rx = *found->second;
    if (!status.ok() && rx.status.ok()) rx.status = status;
    if (--rx.move.under_way == 0 && (rx.move.all_asked() || !rx.status.ok())) all_read(rx);
}

void Context::all_read(Rx& rx) {
    Peer& peer = *rx.peer;
    const Status status = rx.status;
    add(Count::read_bytes, rx.move.asked);
    ++peer.owed;
    std::unique_ptr<Out> out = make_out(peer);
    const Done said{.transfer = rx.segments.transfer,
                    .reading = status.ok() ? rx.id : 0,
                    .status = status.ok() ? 0 : -EIO,
                    .bytes = status.ok() ? rx.len : 0};
    out->len = encode(head_for(peer, Type::done), said, out->bytes);
    if (status.ok())
        rx.state = Rx::State::checking;
    else
        conclude(rx, status, Health::remote_error);
    post(std::move(out));  // may end the session
}

// Operations under way are nobody's now.
void Context::let_go(u64 id) {
    for (MoveOp& op : moves_)
        if (op.id == id) op.id = 0;
}

// The end of a message that came.
void Context::conclude(Rx& rx, Status status, Health health) {
    let_go(rx.id);
    Msg* const into = rx.into;
    rxs_.erase(rx.id);
    if (into != nullptr) up_.finished(*into, status, health);
}

}  // namespace ulnet::ofi
