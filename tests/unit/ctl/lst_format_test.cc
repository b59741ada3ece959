// What lst prints of canned replies equals the kernel tool's output byte for byte.
#include "tools/lst_format.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tools/lst_bench.h"
#include "transcript.h"

namespace ulnet::tools {
namespace {

using ctl::Value;
constexpr const char* details = "21-lst-details.txt";

Value json(std::string_view text) {
    std::string why;
    Result<Value> value = ctl::parse_json(text, why);
    EXPECT_TRUE(value.ok()) << why << text;
    return value.ok() ? *value : Value();
}

LstCommand parse(const std::string& line) {
    std::istringstream in(line);
    Words words;
    for (std::string word; in >> word;)
        if (word != "lst") words.push_back(word);
    LstCommand command;
    std::string complaint;
    bool usage = false;
    EXPECT_TRUE(parse_lst(words, command, complaint, usage)) << line << complaint;
    return command;
}

// stdout and stderr of a command whose reply is given, and its code, as the kernel's tool had it.
void equals(const std::string& line, std::string_view reply, int nth = 1) {
    SCOPED_TRACE(line);
    const Printed printed = format_reply(parse(line), json(reply));
    const test::Transcript kernel = test::transcript(details, line, nth);
    EXPECT_EQ(printed.err + printed.out, kernel.output);
    EXPECT_EQ(printed.code, kernel.exit_code);
}
void error_equals(const std::string& line, int code, int nth = 1) {
    SCOPED_TRACE(line);
    const Printed printed = format_error(parse(line), {Status(-code), ""});
    const test::Transcript kernel = test::transcript(details, line, nth);
    EXPECT_EQ(printed.err + printed.out, kernel.output);
    EXPECT_EQ(printed.code, kernel.exit_code);
}

constexpr const char* two_good = R"([{"id":"12345-10.77.1.3@tcp","state":"Active"},)"
                                 R"({"id":"12345-10.77.1.4@tcp","state":"Active"}])";

TEST(LstFormat, Sessions) {
    equals("lst new_session --timeout 100 --force s21b",
           R"({"name":"s21b","features":1,"timeout":100,"force":true})");
}

TEST(LstFormat, ShowSession) {
    const Printed printed = format_reply(
        parse("show_session"),
        json(R"({"name":"s21b","id":"70181@10.77.1.3@tcp","key":4711,"features":1,"nodes":3})"));
    EXPECT_EQ(printed.out, test::transcript(details, "LST_SESSION=99 lst show_session").output);
}

TEST(LstFormat, Groups) {
    const std::string nodes = two_good;
    equals("lst add_group cli 10.77.1.3@tcp 10.77.1.4@tcp",
           R"({"added":[{"ids":"10.77.1.3@tcp","nodes":[{}]},)"
           R"({"ids":"10.77.1.4@tcp","nodes":[{}]}]})");
    equals("lst add_group rng 10.77.1.[2-4]@tcp",
           R"({"added":[{"ids":"10.77.1.[2-4]@tcp","nodes":[{},{},{}]}]})");
    equals("lst list_group", R"({"groups":[{"name":"srv"},{"name":"cli"},{"name":"rng"}]})", 2);
    equals("lst del_group rng", R"({"nodes":[]})");
    error_equals("lst add_group srv 10.77.1.2@tcp", EEXIST, 2);
    error_equals("lst del_group nosuch", ENOENT);
    error_equals("lst del_group srv", EBUSY);
    error_equals("lst update_group --clean down bad", ENOENT);
}

TEST(LstFormat, UnreachableNodesAreNamedWithTheirError) {
    const Printed printed = format_reply(
        parse("add_group bad 10.77.1.77@tcp"),
        json(R"({"added":[{"ids":"10.77.1.77@tcp","nodes":[{"id":"12345-10.77.1.77@tcp",)"
             R"("rpc_errno":113,"framework_errno":0}]}],"deleted":true})"));
    // As the kernel's tool, but for its "Unknown error -113".
    EXPECT_EQ(printed.err, "create session RPC failed on 12345-10.77.1.77@tcp: No route to host\n");
    EXPECT_EQ(printed.out, "No nodes added successfully, deleting group bad\nGroup is deleted\n");
    EXPECT_EQ(printed.code, 254);
    const Printed refused = format_reply(
        parse("run b"), json(R"({"nodes":[{"id":"12345-10.0.0.1@tcp","framework_errno":16}]})"));
    EXPECT_EQ(refused.err, "operation Run batch failed on 12345-10.0.0.1@tcp: "
                           "Device or resource busy\n");
    EXPECT_EQ(refused.out, "");
    EXPECT_EQ(refused.code, 253);
}

TEST(LstFormat, ListGroupWithNames) {
    const Value reply =
        json(std::string(R"({"groups":[{"name":"cli","counts":{"active":2,"busy":0,"down":1,)"
                         R"("unknown":0,"total":3},"nodes":)") +
             two_good + R"(},{"name":"none","counts":{},"nodes":[]}],"missing":["x"]})");
    Printed printed = format_reply(parse("list_group cli none x"), reply);
    EXPECT_EQ(printed.out, "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n"
                           "\t2\t0\t1\t0\t3\tcli\n\t0\t0\t0\t0\t0\tnone\n");
    EXPECT_EQ(printed.err, "Can't find x in current session\n");
    EXPECT_EQ(printed.code, 255);
    printed = format_reply(parse("list_group --active cli none"), reply);
    EXPECT_EQ(printed.out, "Group [ cli ]\n\t12345-10.77.1.3@tcp: Active\n"
                           "\t12345-10.77.1.4@tcp: Active\nTotal 2 nodes [ cli ]\n"
                           "Group [ none ]\nNo nodes found [ none ]\n");
    printed = format_reply(parse("list_group --down cli"), reply);
    EXPECT_NE(printed.out.find("No nodes found [ cli ]"), std::string::npos);
}

TEST(LstFormat, Ping) {
    equals("lst ping --group cli",
           R"({"nodes":[{"id":"12345-10.77.1.3@tcp","state":"Active","session":"s21b",)"
           R"("session_nid":"10.77.1.3@tcp"},{"id":"12345-10.77.1.4@tcp","state":"Active",)"
           R"("session":"s21b","session_nid":"10.77.1.3@tcp"}]})");
    error_equals("lst ping --group nosuch", ENOENT);
    const Printed down = format_reply(
        parse("ping -s"),
        json(R"({"nodes":[{"id":"12345-10.0.0.1@tcp","state":"Down","rpc_errno":110}]})"));
    EXPECT_EQ(down.out, "\t12345-10.0.0.1@tcp: Down [session: <NULL> id: <?>]\n");
    EXPECT_EQ(down.code, 254);
}

TEST(LstFormat, Batches) {
    const std::string counts = R"("client":{"active":2,"total":2},"server":{"active":1,"total":1})";
    const std::string nodes = R"("clients":)" + std::string(two_good) +
                              R"(,"servers":[{"id":"12345-10.77.1.2@tcp","state":"Active"}])";
    const auto test = [&](int index, const char* type, int loop, int concurrency) {
        return R"({"index":)" + std::to_string(index) + R"(,"type":")" + type + R"(","loop":)" +
               std::to_string(loop) + R"(,"concurrency":)" + std::to_string(concurrency) + "," +
               counts + "," + nodes + "}";
    };
    const auto batch = [&](const std::string& tests) {
        return R"({"batches":[{"name":"b1","state":176,)" + counts + "," + nodes + R"(,"tests":[)" +
               tests + "]}]}";
    };
    equals("lst list_batch", R"({"batches":[{"name":"batch"},{"name":"b1"}]})");
    equals("lst list_batch b1", batch(test(1, "ping", 10, 4) + "," + test(2, "brw", 10, 4) + "," +
                                      test(3, "brw", -1, 1) + "," + test(4, "brw", -1, 1)));
    equals("lst list_batch --all b1", batch(""));
    equals("lst list_batch --active b1", batch(""));
    equals("lst list_batch --invalid b1", batch(""));
    equals("lst list_batch --server --all b1", batch(""));
    equals("lst list_batch --test 1 --all b1", batch(test(1, "ping", 10, 4)));
    equals("lst list_batch --test 1 --server b1", batch(test(1, "ping", 10, 4)));
    equals("lst list_batch --test 2 --active b1", batch(test(2, "brw", 10, 4)));
    error_equals("lst list_batch --test 99 b1", ENOENT);
    error_equals("lst list_batch nosuch", ENOENT);
    equals("lst add_batch b1", R"({"id":1})");
    error_equals("lst add_batch b1", EEXIST, 2);
}

TEST(LstFormat, Tests) {
    equals("lst add_test --from cli --to srv ping",
           R"({"index":1,"servers":{"nodes":[{}]},"clients":{"nodes":[{},{}]}})");
    error_equals("lst add_test --batch nosuch --from cli --to srv ping", ENOENT);
    error_equals("lst add_test --batch b1 --from nosuch --to srv ping", ENOENT);
    error_equals("lst add_test --batch b1 --loop 10 --distribute 1:2 --from cli --to srv brw write "
                 "size=4k check=full",
                 EINVAL);
}

TEST(LstFormat, RunStopQuery) {
    equals("lst run b2", R"({"nodes":[{},{}]})");
    equals("lst run", R"({"nodes":[]})");
    const std::string running =
        R"({"nodes":[{"id":"12345-10.77.1.3@tcp","state":"Active","active":4},)"
        R"({"id":"12345-10.77.1.4@tcp","state":"Active","active":1}],"idle":0,"running":2,)"
        R"("failed":0})";
    equals("lst query b2", running);
    equals("lst query --all b2", running);
    equals("lst query --test 1 b2", running);
    equals("lst query --test 1 --all b2", running);
    const LstCommand stop = parse("stop b2");
    EXPECT_EQ(format_progress(stop, json(R"({"active":1})")) +
                  format_reply(stop, json(R"({"nodes":[{},{}],"active":0})")).out,
              test::transcript(details, "lst stop b2").output);
    EXPECT_EQ(format_progress(parse("run b2"), json(R"({"active":1})")), "");
    const Printed still = format_reply(stop, json(R"({"nodes":[{}],"active":2})"));
    EXPECT_EQ(still.err, "2 nodes are still running\n");
    EXPECT_NE(still.code, 0);
}

TEST(LstFormat, QueryOfMixedNodes) {
    const Value reply =
        json(R"({"nodes":[{"id":"12345-10.0.0.1@tcp","state":"Active","active":4},)"
             R"({"id":"12345-10.0.0.2@tcp","state":"Active","active":0},)"
             R"({"id":"12345-10.0.0.3@tcp","state":"Down","rpc_errno":110}],"idle":1,"running":1,)"
             R"("failed":1,"rpc_failed":1,"framework_failed":0})");
    Printed printed = format_reply(parse("query b"), reply);
    EXPECT_EQ(printed.out, "b [0] 1 of 3 nodes are unknown, stopped: 1 , running: 1, failed: 1\n");
    EXPECT_EQ(printed.code, 254);
    EXPECT_EQ(format_reply(parse("query -l b"), reply).out,
              "12345-10.0.0.1@tcp [Active]: Running\n12345-10.0.0.2@tcp [Active]: Idle\n"
              "12345-10.0.0.3@tcp [Down]: Connection timed out\n");
    EXPECT_EQ(format_reply(parse("query -i b"), reply).out, "12345-10.0.0.2@tcp [Active]: Idle\n");
    EXPECT_EQ(format_reply(parse("query -e b"), reply).out,
              "12345-10.0.0.3@tcp [Down]: Connection timed out\n");
    EXPECT_EQ(format_reply(parse("query -l b"), json("{}")).out, "Batch or test is empty\n");
    EXPECT_EQ(format_reply(parse("query b"), json(R"({"idle":2})")).out, "b [0] is stopped\n");
}

TEST(LstFormat, ShowError) {
    equals("lst show_error srv", R"({"groups":[{"name":"srv","nodes":[{}]}]})");
    equals("lst show_error --session srv cli",
           R"({"groups":[{"name":"srv","nodes":[{"rpc":{"errors":5}}]},{"name":"cli"}]})");
    error_equals("lst show_error nosuch", ENOENT);
    const Value reply =
        json(R"({"groups":[{"name":"g","nodes":[)"
             R"({"id":"12345-10.0.0.2@tcp","framework":{"ping_errors":3},"rpc":{"expired":1}},)"
             R"({"id":"12345-10.0.0.3@tcp","rpc_errno":110}]}]})");
    Printed printed = format_reply(parse("show_error g"), reply);
    EXPECT_EQ(printed.out, "g:\nTotal 1 error nodes in g\n");
    EXPECT_EQ(printed.err, "12345-10.0.0.2@tcp: [Session 0 brw errors, 3 ping errors] "
                           "[RPC: 0 errors, 0 dropped, 1 expired]\n"
                           "RPC failure, can't show error on 12345-10.0.0.3@tcp: "
                           "Connection timed out\n");
    EXPECT_EQ(printed.code, 254);
    printed = format_reply(parse("show_error -s g"), reply);
    EXPECT_TRUE(
        printed.err.starts_with("12345-10.0.0.2@tcp: [Session 0 brw errors, 3 ping errors]\n"));
}

TEST(LstFormat, ErrorsAddWhatTheNodeSays) {
    const auto says = [](const char* line, int code, const char* text) {
        return format_error(parse(line), {Status(-code), text}).err;
    };
    // A sentence of the node that says all the kernel's words do stands alone.
    EXPECT_EQ(says("add_batch b", EEXIST, "batch already exists: \"b\""),
              "batch already exists: \"b\"\n");
    EXPECT_EQ(
        says("add_test --from a --to b ping", ENOENT, "Can't find group in current session: \"b\""),
        "Can't find group in current session: \"b\"\n");
    EXPECT_EQ(says("run", ESRCH, "No session exists"), "No session exists\n");
    EXPECT_EQ(says("del_group g", EBUSY, "group \"g\" is used by a test"),
              "Failed to delete group: Device or resource busy: group \"g\" is used by a test\n");
    EXPECT_EQ(says("run", EINVAL, "timeout 0: 1 to 9"),
              "Invalid parameters list in command line: timeout 0: 1 to 9\n");
    EXPECT_EQ(says("end_session", EIO, "10.0.0.1@tcp: leave: Input/output error"),
              "Failed to end session: 10.0.0.1@tcp: leave: Input/output error\n");
    EXPECT_EQ(format_error(parse("run"), {Status(-ESRCH), ""}).err, "No session exists\n");
    EXPECT_EQ(format_error(parse("run"), {Status(-ESHUTDOWN), ""}).err,
              "Session is shutting down\n");
    EXPECT_EQ(format_error(parse("run"), {Status(-EACCES), ""}).err,
              "Unmatched session key or not root\n");
    EXPECT_EQ(format_error(parse("end_session"), {Status(-EIO), ""}).err,
              "Failed to end session: Input/output error\n");
}

TEST(LstFormat, NodesThatAreLeftOutAreNamed) {
    const std::string skipped =
        R"("skipped":[{"id":"12345-10.0.0.3@tcp","state":"Down","errno":110},)"
        R"({"id":"12345-10.0.0.4@tcp","state":"Busy","errno":16}])";
    const auto lines = [](const char* operation) {
        return std::string(operation) +
               " skipped 12345-10.0.0.3@tcp [Down]: Connection timed out\n" + operation +
               " skipped 12345-10.0.0.4@tcp [Busy]: Device or resource busy\n";
    };
    const struct {
        const char* line;
        std::string reply;
        const char* operation;
        const char* out;
        int code;
    } cases[] = {
        {"stop b", "{" + skipped + "}", "stop batch", "Batch is stopped\n", 254},
        {"run b", "{" + skipped + "}", "Run batch", "b is running now\n", 254},
        {"query b", "{" + skipped + "}", "query batch", "b [0] is stopped\n", 254},
        {"show_error g", R"({"groups":[{"name":"g",)" + skipped + "}]}", "show error",
         "g:\nTotal 0 error nodes in g\n", 254},
        {"add_test --from a --to b ping", R"({"clients":{)" + skipped + "}}", "add test",
         "Test was added successfully\n", 0},
    };
    for (const auto& c : cases) {
        const Printed printed = format_reply(parse(c.line), json(c.reply));
        EXPECT_EQ(printed.err, lines(c.operation));
        EXPECT_EQ(printed.out, c.out);
        EXPECT_EQ(printed.code, c.code) << c.line;
    }
    const Printed silent =
        format_reply(parse("stop b"), json(R"({"unanswered":{"nodes":[{"id":"12345-10.0.0.3@tcp",)"
                                           R"("rpc_errno":110}]}})"));
    EXPECT_EQ(silent.err, "query batch RPC failed on 12345-10.0.0.3@tcp: Connection timed out\n");
    EXPECT_EQ(silent.code, 254);
}

TEST(LstFormat, ABusyNodeSaysWhoseSession) {
    const Printed printed = format_reply(
        parse("add_group g 10.0.0.3@tcp"),
        json(R"({"added":[{"ids":"x","nodes":[{"id":"12345-10.0.0.3@tcp","framework_errno":16,)"
             R"("session":"theirs","session_nid":"10.0.0.9@tcp"}]}]})"));
    EXPECT_EQ(printed.err, "operation create session failed on 12345-10.0.0.3@tcp: Device or "
                           "resource busy (session \"theirs\" of 10.0.0.9@tcp)\n");
    EXPECT_EQ(printed.code, 253);
}

// One sample of the counters.
struct Sample {
    const char* group;
    std::vector<std::array<double, 4>> nodes;  // messages in and out, bytes in and out
};
Value sample(i64 running_ms, std::initializer_list<Sample> groups, double factor = 1) {
    Value list = Value::list();
    for (const Sample& group : groups) {
        Value nodes = Value::list();
        int number = 0;
        for (const auto& counters : group.nodes) {
            Value lnet = Value::map();
            lnet.set("recv_count", static_cast<i64>(counters[0] * factor));
            lnet.set("send_count", static_cast<i64>(counters[1] * factor));
            lnet.set("recv_length", static_cast<i64>(counters[2] * factor));
            lnet.set("send_length", static_cast<i64>(counters[3] * factor));
            Value node = Value::map();
            node.set("id", std::string(group.group) + std::to_string(++number));
            node.set("framework", Value::map({{"running_ms", Value(running_ms)}}));
            node.set("lnet", std::move(lnet));
            nodes.push(std::move(node));
        }
        Value entry = Value::map();
        entry.set("name", group.group);
        entry.set("nodes", std::move(nodes));
        list.push(std::move(entry));
    }
    return Value::map({{"groups", std::move(list)}});
}

// `grown` is what happened each second for ten seconds.
void stat_equals(const std::string& options, std::initializer_list<Sample> grown) {
    const std::string line = "lst stat " + std::string(options) + " --count 1 --delay 1 srv cli";
    SCOPED_TRACE(line);
    const Value before =
        sample(5000, {{"srv", {{{0, 0, 0, 0}}}}, {"cli", {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}}}});
    const Printed printed = format_stat(parse(line), before, sample(15000, grown, 10));
    EXPECT_EQ(printed.out, test::transcript(details, line).output);
    EXPECT_EQ(printed.err, "");
    EXPECT_EQ(printed.code, 0);
}

TEST(LstFormat, StatEqualsTheKernelTool) {
    constexpr double kb = 1 << 10;
    const auto bytes = [](double mib) { return mib * (1 << 20); };
    stat_equals("", {{"srv", {{{134, 134, bytes(.02), bytes(.02)}}}},
                     {"cli", {{{62, 62, 10 * kb, 10 * kb}}, {{72.8, 74, 10 * kb, 10 * kb}}}}});
    stat_equals("--rate",
                {{"srv", {{{127, 127, 0, 0}}}}, {"cli", {{{64, 64, 0, 0}}, {{66, 66, 0, 0}}}}});
    stat_equals("--max", {{"srv", {{{176, 177, bytes(.03), bytes(.03)}}}},
                          {"cli", {{{1, 1, 0, 0}}, {{99, 101, bytes(.02), bytes(.02)}}}}});
    stat_equals("--min", {{"srv", {{{145, 143, bytes(.02), bytes(.02)}}}},
                          {"cli", {{{67, 67, 10 * kb, 10 * kb}}, {{99, 101, 90000, 90000}}}}});
    stat_equals("--avg", {{"srv", {{{149, 149, bytes(.02), bytes(.02)}}}},
                          {"cli", {{{70, 70, 10 * kb, 10 * kb}}, {{84, 82, 10 * kb, 10 * kb}}}}});
    stat_equals("--bw --mbs", {{"srv", {{{0, 0, 30000, 30000}}}},
                               {"cli", {{{0, 0, 14900, 14900}}, {{0, 0, 16000, 16000}}}}});
    stat_equals("--rate --min --max",
                {{"srv", {{{201, 201, 0, 0}}}}, {"cli", {{{86, 84, 0, 0}}, {{122, 120, 0, 0}}}}});
}

TEST(LstFormat, StatOfOneDirection) {
    const Value before = sample(0, {{"g", {{{0, 0, 0, 0}}}}});
    const Value after = sample(2000, {{"g", {{{20, 40, 0, 0}}}}});
    const auto shown = [&](const char* options) {
        return format_stat(parse(std::string("stat --rate --avg ") + options + " g"), before, after)
            .out;
    };
    // The kernel's tool has these two the wrong way round.
    EXPECT_EQ(shown("--read"), "[LNet Rates of g]\n[R] Avg: 10       RPC/s \n");
    EXPECT_EQ(shown("--write"), "[LNet Rates of g]\n[W] Avg: 20       RPC/s \n");
    EXPECT_EQ(shown("--read --write").size(), shown("").size());
    EXPECT_EQ(shown("--rpc"), "");
}

TEST(LstFormat, StatOfChangesWrapsAndFailures) {
    const LstCommand command = parse("stat --rate --avg g");
    const Value one = sample(4294967000, {{"g", {{{4294967290, 0, 0, 0}}}}});
    const Value two = sample(704, {{"g", {{{4, 0, 0, 0}}}}});
    EXPECT_EQ(format_stat(command, one, two).out,
              "[LNet Rates of g]\n[R] Avg: 10       RPC/s \n[W] Avg: 0        RPC/s \n");
    const Value more = sample(900, {{"g", {{{4, 0, 0, 0}}, {{0, 0, 0, 0}}}}});
    EXPECT_EQ(format_stat(command, two, more).err, "Group is changed, re-run stat\n");
    Value failed = two;
    Value node = two["groups"].items()[0]["nodes"].items()[0];
    node.set("rpc_errno", 110);
    Value group = two["groups"].items()[0];
    group.set("nodes", Value::list({node}));
    failed.set("groups", Value::list({group}));
    const Printed printed = format_stat(command, two, failed);
    EXPECT_EQ(printed.err, "stat RPC failed on g1: Connection timed out\n"
                           "Failed to stat on 1 nodes\n");
    EXPECT_EQ(printed.code, 254);
    // So is one that failed in the sample before.
    EXPECT_EQ(format_stat(command, failed, two).err, printed.err);
    group.set("nodes", Value::list());
    group.set("skipped", json(R"([{"id":"12345-10.0.0.3@tcp","state":"Down","errno":113}])"));
    failed.set("groups", Value::list({group}));
    const Printed skipped = format_stat(command, failed, failed);
    EXPECT_EQ(skipped.err, "stat skipped 12345-10.0.0.3@tcp [Down]: No route to host\n");
    EXPECT_EQ(skipped.code, 254);
}

TEST(LstBench, LinesAndJson) {
    BenchOptions options;
    options.client = "10.0.0.1@tcp";
    options.server = "10.0.0.2@tcp";
    const Value reply = json(R"({"size":65536,"seconds":2.0,"bytes":4194304,"rpcs":64,"errors":1,)"
                             R"("latency_p50_ns":123456,"latency_p99_ns":1000000})");
    EXPECT_EQ(bench_line(options, "write", reply),
              "10.0.0.1@tcp -> 10.0.0.2@tcp        64K        2.0         32      123.5     1000.0"
              "       1  write\n");
    EXPECT_TRUE(bench_line(options, "read", reply).starts_with("10.0.0.2@tcp -> 10.0.0.1@tcp "));
    const Value run = bench_json("write", reply);
    EXPECT_EQ(run["mib_per_s"], Value(2.0));
    EXPECT_EQ(run["rpc_per_s"], Value(32.0));
    EXPECT_EQ(run["p50_us"], Value(123.456));
    EXPECT_EQ(run["errors"], Value(1));
    EXPECT_EQ(run["size"], Value(65536));
    const Value ping = bench_json("ping", reply);  // moves no bulk data, whatever the node echoes
    for (const char* key : {"size", "check", "bytes", "mib_per_s"}) EXPECT_FALSE(ping.has(key));
    EXPECT_EQ(ping["rpc_per_s"], Value(32.0));
    EXPECT_NE(bench_line(options, "write", json(R"({"size":4096,"seconds":1})")).find(" - "),
              std::string::npos);
}

TEST(LstBench, BusyShares) {
    const Value before = json(R"([{"cpt":0,"workers":[{"worker":0,"busy_ns":100,"total_ns":1000,)"
                              R"("tasks":5,"hand_offs":1}]}])");
    const Value after = json(R"([{"cpt":0,"workers":[{"worker":0,"busy_ns":600,"total_ns":2000,)"
                             R"("tasks":25,"hand_offs":2}]}])");
    EXPECT_EQ(to_json(busy_between(before, after)),
              R"([{"cpt":0,"worker":0,"busy_percent":50.0,"tasks":20,"hand_offs":1}])");
    EXPECT_EQ(to_json(busy_between(json("[]"), json("[]"))), "[]");
}

}  // namespace
}  // namespace ulnet::tools
