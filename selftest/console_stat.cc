// Commands that ask nodes how they are: stat, show_error, ping; and this node about itself.
#include <algorithm>

#include "selftest/console.h"
#include "selftest/describe.h"
#include "selftest/nids.h"

namespace ulnet::lst {

using ctl::Value;

// Each name is a group or an expression of NIDs of this session; fails the job otherwise.
bool Console::targets(const Value& names, std::vector<std::pair<std::string, Nodes>>& out) {
    if (!names.is_list() || names.size() == 0) {
        fail(EINVAL, "names: a list of groups or NID expressions");
        return false;
    }
    for (const Value& name : names.items()) {
        const std::string& text = name.as_text();
        if (const Group* group = session_->group(text)) {
            out.emplace_back(text, group->nodes);
            continue;
        }
        std::string why;
        const Result<std::vector<Nid>> nids = expand_nids(text, why);
        Nodes nodes;
        std::string missing;
        if (nids.ok()) {
            for (const Nid& nid : *nids) {
                const auto known = session_->nodes.find(nid);
                if (known != session_->nodes.end())
                    nodes.push_back(known->second.get());
                else if (missing.empty())
                    missing = to_text(nid);
            }
        }
        if (!nids.ok() || nodes.size() != nids->size()) {
            if (nids.ok() || text.find('@') == std::string::npos)
                fail(ENOENT, cannot_find(nids.ok() ? "node" : "group", nids.ok() ? missing : text));
            else
                fail(-nids.status().code(), std::move(why));
            return false;
        }
        out.emplace_back(text, std::move(nodes));
    }
    return true;
}

void Console::stat() {
    std::vector<std::pair<std::string, Nodes>> groups;
    const i64 limit_s = args()["timeout"].as_int(5);
    if (limit_s < 1 || limit_s > 0x7fffffff) {
        fail(EINVAL, "timeout " + std::to_string(limit_s) + ": 1 to 2147483647 seconds");
        return;
    }
    if (!targets(args()["names"], groups)) return;
    Nodes all;
    std::vector<Value> skipped;  // of each group
    for (const auto& [name, nodes] : groups) {
        skipped.push_back(skipped_value(nodes));
        for (ConsoleNode* one : active_of(nodes))
            if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
    }
    transact(
        Service::stat, all, static_cast<u32>(limit_s),
        [sid = session_->sid](u32, const Header& header, u64 rpyid, u64, Message& request,
                              std::vector<std::byte>&) {
            encode_message(request, native_order, header, StatRequest{.rpyid = rpyid, .sid = sid});
        },
        [this, groups, skipped](Results& results) {
            Value list = Value::list();
            for (const auto& [name, nodes] : groups) {
                Results mine;
                for (const NodeResult& result : results)
                    if (std::find(nodes.begin(), nodes.end(), result.node) != nodes.end())
                        mine.push_back(result);
                Value entry = Value::map();
                entry.set("name", name);
                add_results(entry, mine, [](const NodeResult& result, Value& to) {
                    Header header;
                    StatReply body;
                    if (result.good() && decode_message(result.message, header, body))
                        add_counters(to, body);
                });
                entry.set("skipped", skipped[list.size()]);
                list.push(std::move(entry));
            }
            Value reply = Value::map();
            reply.set("groups", std::move(list));
            finish(std::move(reply));
        });
}

void Console::ping() {
    const Value& in = args();
    const i64 limit_s = in["timeout"].as_int(5);
    if (limit_s < 1 || limit_s > 0x7fffffff) {
        fail(EINVAL, "timeout " + std::to_string(limit_s) + ": 1 to 2147483647 seconds");
        return;
    }
    Nodes nodes;
    if (in.has("group")) {
        const Group* group = session_->group(in["group"].as_text());
        if (!group) {
            fail(ENOENT, cannot_find("group", in["group"].as_text()));
            return;
        }
        nodes = group->nodes;
    } else if (in.has("batch")) {
        const ConsoleBatch* batch = session_->batch(in["batch"].as_text());
        if (!batch) {
            fail(ENOENT, cannot_find("batch", in["batch"].as_text()));
            return;
        }
        nodes = in["server"].as_bool() ? batch->servers : batch->clients;
    } else if (in.has("ids")) {
        // Any node may be asked; those that no group holds are forgotten again.
        Error error;
        std::vector<Nodes> lists;
        if (!parse_ids(in["ids"], true, lists, error)) {
            fail(-error.status.code(), std::move(error.text));
            return;
        }
        for (const Nodes& list : lists)
            for (ConsoleNode* one : list)
                if (std::find(nodes.begin(), nodes.end(), one) == nodes.end()) nodes.push_back(one);
    } else if (in["session"].as_bool()) {
        for (const auto& [nid, one] : session_->nodes) nodes.push_back(one.get());
    } else {
        fail(EINVAL, "one of group, batch, ids and session is needed");
        return;
    }
    transact(
        Service::debug, nodes, static_cast<u32>(limit_s),
        [sid = session_->sid](u32, const Header& header, u64 rpyid, u64, Message& request,
                              std::vector<std::byte>&) {
            encode_message(request, native_order, header, DebugRequest{.rpyid = rpyid, .sid = sid});
        },
        [this](Results& results) {
            Value reply = Value::map();
            add_results(reply, results, [](const NodeResult& result, Value& to) {
                Header header;
                DebugReply body;
                if (!result.good() || !decode_message(result.message, header, body)) return;
                to.set("session", name_text(body.name));
                to.set("session_nid", to_text(Nid::from_nid4(body.sid.nid)));
                to.set("session_stamp", body.sid.stamp);
            });
            std::erase_if(session_->nodes, [](const auto& e) { return e.second->groups == 0; });
            finish(std::move(reply));
        });
}

Value Console::node_stats(const Value&, Error&) {
    return local_.describe();
}

}  // namespace ulnet::lst
