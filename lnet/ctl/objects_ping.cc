// The command ping: asks all the NIDs at once, answers when the last one has answered or timed
// out. Started and finished on the control strand.
#include <algorithm>

#include "lnet/ctl/nid_list.h"
#include "lnet/ctl/objects_detail.h"

namespace ulnet::ctl {
namespace {

constexpr i64 timeout_s_default = 15;

// One command under way; kept by its pings, ended by the last. Touched on the control strand only.
struct Round {
    Round(Node& its_node, CallPtr its_call) : node(its_node), call(std::move(its_call)) {}
    Node& node;
    CallPtr call;
    std::vector<ProcessId> targets;
    std::vector<Value> answers;  // parallel: a map with "errno" for a failure
    std::size_t left = 0;
};

std::string written(const ProcessId& id) {
    return id.pid == pid_lustre ? to_text(id.nid) : to_text(id);
}

Value answer_of(Node& node, const ProcessId& target, const Result<PingInfo>& result) {
    Value map = Value::map();
    if (!result.ok()) {
        map.set("nid", written(target));
        map.set("errno", result.status().code());
        map.set("descr", "failed to ping " + written(target) + ": " + result.status().text());
        return map;
    }
    const Nid primary = node.primary(target.nid.is_lo() ? result->primary() : target.nid);
    bool multi_rail = false;
    for (const PeerView& peer : inspect_peers(node))
        if (peer.primary == primary) multi_rail = peer.multi_rail;
    map.set("primary nid", to_text(primary));
    map.set("Multi-Rail", multi_rail);
    Value& nis = map.set("peer_ni", Value::list());
    for (const PingInfo::Entry& entry : result->nis)
        nis.push(Value::map({{"nid", Value(to_text(entry.nid))}}));
    return map;
}

void finish(Round& round) {
    Value good = Value::list(), bad = Value::list();
    for (Value& answer : round.answers) {
        const bool failed = answer.has("errno");
        (failed ? bad : good).push(std::move(answer));
    }
    Value reply = Value::map();
    if (good.size() > 0) reply.set("ping", std::move(good));
    if (bad.size() > 0) reply.set("failed", std::move(bad));
    round.call->reply(std::move(reply));
}

void ping_run(Objects& objects, CallPtr call, const Value& args) {
    auto round = std::make_shared<Round>(objects.node, std::move(call));
    for (const Value& item : args["nids"].items()) {
        Error error = expand_nids(item.as_text(), round->targets);
        if (!error.ok()) {
            error.text = "nids: " + error.text;
            return round->call->fail(std::move(error));
        }
    }
    if (round->targets.empty())
        return round->call->fail({Status(-EINVAL),
                                  "nids: nothing to ping; allowed: NIDs, for example "
                                  "192.168.10.[1-4]@tcp"});
    const Nid from = args.has("source") ? *parse_nid(args["source"].as_text()) : Nid();
    const Duration timeout = std::chrono::seconds(args["timeout"].as_int(timeout_s_default));
    round->left = round->targets.size();
    round->answers.resize(round->targets.size());
    Node& node = objects.node;
    for (std::size_t i = 0; i < round->targets.size(); ++i) {
        node.ping(round->targets[i], from, timeout, [round, i](Result<PingInfo> result) {
            round->node.control([round, i, result = std::move(result)] {
                round->answers[i] = answer_of(round->node, round->targets[i], result);
                if (--round->left == 0) finish(*round);
            });
        });
    }
}

}  // namespace

void register_ping(const ObjectsPtr& objects, Registry& registry) {
    add_command(objects, registry, "ping", "run", ping_run);
}

}  // namespace ulnet::ctl
