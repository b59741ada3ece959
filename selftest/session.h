// The node's side of the framework: one session at a time, its batches and tests, and the answers
// to framework requests. Requests come on workers; all state is the control strand's.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "lnet/ctl/value.h"
#include "selftest/test.h"
#include "selftest/wire_session.h"

namespace ulnet::lst {

constexpr u32 batches_max = 1024;    // of one session
constexpr u32 instances_max = 4096;  // tests of one session
constexpr u32 units_max = 65536;     // test units of this node
constexpr u32 concurrency_max = 1024;

struct Batch {
    std::vector<std::unique_ptr<TestInstance>> tests;  // test index n is the n-th, from 1
    bool running() const;
    u32 active_tests() const;
};

struct Session {
    Sid sid;
    std::string name;
    u32 timeout_s = 0;
    u32 features = 0;
    u32 references = 1;  // accepted MKSNs
    Instant started{};
    Instant deadline = instant_never;
    std::map<u64, Batch> batches;
    SessionErrors errors;
    bool running() const;
};

class Framework final : public Handler {
 public:
    // `want_buffers` is told how many buffers of a test service a console asks for.
    Framework(Context&, std::function<void(Service, u32)> want_buffers, std::function<void()> idle);

    void handle(ServerRpc&) override;
    void bulk_done(ServerRpc&, Status) override;
    void buffer_ready(ServerRpc&) override {}

    // The rest on the control strand.
    void close();
    StatReply stat() const;
    // Sums over the client tests of a batch; nothing when it is not here.
    struct ClientState {
        TestTotals totals;
        bool running;
    };
    std::optional<ClientState> client_state(const Sid&, u64 batch_id) const;
    ctl::Value describe() const;  // for `lst node_stats`

 private:
    void serve(ServerRpc&);
    bool refuse_features(ServerRpc&);
    void make_session(ServerRpc&);
    void remove_session(ServerRpc&);
    void debug(ServerRpc&);
    void serve_stat(ServerRpc&);
    void test(ServerRpc&);
    void add_client(ServerRpc&);
    void batch(ServerRpc&);
    u32 control_batch(const BatchRequest&, BatchReply&, bool& dropped);

    u32 judge_test(const TestRequest&) const;
    u32 add_instance(const TestRequest&, const TestSpec&, std::span<const ProcessId>);
    u32 read_destinations(const ServerRpc&, u32 count, std::vector<ProcessId>&) const;

    Sid current_sid() const { return session_ ? session_->sid : sid_invalid; }
    u32 current_features() const { return session_ ? session_->features : features_known; }
    void end_session();
    void reap();
    void touch();
    void expire();

    Context& context_;
    const std::function<void(Service, u32)> want_buffers_;
    const std::function<void()> idle_;
    std::unique_ptr<Session> session_;
    std::vector<std::unique_ptr<Session>> zombies_;  // ended, tests still stopping
    ControlTimer timer_;
};

}  // namespace ulnet::lst
