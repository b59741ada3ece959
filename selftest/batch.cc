// TEST and BATCH requests of the framework. All on the control strand, but for the end of the
// transfer of a destination list.
#include <algorithm>

#include "selftest/session.h"

namespace ulnet::lst {
namespace {

// Parameters come in three shapes; false when they make no sense at all.
void read_params(const ServerRpc& rpc, TestRequest& request, TestSpec& spec) {
    Header header;
    decode_message(rpc.request(), header, request);
    spec.service = static_cast<Service>(request.service);
    spec.is_client = request.is_client != 0;
    spec.stop_on_error = request.stop_on_error != 0;
    spec.loop = request.loop;
    spec.concurrency = request.concurrency;
    spec.features = header.features;
    if (spec.service != Service::brw) return;
    if ((header.features & feature_bulk_len) != 0) {
        BrwParamsV1 params;
        decode_message(rpc.request(), header, request, params);
        spec.brw = {static_cast<BrwOp>(params.opcode), static_cast<Check>(params.flags),
                    params.length, params.offset};
    } else {
        BrwParamsV0 params;
        decode_message(rpc.request(), header, request, params);
        // Too many pages become a length that is refused.
        const u32 pages = std::min(params.pages, payload_max / wire_page_bytes + 1);
        spec.brw = {static_cast<BrwOp>(params.opcode), static_cast<Check>(params.flags),
                    pages * wire_page_bytes, 0};
    }
}

}  // namespace

u32 Framework::judge_test(const TestRequest& request) const {
    const bool known = request.service == static_cast<u32>(Service::brw) ||
                       request.service == static_cast<u32>(Service::ping);
    if (request.loop == 0 || request.concurrency == 0 || request.sid.any() ||
        request.destinations > destinations_max ||
        (request.is_client && request.destinations == 0) || request.concurrency > concurrency_max ||
        !known)
        return EINVAL;
    if (!session_ || session_->sid != request.sid) return ENOENT;
    if (!session_->batches.contains(request.batch_id))
        return session_->batches.size() < batches_max ? 0 : ENOMEM;
    return session_->batches[request.batch_id].running() ? EBUSY : 0;
}

void Framework::test(ServerRpc& rpc) {
    TestRequest request;
    TestSpec spec;
    read_params(rpc, request, spec);
    u32 status = judge_test(request);
    if (status == 0 && spec.is_client) {
        // The list comes packed to pages; a node without BULK_LEN sends and wants whole pages.
        const u32 pages = (request.destinations + ids_per_page - 1) / ids_per_page;
        const bool packed = (spec.features & feature_bulk_len) != 0;
        rpc.list.resize(packed ? request.destinations * wire_size<PackedId>()
                               : std::size_t{pages} * wire_page_bytes);
        rpc.bulk_mem = Mem(rpc.list.data(), static_cast<u32>(rpc.list.size()), rpc.cpt());
        rpc.bulk_get(request.bulkid, rpc.bulk_mem);
        return;
    }
    if (status == 0) {
        want_buffers_(spec.service, request.loop);
        status = add_instance(request, spec, {});
    }
    rpc.reply(current_features(), SidReply{.status = status, .sid = current_sid()});
}

void Framework::bulk_done(ServerRpc& rpc, Status status) {
    if (!status.ok())
        rpc.drop();
    else
        context_.control([this, &rpc] { add_client(rpc); });
}

// The list is here; the session may have changed meanwhile, so everything is judged anew.
void Framework::add_client(ServerRpc& rpc) {
    TestRequest request;
    TestSpec spec;
    read_params(rpc, request, spec);
    u32 status = judge_test(request);
    std::vector<ProcessId> destinations;
    if (status == 0) status = read_destinations(rpc, request.destinations, destinations);
    if (status == 0 && spec.service == Service::brw) status = brw_params_errno(spec.brw);
    if (status == 0) status = add_instance(request, spec, destinations);
    rpc.list.clear();
    rpc.reply(current_features(), SidReply{.status = status, .sid = current_sid()});
    touch();
}

u32 Framework::read_destinations(const ServerRpc& rpc, u32 count,
                                 std::vector<ProcessId>& out) const {
    const auto list = std::span<const std::byte>(rpc.list).first(
        std::min<std::size_t>(rpc.list.size(), rpc.bulk_bytes()));
    for (u32 i = 0; i < count; ++i) {
        PackedId id;
        if (!decode_destination(list, i, rpc.order(), id)) return EINVAL;
        const ProcessId to{Nid::from_nid4(id.nid), id.pid};
        if (to.nid.any() || to.pid == pid_any) return EINVAL;
        out.push_back(to);
    }
    return 0;
}

u32 Framework::add_instance(const TestRequest& request, const TestSpec& spec,
                            std::span<const ProcessId> destinations) {
    u64 instances = 0, units = 0, bytes = 0;
    const auto count = [&](const Session& session) {
        for (const auto& [id, batch] : session.batches) {
            for (const auto& test : batch.tests) {
                ++instances;
                units += test->units();
                bytes += u64{test->units()} * TestInstance::data_bytes(test->spec(), 1) /
                         test->spec().concurrency;
            }
        }
    };
    for (const auto& zombie : zombies_) count(*zombie);
    count(*session_);
    units += destinations.size() * spec.concurrency;
    bytes += TestInstance::data_bytes(spec, static_cast<u32>(destinations.size()));
    if (instances >= instances_max || units > units_max ||
        bytes > context_.options.client_bulk_bytes_max)
        return ENOMEM;
    auto test =
        std::make_unique<TestInstance>(context_, session_->errors, spec, [this] { reap(); });
    if (const Status made = test->add_units(destinations); !made.ok())
        return static_cast<u32>(-made.code());
    session_->batches[request.batch_id].tests.push_back(std::move(test));
    return 0;
}

void Framework::batch(ServerRpc& rpc) {
    Header header;
    BatchRequest request;
    decode_message(rpc.request(), header, request);
    BatchReply reply{.sid = current_sid()};
    bool dropped = false;
    reply.status = control_batch(request, reply, dropped);
    if (dropped)
        rpc.drop();
    else
        rpc.reply(current_features(), reply);
}

u32 Framework::control_batch(const BatchRequest& request, BatchReply& reply, bool& dropped) {
    if (!session_ || session_->sid != request.sid) return ESRCH;
    const auto found = session_->batches.find(request.batch_id);
    if (found == session_->batches.end()) return ENOENT;
    Batch& batch = found->second;
    switch (static_cast<BatchOp>(request.opcode)) {
    case BatchOp::run:
        if (batch.running()) return 0;
        for (const auto& test : batch.tests) test->run();
        return 0;
    case BatchOp::stop:
        for (const auto& test : batch.tests) test->stop(request.argument != 0);
        return 0;
    case BatchOp::query:
        if (request.test_index > batch.tests.size()) return ENOENT;
        reply.active = request.test_index == 0 ? batch.active_tests()
                                               : batch.tests[request.test_index - 1]->active();
        return 0;
    }
    dropped = true;
    return 0;
}

}  // namespace ulnet::lst
