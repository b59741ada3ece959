// Views of self test for replies of commands.
#include "selftest/describe.h"

namespace ulnet::lst {

using ctl::Value;

std::string sid_text(const Sid& sid) {
    return std::to_string(sid.stamp) + "@" + to_text(Nid::from_nid4(sid.nid));
}

void add_counters(Value& to, const StatReply& sample) {
    Value framework = Value::map();
    framework.set("running_ms", sample.framework.running_ms);
    framework.set("active_batches", sample.framework.active_batches);
    framework.set("zombie_sessions", sample.framework.zombie_sessions);
    framework.set("brw_errors", sample.framework.brw_errors);
    framework.set("ping_errors", sample.framework.ping_errors);
    to.set("framework", framework);
    Value rpc = Value::map();
    rpc.set("errors", sample.rpc.errors);
    rpc.set("sent", sample.rpc.sent);
    rpc.set("rcvd", sample.rpc.rcvd);
    rpc.set("dropped", sample.rpc.dropped);
    rpc.set("expired", sample.rpc.expired);
    rpc.set("bulk_get", sample.rpc.bulk_get);
    rpc.set("bulk_put", sample.rpc.bulk_put);
    to.set("rpc", rpc);
    Value lnet = Value::map();
    lnet.set("msgs_alloc", sample.lnet.msgs_alloc);
    lnet.set("msgs_max", sample.lnet.msgs_max);
    lnet.set("errors", sample.lnet.errors);
    lnet.set("send_count", sample.lnet.send_count);
    lnet.set("recv_count", sample.lnet.recv_count);
    lnet.set("route_count", sample.lnet.route_count);
    lnet.set("drop_count", sample.lnet.drop_count);
    lnet.set("send_length", sample.lnet.send_length);
    lnet.set("recv_length", sample.lnet.recv_length);
    lnet.set("route_length", sample.lnet.route_length);
    lnet.set("drop_length", sample.lnet.drop_length);
    to.set("lnet", lnet);
}

Value latency_value(const Histogram& latency) {
    Value out = Value::map();
    out.set("count", latency.count());
    out.set("p50_ns", static_cast<i64>(latency.percentile(0.50).count()));
    out.set("p99_ns", static_cast<i64>(latency.percentile(0.99).count()));
    out.set("mean_ns", static_cast<i64>(latency.mean().count()));
    out.set("max_ns", static_cast<i64>(latency.max().count()));
    return out;
}

}  // namespace ulnet::lst
