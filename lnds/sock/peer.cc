// Peers: opening and admitting connections, ending them together. Choosing: choose.cc.
#include "lnds/sock/peer.h"

#include <algorithm>

#include "lnds/sock/connect.h"
#include "lnds/sock/ni.h"

namespace ulnet::sock {
namespace {

// Refusals in a row after which a peer is believed to allow no more connections.
constexpr u32 refusals_enough = 3;
// Renegotiations in a row after which a peer is believed not to know what it wants.
constexpr u32 renegotiations_max = version_max;
constexpr Duration keepalive_gap = std::chrono::seconds(10);

}  // namespace

Peer::Peer(SockNi& ni, const ProcessId& id, CptId cpt) : ni_(ni), id_(id), cpt_(cpt) {}

Peer::~Peer() = default;

bool Peer::may_dial(Instant now) {
    return !closed_ && !dialing_ && !guest() && now >= next_attempt_;
}

void Peer::send(Msg& msg) {
    const Instant now = ni_.sched().now();
    Ref<Conn> chosen;
    ConnType open = ConnType::none;
    int error = 0;
    {
        const std::lock_guard guard(lock_);
        if (closed_) {
            error = -ESHUTDOWN;
        } else if (Conn* const conn = choose(msg)) {
            conn->push(msg);
            chosen = Ref<Conn>::of(*conn);
            if (route_ && may_dial(now)) open = next_type();
        } else if (dialing_ || refused_ || may_dial(now)) {
            msg.scratch[0] = static_cast<u64>(now.time_since_epoch().count());
            pending_.push_back(msg);
            route_ = true;
            if (may_dial(now)) open = next_type();
        } else {
            error = dial_error_ != 0 ? dial_error_ : -EHOSTUNREACH;
        }
        if (open != ConnType::none) dialing_ = true;
    }
    if (chosen) chosen->wake_tx();
    if (open != ConnType::none) dial(open);
    if (error != 0) ni_.fail_later(msg, error);
}

// Begins an attempt; dialing_ is set already, so there is one at a time.
void Peer::dial(ConnType type) {
    u32 version = 0;
    {
        const std::lock_guard guard(lock_);
        version = version_ != 0 ? version_ : ni_.protocol();
    }
    const Result<Outgoing*> made = Outgoing::make(ni_, *this, type, version);
    if (!made.ok()) {
        ni_.count(Count::connect_failures);
        ni_.note("connecting to " + to_text(id_.nid) + " at port " +
                 std::to_string(ni_.port(type)) + " (" + std::string(to_text(type)) +
                 ") failed: " + made.status().text());
        dial_failed(made.status().code());
        return;
    }
    Outgoing& outgoing = **made;
    // Whoever finds it may cancel it, and it may be over before it is started here.
    const Ref<Outgoing> hold = Ref<Outgoing>::of(outgoing);
    int cancel = 0;
    {
        const std::lock_guard guard(lock_);
        outgoing_ = &outgoing;
        outgoing.ref();
        cancel = cancel_;
    }
    if (cancel != 0) outgoing.cancel(cancel);
    outgoing.start();
}

void Peer::list_conn(Conn& conn, const Hello& hello) {
    incarnation_ = hello.src_incarnation;
    version_ = hello.version;
    renegotiations_ = 0;
    conns_.push_back(conn);
    // What waited for a connection goes now, unless this one does not suit.
    List<Msg> waiting;
    waiting.splice_back(pending_);
    while (Msg* const msg = waiting.pop_front()) {
        if (Conn* const chosen = choose(*msg))
            chosen->push(*msg);
        else
            pending_.push_back(*msg);
    }
}

bool Peer::restarted(const Hello& hello) {
    return !conns_.empty() && hello.src_incarnation != incarnation_;
}

// All connections to a peer are of one version.
bool Peer::speaks_otherwise(const Hello& hello) {
    return !conns_.empty() && hello.version != version_;
}

// What was agreed goes with the last connection.
void Peer::take_conns(Doomed& doomed) {
    doomed.conns.splice_back(conns_);
    bulk_agreed_ = 0;
    refusals_ = 0;
    version_ = 0;
}

void Peer::connected(const Hello& reply, ConnType type, std::unique_ptr<Stream> stream) {
    if (!ni_.add_conn()) {
        dial_failed(-ENOBUFS);
        return;
    }
    stream->set_options(ni_.stream_options());
    auto* const conn =
        new Conn(ni_, *this, {type, reply.version, reply.order, true, std::move(stream)}, {});
    const Ref<Conn> held = Ref<Conn>::of(*conn);
    Ref<Outgoing> outgoing;
    Doomed doomed;
    ConnType next = ConnType::none;
    int error = 0;
    bool first = false;
    {
        const std::lock_guard guard(lock_);
        outgoing = Ref<Outgoing>(std::exchange(outgoing_, nullptr));
        dialing_ = false;
        if (closed_ || cancel_ != 0) {
            error = closed_ ? -ESHUTDOWN : cancel_;
        } else if (restarted(reply) || speaks_otherwise(reply)) {
            // The peer is another one now: all that was is over, and this one is tried again.
            take_conns(doomed);
            error = -ESTALE;
            route_ = true;
        } else {
            first = conns_.empty();
            list_conn(*conn, reply);
            interval_ = {};
            next_attempt_ = {};
            dial_error_ = 0;
            refusals_ = 0;
            refused_ = false;
            next = next_type();
            dialing_ = next != ConnType::none;
        }
        cancel_ = 0;
    }
    if (error != 0) {
        // Never listed: the list's reference goes at once.
        conn->start();
        conn->fail(error);
        conn->unref();
        fail_conns(doomed, error);
        return;
    }
    conn->start();
    if (first) ni_.up().peer_event(id_.nid, PeerEvent::up);
    if (next != ConnType::none) dial(next);
}

std::unique_ptr<Stream> Peer::admit(const Hello& hello, ConnType type,
                                    std::unique_ptr<Stream> stream,
                                    std::span<const std::byte> reply) {
    if (!ni_.add_conn()) return stream;
    stream->set_options(ni_.stream_options());
    auto* const conn =
        new Conn(ni_, *this, {type, hello.version, hello.order, false, std::move(stream)}, reply);
    Doomed doomed;
    bool admitted = false;
    bool first = false;
    {
        const std::lock_guard guard(lock_);
        const u32 max = type == ConnType::control ? 1 : bulk_max();
        if (closed_ || (dialing_ && id_.nid < ni_.nid())) {
            // Of two crossing attempts that of the higher NID is made to succeed.
        } else if (restarted(hello)) {
            take_conns(doomed);
        } else if (speaks_otherwise(hello)) {
            // It began to connect before it had learnt, by a connection of ours, in which version
            // we talk: it comes again with that.
        } else if (count(type) < max) {
            first = conns_.empty();
            list_conn(*conn, hello);
            interval_ = {};
            next_attempt_ = {};
            dial_error_ = 0;
            conn->ref();
            admitted = true;
        }
    }
    fail_conns(doomed, -ESTALE);
    if (!admitted) return conn->undo();
    ni_.count(Count::accepted);
    conn->start();
    conn->unref();
    if (first) ni_.up().peer_event(id_.nid, PeerEvent::up);
    return nullptr;
}

// The peer did not want this connection: it has one, is opening one, or restarts. Messages stay and
// take what the peer opens.
void Peer::dial_refused() {
    Ref<Outgoing> outgoing;
    Doomed doomed;
    int error = 0;
    {
        const std::lock_guard guard(lock_);
        outgoing = Ref<Outgoing>(std::exchange(outgoing_, nullptr));
        dialing_ = false;
        error = std::exchange(cancel_, 0);
        ++refusals_;
        refused_ = true;
        next_attempt_ = ni_.sched().now() + ni_.tunables().milliseconds(Tunable::min_reconnect_ms);
        const u32 most = most_of_each();
        if (refusals_ >= refusals_enough && most > 0) {
            bulk_agreed_ = most;
            bulk_wanted_ = ni_.conns_per_peer();
        }
        if (error != 0) doomed.pending.splice_back(pending_);
    }
    fail_pending(doomed, error);
}

void Peer::dial_renegotiated(u32 version) {
    Ref<Outgoing> outgoing;
    ConnType next = ConnType::none;
    bool endless = false;
    {
        const std::lock_guard guard(lock_);
        endless = renegotiations_ >= renegotiations_max;
        // With connections up, their version stands; the peer must close them to change it.
        if (!endless && conns_.empty() && !closed_ && cancel_ == 0) {
            ++renegotiations_;
            version_ = version;
            next = next_type();
        }
        if (next != ConnType::none) outgoing = Ref<Outgoing>(std::exchange(outgoing_, nullptr));
    }
    if (next != ConnType::none)
        dial(next);
    else if (endless)
        dial_failed(-EPROTO);
    else
        dial_refused();
}

void Peer::dial_failed(int error) {
    Ref<Outgoing> outgoing;
    Doomed doomed;
    bool down = false;
    {
        const std::lock_guard guard(lock_);
        outgoing = Ref<Outgoing>(std::exchange(outgoing_, nullptr));
        dialing_ = false;
        cancel_ = 0;
        refused_ = false;
        dial_error_ = error;
        renegotiations_ = 0;
        if (conns_.empty()) version_ = 0;
        const Duration first = ni_.tunables().milliseconds(Tunable::min_reconnect_ms);
        const Duration last = ni_.tunables().milliseconds(Tunable::max_reconnect_ms);
        interval_ = std::min(std::max(interval_ * 2, first), std::max(first, last));
        next_attempt_ = ni_.sched().now() + interval_;
        doomed.pending.splice_back(pending_);
        down = conns_.empty() && !closed_;
    }
    fail_pending(doomed, error);
    if (down) ni_.up().peer_event(id_.nid, PeerEvent::down);
}

void Peer::conn_broken(Conn& conn, int error) {
    Doomed doomed;
    std::string why;
    {
        const std::lock_guard guard(lock_);
        if (error == -ETIMEDOUT && conn.linked()) why = conn.outstanding_text();
        take_conns(doomed);
    }
    fail_conns(doomed, error, why);
}

void Peer::drop(int error) {
    Doomed doomed;
    {
        const std::lock_guard guard(lock_);
        take_conns(doomed);
        doomed.pending.splice_back(pending_);
        if (outgoing_ != nullptr) doomed.outgoing = Ref<Outgoing>::of(*outgoing_);
        if (dialing_) cancel_ = error;
    }
    if (doomed.outgoing) doomed.outgoing->cancel(error);
    fail_pending(doomed, error);
    fail_conns(doomed, error);
}

void Peer::close() {
    {
        const std::lock_guard guard(lock_);
        closed_ = true;
    }
    drop(-ESHUTDOWN);
}

// Gives up the list's references. A time-out counts whoever noticed it: our tick, or the kernel
// where bytes stay unacknowledged.
void Peer::fail_conns(Doomed& doomed, int error, const std::string& why) {
    const bool any = !doomed.conns.empty();
    if (any && error == -ETIMEDOUT) {
        ni_.count(Count::timeouts);
        ni_.note("peer " + to_text(id_) + ": no progress, connections closed: " + why);
    }
    while (Conn* const conn = doomed.conns.pop_front()) {
        conn->fail(error);
        conn->unref();
    }
    if (!any) return;
    bool down = false;
    {
        const std::lock_guard guard(lock_);
        down = conns_.empty() && !closed_;
    }
    if (down) ni_.up().peer_event(id_.nid, PeerEvent::down);
}

void Peer::fail_pending(Doomed& doomed, int error) {
    while (Msg* const msg = doomed.pending.pop_front()) ni_.fail_later(*msg, error);
}

// One that has made no progress for too long; with the lock held.
Conn* Peer::stuck_conn(Instant before) {
    for (Conn& conn : conns_)
        if (conn.rx_stuck(before) || conn.tx_stuck(before) || conn.oldest_queued() < before)
            return &conn;
    return nullptr;
}

// The connection that has to carry a keepalive now; with the lock held.
Conn* Peer::keepalive_due(Instant now) {
    const Duration silence = ni_.tunables().seconds(Tunable::keepalive);
    if (silence == Duration{} || conns_.empty() || now - keepalive_sent_ < keepalive_gap)
        return nullptr;
    for (Conn& conn : conns_)
        if (now - conn.last_rx() < silence) return nullptr;
    Conn* const conn = choose_for_noop(true);
    if (conn == nullptr || !conn->proto().keepalives || !conn->nothing_queued()) return nullptr;
    conn->push_keepalive();
    keepalive_sent_ = now;
    return conn;
}

// Moves the messages that have waited too long for a connection; with the lock held.
void Peer::take_overdue(Instant now, List<Msg>& overdue) {
    const i64 before = (now - ni_.timeout()).time_since_epoch().count();
    List<Msg> waiting;
    waiting.splice_back(pending_);
    while (Msg* const msg = waiting.pop_front()) {
        const bool late = static_cast<i64>(msg->scratch[0]) < before || msg->deadline <= now;
        (late ? overdue : pending_).push_back(*msg);
    }
}

void Peer::tick(Instant now) {
    Doomed doomed;
    Ref<Conn> keepalive;
    ConnType open = ConnType::none;
    int error = 0;
    std::string why;
    {
        const std::lock_guard guard(lock_);
        if (outgoing_ != nullptr) doomed.outgoing = Ref<Outgoing>::of(*outgoing_);
        take_overdue(now, doomed.pending);
        if (const Conn* const stuck = stuck_conn(now - ni_.timeout())) {
            error = -ETIMEDOUT;
            why = stuck->outstanding_text();
            take_conns(doomed);
        } else if (Conn* const conn = keepalive_due(now)) {
            keepalive = Ref<Conn>::of(*conn);
        }
        if (!pending_.empty() && may_dial(now)) open = next_type();
        if (open != ConnType::none) dialing_ = true;
    }
    if (doomed.outgoing) doomed.outgoing->tick(now);
    if (keepalive) keepalive->wake_tx();
    if (!doomed.pending.empty())
        ni_.note("peer " + to_text(id_) + ": " + std::to_string(doomed.pending.size()) +
                 " messages found no connection in time");
    fail_pending(doomed, -ETIMEDOUT);
    fail_conns(doomed, error, why);
    if (open != ConnType::none) dial(open);
}

bool Peer::idle(Instant now) const {
    return conns_.empty() && pending_.empty() && !dialing_ && (guest() || now >= next_attempt_);
}

// Not inlined: GCC 12 would guess it at every Ref<>::reset() and warn of a wrong delete there.
[[gnu::noinline]] void Peer::last_ref() {
    delete this;
}

void Peer::describe(ctl::Value& peers, ctl::Value& connections) {
    const Instant now = ni_.sched().now();
    ctl::Value out = ctl::Value::map();
    out.set("nid", to_text(id_.nid));
    out.set("pid", id_.pid);
    const std::lock_guard guard(lock_);
    out.set("guest", guest());
    out.set("connections", static_cast<u64>(conns_.size()));
    out.set("waiting_messages", static_cast<u64>(pending_.size()));
    out.set("connecting", dialing_);
    const Duration wait = next_attempt_ > now ? next_attempt_ - now : Duration{};
    out.set("retry_in_ms", std::chrono::duration_cast<std::chrono::milliseconds>(wait).count());
    peers.push(std::move(out));
    for (Conn& conn : conns_) {
        ctl::Value one = ctl::Value::map();
        one.set("peer", to_text(id_));
        conn.describe(one);
        connections.push(std::move(one));
    }
}

}  // namespace ulnet::sock
