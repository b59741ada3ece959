// `lst bench`: a session of its own with one client, one server and one test, sampled every second.
// When the client is this node its counters and latencies are read here; otherwise STAT tells.
#include <algorithm>

#include "selftest/console.h"
#include "selftest/describe.h"
#include "selftest/nids.h"

namespace ulnet::lst {

// Ticks (seconds) without one RPC after which the server counts as gone.
constexpr u32 stalled_max = 5;

using ctl::Value;

void Console::bench() {
    const Value& in = args();
    const double seconds = in["seconds"].as_real(10);
    if (session_) {
        fail(EEXIST, "session already exists: \"" + session_->name + "\" of " +
                         to_text(Nid::from_nid4(session_->sid.nid)) +
                         "; a bench needs the console alone: lst end_session");
        return;
    }
    if (!(seconds >= 0.1 && seconds <= 86400)) {
        fail(EINVAL, "seconds " + std::to_string(seconds) + ": 0.1 to 86400");
        return;
    }
    Nid ends[2];
    const char* keys[] = {"client", "server"};
    for (int i = 0; i < 2; ++i) {
        std::string why;
        const Result<std::vector<Nid>> nids = expand_nids(in[keys[i]].as_text(), why);
        if (!nids.ok() || nids->size() != 1) {
            fail(nids.ok() ? EINVAL : -nids.status().code(),
                 std::string(keys[i]) + ": one NID is needed; " + why);
            return;
        }
        ends[i] = nids->front();
    }
    if (!create_session("bench", 0, 0, false, features_known)) return;
    bench_ = std::make_unique<Bench>();
    bench_->length = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    const std::vector<Nid> mine = context_.node.nids();
    bench_->local = std::find(mine.begin(), mine.end(), ends[0]) != mine.end();
    for (int i = 0; i < 2; ++i) {
        auto group = std::make_unique<Group>();
        group->name = keys[i];
        group->nodes.push_back(&node(ends[i]));
        ++group->nodes.front()->groups;
        (i == 0 ? bench_->client : bench_->server) = group->nodes.front();
        session_->groups.push_back(std::move(group));
    }
    bench_->batch = session_->batches.front().get();
    bench_join();
}

void Console::bench_join() {
    bench_->joining = true;
    join({bench_->client, bench_->server}, [this](Results& results) {
        bench_->joining = false;
        patience_.stop();
        // Whose answer was not waited for may have joined: it is told to leave.
        for (const NodeResult& result : results)
            if (result.rpc.code() == -EINTR) result.node->state = NodeState::active;
        if (bench_given_up()) return;
        for (const NodeResult& result : results) {
            if (result.good()) continue;
            bench_fail(errno_of(result), bench_failure(result, "create session"));
            return;
        }
        bench_run();
    });
}

// The parameters are those of add_test, but for other defaults: size 1 MiB, write, concurrency 8.
void Console::bench_run() {
    ConsoleTest test;
    test.from = session_->group("client");
    test.to = session_->group("server");
    std::string why;
    if (!read_test(test, bench_args(), why)) {
        bench_fail(EINVAL, std::move(why));
        return;
    }
    bench_->spec = test.spec;
    place_test(*bench_->batch, std::move(test), [this](Results& servers, Results& clients) {
        if (bench_given_up()) return;
        for (const Results* side : {&servers, &clients}) {
            for (const NodeResult& result : *side) {
                if (result.good()) continue;
                bench_fail(errno_of(result), bench_failure(result, "add test"));
                return;
            }
        }
        bench_sample([this] {
            control(*bench_->batch, bench_->batch->clients, BatchOp::run, 0, 0,
                    transaction_limit_max_s, [this](Results& results) {
                        bench_->batch->running = true;  // or may be
                        if (bench_given_up()) return;
                        if (results.empty() || !results.front().good()) {
                            if (results.empty())
                                bench_fail(EIO, "no client took the test");
                            else
                                bench_fail(errno_of(results.front()),
                                           bench_failure(results.front(), "run batch"));
                            return;
                        }
                        bench_->started = context_.sched.now();
                        wait(std::min<Duration>(std::chrono::seconds(1), bench_->length),
                             [this] { bench_tick(); });
                    });
        });
    });
}

Value Console::bench_args() const {
    Value out = args();
    const auto def = [&](const char* key, Value value) {
        if (!out.has(key)) out.set(key, std::move(value));
    };
    def("test", "brw");
    def("mode", "write");
    def("size", 1 << 20);
    def("check", "none");
    def("concurrency", 8);
    out.set("loop", -1);
    out.set("dist", 1);
    out.set("span", 1);
    return out;
}

// Takes a sample; the first one, before the test runs, is what the others are counted from.
void Console::bench_sample(std::function<void()> then) {
    Bench& bench = *bench_;
    session_->last_command = context_.sched.now();
    if (bench.local) {
        bench.state = local_.client_state(session_->sid, bench.batch->id);
        bench.sampled_at = context_.sched.now();
        if (bench.state) {
            const TestTotals& totals = bench.state->totals;
            bench.totals = {totals.rpcs, totals.bytes, totals.errors};
        }
        then();
        return;
    }
    Nodes ends{bench.client};
    if (bench.server != bench.client) ends.push_back(bench.server);
    transact(
        Service::stat, ends, transaction_limit_max_s,
        [sid = session_->sid](u32, const Header& header, u64 rpyid, u64, Message& request,
                              std::vector<std::byte>&) {
            encode_message(request, native_order, header, StatRequest{.rpyid = rpyid, .sid = sid});
        },
        [this, then = std::move(then)](Results& results) {
            bench_sampled(results);
            then();
        });
}

// What the wire tells: the client's requests, the server's bulk bytes.
void Console::bench_sampled(Results& results) {
    Bench& bench = *bench_;
    StatReply samples[2];
    for (int i = 0; i < 2; ++i) {
        const ConsoleNode* end = i == 0 ? bench.client : bench.server;
        const auto found = std::find_if(results.begin(), results.end(),
                                        [&](const auto& r) { return r.node == end; });
        Header header;
        if (found == results.end() || !found->good() ||
            !decode_message(found->message, header, samples[i]))
            return;  // the last sample stays in force
    }
    bench.sampled_at = context_.sched.now();
    if (bench.first) {
        bench.client_before = samples[0];
        bench.server_before = samples[1];
        bench.first = false;
        return;
    }
    const StatReply &c0 = bench.client_before, &s0 = bench.server_before;
    const bool write = bench.spec.brw.op == BrwOp::write;
    const u64 bytes = write ? samples[1].rpc.bulk_get - s0.rpc.bulk_get
                            : samples[1].rpc.bulk_put - s0.rpc.bulk_put;
    bench.totals.rpcs = static_cast<u32>(samples[0].rpc.sent - c0.rpc.sent);
    bench.totals.bytes = bench.spec.service == Service::brw ? bytes : 0;
    bench.totals.errors =
        static_cast<u32>(samples[0].framework.brw_errors - c0.framework.brw_errors) +
        static_cast<u32>(samples[0].framework.ping_errors - c0.framework.ping_errors);
}

static double seconds_of(Duration duration) {
    return std::chrono::duration<double>(duration).count();
}

void Console::bench_tick() {
    if (bench_given_up()) return;
    bench_sample([this] {
        if (bench_given_up()) return;
        Bench& bench = *bench_;
        const Duration run = context_.sched.now() - bench.started;
        Value part = Value::map();
        part.set("seconds", seconds_of(std::max(bench.sampled_at, bench.started) - bench.started));
        part.set("bytes", bench.totals.bytes);
        part.set("rpcs", bench.totals.rpcs);
        part.set("errors", bench.totals.errors);
        job_.call->progress(std::move(part));
        bench.stalled = bench.totals.rpcs == bench.rpcs_before ? bench.stalled + 1 : 0;
        bench.rpcs_before = bench.totals.rpcs;
        const bool stopped = bench.local && bench.state && !bench.state->running;
        if (bench.stalled >= stalled_max || (bench.stalled >= 2 && run >= bench.length)) {
            bench.hurry = true;
            bench_fail(ETIMEDOUT, "The server answers no more: nothing moved for the last " +
                                      std::to_string(bench.stalled) + " seconds");
        } else if (stopped || run >= bench.length) {
            bench_end();
        } else {
            // The next full second, not one second from now.
            const auto next = std::chrono::seconds(
                std::chrono::duration_cast<std::chrono::seconds>(run).count() + 1);
            wait(std::min<Duration>(next, bench.length) - run, [this] { bench_tick(); });
        }
    });
}

void Console::bench_end() {
    const Bench& bench = *bench_;
    const Value in = bench_args();
    Value reply = Value::map();
    for (const char* key : {"client", "server", "test", "mode", "size", "check", "concurrency"})
        reply.set(key, in[key]);
    reply.set("seconds", seconds_of(std::max(bench.sampled_at, bench.started) - bench.started));
    reply.set("bytes", bench.totals.bytes);
    reply.set("rpcs", bench.totals.rpcs);
    reply.set("errors", bench.totals.errors);
    reply.set("source", bench.local ? "local" : "stat");
    if (bench.local && bench.state) {
        const Value latency = latency_value(bench.state->totals.latency);
        reply.set("latency_p50_ns", latency["p50_ns"]);
        reply.set("latency_p99_ns", latency["p99_ns"]);
        reply.set("latency_max_ns", latency["max_ns"]);
    }
    bench_close([this, reply = std::move(reply)] { finish(reply); });
}

// True when the asker has gone: the bench ends then.
bool Console::bench_given_up() {
    if (!asker_gone()) return false;
    bench_->hurry = true;
    bench_fail(ECANCELED, "The asker has gone");
    return true;
}

// "NID: create session: Device or resource busy, in session "x" of NID".
std::string Console::bench_failure(const NodeResult& result, std::string_view what) {
    std::string text = to_text(result.node->nid) + ": " + std::string(what) + ": " +
                       Status(-errno_of(result)).text();
    const std::string holder = holder_text(result);
    return holder.empty() ? text : text + ", it is in " + holder;
}

void Console::bench_fail(int code, std::string text) {
    bench_close([this, code, text = std::move(text)] { fail(code, text); });
}

// Whatever happened, the nodes are told and the console is free again.
void Console::bench_close(std::function<void()> then) {
    bench_->ending = true;
    end_session_then([this, then = std::move(then)](Results&) {
        bench_.reset();
        session_.reset();
        ending_ = false;
        then();
    });
}

}  // namespace ulnet::lst
