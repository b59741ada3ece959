// Counters of this node: the STAT reply, and what `lst node_stats` shows beyond it.
#include "lnet/inspect.h"
#include "selftest/describe.h"
#include "selftest/session.h"

namespace ulnet::lst {

void Framework::serve_stat(ServerRpc& rpc) {
    Header header;
    StatRequest request;
    decode_message(rpc.request(), header, request);
    StatReply reply = stat();
    if (request.sid.any()) {
        reply = {.status = EINVAL, .sid = current_sid()};
    } else if (!session_ || session_->sid != request.sid) {
        reply = {.status = ESRCH, .sid = current_sid()};
    }
    rpc.reply(current_features(), reply);
}

StatReply Framework::stat() const {
    StatReply reply{.sid = current_sid()};
    if (session_) {
        const Duration running = context_.sched.now() - session_->started;
        reply.framework.running_ms = static_cast<u32>(running / std::chrono::milliseconds(1));
        for (const auto& [id, batch] : session_->batches)
            if (batch.running()) ++reply.framework.active_batches;
        reply.framework.brw_errors = session_->errors.brw.load();
        reply.framework.ping_errors = session_->errors.ping.load();
    }
    reply.framework.zombie_sessions = static_cast<u32>(zombies_.size());
    const auto narrow = [&](RpcCount kind) {
        return static_cast<u32>(context_.counters.read(kind));
    };
    reply.rpc = {.errors = narrow(RpcCount::errors),
                 .sent = narrow(RpcCount::sent),
                 .rcvd = narrow(RpcCount::rcvd),
                 .dropped = narrow(RpcCount::dropped),
                 .expired = narrow(RpcCount::expired),
                 .bulk_get = context_.counters.read(RpcCount::bulk_get),
                 .bulk_put = context_.counters.read(RpcCount::bulk_put)};
    const StatsView view = inspect_stats(context_.node);
    reply.lnet = {.msgs_alloc = static_cast<u32>(view.msgs_alloc),
                  .msgs_max = static_cast<u32>(view.msgs_max),
                  .errors = static_cast<u32>(view.errors),
                  .send_count = static_cast<u32>(view.send_count),
                  .recv_count = static_cast<u32>(view.recv_count),
                  .route_count = static_cast<u32>(view.route_count),
                  .drop_count = static_cast<u32>(view.drop_count),
                  .send_length = view.send_length,
                  .recv_length = view.recv_length,
                  .route_length = view.route_length,
                  .drop_length = view.drop_length};
    return reply;
}

std::optional<Framework::ClientState> Framework::client_state(const Sid& sid, u64 batch_id) const {
    if (!session_ || session_->sid != sid) return std::nullopt;
    const auto found = session_->batches.find(batch_id);
    if (found == session_->batches.end()) return std::nullopt;
    ClientState state{{}, found->second.running()};
    for (const auto& test : found->second.tests) {
        const TestTotals totals = test->totals();
        state.totals.rpcs += totals.rpcs;
        state.totals.bytes += totals.bytes;
        state.totals.errors += totals.errors;
        state.totals.latency.merge(totals.latency);
    }
    return state;
}

ctl::Value Framework::describe() const {
    using ctl::Value;
    const StatReply sample = stat();
    Value out = Value::map();
    Value session;
    if (session_) {
        session = Value::map();
        session.set("name", session_->name);
        session.set("id", sid_text(session_->sid));
        session.set("timeout", session_->timeout_s);
        session.set("features", session_->features);
        session.set("references", session_->references);
    }
    out.set("session", session);
    out.set("running_ms", sample.framework.running_ms);
    add_counters(out, sample);
    Value tests = Value::list();
    if (session_) {
        for (const auto& [id, batch] : session_->batches) {
            u32 index = 0;
            for (const auto& test : batch.tests) {
                const TestTotals totals = test->totals();
                Value entry = Value::map();
                entry.set("batch", id);
                entry.set("index", ++index);
                entry.set("service", test->spec().service == Service::brw ? "brw" : "ping");
                entry.set("client", test->spec().is_client);
                entry.set("units", test->units());
                entry.set("active", test->active());
                entry.set("rpcs", totals.rpcs);
                entry.set("bytes", totals.bytes);
                entry.set("errors", totals.errors);
                entry.set("latency", latency_value(totals.latency));
                tests.push(entry);
            }
        }
    }
    out.set("tests", tests);
    return out;
}

}  // namespace ulnet::lst
