// The servers of the BRW and PING tests. Values that would crash a kernel node are answered with
// EINVAL here.
#include "selftest/brw.h"

namespace ulnet::lst {
namespace {

bool known(u32 op, u32 check) {
    return op >= 1 && op <= 2 && check >= 1 && check <= 4;
}

// 0, or the status that refuses the request.
u32 refusal(const BrwRequest& request, u32 features) {
    if (!known(request.rw, request.flags)) return EINVAL;
    if ((features & ~features_known) != 0) return EPROTO;
    if ((features & feature_bulk_len) == 0 && request.length % wire_page_bytes != 0) return EINVAL;
    if (request.length == 0 || request.length > payload_max) return EINVAL;
    return request.length % word_bytes == 0 ? 0 : EINVAL;
}

BrwRequest body_of(const ServerRpc& rpc) {
    Header header;
    BrwRequest body;
    decode_message(rpc.request(), header, body);
    return body;
}

}  // namespace

u32 brw_params_errno(const BrwParams& params) {
    if (!known(static_cast<u32>(params.op), static_cast<u32>(params.check))) return EINVAL;
    if (params.length == 0 || params.length > payload_max) return EINVAL;
    return params.length % word_bytes == 0 && params.offset % word_bytes == 0 ? 0 : EINVAL;
}

void BrwServer::handle(ServerRpc& rpc) {
    const BrwRequest body = body_of(rpc);
    const u32 features = rpc.header().features;
    if (const u32 status = refusal(body, features)) {
        const bool known_features = (features & ~features_known) == 0;
        rpc.reply(known_features ? features : features_known, StatusReply{.status = status});
        return;
    }
    rpc.waiter.buffer = nullptr;
    if (std::byte* buffer = pool_.get(body.length, rpc.waiter)) start(rpc, buffer);
}

u64 BrwServer::data_bytes(const ServerRpc& rpc) const {
    const BrwRequest body = body_of(rpc);
    return refusal(body, rpc.header().features) == 0 ? BulkPool::size_of(body.length) : 0;
}

void BrwServer::buffer_ready(ServerRpc& rpc) {
    start(rpc, rpc.waiter.buffer);
}

void BrwServer::start(ServerRpc& rpc, std::byte* buffer) {
    const BrwRequest body = body_of(rpc);
    const Check check = static_cast<Check>(body.flags);
    const std::span<std::byte> data(buffer, body.length);
    rpc.bulk_mem = Mem(buffer, body.length, rpc.cpt());
    if (body.rw == static_cast<u32>(BrwOp::read)) {
        fill_pattern(data, 0, check, native_order);
        rpc.bulk_put(body.bulkid, rpc.bulk_mem);
    } else {
        poison(data, 0, check);
        rpc.bulk_get(body.bulkid, rpc.bulk_mem);
    }
}

// A transfer that failed ends the request without an answer: the client's time-out tells it.
void BrwServer::bulk_done(ServerRpc& rpc, Status status) {
    const BrwRequest body = body_of(rpc);
    std::byte* buffer = rpc.bulk_mem.frags().front().base;
    u32 result = 0;
    if (status.ok() && body.rw == static_cast<u32>(BrwOp::write)) {
        const std::span<const std::byte> data(buffer, body.length);
        const bool whole = rpc.bulk_bytes() == body.length;
        if (!whole || !check_pattern(data, 0, static_cast<Check>(body.flags), rpc.order()))
            result = EBADMSG;
    }
    pool_.put(body.length, buffer);
    if (status.ok())
        rpc.reply(rpc.header().features, StatusReply{.status = result});
    else
        rpc.drop();
}

void PingServer::handle(ServerRpc& rpc) {
    Header header;
    PingRequest body;
    decode_message(rpc.request(), header, body);
    if (body.magic != ping_data_magic) {
        rpc.drop();
        return;
    }
    const bool known_features = (header.features & ~features_known) == 0;
    rpc.reply(known_features ? header.features : features_known,
              PingReply{.status = known_features ? 0u : static_cast<u32>(EPROTO),
                        .sequence = body.sequence});
}

}  // namespace ulnet::lst
