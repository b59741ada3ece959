// MessageNet: see the header.
#include "tests/sim/message_net.h"

#include <algorithm>
#include <cerrno>

namespace ulnet::sim {

MessageNet::~MessageNet() {
    CHECK(ports_.empty());
    CHECK(frames_out() == 0);
}

Status MessageNet::attach(const Nid& nid, Sched&, SimPort& port) {
    if (by_nid_.contains(nid)) return Status(-EADDRINUSE);
    auto made = std::make_unique<Port>();
    made->id = ++next_port_;
    made->nid = nid;
    made->host = nid.address4();
    made->port = &port;
    by_nid_[nid] = made.get();
    ports_[&port] = std::move(made);
    return ok_status;
}

void MessageNet::detach(SimPort& port) {
    Port& at = port_of(port);
    for (const auto& [nid, link] : at.links) {
        // What has left is on its way without us.
        while (Flight* flight = link->flights.pop_front()) {
            CHECK(flight->phase == Phase::travelling);
            engine_.withdraw(*flight);
            free(*flight);
        }
    }
    if (!at.unplugged) by_nid_.erase(at.nid);
    ports_.erase(&port);
}

MessageNet::Port& MessageNet::port_of(SimPort& port) {
    const auto found = ports_.find(&port);
    CHECK(found != ports_.end());
    return *found->second;
}

MessageNet::Link& MessageNet::link(Port& from, const Nid& to) {
    auto& slot = from.links[to];
    if (!slot) {
        slot = std::make_unique<Link>();
        slot->from = &from;
        slot->to = to;
        slot->to_host = to.address4();
    }
    return *slot;
}

SimFrame& MessageNet::make() {
    if (free_.empty()) {
        frames_.push_back(std::make_unique<Flight>(*this));
        free_.push_back(frames_.back().get());
    }
    Flight& flight = *free_.back();
    free_.pop_back();
    return flight;
}

void MessageNet::free(SimFrame& frame) {
    Flight& flight = static_cast<Flight&>(frame);
    CHECK(!flight.scheduled());
    flight.msg = nullptr;
    flight.link = nullptr;
    flight.payload.clear();
    free_.push_back(&flight);
}

void MessageNet::transmit(SimPort& port, SimFrame& frame) {
    Flight& flight = static_cast<Flight&>(frame);
    Port& from = port_of(port);
    Link& way = link(from, frame.to);
    flight.link = &way;
    flight.phase = Phase::leaving;
    flight.attempt = 0;
    flight.give_up = std::min(engine_.now() + timeout, flight.msg->deadline);
    way.flights.push_back(flight);
    from.wire_free = std::max(from.wire_free, engine_.now()) +
                     model_.transmission(from.host, flight.payload.size() + hdr4_bytes);
    engine_.schedule(flight, from.wire_free);
}

void MessageNet::happened(Flight& flight) {
    if (flight.phase == Phase::travelling) {
        arrive(flight);
    } else {
        leave(flight);
    }
}

// The sender's interface is through with it, or it is time to try again. What waits in front goes
// first, so that messages stay in order.
void MessageNet::leave(Flight& flight) {
    Link& way = *flight.link;
    if (way.from->unplugged) return told(flight, Status(-ENETDOWN), Health::local_error);
    const auto found = by_nid_.find(way.to);
    const bool reachable = found != by_nid_.end() && !model_.blocked(way.from->host, way.to_host) &&
                           !model_.blocked(way.to_host, way.from->host);
    if (reachable) {
        for (auto at = way.flights.begin(); at != way.flights.end();) {
            Flight& next = *at;
            ++at;
            if (next.phase == Phase::stalled) depart(next, found->second->id);
            if (&next == &flight && flight.phase == Phase::leaving)
                depart(flight, found->second->id);
            if (&next == &flight) return;
        }
    }
    if (engine_.now() >= flight.give_up) {
        const bool gone = found == by_nid_.end();
        return told(flight, Status(gone ? -EHOSTUNREACH : -ETIMEDOUT),
                    gone ? Health::remote_error : Health::network_timeout);
    }
    flight.phase = Phase::stalled;
    engine_.schedule(
        flight, std::min(flight.give_up, engine_.now() + model_.retry_after(flight.attempt++)));
}

void MessageNet::depart(Flight& flight, u64 to_port) {
    Link& way = *flight.link;
    engine_.withdraw(flight);
    flight.to_port = to_port;
    Msg& msg = *std::exchange(flight.msg, nullptr);
    const bool lost = model_.lost();
    const bool noticed = lost && chance(engine_.network, 50);
    if (lost) {
        engine_.trace(Trace::reset, way.from->host, way.to_host);
        way.flights.remove(flight);
        free(flight);
    } else {
        flight.phase = Phase::travelling;
        way.last_arrival =
            std::max(way.last_arrival + Duration(1), engine_.now() + model_.latency());
        engine_.schedule(flight, way.last_arrival);
    }
    if (noticed) {
        way.from->port->sent(msg, Status(-ECONNRESET), Health::remote_dropped);
    } else {
        way.from->port->sent(msg, ok_status, Health::ok);
    }
}

void MessageNet::arrive(Flight& flight) {
    Link& way = *flight.link;
    way.flights.remove(flight);
    const auto found = by_nid_.find(way.to);
    if (found == by_nid_.end() || found->second->id != flight.to_port) {
        free(flight);  // sent to somebody who has gone
        return;
    }
    engine_.trace(Trace::message, way.from->host, way.to_host, flight.payload.size());
    ++delivered_;
    found->second->port->arrived(flight);
}

void MessageNet::told(Flight& flight, Status status, Health health) {
    Link& way = *flight.link;
    Msg& msg = *std::exchange(flight.msg, nullptr);
    engine_.trace(Trace::reset, way.from->host, way.to_host, static_cast<u64>(-status.code()));
    way.flights.remove(flight);
    free(flight);
    way.from->port->sent(msg, status, health);
}

void MessageNet::drop(Link& way, Status status) {
    while (!way.flights.empty()) {
        Flight& flight = way.flights.front();
        engine_.withdraw(flight);
        if (flight.phase == Phase::travelling) {
            way.flights.remove(flight);
            free(flight);
        } else {
            told(flight, status, Health::remote_error);
        }
    }
}

// The port's side of a broken way.
void MessageNet::lose_way(Port& at, const Nid& peer) {
    const auto found = at.links.find(peer);
    if (found != at.links.end()) drop(*found->second, Status(-ECONNRESET));
    at.port->peer_lost(peer);
}

void MessageNet::cut(SimPort& port, const Nid& to) {
    Port& from = port_of(port);
    for (const auto& [nid, way] : from.links) {
        if (!to.any() && nid != to) continue;
        drop(*way, Status(-EHOSTDOWN));
        const auto found = by_nid_.find(nid);
        if (!from.unplugged && found != by_nid_.end() && found->second != &from)
            lose_way(*found->second, from.nid);
    }
}

void MessageNet::unplug(u32 host) {
    std::vector<Port*> gone;
    for (const auto& [nid, port] : by_nid_)
        if (port->host == host) gone.push_back(port);
    for (Port* port : gone) {
        by_nid_.erase(port->nid);
        port->unplugged = true;
        for (const auto& [nid, way] : port->links) drop(*way, Status(-ENETDOWN));
    }
}

void MessageNet::reset(u32 host, u32 other) {
    for (const auto& [nid, port] : by_nid_) {
        if (port->host != host && port->host != other) continue;
        const u32 far = port->host == host ? other : host;
        std::vector<Nid> peers;
        for (const auto& [peer, way] : port->links)
            if (way->to_host == far) peers.push_back(peer);
        for (const Nid& peer : peers) lose_way(*port, peer);
    }
}

}  // namespace ulnet::sim
