// Life of a connection: from its making by the peer to the task that destroys it.
#include "lnds/sock/conn.h"

#include "lnds/sock/ni.h"
#include "lnds/sock/peer.h"

namespace ulnet::sock {

// References: the peer's list, the two halves. The watch and a message at the core add theirs.
Conn::Conn(SockNi& ni, Peer& peer, Setup setup, std::span<const std::byte> greeting)
    : RefCounted(3), ni_(ni), peer_(peer), stream_(std::move(setup.stream)), type_(setup.type),
      proto_(proto_of(setup.version)), rx_framing_{setup.version, setup.peer_order},
      tx_framing_{setup.version, native_order}, active_(setup.active), local_(stream_->local()),
      remote_(stream_->remote()), opened_(ni.sched().now()), rx_(ni.sched(), peer.cpt(), *this),
      tx_(ni.sched(), peer.cpt(), *this) {
    ni_.ref();
    peer_.ref();
    const i64 now = opened_.time_since_epoch().count();
    rx_progress_.store(now, relaxed);
    tx_progress_.store(now, relaxed);
    if (greeting.empty()) return;
    Slot& slot = next_slot();
    std::copy(greeting.begin(), greeting.end(), slot.header.begin());
    slot.msg = nullptr;
    slot.header_bytes = static_cast<u32>(greeting.size());
    slot.payload_bytes = 0;
    queued_bytes_.store(greeting.size(), relaxed);
}

Conn::~Conn() {
    stream_.reset();
    ni_.drop_conn();
    ni_.release_peer(Ref<Peer>(&peer_));
    ni_.unref();
}

std::unique_ptr<Stream> Conn::undo() {
    auto stream = std::move(stream_);
    delete this;
    return stream;
}

void Conn::start() {
    rx_.wake();
    tx_.wake();
}

void Conn::fail(int error) {
    CHECK(error < 0);
    int none = 0;
    if (!error_.compare_exchange_strong(none, error)) return;
    ni_.count(Count::connections_lost);
    stream_->shutdown();
    rx_.wake();
    tx_.wake();
}

void Conn::broken(int error) {
    peer_.conn_broken(*this, error);
}

void Conn::ready(Readiness now) {
    if (now.ended) ended_.store(true, std::memory_order_release);
    if (now.readable) rx_.wake();
    if (now.writable && want_write_.exchange(false)) tx_.wake();
}

bool Conn::rx_stuck(Instant before) const {
    // A message waits for the core and its sender has gone: nobody else would notice, since nothing
    // is read. Until the time-out it may still be received.
    if (rx_state_.load(relaxed) == RxState::waiting && ended_.load(relaxed))
        return rx_progress_.load(relaxed) < before.time_since_epoch().count();
    return rx_missing_.load(relaxed) > 0 &&
           rx_progress_.load(relaxed) < before.time_since_epoch().count();
}

bool Conn::tx_stuck(Instant before) const {
    if (queued_bytes_.load(std::memory_order_acquire) == 0) return false;
    const i64 limit = before.time_since_epoch().count();
    const i64 oldest = tx_oldest_.load(relaxed);
    return tx_progress_.load(relaxed) < limit || (oldest != 0 && oldest < limit);
}

std::string Conn::outstanding_text() const {
    const u32 missing = rx_missing_.load(relaxed);
    return std::string(to_text(type_)) + (active_ ? " to port " : " from port ") +
           std::to_string(remote_.port) + " of " + to_text(remote_) + " (here " + to_text(local_) +
           "), sending: " + std::to_string(queued_bytes()) +
           " bytes outstanding, receiving: " + std::to_string(missing) + " bytes outstanding" +
           (rx_state_.load(relaxed) == RxState::waiting ? ", a message waits for a buffer" : "");
}

void Conn::describe(ctl::Value& out) const {
    const Instant now = ni_.sched().now();
    const auto seconds = [&](i64 since) {
        return std::chrono::duration_cast<std::chrono::seconds>(now - Instant(Duration(since)))
            .count();
    };
    out.set("type", to_text(type_));
    out.set("version", proto_.version);
    out.set("opened_by", active_ ? "us" : "peer");
    out.set("local", to_text(local_));
    out.set("remote", to_text(remote_));
    out.set("queued_bytes", queued_bytes());
    out.set("age_s", seconds(opened_.time_since_epoch().count()));
    out.set("idle_s", seconds(std::max(rx_progress_.load(relaxed), tx_progress_.load(relaxed))));
    out.set("rx_bytes", rx_bytes_.load(relaxed));
    out.set("tx_bytes", tx_bytes_.load(relaxed));
    out.set("rx_messages", rx_msgs_.load(relaxed));
    out.set("tx_messages", tx_msgs_.load(relaxed));
    const RxState state = rx_state_.load(relaxed);
    out.set("parked", state == RxState::waiting);
}

void Conn::last_ref() {
    ni_.sched().post(peer_.cpt(), destroy_);
}

void Conn::destroy() {
    if (rx_.idle() && tx_.idle())
        delete this;
    else
        ni_.sched().post(peer_.cpt(), destroy_);
}

}  // namespace ulnet::sock
