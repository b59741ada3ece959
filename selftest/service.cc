// Server RPCs. Everything of one RPC happens in sequence, on whichever worker has the event.
#include "selftest/service.h"

#include "cpt/cpt.h"

namespace ulnet::lst {

ServiceQueue::ServiceQueue(Context& context, Service service, Handler& handler)
    : context_(context), service_(service), handler_(handler) {}

ServiceQueue::~ServiceQueue() = default;

void ServiceQueue::grow(u32 count) {
    while (rpcs_.size() < count && !context_.closing()) {
        const CptId cpt = static_cast<CptId>(rpcs_.size() % context_.sched.cpts().size());
        rpcs_.push_back(std::make_unique<ServerRpc>(context_, *this, cpt));
        count_.store(static_cast<u32>(rpcs_.size()), std::memory_order_relaxed);
        context_.hold();
        rpcs_.back()->post();
    }
}

void ServiceQueue::close() {
    CHECK(context_.closing());
    for (const auto& rpc : rpcs_) rpc->slot_.unlink(context_.node);
}

// A peer that has nothing under way always gets its turn.
bool ServiceQueue::fits(const Share& share, u64 bytes) const {
    const u32 held_max = count_.load(std::memory_order_relaxed) / 2;
    return share.held == 0 || (share.held < held_max &&
                               share.bytes + bytes <= context_.options.server_bulk_bytes_max / 2);
}

void ServiceQueue::begin(Share& share, ServerRpc& rpc, u64 bytes) {
    ++share.held;
    share.bytes += bytes;
    rpc.data_bytes_ = bytes;
    rpc.admitted_ = true;
}

// Clients give up after the RPC time-out; one that has started anew is not to wait for its past.
void ServiceQueue::drop_stale(Share& share) {
    const Duration limit = context_.rpc_timeout();
    while (limit > Duration{} && !share.waiting.empty() &&
           context_.sched.now() - share.waiting.front().since > limit) {
        share.waiting.pop_front();
        --waiting_;
        context_.counters.add(RpcCount::dropped);
    }
}

bool ServiceQueue::take_first(Share& share, ServerRpc& rpc) {
    drop_stale(share);
    if (share.waiting.empty() || !fits(share, share.waiting.front().bytes)) return false;
    rpc.in_ = share.waiting.front().in;
    begin(share, rpc, share.waiting.front().bytes);
    share.waiting.pop_front();
    --waiting_;
    return true;
}

ServiceQueue::Turn ServiceQueue::admit(ServerRpc& rpc) {
    const u64 bytes = handler_.data_bytes(rpc);
    const std::lock_guard lock(mutex_);
    if (shares_.size() > shares_max)
        std::erase_if(shares_, [](const auto& each) { return each.second.held == 0; });
    Share& share = shares_[rpc.in_.event.initiator.nid];
    if (share.waiting.empty() && fits(share, bytes)) {
        begin(share, rpc, bytes);
        return Turn::now;
    }
    if (share.waiting.size() >= waiting_per_peer_max || waiting_ >= waiting_max) return Turn::never;
    share.waiting.push_back({rpc.in_, bytes, context_.sched.now()});
    ++waiting_;
    return take_first(share, rpc) ? Turn::now : Turn::later;
}

bool ServiceQueue::next(ServerRpc& rpc) {
    const std::lock_guard lock(mutex_);
    Share& share = shares_[rpc.in_.event.initiator.nid];
    --share.held;
    share.bytes -= rpc.data_bytes_;
    rpc.admitted_ = false;
    return !context_.closing() && take_first(share, rpc);
}

ServerRpc::ServerRpc(Context& context, ServiceQueue& queue, CptId cpt)
    : context_(context), queue_(queue), cpt_(cpt), in_{}, reply_{},
      request_mem_(in_.message.data(), message_bytes, cpt),
      reply_mem_(reply_.data(), message_bytes, cpt) {
    waiter.task = &resume_;
    waiter.cpt = cpt;
}

void ServerRpc::unref() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) context_.release();
}

void ServerRpc::Resume::run() {
    rpc.queue_.handler_.buffer_ready(rpc);
}

void ServerRpc::run() {
    if (std::exchange(resumed_, false))
        serve();
    else
        post();
}

// Ready for a request: one of the same peer that waits, or else whatever comes.
void ServerRpc::post() {
    if (admitted_ && queue_.next(*this)) {
        resumed_ = true;
        context_.sched.post(cpt_, *this);
        return;
    }
    arrived_ = false;
    refs_.fetch_add(1, std::memory_order_relaxed);
    const u64 turn = slot_.begin();
    // close() says so first and unlinks the slots afterwards: one of the two is seen.
    if (context_.closing() || !attach_buffer(turn)) {
        slot_.fail();
        retire();
    }
    unref();
}

bool ServerRpc::attach_buffer(u64 turn) {
    Node& node = context_.node;
    Result<Me> me = node.attach(portal_of(queue_.service_),
                                {.bits = static_cast<u64>(queue_.service_)}, Unlink::with_md);
    if (!me.ok()) return false;
    Result<Md> md =
        node.attach(*me, {.mem = &request_mem_,
                          .options = {.put = true, .ack_disable = true, .auto_unlink = true},
                          .threshold = 1,
                          .handler = on_request,
                          .user = this});
    if (!md.ok()) return false;
    slot_.keep(node, turn, std::move(*md));
    return true;
}

void ServerRpc::on_request(const Event& event) {
    ServerRpc& rpc = *static_cast<ServerRpc*>(event.user);
    if (event.kind == Event::Kind::put) {
        rpc.arrived_ = true;
        rpc.in_.event = event;
    }
    if (!event.unlinked) return;
    rpc.slot_.ended();
    if (rpc.arrived_)
        rpc.take_request();
    else
        rpc.retire();  // taken back: by close(), or because the Node closes
}

void ServerRpc::take_request() {
    context_.counters.add(RpcCount::rcvd);
    const Type type = request_type(queue_.service_);
    // A shorter message leaves the rest of the last one in the buffer.
    const auto bytes = std::span<const std::byte>(in_.message)
                           .first(std::min<std::size_t>(in_.event.mlength, message_bytes));
    const Arrival arrival =
        in_.event.status.ok() ? judge_request(bytes, type, in_.header) : Arrival::drop;
    if (arrival == Arrival::drop) {
        drop();
        return;
    }
    in_.order = *message_order(bytes);
    switch (queue_.admit(*this)) {
    case ServiceQueue::Turn::now:
        serve();
        break;
    case ServiceQueue::Turn::later:
        context_.sched.post(cpt_, *this);
        break;
    case ServiceQueue::Turn::never:
        drop();
        break;
    }
}

void ServerRpc::serve() {
    if (in_.header.version == message_version)
        queue_.handler_.handle(*this);
    else if (portal_of(queue_.service_) == portal_framework)
        reply(features_known, SidReply{.status = EPROTO});
    else
        reply(features_known, StatusReply{.status = EPROTO});
}

void ServerRpc::drop() {
    context_.counters.add(RpcCount::dropped);
    context_.sched.post(cpt_, *this);
}

// Makes an MD and puts or gets with it; its handler is called in any case.
void ServerRpc::operate(u64 match_bits, const MdSpec& spec, bool put) {
    Node& node = context_.node;
    refs_.fetch_add(1, std::memory_order_relaxed);
    const u64 turn = slot_.begin();
    Result<Md> md = node.bind(spec);
    if (md.ok()) {
        const ProcessId to{in_.event.source, in_.event.initiator.pid};
        const Nid from = in_.event.target.nid;
        const Status status =
            put ? node.put(
                      *md,
                      {.to = to, .portal = portal_reply, .match_bits = match_bits, .from = from})
                : node.get(
                      *md,
                      {.to = to, .portal = portal_reply, .match_bits = match_bits, .from = from});
        if (status.ok())
            slot_.keep(node, turn, std::move(*md));
        else
            node.unlink(std::move(*md));
        if (context_.closing()) slot_.unlink(node);
    } else {
        Event event{};
        event.kind = Event::Kind::unlink;
        event.status = md.status();
        event.unlinked = true;
        event.user = this;
        spec.handler(event);
    }
    unref();
}

void ServerRpc::start_bulk(u64 bulkid, const Mem& memory, bool put) {
    bulk_put_ = put;
    bulk_moved_ = false;
    bulk_bytes_ = put ? memory.size() : 0;
    bulk_status_ = ok_status;
    operate(bulkid,
            {.mem = &memory,
             .options = {.auto_unlink = true, .track_response = !put},
             .threshold = put ? 1u : 2u,
             .handler = on_bulk,
             .user = this},
            put);
}

void ServerRpc::on_bulk(const Event& event) {
    static_cast<ServerRpc*>(event.user)->bulk_event(event);
}

// A PUT has moved with its SEND, a GET with its REPLY.
void ServerRpc::bulk_event(const Event& event) {
    const Event::Kind moves = bulk_put_ ? Event::Kind::send : Event::Kind::reply;
    if (event.status.ok() && event.kind == moves) {
        bulk_moved_ = true;
        if (!bulk_put_) bulk_bytes_ = event.mlength;
    } else if (!event.status.ok() && bulk_status_.ok()) {
        bulk_status_ = event.status;
    }
    if (!event.unlinked) {
        if (!event.status.ok()) slot_.unlink(context_.node);
        return;
    }
    slot_.ended();
    if (bulk_moved_) {
        bulk_status_ = ok_status;
        context_.counters.add(bulk_put_ ? RpcCount::bulk_put : RpcCount::bulk_get, bulk_bytes_);
    } else if (bulk_status_.ok()) {
        bulk_status_ = Status(-ECANCELED);
    }
    queue_.handler_.bulk_done(*this, bulk_status_);
}

void ServerRpc::send_reply() {
    u64 rpyid = 0;
    Header header;
    decode_message(in_.message, header, rpyid);
    operate(rpyid,
            {.mem = &reply_mem_,
             .options = {.auto_unlink = true},
             .threshold = 1,
             .handler = on_reply,
             .user = this},
            true);
}

void ServerRpc::on_reply(const Event& event) {
    ServerRpc& rpc = *static_cast<ServerRpc*>(event.user);
    if (!event.unlinked) {
        if (!event.status.ok()) rpc.slot_.unlink(rpc.context_.node);
        return;
    }
    rpc.slot_.ended();
    // A reply that could not be sent may end within the call that sent it; the next request may be
    // waiting already: not to go round in circles, the buffer is posted from a task then.
    if (event.kind == Event::Kind::send && event.status.ok())
        rpc.post();
    else
        rpc.context_.sched.post(rpc.cpt_, rpc);
}

}  // namespace ulnet::lst
