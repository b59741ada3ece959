// Commands about the session itself, and the console's care for it.
#include <algorithm>

#include "selftest/console.h"
#include "selftest/describe.h"

namespace ulnet::lst {

using ctl::Value;

// Fails the job and returns false when there can be none.
bool Console::create_session(std::string name, u32 key, u32 timeout_s, bool force, u32 features) {
    Nid nid;
    for (const Nid& mine : context_.node.nids()) {
        if (!mine.is_lo() && nid.any()) nid = mine;
    }
    if (nid.any()) {
        fail(ENODEV, "No session without an interface: this node has the loopback NID only");
        return false;
    }
    last_stamp_ = std::max(last_stamp_ + 1, static_cast<i64>(context_.wall_ms()));
    session_ = std::make_unique<ConsoleSession>();
    session_->sid = {nid.nid4(), last_stamp_};
    session_->name = std::move(name);
    session_->key = key;
    session_->timeout_s = timeout_s;
    session_->force = force;
    session_->features = features;
    session_->last_command = context_.sched.now();
    auto batch = std::make_unique<ConsoleBatch>();
    batch->id = ++session_->last_batch_id;
    batch->name = "batch";
    session_->batches.push_back(std::move(batch));
    return true;
}

void Console::new_session() {
    const Value& in = args();
    const std::string name = in.has("name") ? in["name"].as_text() : "lst";
    const i64 timeout_s = in["timeout"].as_int(300);
    const i64 features = in["features"].as_int(features_known);
    if (name.empty() || name.size() >= name_bytes) {
        fail(name.empty() ? EINVAL : ENAMETOOLONG, "name \"" + name + "\": 1 to 31 characters");
        return;
    }
    if (timeout_s < 0 || timeout_s > 0x7fffffff) {
        fail(EINVAL, "timeout " + std::to_string(timeout_s) + ": 0 (never) to 2147483647 seconds");
        return;
    }
    if ((features & ~i64{features_known}) != 0) {
        fail(EINVAL, "features " + std::to_string(features) + ": 0 or 1");
        return;
    }
    const auto create = [this] {
        const Value& given = args();
        const std::string title = given.has("name") ? given["name"].as_text() : "lst";
        if (!create_session(title, static_cast<u32>(given["key"].as_int()),
                            static_cast<u32>(given["timeout"].as_int(300)),
                            given["force"].as_bool(),
                            static_cast<u32>(given["features"].as_int(features_known))))
            return;
        Value reply = Value::map();
        reply.set("name", session_->name);
        reply.set("features", session_->features);
        reply.set("timeout", session_->timeout_s);
        reply.set("force", session_->force);
        reply.set("key", session_->key);
        reply.set("id", sid_text(session_->sid));
        finish(std::move(reply));
    };
    if (!session_) {
        create();
    } else if (!in["force"].as_bool()) {
        fail(EEXIST, "session already exists: \"" + session_->name + "\" of " +
                         to_text(Nid::from_nid4(session_->sid.nid)));
    } else {
        end_session_then([this, create](Results&) {
            session_.reset();
            ending_ = false;
            create();
        });
    }
}

void Console::end_session() {
    end_session_then([this](Results& results) {
        Value reply = Value::map();
        add_results(reply, results);
        session_.reset();
        ending_ = false;
        finish(std::move(reply));
    });
}

// Batches first, then the nodes leave; `then` still sees the nodes and drops the session.
void Console::end_session_then(Then then) {
    ending_ = true;
    stop_batches_then([this, then = std::move(then)] {
        Nodes nodes;
        for (const auto& [nid, node] : session_->nodes) nodes.push_back(node.get());
        const bool hurry = bench_ && bench_->hurry;
        leave(active_of(nodes), hurry ? transaction_limit_min_s : transaction_limit_max_s,
              [then](Results& results) {
                  Results kept = results;
                  then(kept);
              });
    });
}

void Console::stop_batches_then(std::function<void()> then) {
    for (const auto& batch : session_->batches) {
        if (!batch->running) continue;
        batch->running = false;
        control(*batch, batch->clients, BatchOp::stop, 0, 1, transaction_limit_max_s,
                [this, then](Results&) { stop_batches_then(then); });
        return;
    }
    then();
}

Value Console::show_session(const Value&, Error&) {
    Value reply = Value::map();
    reply.set("name", session_->name);
    reply.set("key", session_->key);
    reply.set("features", session_->features);
    reply.set("timeout", session_->timeout_s);
    reply.set("stamp", session_->sid.stamp);
    reply.set("nid", to_text(Nid::from_nid4(session_->sid.nid)));
    reply.set("id", sid_text(session_->sid));
    reply.set("nodes", static_cast<u64>(session_->nodes.size()));
    return reply;
}

void Console::expire_session() {
    if (!session_) {
        end_job();
        return;
    }
    end_session_then([this](Results&) {
        session_.reset();
        ending_ = false;
        end_job();
    });
}

// Nodes that nothing was sent to for half their time-out hear of us, or their sessions would end.
void Console::ping_nodes() {
    Nodes quiet;
    if (session_) {
        for (const auto& [nid, node] : session_->nodes) {
            const u32 timeout_s = node->timeout_s > 0 ? node->timeout_s : session_->timeout_s;
            if (node->state == NodeState::active &&
                context_.sched.now() - node->contacted >= std::chrono::seconds(timeout_s) / 2)
                quiet.push_back(node.get());
        }
    }
    if (quiet.empty()) {
        end_job();
        return;
    }
    transact(
        Service::debug, quiet, transaction_limit_max_s,
        [sid = session_->sid](u32, const Header& header, u64 rpyid, u64, Message& request,
                              std::vector<std::byte>&) {
            encode_message(request, native_order, header, DebugRequest{.rpyid = rpyid, .sid = sid});
        },
        [this](Results&) { end_job(); });
}

}  // namespace ulnet::lst
