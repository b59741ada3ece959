// Commands about groups: nodes join the session with their first group and leave it with the last.
#include <algorithm>

#include "selftest/console.h"
#include "selftest/nids.h"

namespace ulnet::lst {

using ctl::Value;

ConsoleNode& Console::node(const Nid& nid) {
    std::unique_ptr<ConsoleNode>& slot = session_->nodes[nid];
    if (!slot) {
        slot = std::make_unique<ConsoleNode>();
        slot->nid = nid;
    }
    return *slot;
}

bool Console::parse_ids(const Value& ids, bool make, std::vector<Nodes>& out, Error& error) {
    if (!ids.is_list() || ids.size() == 0) {
        error = {Status(-EINVAL), "ids: a list of NID expressions, as [\"10.77.1.[2-4]@tcp\"]"};
        return false;
    }
    std::vector<std::vector<Nid>> lists;
    for (const Value& item : ids.items()) {
        std::string why;
        Result<std::vector<Nid>> nids = expand_nids(item.as_text(), why);
        if (!nids.ok()) {
            error = {nids.status(), std::move(why)};
            return false;
        }
        lists.push_back(std::move(*nids));
    }
    for (const std::vector<Nid>& nids : lists) {
        Nodes nodes;
        for (const Nid& nid : nids) {
            if (!make && !session_->nodes.contains(nid)) {
                error = {Status(-ENOENT), cannot_find("node", to_text(nid))};
                return false;
            }
            ConsoleNode* one = &node(nid);
            if (std::find(nodes.begin(), nodes.end(), one) == nodes.end()) nodes.push_back(one);
        }
        out.push_back(std::move(nodes));
    }
    return true;
}

// MKSN to each node that is not ACTIVE; the first that agrees decides the features of the session.
void Console::join(const Nodes& nodes, Then then) {
    Nodes asked;
    for (ConsoleNode* one : nodes) {
        const bool twice = std::find(asked.begin(), asked.end(), one) != asked.end();
        if (one->state != NodeState::active && !twice) asked.push_back(one);
    }
    MakeSessionRequest body{.sid = session_->sid,
                            .force = session_->force ? 1u : 0u,
                            .name = name_from(session_->name)};
    transact(
        Service::make_session, asked, transaction_limit_max_s,
        [body](u32, const Header& header, u64 rpyid, u64, Message& request,
               std::vector<std::byte>&) {
            MakeSessionRequest mine = body;
            mine.rpyid = rpyid;
            encode_message(request, native_order, header, mine);
        },
        [this, then = std::move(then)](Results& results) {
            for (NodeResult& result : results) {
                if (!result.good()) continue;
                const u32 features = result.header.features & session_->features;
                if (!session_->features_agreed) {
                    session_->features = features;
                    session_->features_agreed = true;
                }
                if (result.header.features != session_->features) {
                    result.framework = EPROTO;
                    result.node->state = NodeState::unknown;
                    continue;
                }
                Header header;
                MakeSessionReply reply;
                if (decode_message(result.message, header, reply))
                    result.node->timeout_s = reply.timeout_s;
            }
            then(results);
        });
}

// RMSN; a node that has no session any more has left as well.
void Console::leave(const Nodes& nodes, u32 limit_s, Then then) {
    transact(
        Service::remove_session, nodes, limit_s,
        [sid = session_->sid](u32, const Header& header, u64 rpyid, u64, Message& request,
                              std::vector<std::byte>&) {
            encode_message(request, native_order, header,
                           RemoveSessionRequest{.rpyid = rpyid, .sid = sid});
        },
        [then = std::move(then)](Results& results) {
            for (NodeResult& result : results)
                if (result.framework == ESRCH) result.framework = 0;
            then(results);
        });
}

void Console::add_group() {
    const Value& in = args();
    const std::string& name = in["name"].as_text();
    if (name.empty() || name.size() >= name_bytes) {
        fail(name.empty() ? EINVAL : ENAMETOOLONG, "name \"" + name + "\": 1 to 31 characters");
        return;
    }
    if (session_->group(name)) {
        fail(EEXIST, "group already exists: \"" + name + "\"");
        return;
    }
    Error error;
    std::vector<Nodes> lists;
    if (!parse_ids(in["ids"], true, lists, error)) {
        fail(-error.status.code(), std::move(error.text));
        return;
    }
    auto group = std::make_unique<Group>();
    group->name = name;
    for (const Nodes& nodes : lists) {
        for (ConsoleNode* one : nodes) {
            if (std::find(group->nodes.begin(), group->nodes.end(), one) != group->nodes.end())
                continue;
            group->nodes.push_back(one);
            ++one->groups;
        }
    }
    session_->groups.push_back(std::move(group));
    join(session_->groups.back()->nodes, [this, lists](Results& results) {
        Group& made = *session_->groups.back();
        Value added = Value::list();
        std::size_t index = 0;
        for (const Nodes& nodes : lists) {
            Results mine;
            for (ConsoleNode* one : nodes) {
                const auto asked = std::find_if(results.begin(), results.end(),
                                                [&](const auto& r) { return r.node == one; });
                mine.push_back(asked != results.end() ? *asked : NodeResult{.node = one});
            }
            Value entry = Value::map();
            entry.set("ids", args()["ids"].items()[index++]);
            add_results(entry, mine);
            added.push(std::move(entry));
        }
        Value reply = Value::map();
        reply.set("added", std::move(added));
        const bool none = active_of(made.nodes).empty();
        reply.set("deleted", none);
        reply.set("features", session_->features);
        if (none) {
            drop_nodes(made, Nodes(made.nodes));
            session_->groups.pop_back();
        }
        finish(std::move(reply));
    });
}

// Takes nodes out of the group, and out of the session when no other group holds them.
void Console::drop_nodes(Group& group, const Nodes& nodes) {
    for (ConsoleNode* one : nodes) {
        std::erase(group.nodes, one);
        if (--one->groups == 0) session_->nodes.erase(one->nid);
    }
}

void Console::del_group() {
    Group* group = session_->group(args()["name"].as_text());
    if (!group) {
        fail(ENOENT, cannot_find("group", args()["name"].as_text()));
        return;
    }
    if (group->tests > 0) {
        fail(EBUSY, "group \"" + group->name + "\" is used by a test");
        return;
    }
    Nodes last = active_of(group->nodes);
    std::erase_if(last, [](const ConsoleNode* one) { return one->groups > 1; });
    leave(last, transaction_limit_max_s, [this, group](Results& results) {
        Value reply = Value::map();
        add_results(reply, results);
        drop_nodes(*group, Nodes(group->nodes));
        std::erase_if(session_->groups, [group](const auto& each) { return each.get() == group; });
        finish(std::move(reply));
    });
}

void Console::update_group() {
    const Value& in = args();
    Group* group = session_->group(in["name"].as_text());
    if (!group) {
        fail(ENOENT, cannot_find("group", in["name"].as_text()));
        return;
    }
    if (group->tests > 0) {
        fail(EBUSY, "group \"" + group->name + "\" is used by a test");
        return;
    }
    const std::string& op = in["op"].as_text();
    if (op == "refresh")
        refresh_group(*group);
    else if (op == "clean")
        clean_group(*group);
    else if (op == "remove")
        remove_from_group(*group);
    else
        fail(EINVAL, "op \"" + op + "\": refresh, clean or remove");
}

void Console::refresh_group(Group& group) {
    join(group.nodes, [this](Results& results) {
        Value reply = Value::map();
        add_results(reply, results);
        reply.set("removed", 0);
        reply.set("deleted", false);
        finish(std::move(reply));
    });
}

// Nodes in some states are just forgotten: they keep the session until it times out.
void Console::clean_group(Group& group) {
    bool chosen[4] = {};
    for (const Value& state : args()["states"].items()) {
        const std::string& word = state.as_text();
        if (word == "active") {
            chosen[0] = true;
        } else if (word == "busy") {
            chosen[1] = true;
        } else if (word == "down") {
            chosen[2] = true;
        } else if (word == "unknown") {
            chosen[3] = true;
        } else if (word == "invalid") {
            chosen[1] = chosen[2] = chosen[3] = true;
        } else {
            fail(EINVAL, "states \"" + word + "\": active, busy, down, unknown or invalid");
            return;
        }
    }
    Nodes out;
    for (ConsoleNode* one : group.nodes)
        if (chosen[static_cast<u8>(one->state)]) out.push_back(one);
    const bool all = out.size() == group.nodes.size();
    drop_nodes(group, out);
    if (all)
        std::erase_if(session_->groups, [&](const auto& each) { return each.get() == &group; });
    Value reply = Value::map();
    add_results(reply, {});
    reply.set("removed", static_cast<u64>(out.size()));
    reply.set("deleted", all);
    finish(std::move(reply));
}

void Console::remove_from_group(Group& group) {
    Error error;
    std::vector<Nodes> lists;
    if (!parse_ids(args()["ids"], false, lists, error)) {
        fail(-error.status.code(), std::move(error.text));
        return;
    }
    Nodes out, last;
    for (const Nodes& nodes : lists) {
        for (ConsoleNode* one : nodes) {
            const bool here =
                std::find(group.nodes.begin(), group.nodes.end(), one) != group.nodes.end();
            if (!here) {
                fail(ENOENT, "Can't find node in group \"" + group.name + "\": \"" +
                                 to_text(one->nid) + "\"");
                return;
            }
            if (std::find(out.begin(), out.end(), one) != out.end()) continue;
            out.push_back(one);
            if (one->state == NodeState::active && one->groups == 1) last.push_back(one);
        }
    }
    leave(last, transaction_limit_max_s, [this, &group, out](Results& results) {
        Value reply = Value::map();
        add_results(reply, results);
        const bool all = out.size() == group.nodes.size();
        drop_nodes(group, out);
        if (all)
            std::erase_if(session_->groups, [&](const auto& each) { return each.get() == &group; });
        reply.set("removed", static_cast<u64>(out.size()));
        reply.set("deleted", all);
        finish(std::move(reply));
    });
}

Value Console::group_value(const Group& group) const {
    Value out = Value::map();
    out.set("name", group.name);
    out.set("counts", counts_value(group.nodes));
    Value nodes = Value::list();
    for (const ConsoleNode* one : group.nodes) nodes.push(node_value(*one));
    out.set("nodes", std::move(nodes));
    return out;
}

Value Console::list_group(const Value& in, Error&) {
    Value groups = Value::list(), missing = Value::list();
    if (in["names"].size() == 0) {
        for (const auto& group : session_->groups) groups.push(group_value(*group));
    } else {
        for (const Value& name : in["names"].items()) {
            if (const Group* group = session_->group(name.as_text()))
                groups.push(group_value(*group));
            else
                missing.push(name);
        }
    }
    Value reply = Value::map();
    reply.set("groups", std::move(groups));
    reply.set("missing", std::move(missing));
    return reply;
}

}  // namespace ulnet::lst
