// Commands about batches and tests.
#include <algorithm>

#include "selftest/console.h"

namespace ulnet::lst {

using ctl::Value;

namespace {

void add_missing(std::vector<ConsoleNode*>& to, const std::vector<ConsoleNode*>& nodes) {
    for (ConsoleNode* node : nodes)
        if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
}

Value list_value(const std::vector<ConsoleNode*>& nodes) {
    Value out = Value::list();
    for (const ConsoleNode* node : nodes) out.push(node_value(*node));
    return out;
}

void add_sides(Value& to, const std::vector<ConsoleNode*>& clients,
               const std::vector<ConsoleNode*>& servers) {
    to.set("client", counts_value(clients));
    to.set("server", counts_value(servers));
    to.set("clients", list_value(clients));
    to.set("servers", list_value(servers));
}

std::string no_such_test(const ConsoleBatch& batch, i64 test) {
    return "Can't find test in current session: " + std::to_string(test) + " of batch \"" +
           batch.name + "\", which has " + std::to_string(batch.tests.size());
}

void encode_test(Message& request, const Header& header, const TestRequest& body,
                 const TestSpec& spec) {
    if (spec.service == Service::ping) {
        encode_message(request, native_order, header, body, PingParams{});
    } else if ((header.features & feature_bulk_len) != 0) {
        encode_message(request, native_order, header, body,
                       BrwParamsV1{static_cast<u16>(spec.brw.op), static_cast<u16>(spec.brw.check),
                                   spec.brw.length, spec.brw.offset});
    } else {
        encode_message(request, native_order, header, body,
                       BrwParamsV0{static_cast<u32>(spec.brw.op), spec.brw.length / wire_page_bytes,
                                   static_cast<u32>(spec.brw.check)});
    }
}

}  // namespace

void Console::add_batch() {
    const std::string& name = args()["name"].as_text();
    if (name.empty() || name.size() >= name_bytes) {
        fail(name.empty() ? EINVAL : ENAMETOOLONG, "name \"" + name + "\": 1 to 31 characters");
        return;
    }
    if (session_->batch(name)) {
        fail(EEXIST, "batch already exists: \"" + name + "\"");
        return;
    }
    auto batch = std::make_unique<ConsoleBatch>();
    batch->id = ++session_->last_batch_id;
    batch->name = name;
    Value reply = Value::map();
    reply.set("id", batch->id);
    session_->batches.push_back(std::move(batch));
    finish(std::move(reply));
}

Value Console::batch_value(const ConsoleBatch& batch, u32 only) const {
    Value out = Value::map();
    out.set("name", batch.name);
    out.set("id", batch.id);
    out.set("state", batch.running ? batch_running : batch_idle);
    add_sides(out, batch.clients, batch.servers);
    Value tests = Value::list();
    u32 index = 0;
    for (const ConsoleTest& test : batch.tests) {
        if (++index != only && only != 0) continue;
        Value entry = Value::map();
        entry.set("index", index);
        entry.set("type", test.spec.service == Service::brw ? "brw" : "ping");
        entry.set("loop", static_cast<i64>(static_cast<i32>(test.spec.loop)));
        entry.set("concurrency", test.spec.concurrency);
        add_sides(entry, test.clients, test.servers);
        tests.push(std::move(entry));
    }
    out.set("tests", std::move(tests));
    return out;
}

Value Console::list_batch(const Value& in, Error& error) {
    Value batches = Value::list();
    const i64 test = in["test"].as_int();
    for (const auto& batch : session_->batches) {
        if (in.has("name") && batch->name != in["name"].as_text()) continue;
        if (test < 0 || static_cast<u64>(test) > batch->tests.size()) {
            error = {Status(-ENOENT), no_such_test(*batch, test)};
            return {};
        }
        batches.push(batch_value(*batch, static_cast<u32>(test)));
    }
    if (in.has("name") && batches.size() == 0) {
        error = {Status(-ENOENT), cannot_find("batch", in["name"].as_text())};
        return {};
    }
    Value reply = Value::map();
    reply.set("batches", std::move(batches));
    return reply;
}

bool Console::read_test(ConsoleTest& test, const Value& in, std::string& why) const {
    const auto bad = [&](const char* key, const std::string& value, const char* allowed) {
        why = std::string(key) + " " + value + ": " + allowed;
        return false;
    };
    const auto bad_number = [&](const char* key, i64 value, const char* allowed) {
        return bad(key, std::to_string(value), allowed);
    };
    const i64 loop = in["loop"].as_int(-1), concurrency = in["concurrency"].as_int(1);
    const i64 dist = in["dist"].as_int(1), span = in["span"].as_int(1);
    if (loop == 0 || loop < -1 || loop > 0x7fffffff)
        return bad_number("loop", loop, "-1 (for ever) or 1 to 2147483647");
    if (concurrency < 1 || concurrency > concurrency_max)
        return bad_number("concurrency", concurrency, "1 to 1024");
    if (dist < 1 || dist > 0xffff) return bad_number("dist", dist, "1 to the number of sources");
    if (span < 1 || span > ids_per_page)
        return bad_number("span", span, "1 to the number of destinations, at most 341");
    TestSpec& spec = test.spec;
    spec.loop = static_cast<u32>(loop);
    spec.concurrency = static_cast<u32>(concurrency);
    spec.stop_on_error = in["stop_on_error"].as_bool(true);
    test.dist = static_cast<u32>(dist);
    test.span = static_cast<u32>(span);
    const std::string& name = in["test"].as_text();
    if (name == "ping") return true;
    if (name != "brw") return bad("test", "\"" + name + "\"", "ping or brw");
    spec.service = Service::brw;
    const std::string mode = in.has("mode") ? in["mode"].as_text() : "read";
    if (mode != "read" && mode != "write") return bad("mode", "\"" + mode + "\"", "read or write");
    const std::string check = in.has("check") ? in["check"].as_text() : "none";
    constexpr std::string_view checks[] = {"none", "simple", "full", "discard"};
    const auto found = std::find(std::begin(checks), std::end(checks), check);
    if (found == std::end(checks))
        return bad("check", "\"" + check + "\"", "none, simple, full or discard");
    const i64 size = in["size"].as_int(4096), offset = in["offset"].as_int(0);
    // Kernel nodes crash on what is not a multiple of 8, and on any offset.
    if (size < 1 || size > payload_max || size % word_bytes != 0)
        return bad_number("size", size, "8 to 1048576 bytes, a multiple of 8");
    if (offset < 0 || offset > 0x7fffffff || offset % word_bytes != 0)
        return bad_number("offset", offset, "a multiple of 8");
    if (offset != 0 && !in["unsafe_offset"].as_bool())
        return bad_number("offset", offset, "0 (others crash kernel nodes)");
    spec.brw = {mode == "read" ? BrwOp::read : BrwOp::write,
                static_cast<Check>(found - std::begin(checks) + 1), static_cast<u32>(size),
                static_cast<u32>(offset)};
    if ((session_->features & feature_bulk_len) == 0 && size % wire_page_bytes != 0)
        return bad_number("size", size, "a multiple of 4096 in this session (old nodes)");
    return true;
}

void Console::add_test() {
    const Value& in = args();
    ConsoleBatch* batch = session_->batch(in.has("batch") ? in["batch"].as_text() : "batch");
    Group* from = session_->group(in["from"].as_text());
    Group* to = session_->group(in["to"].as_text());
    if (!batch || !from || !to) {
        fail(ENOENT, !batch  ? cannot_find("batch", in["batch"].as_text())
                     : !from ? cannot_find("group", in["from"].as_text())
                             : cannot_find("group", in["to"].as_text()));
        return;
    }
    if (batch->running) {
        fail(EPERM, "batch \"" + batch->name + "\" is running");
        return;
    }
    ConsoleTest test;
    test.from = from;
    test.to = to;
    std::string why;
    if (!read_test(test, in, why)) {
        fail(EINVAL, std::move(why));
        return;
    }
    const auto left_out = [](const Group* group) { return skipped_value(group->nodes); };
    place_test(*batch, std::move(test),
               [this, batch, skipped_servers = left_out(to),
                skipped_clients = left_out(from)](Results& servers, Results& clients) {
                   Value reply = Value::map(), server_side = Value::map(),
                         client_side = Value::map();
                   add_results(server_side, servers);
                   add_results(client_side, clients);
                   server_side.set("skipped", skipped_servers);
                   client_side.set("skipped", skipped_clients);
                   reply.set("index", static_cast<u64>(batch->tests.size()));
                   reply.set("servers", std::move(server_side));
                   reply.set("clients", std::move(client_side));
                   finish(std::move(reply));
               });
}

// TEST to the servers, then to the clients. The test is in the batch even when some refused it.
void Console::place_test(ConsoleBatch& batch, ConsoleTest test,
                         std::function<void(Results&, Results&)> then) {
    test.clients = active_of(test.from->nodes);
    test.servers = active_of(test.to->nodes);
    const Result<Placement> placement =
        place(static_cast<u32>(test.clients.size()), static_cast<u32>(test.servers.size()),
              test.dist, test.span, test.spec.concurrency);
    if (!placement.ok()) {
        fail(EINVAL, "distribute " + std::to_string(test.dist) + ":" + std::to_string(test.span) +
                         ": at most " + std::to_string(test.clients.size()) + ":" +
                         std::to_string(test.servers.size()) + ", the active nodes");
        return;
    }
    const TestSpec spec = test.spec;
    const TestRequest common{.sid = session_->sid,
                             .batch_id = batch.id,
                             .service = static_cast<u32>(spec.service),
                             .concurrency = spec.concurrency};
    const auto to_server = [=, loop = placement->server_loop](u32, const Header& header, u64 rpyid,
                                                              u64, Message& request,
                                                              std::vector<std::byte>&) {
        TestRequest body = common;
        body.rpyid = rpyid;
        body.loop = loop;
        body.stop_on_error = spec.stop_on_error;
        encode_test(request, header, body, spec);
    };
    const auto to_client = [=, servers = test.servers, clients = placement->clients](
                               u32 index, const Header& header, u64 rpyid, u64 bulkid,
                               Message& request, std::vector<std::byte>& list) {
        const std::vector<u32>& mine = clients[index];
        TestRequest body = common;
        body.rpyid = rpyid;
        body.bulkid = bulkid;
        body.loop = spec.loop;
        body.is_client = 1;
        body.stop_on_error = spec.stop_on_error;
        body.destinations = static_cast<u32>(mine.size());
        encode_test(request, header, body, spec);
        // Nodes without BULK_LEN fetch whole pages.
        list.resize((header.features & feature_bulk_len) != 0 ? mine.size() * wire_size<PackedId>()
                                                              : wire_page_bytes);
        for (u32 i = 0; i < mine.size(); ++i)
            encode_destination(list, i, {servers[mine[i]]->nid.nid4(), pid_lustre});
    };
    const Nodes clients = test.clients, servers = test.servers;
    transact(Service::test, servers, transaction_limit_max_s, to_server,
             [this, &batch, test = std::move(test), to_client, clients,
              then = std::move(then)](Results& server_results) {
                 transact(
                     Service::test, clients, transaction_limit_max_s, to_client,
                     [&batch, test, then, kept = server_results](Results& client_results) {
                         ++test.from->tests;
                         ++test.to->tests;
                         add_missing(batch.clients, test.clients);
                         add_missing(batch.servers, test.servers);
                         batch.tests.push_back(test);
                         Results first = kept;
                         then(first, client_results);
                     },
                     true);
             });
}

void Console::control(ConsoleBatch& batch, const Nodes& nodes, BatchOp op, u32 test, u32 argument,
                      u32 limit_s, Then then) {
    const BatchRequest body{.sid = session_->sid,
                            .batch_id = batch.id,
                            .opcode = static_cast<u32>(op),
                            .test_index = test,
                            .argument = argument};
    transact(
        Service::batch, active_of(nodes), limit_s,
        [body](u32, const Header& header, u64 rpyid, u64, Message& request,
               std::vector<std::byte>&) {
            BatchRequest mine = body;
            mine.rpyid = rpyid;
            encode_message(request, native_order, header, mine);
        },
        std::move(then));
}

void Console::run() {
    const Value& in = args();
    ConsoleBatch* batch = session_->batch(in.has("name") ? in["name"].as_text() : "batch");
    if (!batch) {
        fail(ENOENT, cannot_find("batch", in["name"].as_text()));
        return;
    }
    const i64 limit_s = in["timeout"].as_int(transaction_limit_max_s);
    if (limit_s < 1 || limit_s > 0x7fffffff) {
        fail(EINVAL, "timeout " + std::to_string(limit_s) + ": 1 to 2147483647 seconds");
        return;
    }
    // The wire's argument is the time-out as typed: kernel consoles send 0 when none was.
    const u32 typed_s = in.has("timeout") ? static_cast<u32>(limit_s) : 0;
    control(*batch, batch->clients, BatchOp::run, 0, typed_s, static_cast<u32>(limit_s),
            [this, batch, skipped = skipped_value(batch->clients)](Results& results) {
                for (const NodeResult& result : results) batch->running |= result.good();
                Value reply = Value::map();
                add_results(reply, results);
                reply.set("skipped", skipped);
                finish(std::move(reply));
            });
}

void Console::stop() {
    const Value& in = args();
    ConsoleBatch* batch = session_->batch(in.has("name") ? in["name"].as_text() : "batch");
    if (!batch) {
        fail(ENOENT, cannot_find("batch", in["name"].as_text()));
        return;
    }
    control(*batch, batch->clients, BatchOp::stop, 0, in["force"].as_bool() ? 1 : 0,
            transaction_limit_max_s,
            [this, batch, skipped = skipped_value(batch->clients)](Results& results) {
                Value reply = Value::map();
                add_results(reply, results);
                reply.set("skipped", skipped);
                if (args()["wait"].as_bool(true)) {
                    wait_idle(*batch, std::move(reply),
                              context_.sched.now() + std::chrono::seconds(stop_wait_max_s), {});
                } else {
                    reply.set("active", 0);
                    finish(std::move(reply));
                }
            });
}

// Asks the clients every second until none is active. One that cannot be asked counts as idle: its
// tests end with its session; the reply names it under `unanswered`.
void Console::wait_idle(ConsoleBatch& batch, Value reply, Instant deadline, Results silent) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(deadline - context_.sched.now());
    const u32 limit_s = static_cast<u32>(std::clamp<i64>(left.count(), 0, stop_wait_max_s));
    control(batch, batch.clients, BatchOp::query, 0, 0, limit_s,
            [this, &batch, reply = std::move(reply), deadline,
             silent = std::move(silent)](Results& results) mutable {
                u32 active = 0;
                for (const NodeResult& result : results) {
                    std::erase_if(silent, [&](const auto& r) { return r.node == result.node; });
                    if (!result.good()) silent.push_back(result);
                    Header header;
                    BatchReply body;
                    if (result.good() && decode_message(result.message, header, body) &&
                        body.active > 0)
                        ++active;
                }
                if (active > 0 && context_.sched.now() < deadline && !asker_gone()) {
                    Value part = Value::map();
                    part.set("active", active);
                    job_.call->progress(std::move(part));
                    wait(std::chrono::seconds(1), [this, &batch, reply, deadline, silent] {
                        wait_idle(batch, reply, deadline, silent);
                    });
                    return;
                }
                batch.running = active > 0;
                Value unanswered = Value::map();
                add_results(unanswered, silent);
                reply.set("unanswered", std::move(unanswered));
                reply.set("active", active);
                finish(std::move(reply));
            });
}

void Console::query() {
    const Value& in = args();
    ConsoleBatch* batch = session_->batch(in.has("name") ? in["name"].as_text() : "batch");
    if (!batch) {
        fail(ENOENT, cannot_find("batch", in["name"].as_text()));
        return;
    }
    const i64 test = in["test"].as_int(0);
    const i64 limit_s = in["timeout"].as_int(5);
    if (test < 0 || static_cast<u64>(test) > batch->tests.size()) {
        fail(ENOENT, no_such_test(*batch, test));
        return;
    }
    if (limit_s < 1 || limit_s > 0x7fffffff) {
        fail(EINVAL, "timeout " + std::to_string(limit_s) + ": 1 to 2147483647 seconds");
        return;
    }
    const bool server = in["server"].as_bool();
    const u32 index = static_cast<u32>(test);
    const Nodes nodes =
        index > 0 ? (server ? batch->tests[index - 1].servers : batch->tests[index - 1].clients)
                  : (server ? batch->servers : batch->clients);
    control(*batch, nodes, BatchOp::query, index, 0, static_cast<u32>(limit_s),
            [this, batch, whole = index == 0 && !server,
             skipped = skipped_value(nodes)](Results& results) {
                u32 idle = 0, running = 0, failed = 0;
                Value reply = Value::map();
                reply.set("skipped", skipped);
                add_results(reply, results, [&](const NodeResult& result, Value& entry) {
                    Header header;
                    BatchReply body;
                    if (!result.good() || !decode_message(result.message, header, body)) return;
                    ++(body.active > 0 ? running : idle);
                    entry.set("active", body.active);
                });
                failed = static_cast<u32>(results.size()) - idle - running;
                if (whole && running == 0 && failed == 0) batch->running = false;
                reply.set("idle", idle);
                reply.set("running", running);
                reply.set("failed", failed);
                finish(std::move(reply));
            });
}

}  // namespace ulnet::lst
