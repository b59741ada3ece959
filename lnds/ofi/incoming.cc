// Messages of peers: each is checked, then shown to the core or ends something of ours. The strand.
#include <cerrno>

#include "lnds/ofi/context.h"

namespace ulnet::ofi {

// Null: there are too many already.
Peer* Context::peer_of(const Nid& nid) {
    const auto found = peers_.find(nid);
    if (found != peers_.end()) return found->second.get();
    if (peers_.size() >= peers_max) return nullptr;
    return peers_.emplace(nid, std::make_unique<Peer>(nid)).first->second.get();
}

void Context::message(RxBuffer& buffer, std::span<const std::byte> bytes) {
    if (closing_) return;
    const Result<Head> head = decode_head(bytes);
    if (!head.ok() || head->target != setup_.nid) return add(Count::dropped);
    bytes = bytes.first(head->length);
    if (head->type == Type::hello_request || head->type == Type::hello_answer)
        return hello(*head, bytes);
    const auto found = peers_.find(head->source);
    Peer* const peer = found != peers_.end() ? found->second.get() : nullptr;
    if (peer != nullptr && peer->sessions.state() == PeerState::up &&
        head->session == peer->sessions.mine())
        return of_session(*peer, *head, buffer, bytes);
    add(Count::dropped);
    // Whoever sends has not heard that we live anew, unless it knows and these are its last words.
    if (head->type == Type::bye || (peer != nullptr && peer->sessions.state() != PeerState::idle))
        return;
    if (head->source.hash() % setup_.count != setup_.index) return;
    if (Peer* const asked = peer_of(head->source)) ask(*asked, sched_.now());
}

void Context::of_session(Peer& peer, const Head& head, RxBuffer& buffer,
                         std::span<const std::byte> bytes) {
    peer.credits = std::min(peer.credits + head.credits, peer.sessions.hello().credits);
    Status wrong;
    const bool counts = head.type == Type::immediate || head.type == Type::bulk;
    if (counts && peer.granted == 0) {
        add(Count::dropped);
        return lose(peer, Status(-EPROTO), Health::remote_error);
    }
    if (counts) --peer.granted;
    switch (head.type) {
    case Type::immediate: {
        auto rx = std::make_unique<Rx>();
        const Result<Hdr> hdr = decode_immediate(bytes, rx->payload);
        if (!(wrong = hdr.status()).ok()) break;
        rx->buffer = &buffer;
        ++buffer.refs;
        show(peer, *hdr, std::move(rx));
        break;
    }
    case Type::bulk: {
        Result<Bulk> bulk = decode_bulk(bytes);
        if (!(wrong = bulk.status()).ok()) break;
        auto rx = std::make_unique<Rx>();
        rx->bulk = true;
        rx->segments = std::move(*bulk);
        const Hdr hdr = rx->segments.hdr;
        show(peer, hdr, std::move(rx));
        break;
    }
    case Type::done: {
        const Result<Done> said = decode_done(bytes);
        if ((wrong = said.status()).ok()) done(peer, *said);
        break;
    }
    case Type::fin:
    case Type::written: {
        const Result<Fin> said = decode_fin(bytes);
        if ((wrong = said.status()).ok()) fin(peer, *said, head.type == Type::written);
        break;
    }
    case Type::ready: {
        Result<Ready> said = decode_ready(bytes);
        if ((wrong = said.status()).ok()) ready(peer, std::move(*said));
        break;
    }
    case Type::bye:
        return lose(peer, Status(-ECONNRESET), Health::remote_error, true);
    default:
        break;
    }
    if (!wrong.ok()) {
        add(Count::dropped);
        return lose(peer, wrong, Health::remote_error);
    }
    pump(peer);  // credits may have come
}

void Context::show(Peer& peer, const Hdr& hdr, std::unique_ptr<Rx> made) {
    Rx& rx = *made;
    rx.context = this;
    rx.peer = &peer;
    rx.session = peer.sessions.mine();
    rx.id = next_id_++;
    rxs_.emplace(rx.id, std::move(made));
    const Status status =
        up_.arrived(hdr, {peer.nid, hdr.src_pid}, {.driver = &rx, .id = rx.id}, {});
    if (status.ok()) return;
    if (rx.buffer != nullptr) release(*rx.buffer);
    rxs_.erase(rx.id);
    lose(peer, status, Health::remote_error);
}

// The peer has read the payload of a message of ours; it may want to know whether that was still
// valid when it did.
void Context::done(Peer& peer, const Done& said) {
    const auto found = transfers_.find(said.transfer);
    const bool valid =
        found != transfers_.end() && found->second.peer == &peer && !found->second.moving;
    if (valid)
        end_transfer(said.transfer, Status(said.status),
                     said.status == 0 ? Health::ok : Health::remote_error);
    if (said.reading != 0) {
        std::unique_ptr<Out> out = make_out(peer);
        const Fin answer{.reading = said.reading, .status = valid ? 0 : -ESTALE};
        out->len = encode(head_for(peer, Type::fin), answer, out->bytes);
        post(std::move(out));
    }
}

void Context::end_transfer(u64 id, Status status, Health health) {
    const auto found = transfers_.find(id);
    Msg& msg = *found->second.msg;
    let_go(id);
    transfers_.erase(found);
    up_.finished(msg, status, health);
}

// Of what we have read, or of what the peer has written.
void Context::fin(Peer& peer, const Fin& said, bool written) {
    const auto found = rxs_.find(said.reading);
    if (found == rxs_.end() || found->second->peer != &peer ||
        found->second->state != (written ? Rx::State::writing : Rx::State::checking))
        return;
    conclude(*found->second, Status(said.status == 0 ? 0 : -ECONNRESET),
             said.status == 0 ? Health::ok : Health::remote_error);
}

// One use less of a buffer; once it is used up and free it is given back.
void Context::release(RxBuffer& buffer) {
    if (--buffer.refs == 0 && buffer.released) give(buffer);
}

void Context::give(RxBuffer& buffer) {
    if (endpoint_closed_) return;
    Status status;
    {
        const std::lock_guard guard(endpoint_lock_);
        status = endpoint_->give_buffer(buffer, buffer.bytes);
    }
    if (status.ok())
        buffer.released = false;
    else
        empty_.push_back(&buffer);  // tried again
}

}  // namespace ulnet::ofi
