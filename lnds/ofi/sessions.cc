// HELLOs, and the end of sessions. The strand of the peer's home context; requests come to the
// first context of an NI, which passes them on.
#include <cerrno>

#include "lnds/ofi/context.h"

namespace ulnet::ofi {
namespace {

// How long a peer that does not answer is told that its session is over.
constexpr Duration tell_time = std::chrono::seconds(5);

}  // namespace

u64 Context::fresh_session() {
    const u64 number = sched_.prng().next();
    return number != 0 ? number : 1;
}

Hello Context::own_hello(const Peer& peer) const {
    return {.low = version_min,
            .high = version_max,
            .contexts = static_cast<u16>(setup_.count),
            .context = setup_.index,
            .epoch = setup_.epoch,
            .session = peer.sessions.mine(),
            .answers = 0,
            .credits = setup_.credits,
            .message_max = message_bytes_max};
}

// For `describe`.
void Context::note(const Peer& peer) {
    const std::lock_guard guard(shown_lock_);
    shown_[peer.nid] = {peer.sessions.state(), static_cast<u32>(peer.waiting.size()), peer.credits};
}

// The peer's context 0, and the one that talks to us. Each is told to the provider once: shm frees
// what it has of an address at the first removal.
void Context::enter_places(Peer& peer, u32 context) {
    const std::lock_guard guard(endpoint_lock_);
    const auto enter = [&](u32 which) {
        const std::string address = book_.find(peer.nid, which);
        const Result<u64> place = endpoint_->insert(address);
        if (!place.ok()) return no_place;
        if (bell_)
            if (auto ringer = Ringer::find(address)) ringers_[*place] = std::move(ringer);
        return *place;
    };
    const auto leave = [&](u64 place) {
        ringers_.erase(place);
        endpoint_->remove(place);
    };
    if (peer.door == no_place) peer.door = enter(0);
    if (peer.place != no_place && peer.place != peer.door) leave(peer.place);
    peer.place = context == 0 ? peer.door : enter(context);
}

// Ends the connections, all that belongs to the session ends next: what the peer is sending of our
// reads comes nowhere.
void Context::leave_places(Peer& peer) {
    const u64 door = std::exchange(peer.door, no_place);
    const u64 place = std::exchange(peer.place, no_place);
    // A place that was left means nothing to the endpoint. These are HELLOs and the like; messages
    // end with their session.
    std::erase_if(blocked_outs_, [&](const std::unique_ptr<Out>& out) {
        return out->peer == &peer && out->msg == nullptr;
    });
    const std::lock_guard guard(endpoint_lock_);
    if (endpoint_closed_) return;
    for (const u64 old : {door, place == door ? no_place : place}) {
        if (old == no_place) continue;
        ringers_.erase(old);
        endpoint_->remove(old);
    }
}

void Context::ask(Peer& peer, Instant now) {
    // With shm a place is memory of one life of the peer: it may have been the last one's.
    if (bell_ && peer.sessions.state() == PeerState::asking) leave_places(peer);
    peer.sessions.ask(fresh_session());
    peer.ask_at = now + std::chrono::milliseconds(tunables_.get(Tunable::hello_interval));
    note(peer);
    enter_places(peer, 0);
    // One at a time: the former one may still wait for the connection.
    const bool waits = std::any_of(blocked_outs_.begin(), blocked_outs_.end(),
                                   [&](const auto& each) { return each->place == peer.door; });
    if (peer.door == no_place || waits) return;
    std::unique_ptr<Out> out = make_out(peer);
    out->place = peer.door;
    Head head = head_for(peer, Type::hello_request);
    head.session = 0;
    head.credits = 0;
    out->len = encode(head, own_hello(peer), out->bytes);
    post(std::move(out));
}

void Context::hello(const Head& head, std::span<const std::byte> bytes) {
    const std::size_t home = head.source.hash() % setup_.count;
    if (home != setup_.index) {
        Context& other = *siblings_[home];
        {
            const std::lock_guard guard(other.inbox_lock_);
            other.inbox_.hellos.emplace_back(bytes.begin(), bytes.end());
        }
        return other.wake();
    }
    const Result<Hello> hello = decode_hello(bytes);
    Peer* const peer = hello.ok() ? peer_of(head.source) : nullptr;
    if (peer == nullptr || hello->low > version_max || hello->high < version_min)
        return add(Count::dropped);
    const bool request = head.type == Type::hello_request;
    const HelloVerdict verdict = request ? peer->sessions.take_request(*hello, fresh_session())
                                         : peer->sessions.take_answer(*hello);
    take_verdict(*peer, *hello, verdict);
    if (!verdict.answer || peer->place == no_place) return;
    std::unique_ptr<Out> out = make_out(*peer);
    const u32 owed = std::exchange(peer->owed, 0);  // a HELLO carries none
    Head answer = head_for(*peer, Type::hello_answer);
    answer.session = 0;
    peer->owed = owed;
    Hello own = own_hello(*peer);
    own.answers = hello->session;
    out->len = encode(answer, own, out->bytes);
    post(std::move(out));
    pump(*peer);
}

void Context::take_verdict(Peer& peer, const Hello& hello, const HelloVerdict& verdict) {
    // After a restart the old connection must go; and what we have of a place of shm may be an old
    // one's.
    if (verdict.ended || (verdict.began && bell_)) leave_places(peer);
    if (verdict.ended) {
        add(Count::lost);
        end_all_of(peer, Status(-ECONNRESET), Health::remote_error);
    }
    if (!verdict.began) return;
    enter_places(peer, hello.context);
    if (peer.place == no_place) return peer.sessions.forget();
    peer.credits = hello.credits;
    peer.owed = 0;
    peer.granted = setup_.credits;
    add(Count::sessions);
    note(peer);
    up_.peer_event(peer.nid, PeerEvent::up);
    if (!verdict.answer) pump(peer);  // else behind the answer
}

// The session is over; what was not sent yet waits for the next one.
void Context::lose(Peer& peer, Status status, Health health, bool bye) {
    const bool was_up = peer.sessions.state() == PeerState::up;
    peer.sessions.forget();
    leave_places(peer);
    end_all_of(peer, status, health);
    note(peer);
    if (was_up) {
        add(Count::lost);
        up_.peer_event(peer.nid, PeerEvent::down);
    }
    if (closing_) return;
    // A request also tells the peer that the old session is over: it has not ended it itself.
    if (!was_up || bye) return pump(peer);
    peer.tell_until = sched_.now() + tell_time;
    ask(peer, sched_.now());
}

// All that belongs to the session, once the endpoint does nothing for it any more.
void Context::end_all_of(Peer& peer, Status status, Health health) {
    std::vector<u64> ids;
    for (const auto& [id, transfer] : transfers_)
        if (transfer.peer == &peer) ids.push_back(id);
    for (const u64 id : ids) end_transfer(id, status, health);
    ids.clear();
    for (const auto& [id, rx] : rxs_)
        if (rx->peer == &peer && rx->state != Rx::State::shown) ids.push_back(id);
    for (const u64 id : ids) conclude(*rxs_.at(id), status, health);
    std::vector<Msg*> ended;
    for (Out& out : posted_)
        if (out.peer == &peer && out.msg != nullptr)
            ended.push_back(std::exchange(out.msg, nullptr));
    std::erase_if(blocked_outs_, [&](const std::unique_ptr<Out>& out) {
        if (out->peer != &peer) return false;
        if (out->msg != nullptr) ended.push_back(out->msg);
        return true;
    });
    for (Msg* const msg : ended) up_.finished(*msg, status, health);
}

}  // namespace ulnet::ofi
