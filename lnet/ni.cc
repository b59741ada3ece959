// A local interface: what holds on to it, and the short upcalls of its driver.
#include "lnet/ni.h"

#include <cerrno>

#include "lnet/node_impl.h"

namespace ulnet {

Ni::Ni(NodeImpl& node_of_ni, const NiConfig& its_config, Lnd& its_driver,
       std::vector<CptId> its_cpts)
    : node(node_of_ni), config(its_config), driver(its_driver), caps(its_driver.caps()),
      cpts(std::move(its_cpts)), counters(node_of_ni.sched), tunables(its_config.tunables),
      loopback_(its_config.net == net_lo) {
    const u32 count = static_cast<u32>(cpts.size());
    const u32 credits = queue_credits(config.credits, config.peer_credits, count);
    for (u32 i = 0; i < count; ++i)
        queues_.push_back(std::make_unique<NiQueue>(*this, i, cpts[i], credits));
}

Ni::~Ni() {
    CHECK(refs() == 0);
}

bool Ni::hold(u32 queue) {
    queues_[queue]->refs.fetch_add(1);
    if (!closing()) return true;
    queues_[queue]->refs.fetch_sub(1);
    return false;
}

u64 Ni::refs() const {
    u64 total = 0;
    for (const auto& queue : queues_) total += queue->refs.load();
    return total;
}

void Ni::opened(std::unique_ptr<LndNi> lnd) {
    owned_ = std::move(lnd);
    lnd_.store(owned_.get(), std::memory_order_release);
}

Duration Ni::message_timeout() const {
    if (caps.timeout <= Duration{}) return node.transaction_timeout();
    return caps.timeout * (node.options.retry_count + 1) + std::chrono::seconds(1);
}

void Ni::finished(Msg& driver_msg, Status status, Health outcome) {
    const Pin pin(node.topology);
    auto& msg = static_cast<CoreMsg&>(driver_msg);
    if (msg.sends) {
        node.finish_send(msg, status, outcome, true);
    } else {
        count_health(node.counters, outcome);
        node.finish_receive(msg, status);
    }
}

Msg* Ni::reply_for(Msg& driver_msg) {
    const Pin pin(node.topology);
    const auto& get = static_cast<const CoreMsg&>(driver_msg);
    if (get.hdr.type != MsgType::get || !hold(get.ni_queue)) return nullptr;
    CoreMsg* const msg = node.new_msg(get.cpt);
    if (msg == nullptr) {
        release(get.ni_queue);
        return nullptr;
    }
    msg->set_state(MsgState::matching);
    msg->ni = this;
    msg->ni_queue = get.ni_queue;
    msg->by_rdma = true;
    msg->hdr.type = MsgType::reply;
    msg->hdr.src_nid = get.hdr.dest_nid;
    msg->hdr.src_pid = get.hdr.dest_pid;
    msg->hdr.dest_nid = get.hdr.src_nid;
    msg->hdr.dest_pid = get.hdr.src_pid;
    msg->hdr.payload_length = get.hdr.sink_length;
    msg->hdr.handle = get.hdr.handle;
    msg->event.kind = Event::Kind::reply;
    msg->event.initiator = {node.peers.primary(get.hdr.dest_nid), get.hdr.dest_pid};
    msg->event.source = get.hdr.dest_nid;
    msg->event.sender = get.next_hop.nid;
    msg->event.target = {get.hdr.src_nid, get.hdr.src_pid};
    msg->event.msg_type = MsgType::reply;
    if (!node.take_response(*msg)) {
        node.unref(*msg);
        return nullptr;
    }
    msg->set_state(MsgState::receiving);
    return msg;
}

void Ni::peer_event(const Nid& peer, PeerEvent what) {
    const Pin pin(node.topology);
    node.peers.set_alive(peer, what == PeerEvent::up);
    if (what != PeerEvent::down) return;
    for (PortalId id = 0; id < portals_max; ++id)
        if (Portal* const portal = node.portal(id)) portal->forget(*this, peer);
}

void Ni::ni_event(NiEvent what) {
    const Pin pin(node.topology);
    const bool is_up = what == NiEvent::up;
    if (up() == is_up) return;
    set_up(is_up);
    NodeImpl& of_ni = node;
    node.control.queue([&of_ni] {
        if (of_ni.life == NodeImpl::Life::open) of_ni.ping_target.rebuild();
    });
}

void Ni::Closed::run() {
    Ni& done = ni;
    const Pin pin(done.node.topology);
    done.node.control.queue([&done] {
        done.driver_closed = true;
        done.node.advance_closing();
    });
}

}  // namespace ulnet
