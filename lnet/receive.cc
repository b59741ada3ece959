// What comes in: the checks of every header, PUT, GET, REPLY and ACK, and the end of a reception.
// Upcalls of drivers, on any worker, several at a time.
#include <algorithm>
#include <cerrno>

#include "lnet/node_impl.h"

namespace ulnet {

// A header that passed the checks; lives for the length of one upcall. The NI is held by it.
struct Ni::Arrival {
    const Hdr& hdr;
    const ProcessId& from;
    RxToken token;
    RdmaGet rdma;
    LndNi& lnd;
    u64 peer_hash;
    u32 queue;
    Nid primary;  // of the peer that owns the source NID
};

// The checks of lnet-wire 11.1, 1 to 5, as observed on kernel nodes: not ok = a protocol error.
Status Ni::check(const Hdr& hdr, RdmaGet rdma, bool& drop) const {
    const Status protocol_error(-EPROTO);
    switch (hdr.type) {
    case MsgType::ack:
    case MsgType::get:
        if (hdr.payload_length > 0) return protocol_error;
        break;
    case MsgType::put:
    case MsgType::reply:
        if (hdr.payload_length > payload_max) return protocol_error;
        break;
    default:
        return protocol_error;
    }
    drop = hdr.src_nid.any();  // nobody to match with or to answer
    if (hdr.dest_nid == config.nid) return ok_status;
    const Pin pin(node.topology);
    const bool mine = pin->find(hdr.dest_nid) != nullptr;
    if (loopback_ && mine) return ok_status;
    if (!hdr.dest_nid.any()) {
        if (hdr.dest_nid.net() == config.nid.net() || mine || rdma.possible) return protocol_error;
    }
    drop = true;  // for another node, and this one does not route
    return ok_status;
}

Status Ni::arrived(const Hdr& hdr, const ProcessId& from, RxToken token, RdmaGet rdma) {
    const Pin pin(node.topology);
    LndNi* const to_driver = lnd();
    const u64 hash = from.nid.hash();
    const u32 queue = queue_of(hash);
    if (to_driver == nullptr || !hold(queue)) return Status(-ESHUTDOWN);
    Arrival arrival{hdr, from, token, rdma, *to_driver, hash, queue, hdr.src_nid};
    bool unwanted = false;
    const Status status = check(hdr, rdma, unwanted);
    if (!status.ok()) {
        node.counters.add(Count::errors);
        complain(hdr, from.nid);
    } else if (unwanted || !heard(arrival)) {
        drop(arrival);
    } else {
        counters.add(ni_count(Happened::received, hdr.type));
        switch (hdr.type) {
        case MsgType::put:
            take_put(arrival);
            break;
        case MsgType::get:
            take_get(arrival);
            break;
        case MsgType::reply:
            take_reply(arrival);
            break;
        default:
            take_ack(arrival);
            break;
        }
    }
    release(queue);
    return status;
}

// A connection closes for this: at most a few lines while a peer keeps doing it.
void Ni::complain(const Hdr& hdr, const Nid& from) {
    if (!log_enabled(LogLevel::warn)) return;
    complaints_.log(node.sched.now(), LogLevel::warn,
                    "lnet: " + to_text(from) + " broke the protocol: type " +
                        std::to_string(static_cast<u32>(hdr.type)) + ", payload " +
                        std::to_string(hdr.payload_length) + ", from " + to_text(hdr.src_nid) +
                        " to " + to_text(hdr.dest_nid) + " on " + to_text(config.nid));
}

bool Ni::heard(Arrival& arrival) {
    if (loopback_) return true;
    const Hdr& hdr = arrival.hdr;
    if (!node.peers.heard(arrival.from.nid, *this, hdr.type, arrival.primary)) return false;
    if (hdr.src_nid != arrival.from.nid) arrival.primary = node.peers.primary(hdr.src_nid);
    return true;
}

void Ni::count_drop(const Hdr& hdr, const Nid& from) {
    node.counters.add(Count::drop_count);
    if (hdr.payload_length > 0) node.counters.add(Count::drop_length, hdr.payload_length);
    counters.add(ni_count(Happened::dropped, hdr.type));
    if (!loopback_) node.peers.dropped(from, hdr.type);
}

void Ni::drop(const Arrival& arrival) {
    count_drop(arrival.hdr, arrival.from.nid);
    arrival.lnd.receive(arrival.token, nullptr, 0);
}

// A message for what arrived, with the event it will become; null when there is none.
CoreMsg* Ni::receiver(const Arrival& arrival, Event::Kind kind) {
    const u32 queue = arrival.queue;
    CoreMsg* const msg = node.new_msg(queues_[queue]->cpt);
    if (msg == nullptr) return nullptr;
    const Hdr& hdr = arrival.hdr;
    queues_[queue]->refs.fetch_add(1);  // the arrival holds the NI, so it cannot be gone
    msg->ni = this;
    msg->ni_queue = queue;
    msg->hdr = hdr;
    msg->token = arrival.token;
    msg->peer_hash = arrival.peer_hash;
    msg->event.kind = kind;
    msg->event.initiator = {arrival.primary, hdr.src_pid};
    msg->event.source = hdr.src_nid;
    msg->event.sender = loopback_ ? hdr.src_nid : arrival.from.nid;
    msg->event.target = {hdr.dest_nid, hdr.dest_pid};
    msg->event.msg_type = hdr.type;
    msg->set_state(MsgState::matching);
    return msg;
}

// LNet's own portal gets one kind of PUT: nothing else will ever have an MD there.
static bool worth_waiting(const Hdr& put) {
    return put.portal != portal_lnet || put.match_bits == match_bits_lnet;
}

void Ni::take_put(const Arrival& arrival) {
    const Hdr& hdr = arrival.hdr;
    Portal* const portal = hdr.portal < portals_max ? node.portal(hdr.portal) : nullptr;
    CoreMsg* const msg = portal != nullptr ? receiver(arrival, Event::Kind::put) : nullptr;
    if (msg == nullptr) return drop(arrival);
    msg->event.portal = hdr.portal;
    msg->event.match_bits = hdr.match_bits;
    msg->event.hdr_data = hdr.hdr_data;
    msg->event.rlength = hdr.payload_length;
    msg->event.offset = hdr.offset;
    const bool may_wait = portal->lazy() && worth_waiting(hdr);
    const bool queue_behind = may_wait && portal->has_delayed();
    const Match found = queue_behind ? Match::none : portal->match(*msg);
    if (found == Match::taken) {
        msg->set_state(MsgState::receiving);
        arrival.lnd.receive(arrival.token, msg, msg->payload.len);
        return;
    }
    if (found == Match::none && may_wait && arrival.lnd.park(arrival.token).ok()) {
        msg->set_state(MsgState::wait_buffer);
        parked.fetch_add(1);
        if (portal->delay(*msg)) return;
        parked.fetch_sub(1);
    }
    node.unref(*msg);
    drop(arrival);
}

void Ni::receive_parked(CoreMsg& msg) {
    msg.set_state(MsgState::receiving);
    lnd()->receive(msg.token, &msg, msg.payload.len);
}

void Ni::drop_parked(CoreMsg& msg) {
    count_drop(msg.hdr, msg.event.sender);
    const RxToken token = msg.token;
    lnd()->receive(token, nullptr, 0);
    node.unref(msg);
}

void Ni::take_get(const Arrival& arrival) {
    const Hdr& hdr = arrival.hdr;
    Portal* const portal = hdr.portal < portals_max ? node.portal(hdr.portal) : nullptr;
    CoreMsg* const msg = portal != nullptr ? receiver(arrival, Event::Kind::get) : nullptr;
    if (msg == nullptr) return drop(arrival);
    msg->event.portal = hdr.portal;
    msg->event.match_bits = hdr.match_bits;
    msg->event.rlength = hdr.sink_length;
    msg->event.offset = hdr.offset;
    // The message is the REPLY; its way is fixed before others can find it on the MD.
    msg->sends = true;
    msg->hdr = Hdr{};
    msg->hdr.type = MsgType::reply;
    msg->hdr.dest_nid = hdr.src_nid;
    msg->hdr.dest_pid = hdr.src_pid;
    msg->hdr.src_nid = hdr.dest_nid;
    msg->hdr.handle = hdr.handle;
    const Status way = node.route_answer(*msg);
    if (portal->match(*msg) != Match::taken) {
        node.unref(*msg);
        return drop(arrival);
    }
    msg->hdr.payload_length = msg->payload.len;
    msg->set_state(MsgState::routing);
    node.counters.add(Count::recv_count);
    if (arrival.rdma.possible)
        msg->answers = arrival.token;
    else
        arrival.lnd.receive(arrival.token, nullptr, 0);
    if (way.ok())
        node.submit(*msg);
    else
        node.finish_send(*msg, way, Health::local_no_route, false);
}

// Puts a REPLY or ACK on the MD it names. False: there is none that could take it.
bool NodeImpl::take_response(CoreMsg& msg) {
    const WireHandle& handle = msg.hdr.handle;
    if (handle.interface_cookie != interface_cookie) return false;
    const LockedMd locked = lock_md(handle.object_cookie);
    if (locked.md == nullptr) return false;
    MdImpl& md = *locked.md;
    u32& due = md.due(msg.event.kind == Event::Kind::reply);
    if (md.floats == nullptr || md.threshold == 0 || due == 0) return false;
    if (msg.hdr.type == MsgType::reply) {
        const u32 length = msg.hdr.payload_length;
        if (length > md.length && !md.options.truncate) return false;
        msg.event.rlength = length;
        msg.event.mlength = std::min(length, md.length);
        msg.payload = MemView{md.mem, 0, msg.event.mlength};
    }
    msg.event.user = md.user;
    md.count_operation();
    --due;
    response_done(md);
    ++md.busy;
    md.messages.push_back(msg);
    msg.md = &md;
    return true;
}

void Ni::take_reply(const Arrival& arrival) {
    CoreMsg* const msg = receiver(arrival, Event::Kind::reply);
    if (msg == nullptr) return drop(arrival);
    if (!node.take_response(*msg)) {
        node.unref(*msg);
        return drop(arrival);
    }
    msg->set_state(MsgState::receiving);
    arrival.lnd.receive(arrival.token, msg, msg->payload.len);
}

void Ni::take_ack(const Arrival& arrival) {
    CoreMsg* const msg = receiver(arrival, Event::Kind::ack);
    if (msg == nullptr) return drop(arrival);
    msg->event.match_bits = arrival.hdr.match_bits;
    msg->event.mlength = arrival.hdr.mlength;
    if (!node.take_response(*msg)) {
        node.unref(*msg);
        return drop(arrival);
    }
    arrival.lnd.receive(arrival.token, nullptr, 0);
    node.finish_receive(*msg, ok_status);
}

CoreMsg* NodeImpl::make_ack(const CoreMsg& put) {
    if (!put.ni->hold(put.ni_queue)) return nullptr;
    CoreMsg* const ack = new_msg(put.cpt);
    if (ack == nullptr) {
        put.ni->release(put.ni_queue);
        return nullptr;
    }
    ack->set_state(MsgState::routing);
    ack->sends = true;
    ack->ni = put.ni;
    ack->ni_queue = put.ni_queue;
    ack->hdr.type = MsgType::ack;
    ack->hdr.dest_nid = put.hdr.src_nid;
    ack->hdr.dest_pid = put.hdr.src_pid;
    ack->hdr.src_nid = put.hdr.dest_nid;
    ack->hdr.handle = put.hdr.handle;
    ack->hdr.match_bits = put.hdr.match_bits;
    ack->hdr.mlength = put.event.mlength;
    return ack;
}

void NodeImpl::finish_receive(CoreMsg& msg, Status status) {
    msg.set_state(MsgState::finishing);
    if (msg.by_rdma) msg.event.rlength = msg.event.mlength = msg.payload.len;
    if (status.ok()) {
        counters.add(Count::recv_count);
        if (msg.event.kind != Event::Kind::ack) counters.add(Count::recv_length, msg.event.mlength);
    } else {
        counters.add(Count::errors);
    }
    // The ACK is made before the event, after which the message may be gone, and goes out only if
    // the event says that all went well.
    const bool wants_ack = msg.event.kind == Event::Kind::put && status.ok() &&
                           !msg.hdr.handle.none() && !msg.md->options.ack_disable;
    CoreMsg* const ack = wants_ack ? make_ack(msg) : nullptr;
    const Status told = complete(msg, status, true);
    if (ack == nullptr) return;
    const Status way = told.ok() ? route_answer(*ack) : told;
    if (way.ok())
        submit(*ack);
    else
        unref(*ack);
}

}  // namespace ulnet
