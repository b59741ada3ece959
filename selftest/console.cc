// The console's commands as jobs: one at a time, each a chain of transactions and waits.
#include "selftest/console.h"

#include <algorithm>

namespace ulnet::lst {

using ctl::Value;

namespace {

template <class List> auto find_named(List& list, std::string_view name) {
    const auto found = std::find_if(list.begin(), list.end(),
                                    [&](const auto& item) { return item->name == name; });
    return found == list.end() ? nullptr : found->get();
}

}  // namespace

Group* ConsoleSession::group(std::string_view wanted) {
    return find_named(groups, wanted);
}
ConsoleBatch* ConsoleSession::batch(std::string_view wanted) {
    return find_named(batches, wanted);
}

std::vector<ConsoleNode*> active_of(const std::vector<ConsoleNode*>& nodes) {
    std::vector<ConsoleNode*> active;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(active),
                 [](const ConsoleNode* node) { return node->state == NodeState::active; });
    return active;
}

Value node_value(const ConsoleNode& node) {
    Value out = Value::map();
    out.set("nid", to_text(node.nid));
    out.set("id", to_text(ProcessId{node.nid, pid_lustre}));
    out.set("state", to_text(node.state));
    return out;
}

Value skipped_value(const std::vector<ConsoleNode*>& nodes) {
    Value list = Value::list();
    for (const ConsoleNode* node : nodes) {
        if (node->state == NodeState::active) continue;
        Value entry = node_value(*node);
        entry.set("errno", node->error);
        list.push(std::move(entry));
    }
    return list;
}

std::string cannot_find(std::string_view thing, std::string_view name) {
    return "Can't find " + std::string(thing) + " in current session: \"" + std::string(name) +
           "\"";
}

// Whose session a node is in instead of ours. Only the answer to MKSN tells its name.
static bool holder_of(const NodeResult& result, std::string& name, std::string& nid) {
    Header header;
    SidReply body;
    if (!result.rpc.ok() || result.node->state != NodeState::busy ||
        !decode_message(result.message, header, body))
        return false;
    nid = to_text(Nid::from_nid4(body.sid.nid));
    MakeSessionReply made;
    if (header.type == reply_type(Type::make_session) &&
        decode_message(result.message, header, made))
        name = name_text(made.name);
    return true;
}

std::string holder_text(const NodeResult& result) {
    std::string name, nid;
    if (!holder_of(result, name, nid)) return {};
    return (name.empty() ? std::string("a session") : "session \"" + name + "\"") + " of " + nid;
}

Value counts_value(const std::vector<ConsoleNode*>& nodes) {
    u32 counts[4] = {};
    for (const ConsoleNode* node : nodes) ++counts[static_cast<u8>(node->state)];
    Value out = Value::map();
    out.set("active", counts[0]);
    out.set("busy", counts[1]);
    out.set("down", counts[2]);
    out.set("unknown", counts[3]);
    out.set("total", static_cast<u64>(nodes.size()));
    return out;
}

void add_results(Value& to, const std::vector<NodeResult>& results, const AddMore& more) {
    Value list = Value::list();
    u32 rpc_failed = 0, framework_failed = 0;
    for (const NodeResult& result : results) {
        Value entry = node_value(*result.node);
        entry.set("rpc_errno", -result.rpc.code());
        entry.set("framework_errno", result.framework);
        if (!result.rpc.ok())
            ++rpc_failed;
        else if (result.framework != 0)
            ++framework_failed;
        std::string holder, holder_nid;
        if (holder_of(result, holder, holder_nid)) {
            if (!holder.empty()) entry.set("session", holder);
            entry.set("session_nid", holder_nid);
        }
        if (more && result.rpc.ok()) more(result, entry);
        list.push(std::move(entry));
    }
    to.set("nodes", std::move(list));
    to.set("rpc_failed", rpc_failed);
    to.set("framework_failed", framework_failed);
}

Console::Console(Context& context, Framework& local)
    : context_(context), local_(local), ticker_(context, [this] { tick(); }),
      waiter_(context,
              [this] {
                  if (!wait_then_) return;
                  const auto then = std::move(wait_then_);
                  wait_then_ = nullptr;
                  if (context_.closing())
                      abandon();
                  else
                      then();
              }),
      patience_(context, [this] {
          if (bench_ && bench_->joining && transaction_ && asker_gone())
              transaction_->abort(Status(-EINTR));
      }) {}

Console::~Console() = default;

void Console::add_commands(ctl::Registry& registry) {
    const auto command = [&](const char* verb, ctl::Access access, const char* help, Needs needs,
                             Command begin) {
        registry.add({"lst", verb, access, help, [this, needs, begin](ctl::CallPtr call) {
                          submit({std::move(call), needs, begin});
                      }});
    };
    const auto query = [&](const char* verb, const char* help, Needs needs, Query ask) {
        registry.add({"lst", verb, ctl::Access::read, help, [this, needs, ask](ctl::CallPtr call) {
                          answer(std::move(call), ask, needs);
                      }});
    };
    using ctl::Access;
    command("new_session", Access::write, "starts a session", Needs::nothing,
            &Console::new_session);
    command("end_session", Access::write, "ends the session on all its nodes", Needs::session,
            &Console::end_session);
    query("show_session", "the session", Needs::session, &Console::show_session);
    command("add_group", Access::write, "takes nodes into the session as a group", Needs::session,
            &Console::add_group);
    command("del_group", Access::write, "forgets a group", Needs::session, &Console::del_group);
    command("update_group", Access::write, "refreshes, cleans or shrinks a group", Needs::session,
            &Console::update_group);
    query("list_group", "groups and their nodes", Needs::session, &Console::list_group);
    command("add_batch", Access::write, "makes a batch of tests", Needs::session,
            &Console::add_batch);
    query("list_batch", "batches, their tests and nodes", Needs::session, &Console::list_batch);
    command("add_test", Access::write, "adds a test to a batch", Needs::session,
            &Console::add_test);
    command("run", Access::write, "runs a batch", Needs::session, &Console::run);
    command("stop", Access::write, "stops a batch and waits for it", Needs::session,
            &Console::stop);
    command("query", Access::read, "tells which nodes run a batch", Needs::session,
            &Console::query);
    command("stat", Access::read, "one sample of the counters of nodes", Needs::session,
            &Console::stat);
    command("show_error", Access::read, "the error counters of nodes", Needs::session,
            &Console::stat);
    command("ping", Access::read, "asks nodes for their session", Needs::session, &Console::ping);
    command("bench", Access::write, "runs one test between two nodes and returns raw numbers",
            Needs::nothing, &Console::bench);
    query("node_stats", "sessions, tests and latencies of this node", Needs::nothing,
          &Console::node_stats);
}

void Console::start() {
    if (!context_.closing())
        ticker_.arm(std::chrono::milliseconds(context_.options.ping_interval_ms));
}

void Console::close() {
    ticker_.stop();
    patience_.stop();
    for (Job& job : waiting_) {
        if (job.call) job.call->fail({Status(-ESHUTDOWN), "The self test of this node is closing"});
    }
    waiting_.clear();
    if (transaction_) transaction_->abort(Status(-ESHUTDOWN));
    if (wait_then_) {
        waiter_.stop();
        if (!waiter_.on()) {
            wait_then_ = nullptr;
            abandon();
        }
    }
}

Error Console::refuse(const Value& args, Needs needs) {
    if (context_.closing()) return {Status(-ESHUTDOWN), "The self test of this node is closing"};
    if (needs == Needs::session) {
        if (!session_) return {Status(-ESRCH), "No session exists"};
        if (ending_) return {Status(-ESHUTDOWN), "Session is shutting down"};
        if (args.has("key") && static_cast<u32>(args["key"].as_int()) != session_->key)
            return {Status(-EACCES), "Unmatched session key or not root"};
        session_->last_command = context_.sched.now();
    }
    return {};
}

void Console::answer(ctl::CallPtr call, Query ask, Needs needs) {
    Error error = refuse(call->args(), needs);
    Value reply;
    if (error.ok()) reply = (this->*ask)(call->args(), error);
    if (error.ok())
        call->reply(std::move(reply));
    else
        call->fail(std::move(error));
}

void Console::submit(Job job) {
    // What comes while a bench ends waits for that.
    if (bench_ && !bench_->ending && !asker_gone()) {
        job.call->fail({Status(-EBUSY), "a bench is running; it ends with the lst that runs it"});
    } else if (waiting_.size() >= commands_waiting_max) {
        job.call->fail({Status(-EBUSY), "More than " + std::to_string(commands_waiting_max) +
                                            " commands are waiting"});
    } else {
        waiting_.push_back(std::move(job));
        next();
    }
}

void Console::next() {
    while (!busy_ && !waiting_.empty()) {
        job_ = std::move(waiting_.front());
        waiting_.pop_front();
        busy_ = true;
        if (asker_gone()) {
            fail(ECANCELED, "The asker has gone");
            continue;
        }
        if (job_.call) job_.call->on_gone([this] { asker_left(); });
        Error error = refuse(job_.call ? args() : Value(), job_.needs);
        if (error.ok())
            (this->*job_.run)();
        else
            fail(-error.status.code(), std::move(error.text));
    }
}

void Console::finish(Value reply) {
    if (job_.call) job_.call->reply(std::move(reply));
    end_job();
}

void Console::fail(int code, std::string text) {
    if (job_.call) job_.call->fail({Status(-code), std::move(text)});
    end_job();
}

void Console::end_job() {
    job_ = {};
    busy_ = false;
    context_.control([this] { next(); });
}

// Nobody waits for the answer any more: a pause ends now, and so does the bench.
void Console::asker_left() {
    if (wait_then_) {
        waiter_.stop();
        if (waiter_.on()) return;  // it fires already
        const auto then = std::move(wait_then_);
        wait_then_ = nullptr;
        then();
    } else if (bench_ && bench_->joining) {
        // Told to leave at once, a node might hear that before it joins.
        if (!patience_.on()) patience_.arm(std::chrono::seconds(transaction_limit_min_s));
    } else if (bench_ && !bench_->ending && transaction_) {
        transaction_->abort(Status(-EINTR));
    }
}

// `then` gets the results; it is not called any more once the self test closes.
void Console::transact(Service service, const Nodes& nodes, u32 limit_s, Transaction::Fill fill,
                       Then then, bool bulk) {
    CHECK(!transaction_);
    if (context_.closing()) {
        abandon();
        return;
    }
    const Transaction::Spec spec{.sid = session_->sid,
                                 .service = service,
                                 .features = session_->features,
                                 .limit_s = limit_s,
                                 .bulk = bulk};
    transaction_ = std::make_unique<Transaction>(context_, spec, nodes, std::move(fill),
                                                 [this, then = std::move(then)] {
                                                     const auto done = std::move(transaction_);
                                                     if (context_.closing())
                                                         abandon();
                                                     else
                                                         then(done->results());
                                                 });
    if (bench_ && !bench_->ending && asker_gone()) transaction_->abort(Status(-EINTR));
    transaction_->start();
}

void Console::wait(Duration duration, std::function<void()> then) {
    if (context_.closing()) {
        abandon();
        return;
    }
    wait_then_ = std::move(then);
    waiter_.arm(duration);
}

// Looks after the session: ends one that nobody uses, keeps those of the nodes alive.
void Console::tick() {
    if (context_.closing()) return;
    ticker_.arm(std::chrono::milliseconds(context_.options.ping_interval_ms));
    if (!session_ || busy_) return;
    const Duration unused = context_.sched.now() - session_->last_command;
    const bool expired =
        session_->timeout_s > 0 && unused > std::chrono::seconds(session_->timeout_s);
    waiting_.push_back(
        {nullptr, Needs::nothing, expired ? &Console::expire_session : &Console::ping_nodes});
    next();
}

}  // namespace ulnet::lst
