// The console: a session on other nodes, their groups, batches of tests, and the commands of the
// object `lst`. All on the control strand; commands run one after the other.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "lnet/ctl/registry.h"
#include "selftest/placement.h"
#include "selftest/session.h"
#include "selftest/transaction.h"

namespace ulnet::lst {

constexpr u32 commands_waiting_max = 64;
constexpr u32 stop_wait_max_s = 30;
constexpr u32 batch_idle = 176, batch_running = 177;  // as the kernel's tool prints them

struct Group {
    std::string name;
    std::vector<ConsoleNode*> nodes;
    u32 tests = 0;  // that use it
};

struct ConsoleTest {
    TestSpec spec;
    u32 dist = 1, span = 1;
    Group* from = nullptr;
    Group* to = nullptr;
    std::vector<ConsoleNode*> clients, servers;
};

struct ConsoleBatch {
    u64 id = 0;
    std::string name;
    bool running = false;
    std::vector<ConsoleTest> tests;
    std::vector<ConsoleNode*> clients, servers;
};

struct ConsoleSession {
    Sid sid;
    std::string name;
    u32 key = 0;
    u32 timeout_s = 300;
    bool force = false;
    u32 features = features_known;
    bool features_agreed = false;  // by the first node that joined
    u64 last_batch_id = 0;
    Instant last_command{};
    std::map<Nid, std::unique_ptr<ConsoleNode>> nodes;
    std::vector<std::unique_ptr<Group>> groups;
    std::vector<std::unique_ptr<ConsoleBatch>> batches;
    Group* group(std::string_view);
    ConsoleBatch* batch(std::string_view);
};

class Console {
 public:
    Console(Context&, Framework& local);
    ~Console();
    void add_commands(ctl::Registry&);
    void start();
    // Ends what is under way; commands that wait fail.
    void close();

 private:
    using Nodes = std::vector<ConsoleNode*>;
    using Results = std::vector<NodeResult>;
    using Then = std::function<void(Results&)>;
    // A command that takes its turn and ends in finish() or fail(); a query answers at once.
    using Command = void (Console::*)();
    using Query = ctl::Value (Console::*)(const ctl::Value& args, Error&);
    enum class Needs : u8 { nothing, session };
    struct Job {
        ctl::CallPtr call;  // null: the console's own
        Needs needs = Needs::nothing;
        Command run = nullptr;
    };
    // A bench under way; what the samples found is counted from the first.
    struct Bench {
        struct Totals {
            u64 rpcs = 0, bytes = 0, errors = 0;
        };
        Duration length{};
        u64 rpcs_before = 0;  // at the last tick
        u32 stalled = 0;      // ticks in a row without progress
        bool local = false;   // the client is this node
        ConsoleNode* client = nullptr;
        ConsoleNode* server = nullptr;
        ConsoleBatch* batch = nullptr;
        TestSpec spec;
        Instant started{};
        Instant sampled_at{};
        bool first = true;
        bool joining = false;
        bool ending = false;
        bool hurry = false;  // nobody waits for it, or nobody answers: the end takes seconds
        StatReply client_before, server_before;
        Totals totals;
        std::optional<Framework::ClientState> state;
    };

    // console.cc: jobs
    void submit(Job);
    void answer(ctl::CallPtr, Query, Needs);
    void next();
    Error refuse(const ctl::Value& args, Needs);
    const ctl::Value& args() const { return job_.call->args(); }
    void finish(ctl::Value);
    void fail(int code, std::string text);
    void end_job();
    void abandon() { fail(ESHUTDOWN, "The self test of this node is closing"); }
    void asker_left();
    bool asker_gone() const { return job_.call && !job_.call->alive(); }
    void transact(Service, const Nodes&, u32 limit_s, Transaction::Fill, Then, bool bulk = false);
    void wait(Duration, std::function<void()> then);
    void tick();

    // console_session.cc
    void new_session();
    void end_session();
    ctl::Value show_session(const ctl::Value&, Error&);
    void expire_session();
    bool create_session(std::string name, u32 key, u32 timeout_s, bool force, u32 features);
    void end_session_then(Then);
    void stop_batches_then(std::function<void()>);
    void ping_nodes();

    // console_group.cc
    void add_group();
    void del_group();
    void update_group();
    void refresh_group(Group&);
    void clean_group(Group&);
    void remove_from_group(Group&);
    ctl::Value list_group(const ctl::Value&, Error&);
    void join(const Nodes&, Then);
    void leave(const Nodes&, u32 limit_s, Then);
    ConsoleNode& node(const Nid&);
    void drop_nodes(Group&, const Nodes&);
    // The nodes of NID expressions; those not known yet are made when `make` says so.
    bool parse_ids(const ctl::Value& ids, bool make, std::vector<Nodes>& out, Error&);
    ctl::Value group_value(const Group&) const;

    // console_batch.cc
    void add_batch();
    ctl::Value list_batch(const ctl::Value&, Error&);
    void add_test();
    // From the arguments of add_test or bench; false with the sentence for the user.
    bool read_test(ConsoleTest&, const ctl::Value& in, std::string& why) const;
    void place_test(ConsoleBatch&, ConsoleTest, std::function<void(Results&, Results&)>);
    void run();
    void stop();
    void wait_idle(ConsoleBatch&, ctl::Value reply, Instant deadline, Results silent);
    void query();
    void control(ConsoleBatch&, const Nodes&, BatchOp, u32 test, u32 argument, u32 limit_s, Then);
    ctl::Value batch_value(const ConsoleBatch&, u32 test) const;

    // console_stat.cc
    void stat();
    void ping();
    ctl::Value node_stats(const ctl::Value&, Error&);
    bool targets(const ctl::Value& names, std::vector<std::pair<std::string, Nodes>>& out);

    // bench.cc
    void bench();
    void bench_join();
    void bench_run();
    ctl::Value bench_args() const;
    void bench_tick();
    void bench_sample(std::function<void()> then);
    void bench_sampled(Results&);
    void bench_end();
    void bench_fail(int code, std::string text);
    bool bench_given_up();
    static std::string bench_failure(const NodeResult&, std::string_view what);
    void bench_close(std::function<void()> then);

    Context& context_;
    Framework& local_;
    std::unique_ptr<ConsoleSession> session_;
    i64 last_stamp_ = 0;
    bool ending_ = false;
    std::deque<Job> waiting_;
    Job job_;
    bool busy_ = false;
    std::unique_ptr<Transaction> transaction_;
    ControlTimer ticker_, waiter_;
    ControlTimer patience_;  // with nodes that join a bench whose asker has gone
    std::function<void()> wait_then_;
    std::unique_ptr<Bench> bench_;
};

// Nodes of `nodes` that are ACTIVE.
std::vector<ConsoleNode*> active_of(const std::vector<ConsoleNode*>&);
ctl::Value node_value(const ConsoleNode&);
// `session "NAME" of NID`: whose session a node is in instead of ours; empty when it is in none.
std::string holder_text(const NodeResult&);
// Those of `nodes` that are not ACTIVE, so that a command leaves them out, each with `errno`: why.
ctl::Value skipped_value(const std::vector<ConsoleNode*>& nodes);
// `Can't find THING in current session: "NAME"`.
std::string cannot_find(std::string_view thing, std::string_view name);
ctl::Value counts_value(const std::vector<ConsoleNode*>&);
// Sets `nodes`, `rpc_failed` and `framework_failed`; `more` adds to each entry that answered.
using AddMore = std::function<void(const NodeResult&, ctl::Value&)>;
void add_results(ctl::Value& to, const std::vector<NodeResult>&, const AddMore& more = {});

}  // namespace ulnet::lst
