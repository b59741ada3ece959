// An NI from opening to closing: finding peers, failing messages, the tick that drives time-outs.
#include "lnds/sock/ni.h"

#include <algorithm>
#include <numeric>

#include "cpt/cpt.h"
#include "lnds/sock/conn.h"
#include "lnds/sock/listener.h"
#include "lnds/sock/lnd.h"
#include "lnds/sock/peer.h"

namespace ulnet::sock {
namespace {

constexpr u32 flip_bytes_min = 1024;
// The kernel gives up bytes that no one acknowledges this much later than our tick gives up what is
// queued: of a peer that does not read, the tick knows more, and both halves tell one story.
constexpr u32 unacked_grace_s = 2;
constexpr unsigned scratch_error = 1;

}  // namespace

Health health_of(int error) {
    switch (-error) {
    case 0:
        return Health::ok;
    case ETIMEDOUT:
        return Health::network_timeout;
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
        return Health::remote_dropped;
    default:
        return Health::local_error;
    }
}

SockNi::Shard::Shard(SockNi& owner, CptId at)
    : ni(owner), cpt(at), fail_strand(owner.sched_, at, *this) {}

SockNi::SockNi(const NiConfig& config, LndUp& up, Sched& sched, Shared shared,
               u32 conns_per_peer_auto)
    : config_(config), up_(up), sched_(sched), shared_(shared), tunables_(config.tunables),
      incarnation_(sched.wall_ns()), conns_per_peer_auto_(conns_per_peer_auto), counters_(sched),
      tick_strand_(sched, config.cpts.empty() ? 0 : config.cpts.front(), *this) {
    std::vector<CptId> cpts = config.cpts;
    if (cpts.empty()) {
        cpts.resize(sched.cpts().size());
        std::iota(cpts.begin(), cpts.end(), CptId{0});
    }
    for (const CptId cpt : cpts) shards_.push_back(std::make_unique<Shard>(*this, cpt));
}

SockNi::~SockNi() = default;

void SockNi::start(const Listeners& listeners) {
    {
        const std::lock_guard guard(listeners_lock_);
        listeners_ = listeners;
    }
    for (Listener* const listener : listeners)
        if (listener != nullptr) listener->start();
    tell_of_untyped();
    ref();
    arm_tick();
}

// Our own nodes do send on untyped connections of any version.
void SockNi::tell_of_untyped() {
    if (tunable(Tunable::typed_conns) != 0 || protocol() < 3) return;
    note("typed_conns=0 with version " + std::to_string(protocol()) +
         " of the protocol: kernel nodes send nothing on untyped connections of versions 3 and 4" +
         (nid().is_nid4() ? "; protocol=2 makes them answer" : ", and IPv6 needs version 4"));
}

// --- the core's calls

void SockNi::send(Msg& msg) {
    const ProcessId to{msg.next_hop.nid,
                       msg.next_hop.pid == pid_any ? pid_lustre : msg.next_hop.pid};
    CHECK(msg.payload.len >= msg.hdr.payload_length);
    // All versions but 4 carry 8-byte NIDs only, and the version may not be known yet.
    const bool small = to.nid.is_nid4() && msg.hdr.dest_nid.is_nid4() && msg.hdr.src_nid.is_nid4();
    if (nid().is_nid4() && !small) {
        fail_later(msg, -EAFNOSUPPORT);
        return;
    }
    if (const Ref<Peer> peer = find_or_add_peer(to))
        peer->send(msg);
    else
        fail_later(msg, closing_.load(std::memory_order_relaxed) ? -ESHUTDOWN : -ENOBUFS);
}

void SockNi::receive(RxToken token, Msg* into, u32 len) {
    static_cast<Conn*>(token.driver)->receive(token.id, into, len);
}

Status SockNi::park(RxToken) {
    // The connection reads nothing before receive() anyway.
    count(Count::parked);
    return ok_status;
}

void SockNi::drop_peer(const Nid& nid) {
    Shard& shard = shard_of(nid);
    for (Ref<Peer>& peer : peers_of(shard))
        if (peer->id().nid == nid) peer->drop(-EHOSTDOWN);
}

Status SockNi::tune(std::size_t index, i64 value) {
    const Status status = tunables_.set(index, value);
    const auto which = static_cast<Tunable>(index);
    if (status.ok() && (which == Tunable::typed_conns || which == Tunable::protocol))
        tell_of_untyped();
    return status;
}

void SockNi::close(Task& done) {
    CHECK(done_ == nullptr);
    done_ = &done;
    closing_.store(true);
    Listeners listeners{};
    {
        const std::lock_guard guard(listeners_lock_);
        listeners = std::exchange(listeners_, {});
    }
    shared_.lnd.leave(*this, listeners);
    for (const auto& shard : shards_) {
        {
            const std::lock_guard guard(shard->lock);
            shard->closed = true;
        }
        for (Ref<Peer>& peer : peers_of(*shard)) peer->close();
    }
    if (sched_.cancel(tick_timer_)) unref();
    unref();
}

// --- peers

SockNi::Shard& SockNi::shard_of(const Nid& nid) const {
    return *shards_[nid.hash() % shards_.size()];
}

Ref<Peer> SockNi::find_or_add_peer(const ProcessId& id) {
    Shard& shard = shard_of(id.nid);
    const std::lock_guard guard(shard.lock);
    const auto it = shard.peers.find(id);
    if (it != shard.peers.end()) return Ref<Peer>::of(*it->second);
    if (shard.closed || peers_.load(std::memory_order_relaxed) >= peers_max) return {};
    peers_.fetch_add(1, std::memory_order_relaxed);
    Ref<Peer> made(new Peer(*this, id, shard.cpt));
    Peer& peer = *made;
    shard.peers.emplace(id, std::move(made));
    return Ref<Peer>::of(peer);
}

void SockNi::release_peer(Ref<Peer> peer) {
    Shard& shard = shard_of(peer->id().nid);
    Ref<Peer> forgotten;
    const std::lock_guard guard(shard.lock);
    // The table's reference and the caller's: nobody else can know it, or come to know it now.
    const bool idle = peer->refs() == 2 && (shard.closed || peer->idle(sched_.now()));
    if (!idle) return;
    const auto it = shard.peers.find(peer->id());
    CHECK(it != shard.peers.end());
    forgotten = std::move(it->second);
    shard.peers.erase(it);
    peers_.fetch_sub(1, std::memory_order_relaxed);
}

std::vector<Ref<Peer>> SockNi::peers_of(Shard& shard) const {
    std::vector<Ref<Peer>> all;
    const std::lock_guard guard(shard.lock);
    all.reserve(shard.peers.size());
    for (auto& [id, peer] : shard.peers) all.push_back(Ref<Peer>::of(*peer));
    return all;
}

bool SockNi::add_conn() {
    if (conns_.fetch_add(1, std::memory_order_relaxed) < conns_max) return true;
    drop_conn();
    return false;
}

u32 SockNi::conns_per_peer() const {
    const u32 set = tunables_.get_u32(Tunable::conns_per_peer);
    return set > 0 ? set : conns_per_peer_auto_;
}

u16 SockNi::port(ConnType type) const {
    const i64 bulk = tunable(Tunable::accept_port_bulk);
    const bool apart = type != ConnType::control && bulk != 0;
    return static_cast<u16>(apart ? bulk : tunable(Tunable::accept_port));
}

StreamOptions SockNi::stream_options() const {
    return {.nodelay = tunable(Tunable::nagle) == 0,
            .keepalive_idle_s = tunables_.get_u32(Tunable::keepalive_idle),
            .keepalive_interval_s = tunables_.get_u32(Tunable::keepalive_intvl),
            .keepalive_count = tunables_.get_u32(Tunable::keepalive_count),
            .tx_buffer = tunables_.get_u32(Tunable::tx_buffer_size),
            .rx_buffer = tunables_.get_u32(Tunable::rx_buffer_size),
            .unacked_timeout_s = tunables_.get_u32(Tunable::sock_timeout) + unacked_grace_s,
            .tos = static_cast<i32>(tunable(Tunable::tos)),
            .eager_ack = tunable(Tunable::eager_ack) != 0};
}

Origin SockNi::origin() const {
    return {.address = Address(config_.nid),
            .ports = LocalPort::any,
            .tos = static_cast<i32>(tunable(Tunable::tos)),
            .interface = tunable(Tunable::bind_interface) != 0 ? config_.interface : ""};
}

void SockNi::become_guest() {
    if (guest_.exchange(true)) return;
    note("source ports 512 to 1023 are not permitted (CAP_NET_BIND_SERVICE): this NI is a guest, "
         "peers with accept=secure refuse it and none can connect back");
}

// --- messages that fail

void SockNi::fail_later(Msg& msg, int error) {
    msg.scratch[scratch_error] = static_cast<u64>(-error);
    Shard& shard = shard_of(msg.next_hop.nid);
    ref();
    {
        const std::lock_guard guard(shard.fail_lock);
        shard.failed.push_back(msg);
    }
    shard.fail_strand.wake();
    unref();
}

bool SockNi::Shard::fail_step(Budget& budget) {
    while (budget.left()) {
        Msg* msg = nullptr;
        {
            const std::lock_guard guard(fail_lock);
            msg = failed.pop_front();
        }
        if (msg == nullptr) return false;
        const int error = -static_cast<int>(msg->scratch[scratch_error]);
        ni.up_.finished(*msg, Status(error), health_of(error));
        budget.take(1, 0);
    }
    return true;
}

// --- test aid, log

bool SockNi::flip_due(u32 payload_bytes) {
    const auto every = static_cast<u64>(tunable(Tunable::inject_rx_flip));
    if (every == 0 || payload_bytes < flip_bytes_min) return false;
    if ((flips_seen_.fetch_add(1, std::memory_order_relaxed) + 1) % every != 0) return false;
    count(Count::flips_injected);
    return true;
}

void SockNi::note(const std::string& text) {
    notes_.log(sched_.now(), LogLevel::warn, "socklnd " + to_text(config_.nid) + ": " + text);
}

// --- time

Duration SockNi::tick_period() const {
    const Duration quarter = timeout() / 4;
    const Duration retry = tunables_.milliseconds(Tunable::min_reconnect_ms) / 2;
    return std::clamp<Duration>(std::min(quarter, retry), std::chrono::milliseconds(10),
                                std::chrono::seconds(1));
}

// The armed timer holds a reference, which goes on to the step that it wakes and from there to the
// timer again.
void SockNi::arm_tick() {
    sched_.arm(tick_strand_.cpt(), tick_timer_, sched_.now() + tick_period());
    if (closing_.load() && sched_.cancel(tick_timer_)) unref();
}

void SockNi::TickTimer::fire() {
    ni.tick_strand_.wake();
}

bool SockNi::tick_step(Budget&) {
    if (closing_.load()) {
        unref();
        return false;
    }
    const Instant now = sched_.now();
    std::array<Ref<Listener>, Listeners{}.size()> listeners;
    {
        const std::lock_guard guard(listeners_lock_);
        for (std::size_t i = 0; i < listeners.size(); ++i)
            if (listeners_[i] != nullptr) listeners[i] = Ref<Listener>::of(*listeners_[i]);
    }
    for (Ref<Listener>& listener : listeners) {
        if (listener) listener->tick(now);
        listener.reset();
    }
    for (const auto& shard : shards_) {
        for (Ref<Peer>& peer : peers_of(*shard)) {
            peer->tick(now);
            release_peer(std::move(peer));
        }
    }
    arm_tick();
    return false;
}

// --- the end

void SockNi::last_ref() {
    sched_.post(tick_strand_.cpt(), quiesce_);
}

// Nothing refers to this NI any more; what may still be on its way are steps of its own strands.
void SockNi::quiesce() {
    bool idle = tick_strand_.idle();
    for (const auto& shard : shards_) {
        const std::lock_guard guard(shard->fail_lock);
        idle = idle && shard->failed.empty() && shard->fail_strand.idle();
    }
    if (!idle) {
        sched_.post(tick_strand_.cpt(), quiesce_);
        return;
    }
    // Peers that were looked at when their last connection went are still in the table.
    for (const auto& shard : shards_) {
        std::unordered_map<ProcessId, Ref<Peer>, PeerHash> left;
        const std::lock_guard guard(shard->lock);
        left.swap(shard->peers);
    }
    if (shared_.lnd.release_os(os(), os_released_)) sched_.post(tick_strand_.cpt(), *done_);
}

void SockNi::os_released() {
    shared_.lnd.destroy_os(os());
    sched_.post(tick_strand_.cpt(), *done_);
}

}  // namespace ulnet::sock
