// The answers of the core, and payload that is read from the peer's memory: all reads at once as far
// as the endpoint takes them, then DONE, then FIN. The strand.
#include <cerrno>

#include "lnds/ofi/context.h"

namespace ulnet::ofi {
namespace {

// More pieces of local memory than any endpoint takes at a time.
constexpr std::size_t pieces_max = 4;
constexpr u32 read_bytes_max = 1u << 20;

}  // namespace

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
        rx.state = Rx::State::reading;
        rx.deadline = sched_.now() + tunables_.timeout();
        return read_more(rx);
    }
    const Done nothing{.transfer = rx.segments.transfer, .reading = 0, .status = 0, .bytes = 0};
    ++peer.owed;
    std::unique_ptr<Out> out = make_out(peer);
    out->len = encode(head_for(peer, Type::done), nothing, out->bytes);
    post(std::move(out));
    conclude(rx, ok_status, Health::ok);
}

void Context::read_more(Rx& rx) {
    while (rx.asked < rx.len && rx.status.ok()) {
        const Status status = read_next(rx);
        if (status == Status(-EAGAIN)) {
            blocked_reads_.push_back(rx.id);
            return;
        }
        if (!status.ok()) rx.status = status;
    }
    if (rx.under_way == 0) all_read(rx);
}

// The next part: of one segment there, into a few pieces here.
Status Context::read_next(Rx& rx) {
    const Segment& segment = rx.segments.segments[rx.segment];
    std::array<iovec, pieces_max> pieces;
    const unsigned count = rx.into->payload.gather(
        rx.asked, std::span(pieces).first(std::min<std::size_t>(pieces_max,
                                                                endpoint_->read_pieces())));
    const u32 most = std::min({segment.len - rx.segment_at, rx.len - rx.asked, read_bytes_max});
    u32 bytes = 0;
    unsigned used = 0;
    for (; used < count && bytes < most; ++used) {
        pieces[used].iov_len = std::min<std::size_t>(pieces[used].iov_len, most - bytes);
        bytes += static_cast<u32>(pieces[used].iov_len);
    }
    auto op = std::make_unique<ReadOp>();
    op->kind = Op::Kind::read;
    op->rx = &rx;
    Status status;
    {
        const std::lock_guard guard(endpoint_lock_);
        status = endpoint_->read(*op, std::span(pieces).first(used),
                                 segment.address + rx.segment_at, segment.key, rx.peer->place);
    }
    if (!status.ok()) return status;
    reads_.push_back(*op.release());
    ++rx.under_way;
    rx.asked += bytes;
    rx.segment_at += bytes;
    if (rx.segment_at == segment.len) {
        ++rx.segment;
        rx.segment_at = 0;
    }
    return ok_status;
}

void Context::read_ended(ReadOp& op, Status status) {
    reads_.remove(op);
    Rx* const rx = op.rx;
    delete &op;
    if (rx == nullptr) return;
    if (!status.ok() && rx->status.ok()) rx->status = status;
    if (--rx->under_way == 0 && (rx->asked == rx->len || !rx->status.ok())) all_read(*rx);
}

void Context::all_read(Rx& rx) {
    Peer& peer = *rx.peer;
    add(Count::read_bytes, rx.asked);
    ++peer.owed;
    std::unique_ptr<Out> out = make_out(peer);
    const Done said{.transfer = rx.segments.transfer,
                    .reading = rx.status.ok() ? rx.id : 0,
                    .status = rx.status.ok() ? 0 : -EIO,
                    .bytes = rx.status.ok() ? rx.len : 0};
    out->len = encode(head_for(peer, Type::done), said, out->bytes);
    if (rx.status.ok()) rx.state = Rx::State::checking;
    const Status status = rx.status;
    const u64 id = rx.id;
    post(std::move(out));  // may end the session
    if (!status.ok() && rxs_.contains(id)) conclude(rx, status, Health::remote_error);
}

// The end of a message that came.
void Context::conclude(Rx& rx, Status status, Health health) {
    for (ReadOp& op : reads_)
        if (op.rx == &rx) op.rx = nullptr;
    Msg* const into = rx.into;
    rxs_.erase(rx.id);
    if (into != nullptr) up_.finished(*into, status, health);
}

}  // namespace ulnet::ofi
