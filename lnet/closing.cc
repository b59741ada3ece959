// How interfaces and the Node itself end: in steps that the control strand comes back to until each
// one's condition holds. Nothing waits.
#include <algorithm>
#include <cerrno>

#include "lnet/node_impl.h"

namespace ulnet {

void NodeImpl::begin_close(Ni& ni, std::function<void()> done) {
    ni.set_closing();
    ni.epoch = topology.published();
    ni.closed = std::move(done);
}

// Messages of the NI that wait for credits end now; those with the driver end when it closes.
void NodeImpl::end_waiters_of(Ni& ni) {
    std::vector<CoreMsg*> ended;
    const auto take_out = [&](CreditPool& pool, bool CoreMsg::*waits) {
        for (auto at = pool.waiters().begin(); at != pool.waiters().end();) {
            CoreMsg& msg = *at;
            ++at;
            if (msg.ni != &ni) continue;
            pool.leave(msg);
            msg.*waits = false;
            ended.push_back(&msg);
        }
    };
    for (u32 i = 0; i < ni.queues(); ++i) {
        const std::lock_guard guard(ni.queue(i).lock);
        take_out(ni.queue(i).pool, &CoreMsg::waits_for_ni);
    }
    peers.for_each([&](PeerNi& peer) {
        const std::lock_guard guard(peer.lock);
        take_out(peer.pool, &CoreMsg::waits_for_peer);
    });
    for (CoreMsg* msg : ended) finish_send(*msg, Status(-ESHUTDOWN), Health::ok, false);
}

void NodeImpl::stop_timers_of(Ni& ni) {
    for (u32 i = 0; i < ni.queues(); ++i) {
        NiQueue& queue = ni.queue(i);
        {
            const std::lock_guard guard(queue.lock);
            if (!queue.armed) continue;
        }
        if (!sched.cancel(queue)) continue;  // it fires, or is about to be armed: next time
        {
            const std::lock_guard guard(queue.lock);
            queue.armed = false;
        }
        ni.release(i);
    }
}

// One step of an NI that closes; true when nothing is left of it.
bool NodeImpl::advance(Ni& ni) {
    if (ni.step == Ni::Closing::unpublished) {
        if (topology.settled() < ni.epoch) return false;
        end_waiters_of(ni);
        ni.step = Ni::Closing::draining;
        ni.lnd()->close(ni.closed_task);
    }
    if (ni.step == Ni::Closing::draining) {
        if (ni.parked.load() > 0)
            for (const auto& each : portals_owned)
                if (each) each->look_again();
        if (ni.refs() > 0) {
            end_waiters_of(ni);
            stop_timers_of(ni);
        }
        if (!ni.driver_closed || ni.refs() > 0) return false;
        publish(topology_copy());
        ni.epoch = topology.published();
        ni.step = Ni::Closing::forgotten;
    }
    topology.settle();
    return topology.settled() >= ni.epoch;
}

bool NodeImpl::all_ended() {
    peers.stop_timers();
    bool timers_off = true;
    for (const auto& home : homes) {
        {
            const std::lock_guard guard(home->lock);
            if (!home->armed) continue;
        }
        if (sched.cancel(*home)) {
            const std::lock_guard guard(home->lock);
            home->armed = false;
        } else {
            timers_off = false;
        }
    }
    u64 messages = 0;
    for (const auto& pool : msg_pools) messages += pool->use().now;
    return timers_off && messages == 0 && mds_in_use() == 0 && mes_in_use() == 0 &&
           pings.load() == 0 && ping_target.buffers() == 0 && peers.idle();
}

void NodeImpl::advance_close() {
    if (life == Life::nis_close && closing_nis.empty() && topology.settled() >= last_epoch) {
        unlink_all(Status(-ESHUTDOWN));
        life = Life::mds_end;
    }
    if (life == Life::mds_end && all_ended()) {
        auto last = std::make_unique<NetTopology>();
        last->closing = true;
        publish(std::move(last));
        last_epoch = topology.published();
        life = Life::last_pins;
    }
    if (life != Life::last_pins || topology.settled() < last_epoch) return;
    for (const auto& each : portals_owned)
        if (each && !each->idle()) return;
    if (tick_armed) {
        if (!sched.cancel(tick)) return;  // it is about to call
        tick_armed = false;
    }
    life = Life::closed;
    sched.post(0, closer);
}

void NodeImpl::advance_closing() {
    if (advancing || life == Life::closed) return;  // a callback below asked for more
    advancing = true;
    topology.settle();
    std::vector<std::function<void()>> closed;
    for (auto at = closing_nis.begin(); at != closing_nis.end();) {
        if (!advance(**at)) {
            ++at;
            continue;
        }
        const Net net = (*at)->nid().net();
        closed.push_back(std::move((*at)->closed));
        at = closing_nis.erase(at);
        if (!topology.latest().has_net(net)) peers.forget_net(net);
    }
    if (life != Life::open) advance_close();
    advancing = false;
    for (const std::function<void()>& done : closed)
        if (done) done();
    if (life == Life::closed) return;
    const bool more =
        !closing_nis.empty() || topology.settled() < topology.published() || life != Life::open;
    if (!more || tick_armed) return;
    tick_armed = true;
    sched.arm(0, tick, sched.now() + closing_tick);
}

void NodeImpl::Tick::fire() {
    NodeImpl& of_tick = node;
    of_tick.control.queue([&of_tick] {
        of_tick.tick_armed = false;
        of_tick.advance_closing();
    });
}

void NodeImpl::Closer::run() {
    if (!node.control.quiet()) {
        node.sched.post(0, *this);
        return;
    }
    Sched& post_to = node.sched;
    Task& done = *node.close_done;
    node.completed.store(true);
    post_to.post(0, done);  // which may delete the Node
}

}  // namespace ulnet
