// The end of operations: events, told one at a time an MD, and the deadline of responses. Any
// worker; no lock is held while a handler runs.
#include <cerrno>

#include "lnet/node_impl.h"

namespace ulnet {

Status NodeImpl::complete(CoreMsg& msg, Status status, bool inline_allowed) {
    MdImpl& md = *msg.md;
    MdHome& home = *md.home.load(std::memory_order_relaxed);
    Aftermath after;
    {
        const std::lock_guard guard(home.lock);
        md.messages.remove(msg);
        --md.busy;
        if (msg.sends && msg.wants_response && !status.ok()) {
            u32& due = md.due(msg.hdr.type == MsgType::get);
            if (due > 0) --due;
            response_done(md);
        }
        if (md.aborted && status.ok()) status = md.why.ok() ? Status(-ETIMEDOUT) : md.why;
        msg.event.status = status;
        if (md.busy == 0 && (md.aborted || (md.options.auto_unlink && md.exhausted()))) {
            after = begin_unlink(md, ok_status);
            msg.event.unlinked = true;
        }
        md.events.push_back(msg);
        after.deliver = !md.delivering;
        md.delivering = true;
    }
    if (after.dead_me != nullptr) mes[after.dead_me->slot_cpt]->give(*after.dead_me);
    // From here on the message may be gone.
    if (!after.deliver) return status;
    if (inline_allowed && !sched.worth_handing_off(home.cpt, event_work))
        deliver(md);
    else
        sched.post(home.cpt, md);
    return status;
}

void MdImpl::run() {
    NodeImpl& node_of_md = *node;
    const Pin pin(node_of_md.topology);
    node_of_md.deliver(*this);
}

void NodeImpl::deliver(MdImpl& md) {
    MdHome& home = *md.home.load(std::memory_order_relaxed);
    for (u32 told = 0;; ++told) {
        EventNode* next = nullptr;
        {
            const std::lock_guard guard(home.lock);
            if (md.events.empty()) {
                md.delivering = false;
                return;
            }
            if (told < events_a_turn) next = md.events.pop_front();
        }
        if (next == nullptr) {
            sched.post(home.cpt, md);
            return;
        }
        const bool last = next->event.unlinked;
        if (md.handler != nullptr) md.handler(next->event);
        if (next->msg != nullptr) unref(*next->msg);
        if (last) {
            free_md(md, home);
            return;
        }
    }
}

void NodeImpl::free_md(MdImpl& md, MdHome& home) {
    {
        const std::lock_guard guard(home.lock);
        md.told_last = true;
        if (md.cancelling) return;  // whoever cancels its messages frees it
    }
    mds[md.slot_cpt]->give(md);
}

bool NodeImpl::tracks(const MdOptions& md, MsgType type) const {
    if (md.track_response) return true;
    if (md.no_track_response) return false;
    switch (options.response_tracking) {
    case ResponseTracking::own:
        return false;
    case ResponseTracking::get:
        return type == MsgType::get;
    case ResponseTracking::put:
        return type == MsgType::put;
    case ResponseTracking::all:
        break;
    }
    return true;
}

void NodeImpl::track_response(MdImpl& md, Instant now, bool& arm) {
    FloatHome& home = *md.floats;
    ++md.responses_due;
    md.response_deadline = now + transaction_timeout();
    if (md.tracked) home.tracked.remove(md);
    home.tracked.push_back(md);
    md.tracked = true;
    arm = !home.armed;
    home.armed = true;
}

void NodeImpl::response_done(MdImpl& md) {
    if (md.responses_due > 0) --md.responses_due;
    if (md.responses_due > 0 || !md.tracked) return;
    md.floats->tracked.remove(md);
    md.tracked = false;
}

void FloatHome::fire() {
    static constexpr u32 ends_a_turn = 64;
    const Pin pin(node.topology);
    const Instant now = node.sched.now();
    Instant again = now;
    for (u32 ended = 0; ended < ends_a_turn; ++ended) {
        std::unique_lock guard(lock);
        if (tracked.empty()) {
            armed = false;
            return;
        }
        MdImpl& md = tracked.front();
        if (md.response_deadline > now) {
            again = md.response_deadline;
            break;
        }
        Aftermath after = node.begin_unlink(md, Status(-ETIMEDOUT));
        node.queue_unlink_event(md, Status(-ETIMEDOUT), after);
        guard.unlock();
        node.counters.add(Count::response_timeout);
        node.settle(md, *this, after);
    }
    node.sched.arm(cpt, *this, again);
}

}  // namespace ulnet
