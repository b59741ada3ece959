// Client RPCs. Events of the three MDs may come in any order and at the same time; each part only
// notes its own outcome, and the last reference closes the use.
#include "selftest/rpc.h"

namespace ulnet::lst {

ClientRpc::ClientRpc(Context& context, RpcOwner& owner, CptId cpt)
    : request{}, context_(context), owner_(owner), cpt_(cpt), reply_{},
      request_mem_(request.data(), message_bytes, cpt),
      reply_mem_(reply_.data(), message_bytes, cpt) {
    request_part_.rpc = reply_part_.rpc = bulk_part_.rpc = this;
}

ClientRpc::~ClientRpc() {
    CHECK(refs_.load() == 0);
}

void ClientRpc::start(const RpcArgs& args) {
    CHECK(refs_.load() == 0);
    args_ = args;
    status_ = ok_status;
    bulk_bytes_ = 0;
    refused_.store(false);
    failed_.store(false);
    parts_.store(1);
    refs_.store(1, std::memory_order_seq_cst);
    if (args.cancelled && args.cancelled->load(std::memory_order_seq_cst)) fail(Status(-EINTR));
    if (!failed()) post_reply();
    if (args.bulk != Bulk::none && !failed()) post_bulk();
    if (args.timeout > Duration{}) {
        refs_.fetch_add(1);
        context_.sched.arm(cpt_, *this, context_.sched.now() + args.timeout);
    }
    if (!failed()) send_request();
    part_ended();
    unref(true);
}

// Reply and bulk come from the peer under its primary NID.
void ClientRpc::attach(Part& part, u64 bits, const MdSpec& spec) {
    refs_.fetch_add(1);
    parts_.fetch_add(1);
    part.settled = false;
    const u64 turn = part.slot.begin();
    const MatchSpec match{.from = {context_.node.primary(args_.to.nid), args_.to.pid},
                          .bits = bits};
    Status status;
    Result<Me> me = context_.node.attach(portal_reply, match, Unlink::with_md);
    if (me.ok()) {
        Result<Md> md = context_.node.attach(*me, spec);
        if (md.ok()) {
            part.slot.keep(context_.node, turn, std::move(*md));
            if (failed()) part.slot.unlink(context_.node);
            return;
        }
        status = md.status();
    } else {
        status = me.status();
    }
    part.slot.fail();
    fail(status);
    part_ended();
    unref(true);
}

void ClientRpc::post_reply() {
    attach(reply_part_, args_.rpyid,
           {.mem = &reply_mem_,
            .options = {.put = true, .ack_disable = true, .auto_unlink = true},
            .threshold = 1,
            .handler = on_reply,
            .user = &reply_part_});
}

void ClientRpc::post_bulk() {
    attach(bulk_part_, args_.bulkid,
           {.mem = args_.bulk_mem,
            .options = {.put = args_.bulk == Bulk::sink,
                        .get = args_.bulk == Bulk::source,
                        .ack_disable = true,
                        .auto_unlink = true},
            .threshold = 1,
            .handler = on_bulk,
            .user = &bulk_part_});
}

void ClientRpc::send_request() {
    refs_.fetch_add(1);
    parts_.fetch_add(1);
    request_part_.settled = false;
    const u64 turn = request_part_.slot.begin();
    Result<Md> md = context_.node.bind({.mem = &request_mem_,
                                        .options = {.auto_unlink = true},
                                        .threshold = 1,
                                        .handler = on_request,
                                        .user = &request_part_});
    if (!md.ok()) {
        request_part_.slot.fail();
        fail(md.status());
        part_ended();
        unref(true);
        return;
    }
    const Status sent = context_.node.put(*md, {.to = args_.to,
                                                .portal = portal_of(args_.service),
                                                .match_bits = static_cast<u64>(args_.service)});
    if (!sent.ok()) fail(sent);
    request_part_.slot.keep(context_.node, turn, std::move(*md));
    if (failed()) request_part_.slot.unlink(context_.node);
}

void ClientRpc::on_request(const Event& event) {
    Part& part = *static_cast<Part*>(event.user);
    const bool sent = event.kind == Event::Kind::send;
    if (sent && event.status.ok()) part.rpc->context_.counters.add(RpcCount::sent);
    part.rpc->part_event(part, event, sent);
}

void ClientRpc::on_reply(const Event& event) {
    Part& part = *static_cast<Part*>(event.user);
    const bool came = event.kind == Event::Kind::put;
    if (came && event.status.ok()) part.rpc->take_reply(event);
    part.rpc->part_event(part, event, came);
}

// A reply with an error status may come instead of the bulk: then nobody will move it.
void ClientRpc::take_reply(const Event& event) {
    Header header;
    StatusReply body;
    const auto bytes = std::span<const std::byte>(reply_).first(
        std::min<std::size_t>(event.mlength, message_bytes));
    if (!decode_message(bytes, header, body) ||
        header.type != reply_type(request_type(args_.service))) {
        fail(Status(-EBADMSG));
    } else if (body.status != 0 && args_.bulk != Bulk::none) {
        refused_.store(true, std::memory_order_seq_cst);
        bulk_part_.slot.unlink(context_.node);
    }
}

void ClientRpc::on_bulk(const Event& event) {
    Part& part = *static_cast<Part*>(event.user);
    const bool moved = event.kind == Event::Kind::put || event.kind == Event::Kind::get;
    if (moved && event.status.ok()) part.rpc->bulk_bytes_ = event.mlength;
    // Once refused, how the bulk ends is nobody's business: it was taken back, perhaps while it was
    // being sent, and a GET that is taken back ends with an error.
    const bool refused = part.rpc->refused_.load(std::memory_order_seq_cst);
    if (refused) part.settled = true;
    part.rpc->part_event(part, event, moved && !refused);
}

// `its_message`: the event is the one that the part was made for.
void ClientRpc::part_event(Part& part, const Event& event, bool its_message) {
    if (its_message) {
        part.settled = true;
        if (!event.status.ok()) fail(event.status);
    }
    if (!event.unlinked) {
        // Its one message went wrong: nothing else would end the MD.
        if (!event.status.ok()) part.slot.unlink(context_.node);
        return;
    }
    // Ended without its message and for no reason of ours: the Node closes.
    if (!part.settled && !failed()) fail(event.status.ok() ? Status(-ESHUTDOWN) : event.status);
    part.slot.ended();
    part_ended();
    unref(false);
}

// The first reason counts; the MDs still alive are taken back.
void ClientRpc::fail(Status why) {
    {
        const std::lock_guard lock(mutex_);
        if (failed_.load()) return;
        status_ = why;
        failed_.store(true, std::memory_order_seq_cst);
    }
    request_part_.slot.unlink(context_.node);
    reply_part_.slot.unlink(context_.node);
    bulk_part_.slot.unlink(context_.node);
}

// Whoever ends the last part puts the timer out; its own reference keeps the use alive meanwhile.
void ClientRpc::part_ended() {
    if (parts_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (args_.timeout > Duration{} && context_.sched.cancel(*this)) refs_.fetch_sub(1);
}

// post: the last reference is given up from start(), abort() or the timer's own callback, where
// the owner must not be called.
void ClientRpc::unref(bool post) {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (post)
        context_.sched.post(cpt_, *this);
    else
        complete();
}

void ClientRpc::run() {
    complete();
}

void ClientRpc::fire() {
    if (parts_.load(std::memory_order_acquire) > 0) fail(Status(-ETIMEDOUT));
    unref(true);
}

void ClientRpc::abort(Status why) {
    u32 refs = refs_.load(std::memory_order_seq_cst);
    do {
        if (refs == 0) return;
    } while (!refs_.compare_exchange_weak(refs, refs + 1, std::memory_order_acq_rel));
    if (parts_.load(std::memory_order_acquire) > 0) fail(why);
    unref(true);
}

void ClientRpc::complete() {
    if (!status_.ok()) {
        context_.counters.add(RpcCount::errors);
        if (status_.code() == -ETIMEDOUT) context_.counters.add(RpcCount::expired);
    }
    owner_.rpc_done(*this);
}

}  // namespace ulnet::lst
