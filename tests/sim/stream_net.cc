// StreamNet: the life of connections and listeners. How bytes move is in stream_flow.cc.
#include "tests/sim/stream_net.h"

#include <algorithm>
#include <cerrno>

namespace ulnet::sim {

namespace {

constexpr u32 privileged_high = 1023, privileged_low = 512;
constexpr u32 ephemeral_low = 32768, ephemeral_high = 60999;

}  // namespace

Side& Side::peer() const {
    return connection->sides[1 - index];
}
void Side::connect_event() {
    connection->net->syn(*this);
}
void Side::deliver_event() {
    connection->net->deliver(*this);
}
void Side::ack_event() {
    connection->net->acknowledge(*this);
}
void Side::keepalive_event() {
    connection->net->probe(*this);
}
void Side::read_event() {
    StreamNet::tell(*this);
}
void Side::reset_event() {
    StreamNet& net = *connection->net;
    if (dead) return;
    net.engine_.trace(Trace::reset, local.address.tail(), local.port, remote.port);
    net.fail(*this, ECONNRESET);
}

StreamNet::~StreamNet() {
    CHECK(connections() == 0);
    for (const auto& [address, host] : hosts_) CHECK(host.listeners.empty());
}

u64 StreamNet::key(u16 local_port, const Endpoint& remote) {
    return u64{local_port} << 48 | u64{remote.port} << 32 | remote.address.tail();
}

Connection& StreamNet::make() {
    if (free_.empty()) {
        all_.push_back(std::make_unique<Connection>());
        free_.push_back(all_.back().get());
    }
    Connection& connection = *free_.back();
    free_.pop_back();
    connection.net = this;
    connection.listener = nullptr;
    connection.verdict = 0;
    connection.answered = false;
    connection.began = engine_.now();
    for (u32 i = 0; i < 2; ++i) {
        Side& side = connection.sides[i];
        side.connection = &connection;
        side.index = i;
        side.state = Side::State::none;
        side.registered = side.owned = side.dead = side.broken = side.swallowed = false;
        side.fin_sent = side.fin_received = side.read_shut = side.want_write = false;
        side.error = 0;
        side.notice = nullptr;
        side.bytes.clear();
        side.written = side.acked = side.arrived = side.taken = 0;
        side.segments.clear();
        side.next_segment = 0;
        side.last_arrival = side.may_read = {};
        side.attempt = side.probes = 0;
        side.window_shut = false;
        side.unacked_timeout = unacked_timeout;
        side.tx_buffer = params.tx_buffer;
        side.rx_buffer = params.rx_buffer;
        side.last_heard = side.unacked_since = engine_.now();
        side.keepalive_idle_s = side.keepalive_interval_s = side.keepalive_count = 0;
    }
    return connection;
}

// Nobody has either side.
void StreamNet::recycle(Connection& connection) {
    for (Side& side : connection.sides) {
        CHECK(!side.owned);
        for (Happening* event :
             {static_cast<Happening*>(&side.deliver), static_cast<Happening*>(&side.ack),
              static_cast<Happening*>(&side.reset), static_cast<Happening*>(&side.keepalive),
              static_cast<Happening*>(&side.connect), static_cast<Happening*>(&side.read_on)})
            engine_.withdraw(*event);
        unregister(side);
        CHECK(!side.linked());
        side.bytes.clear();
    }
    free_.push_back(&connection);
}

void StreamNet::enter(Side& side, List<Side, OnHost>& sides) {
    side.owned = true;
    side.registered = true;
    host_of(side.local.address.tail()).sides[key(side.local.port, side.remote)] = &side;
    side.on = &sides;
    sides.push_back(side);
}

// Its addresses may be used anew.
void StreamNet::unregister(Side& side) {
    if (!side.registered) return;
    host_of(side.local.address.tail()).sides.erase(key(side.local.port, side.remote));
    side.registered = false;
}

void StreamNet::tell(Side& side) {
    if (side.notice != nullptr) side.notice->tell();
}

Result<ListenSocket*> StreamNet::listen(const Endpoint& at, u32 backlog,
                                        List<Side, OnHost>& sides) {
    Host& host = host_of(at.address.tail());
    u16 port = at.port;
    if (port == 0) {
        u32 candidate = ephemeral_low;
        while (host.listeners.contains(static_cast<u16>(candidate))) ++candidate;
        CHECK(candidate <= ephemeral_high);
        port = static_cast<u16>(candidate);
    }
    if (host.listeners.contains(port)) return Status(-EADDRINUSE);
    auto socket = std::make_unique<ListenSocket>();
    socket->local = {at.address, port};
    socket->backlog = std::max(backlog, 1u);
    socket->sides = &sides;
    ListenSocket* const made = socket.get();
    host.listeners[port] = std::move(socket);
    return made;
}

void StreamNet::close(ListenSocket& socket, bool silently) {
    Host& host = host_of(socket.local.address.tail());
    for (const auto& connection : all_) {
        if (connection->listener != &socket) continue;
        connection->listener = nullptr;
        Side& side = connection->sides[1];
        engine_.withdraw(side.connect);
        cut(side, silently);
        release(side, engine_.now());
    }
    host.listeners.erase(socket.local.port);
}

bool StreamNet::port_free(Host& host, u16 port, const Endpoint& to) {
    return !host.sides.contains(key(port, to)) && !host.listeners.contains(port);
}

// 0: none is left.
u16 StreamNet::pick_port(Host& host, bool privileged, const Endpoint& to) {
    if (privileged) {
        for (u32 port = privileged_high; port >= privileged_low; --port)
            if (port_free(host, static_cast<u16>(port), to)) return static_cast<u16>(port);
        return 0;
    }
    for (u32 tries = ephemeral_low; tries <= ephemeral_high; ++tries) {
        if (++host.next_port > ephemeral_high) host.next_port = ephemeral_low;
        const u16 port = static_cast<u16>(host.next_port);
        if (port_free(host, port, to)) return port;
    }
    return 0;
}

Result<Side*> StreamNet::connect(const Address& local, bool privileged, const Endpoint& to,
                                 List<Side, OnHost>& sides, Instant at) {
    if (chance(engine_.faults, params.connect_error_percent) && chance(engine_.faults, 50))
        return Status(chance(engine_.faults, 50) ? -EMFILE : -ENETUNREACH);
    if (!local.same_family(to.address)) return Status(-EAFNOSUPPORT);
    const u16 port = pick_port(host_of(local.tail()), privileged, to);
    if (port == 0) return Status(privileged ? -EADDRINUSE : -EADDRNOTAVAIL);
    Connection& connection = make();
    Side& side = connection.sides[0];
    side.local = {local, port};
    side.remote = to;
    side.state = Side::State::connecting;
    enter(side, sides);
    engine_.trace(Trace::connection, local.tail(), to.address.tail(), port);
    engine_.schedule(side.connect, at + model_.latency());
    return &side;
}

// A SYN arrives, or the answer to it.
void StreamNet::syn(Side& side) {
    Connection& connection = *side.connection;
    if (connection.answered) return answer(side);
    const auto host = hosts_.find(side.remote.address.tail());
    if (host == hosts_.end() || !host->second.up)
        return syn_fails(side, EHOSTUNREACH, std::chrono::seconds(3));
    const bool blocked = model_.blocked(side.local.address.tail(), side.remote.address.tail()) ||
                         model_.blocked(side.remote.address.tail(), side.local.address.tail());
    const auto retry = [&] {
        if (engine_.now() - connection.began > connect_timeout)
            return syn_fails(side, ETIMEDOUT, Duration{});
        engine_.schedule(side.connect, engine_.now() + 5 * model_.retry_after(side.attempt++));
    };
    if (blocked) return retry();
    const auto listener = host->second.listeners.find(side.remote.port);
    if (listener == host->second.listeners.end() ||
        (chance(engine_.faults, params.connect_error_percent) && chance(engine_.faults, 50)))
        return syn_fails(side, ECONNREFUSED, model_.latency());
    ListenSocket& socket = *listener->second;
    if (socket.queue.size() + socket.coming > socket.backlog) return retry();
    const auto stale = host->second.sides.find(key(side.remote.port, side.local));
    if (stale != host->second.sides.end()) {
        // An old connection of the same addresses: it learns that its peer is gone.
        fail(*stale->second, ECONNRESET);
        unregister(*stale->second);
        return retry();
    }
    Side& other = connection.sides[1];
    other.local = side.remote;
    other.remote = side.local;
    other.state = Side::State::open;
    enter(other, *socket.sides);
    connection.listener = &socket;
    connection.answered = true;
    ++socket.coming;
    engine_.schedule(side.connect, engine_.now() + model_.latency());
    engine_.schedule(other.connect, engine_.now() + 2 * model_.latency());
}

void StreamNet::syn_fails(Side& side, int error, Duration after) {
    side.connection->answered = true;
    side.connection->verdict = error;
    engine_.schedule(side.connect, engine_.now() + after);
}

void StreamNet::answer(Side& side) {
    Connection& connection = *side.connection;
    if (side.index == 1) return establish(side);
    if (!side.owned || side.dead || side.broken || side.state != Side::State::connecting) return;
    if (connection.verdict != 0) return fail(side, connection.verdict);
    side.state = Side::State::open;
    side.last_heard = engine_.now();
    tell(side);
}

// The accepting side's handshake is complete.
void StreamNet::establish(Side& side) {
    Connection& connection = *side.connection;
    ListenSocket& socket = *connection.listener;
    --socket.coming;
    socket.queue.push_back(&connection);
    if (socket.notice != nullptr) socket.notice->tell();
}

Result<Side*> StreamNet::accept(ListenSocket& socket) {
    if (socket.queue.empty()) return Status(-EAGAIN);
    if (chance(engine_.faults, params.accept_error_percent) && chance(engine_.faults, 50))
        return Status(-EMFILE);
    Connection& connection = *socket.queue.front();
    socket.queue.erase(socket.queue.begin());
    connection.listener = nullptr;
    if (chance(engine_.faults, params.accept_error_percent)) {
        cut(connection.sides[1], false);
        release(connection.sides[1], engine_.now());
        return Status(-ECONNABORTED);
    }
    return &connection.sides[1];
}

void StreamNet::release(Side& side, Instant at) {
    CHECK(side.owned);
    side.notice = nullptr;
    if (!side.dead && !side.broken) {
        if (side.readable() > 0 || side.state == Side::State::connecting) {
            send_reset(side, at);
        } else if (!side.fin_sent) {
            send_fin(side, at);
        }
    }
    side.owned = false;
    std::exchange(side.on, nullptr)->remove(side);
    engine_.withdraw(side.keepalive);
    if (!side.peer().owned) recycle(*side.connection);
}

void StreamNet::cut(Side& side, bool silently) {
    if (side.dead) return;
    engine_.trace(Trace::reset, side.local.address.tail(), side.local.port, side.remote.port);
    if (!silently && !side.broken && side.state != Side::State::none)
        send_reset(side, engine_.now());
    side.dead = true;
    side.broken = true;
    side.error = ECONNRESET;
    unregister(side);
    tell(side);
}

void StreamNet::break_all(u32 host, u32 other, bool silently) {
    const auto found = hosts_.find(host);
    if (found == hosts_.end()) return;
    std::vector<Side*> doomed;
    for (const auto& [id, side] : found->second.sides)
        if (side->remote.address.tail() == other && !side->dead) doomed.push_back(side);
    for (Side* side : doomed) {
        if (side->state != Side::State::open || !side->owned) continue;
        engine_.trace(Trace::reset, host, other, silently);
        Side& peer = side->peer();
        if (silently) {
            // As with a middle box that has forgotten them: what either sends is swallowed.
            side->swallowed = peer.swallowed = true;
            continue;
        }
        fail(*side, ECONNRESET);
        if (!peer.dead && peer.state == Side::State::open) fail(peer, ECONNRESET);
    }
}

}  // namespace ulnet::sim
