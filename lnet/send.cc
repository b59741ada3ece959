// The way out: put and get, the way and the credits of a message, the driver, and its end. Any
// worker; a message is owned by whoever moves it on.
#include <cerrno>

#include "lnet/node_impl.h"

namespace ulnet {
namespace {

// Takes out of a line the messages whose deadline has passed and ends them; the timer of the line
// stays armed while others wait. True: it does not, the line's hold can go. `Line` has lock, pool,
// armed and cpt; `waits` is the message's flag for it.
template <class Line> bool expire(NodeImpl& node, Line& line, bool CoreMsg::*waits) {
    static constexpr u32 ends_a_turn = 64;
    const Instant now = node.sched.now();
    Instant next = now;
    for (u32 ended = 0; ended < ends_a_turn; ++ended) {
        CoreMsg* msg;
        {
            const std::lock_guard guard(line.lock);
            msg = line.pool.expired(now);
            if (msg != nullptr) {
                msg->*waits = false;
            } else if (line.pool.waiters().empty()) {
                line.armed = false;
                return true;
            } else {
                next = line.pool.next_deadline();
            }
        }
        if (msg == nullptr) break;
        node.finish_send(*msg, Status(-ETIMEDOUT), Health::network_timeout, false);
    }
    node.sched.arm(line.cpt, line, next);
    return false;
}

bool is_answer(const CoreMsg& msg) {
    return msg.hdr.type == MsgType::reply || msg.hdr.type == MsgType::ack;
}

// What came of asking for a credit.
struct Asked {
    bool has = false;   // else the message waits, and belongs to the line
    int cancelled = 0;  // neither: the message must end with this
    bool arm = false;   // the caller arms the line's timer, which then holds the line
};

// Takes a credit of the line or queues the message. Looks for a cancel under the lock, so that
// NodeImpl::cancel() either finds the message in the line or is seen here.
template <class Line>
Asked ask_credit(Line& line, CoreMsg& msg, MsgState state, bool CoreMsg::*waits,
                 bool CoreMsg::*has) {
    const std::lock_guard guard(line.lock);
    if (const int code = msg.cancelled.load()) return {.cancelled = code};
    if (is_answer(msg) && line.pool.waiters().size() >= Line::answers_waiting_max)
        return {.cancelled = -ENOBUFS};
    msg.set_state(state);
    if (line.pool.take(msg)) {
        msg.*has = true;
        return {.has = true};
    }
    msg.*waits = true;
    const bool arm = !line.armed;
    line.armed = true;
    if (arm) line.refs.fetch_add(1);
    return {.arm = arm};
}

// Gives a credit back; the next message has it then and is to be posted.
template <class Line> CoreMsg* give_credit(Line& line, bool CoreMsg::*waits, bool CoreMsg::*has) {
    CoreMsg* const next = line.pool.release();
    if (next != nullptr) {
        next->*waits = false;
        next->*has = true;
    }
    return next;
}

// Why the message must not go on.
Status obstacle(const CoreMsg& msg, Instant now) {
    if (const int code = msg.cancelled.load()) return Status(code);
    if (msg.ni->closing()) return Status(-ESHUTDOWN);
    if (msg.deadline <= now) return Status(-ETIMEDOUT);
    return ok_status;
}

Health health_of(Status status) {
    return status.code() == -ETIMEDOUT ? Health::network_timeout : Health::ok;
}

bool addressable(const Nid& nid) {
    return !nid.any() && nid.valid();
}

u32 length_of(const Hdr& hdr) {
    return hdr.type == MsgType::get ? hdr.sink_length : hdr.payload_length;
}

// The SEND event of a PUT or GET of ours.
void set_send_event(CoreMsg& msg, u32 length, void* user) {
    const Hdr& hdr = msg.hdr;
    msg.event.kind = Event::Kind::send;
    msg.event.initiator = {Nid{}, hdr.src_pid};
    msg.event.target = {hdr.dest_nid, hdr.dest_pid};
    msg.event.portal = hdr.portal;
    msg.event.match_bits = hdr.match_bits;
    msg.event.hdr_data = hdr.type == MsgType::put ? hdr.hdr_data : 0;
    msg.event.rlength = msg.event.mlength = length;
    msg.event.offset = hdr.offset;
    msg.event.msg_type = hdr.type;
    msg.event.user = user;
}

}  // namespace

Status NodeImpl::put(u64 md_cookie, const PutArgs& args) {
    if (args.portal >= portals_max || !addressable(args.to.nid)) return Status(-EINVAL);
    const Pin pin(topology);
    if (pin->closing) return Status(-ESHUTDOWN);
    CoreMsg* const msg = new_msg(Cookie::cpt(md_cookie) % cpts());
    if (msg == nullptr) return Status(-ENOMEM);
    Hdr& hdr = msg->hdr;
    hdr.type = MsgType::put;
    hdr.dest_nid = args.to.nid;
    hdr.dest_pid = args.to.pid == pid_any ? pid_lustre : args.to.pid;
    hdr.portal = args.portal;
    hdr.match_bits = args.match_bits;
    hdr.offset = args.offset;
    hdr.hdr_data = args.hdr_data;
    msg->wants_response = args.ack == Ack::yes;
    return start(md_cookie, *pin, *msg, args.from);
}

Status NodeImpl::get(u64 md_cookie, const GetArgs& args) {
    if (args.portal >= portals_max || !addressable(args.to.nid)) return Status(-EINVAL);
    const Pin pin(topology);
    if (pin->closing) return Status(-ESHUTDOWN);
    CoreMsg* const msg = new_msg(Cookie::cpt(md_cookie) % cpts());
    if (msg == nullptr) return Status(-ENOMEM);
    Hdr& hdr = msg->hdr;
    hdr.type = MsgType::get;
    hdr.dest_nid = args.to.nid;
    hdr.dest_pid = args.to.pid == pid_any ? pid_lustre : args.to.pid;
    hdr.portal = args.portal;
    hdr.match_bits = args.match_bits;
    hdr.offset = args.offset;
    msg->wants_response = true;
    return start(md_cookie, *pin, *msg, args.from);
}

Status NodeImpl::start(u64 md_cookie, const NetTopology& now_valid, CoreMsg& msg, const Nid& from) {
    msg.sends = true;
    msg.set_state(MsgState::routing);
    const Status way = route(msg, now_valid, from);
    bool arm = false;
    FloatHome* home = nullptr;
    Instant response_deadline{};
    {
        const LockedMd locked = lock_md(md_cookie);
        MdImpl* const md = locked.md;
        if (md != nullptr && md->floats != nullptr && md->threshold != 0) {
            home = md->floats;
            if (msg.wants_response) {
                msg.hdr.handle.interface_cookie = interface_cookie;
                msg.hdr.handle.object_cookie = md_cookie;
                ++md->due(msg.hdr.type == MsgType::get);
                if (tracks(md->options, msg.hdr.type)) {
                    track_response(*md, sched.now(), arm);
                    response_deadline = md->response_deadline;
                }
            }
            if (msg.hdr.type == MsgType::put) {
                msg.hdr.payload_length = md->length;
                msg.payload = MemView{md->mem, 0, md->length};
            } else {
                msg.hdr.sink_length = md->length;
            }
            set_send_event(msg, length_of(msg.hdr), md->user);
            md->count_operation();
            ++md->busy;
            md->messages.push_back(msg);
            msg.md = md;
        }
    }
    if (home == nullptr) {
        unref(msg);
        return Status(-ENOENT);
    }
    if (arm) sched.arm(home->cpt, *home, response_deadline);
    if (way.ok())
        submit(msg);
    else
        finish_send(msg, way, Health::local_no_route, false);
    return ok_status;
}

Status NodeImpl::route(CoreMsg& msg, const NetTopology& now_valid, const Nid& from) {
    Hdr& hdr = msg.hdr;
    const Way way = select_way(now_valid, from, hdr.dest_nid);
    if (!way.status.ok()) return way.status;
    Ni& ni = *way.ni;
    const u32 queue = ni.queue_of(way.next_hop.hash());
    if (!ni.hold(queue)) return Status(-ESHUTDOWN);
    msg.ni = &ni;
    msg.ni_queue = queue;
    msg.cpt = ni.queue(queue).cpt;
    msg.next_hop = {way.next_hop, hdr.dest_pid};
    msg.deadline = sched.now() + ni.message_timeout();
    hdr.src_pid = pid_lustre;
    if (ni.loopback()) {
        // 0@lo is answered to 0@lo; a NID of ours keeps its name on both sides.
        hdr.src_nid = hdr.dest_nid.is_lo() ? hdr.dest_nid : from.any() ? hdr.dest_nid : from;
        return ok_status;
    }
    hdr.src_nid = ni.nid();
    msg.peer = peers.hold(way.next_hop, ni);
    return msg.peer != nullptr ? ok_status : Status(-ENOBUFS);
}

Status NodeImpl::route_answer(CoreMsg& msg) {
    Ni& ni = *msg.ni;
    const Nid& to = msg.hdr.dest_nid;
    msg.next_hop = {to, msg.hdr.dest_pid};
    msg.deadline = sched.now() + ni.message_timeout();
    if (ni.loopback()) return ok_status;
    if (to.any() || to.net() != ni.nid().net()) return Status(-EHOSTUNREACH);
    msg.peer = peers.hold(to, ni);
    return msg.peer != nullptr ? ok_status : Status(-ENOBUFS);
}

void NodeImpl::submit(CoreMsg& msg) {
    if (msg.ni->loopback()) {  // no credits there
        to_driver(msg);
        return;
    }
    const Status status = obstacle(msg, sched.now());
    if (!status.ok()) {
        finish_send(msg, status, health_of(status), false);
        return;
    }
    PeerNi& peer = *msg.peer;
    const Instant deadline = msg.deadline;
    const Asked asked = ask_credit(peer, msg, MsgState::wait_peer_credit, &CoreMsg::waits_for_peer,
                                   &CoreMsg::has_peer_credit);
    if (asked.has)
        after_peer_credit(msg);
    else if (asked.cancelled != 0)
        finish_send(msg, Status(asked.cancelled), Health::ok, false);
    else if (asked.arm)
        sched.arm(peer.cpt, peer, deadline);
}

void NodeImpl::after_peer_credit(CoreMsg& msg) {
    const Status status = obstacle(msg, sched.now());
    if (!status.ok()) {
        finish_send(msg, status, health_of(status), false);
        return;
    }
    NiQueue& queue = msg.ni->queue(msg.ni_queue);
    const Instant deadline = msg.deadline;
    const Asked asked = ask_credit(queue, msg, MsgState::wait_ni_credit, &CoreMsg::waits_for_ni,
                                   &CoreMsg::has_ni_credit);
    if (asked.has)
        to_driver(msg);
    else if (asked.cancelled != 0)
        finish_send(msg, Status(asked.cancelled), Health::ok, false);
    else if (asked.arm)
        sched.arm(queue.cpt, queue, deadline);
}

void NodeImpl::to_driver(CoreMsg& msg) {
    const Instant now = sched.now();
    const Status status = obstacle(msg, now);
    if (!status.ok()) {
        finish_send(msg, status, health_of(status), false);
        return;
    }
    msg.set_state(MsgState::sending);
    msg.sent_at = now;
    msg.ni->lnd()->send(msg);
}

void NodeImpl::count_sent(const CoreMsg& msg, Status status, Health health) {
    count_health(counters, health);
    if (!status.ok()) {
        counters.add(Count::errors);
        return;
    }
    counters.add(Count::send_count);
    if (msg.hdr.payload_length > 0) counters.add(Count::send_length, msg.hdr.payload_length);
}

// How long a message took counts only when it was sent: a failure's time tells nothing of the peer.
void NodeImpl::return_credits(CoreMsg& msg, bool reached_driver, bool sent) {
    if (msg.has_ni_credit) {
        NiQueue& queue = msg.ni->queue(msg.ni_queue);
        CoreMsg* next;
        {
            const std::lock_guard guard(queue.lock);
            msg.has_ni_credit = false;
            next = give_credit(queue, &CoreMsg::waits_for_ni, &CoreMsg::has_ni_credit);
        }
        if (next != nullptr) sched.post(next->cpt, *next);
    }
    if (!msg.has_peer_credit) return;
    PeerNi& peer = *msg.peer;
    std::unique_ptr<Histogram> fresh;
    CoreMsg* next;
    for (;;) {
        {
            const std::lock_guard guard(peer.lock);
            if (peer.latency == nullptr && fresh != nullptr) peer.latency = std::move(fresh);
            if (peer.latency != nullptr || !sent) {
                if (reached_driver) ++peer.sent[static_cast<u32>(msg.hdr.type)];
                if (sent) peer.latency->add(sched.now() - msg.sent_at);
                msg.has_peer_credit = false;
                next = give_credit(peer, &CoreMsg::waits_for_peer, &CoreMsg::has_peer_credit);
                break;
            }
        }
        fresh = std::make_unique<Histogram>();  // once a peer NI
    }
    if (next != nullptr) sched.post(next->cpt, *next);
}

void NodeImpl::finish_send(CoreMsg& msg, Status status, Health health, bool inline_allowed) {
    const bool reached_driver = msg.state == MsgState::sending;
    msg.set_state(MsgState::finishing);
    count_sent(msg, status, health);
    if (reached_driver) msg.ni->counters.add(ni_count(Happened::sent, msg.hdr.type));
    // A REPLY that the driver never saw: the GET it would have answered ends without.
    if (!reached_driver && msg.answers.driver != nullptr)
        msg.ni->lnd()->receive(msg.answers, nullptr, 0);
    return_credits(msg, reached_driver, reached_driver && status.ok());
    if (msg.md != nullptr)
        static_cast<void>(complete(msg, status, inline_allowed));
    else
        unref(msg);
}

void NodeImpl::cancel(CoreMsg& msg, Status why) {
    msg.cancelled.store(why.code());
    if (!msg.sends || msg.peer == nullptr || msg.ni == nullptr) return;
    bool waited = false;
    {
        const std::lock_guard guard(msg.peer->lock);
        if (msg.waits_for_peer) {
            msg.peer->pool.leave(msg);
            msg.waits_for_peer = false;
            waited = true;
        }
    }
    if (!waited) {
        NiQueue& queue = msg.ni->queue(msg.ni_queue);
        const std::lock_guard guard(queue.lock);
        if (msg.waits_for_ni) {
            queue.pool.leave(msg);
            msg.waits_for_ni = false;
            waited = true;
        }
    }
    if (waited) finish_send(msg, why, Health::ok, false);
}

void PeerNi::fire() {
    NodeImpl& node = table.node();
    const Pin pin(node.topology);
    if (expire(node, *this, &CoreMsg::waits_for_peer)) table.release(*this);
}

void NiQueue::fire() {
    const Pin pin(ni.node.topology);
    if (expire(ni.node, *this, &CoreMsg::waits_for_ni)) ni.release(index);
}

}  // namespace ulnet
