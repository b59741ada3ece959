// Command lines of lst: what they ask the node for, and what is said about wrong ones.
#include "tools/lst_args.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tools/lst_bench.h"
#include "transcript.h"

namespace ulnet::tools {
namespace {

Words split(const std::string& line) {
    std::istringstream in(line);
    Words words;
    for (std::string word; in >> word;) words.push_back(word);
    return words;
}

std::string args_of(const std::string& line) {
    LstCommand command;
    std::string complaint;
    bool usage = false;
    EXPECT_TRUE(parse_lst(split(line), command, complaint, usage)) << line << ": " << complaint;
    return to_json(command.args);
}

TEST(LstArgs, Commands) {
    ::unsetenv("LST_FEATURES");
    const struct {
        const char* line;
        const char* args;
    } cases[] = {
        {"new_session --timeout 100 s1",
         R"({"name":"s1","timeout":100,"force":false,"features":1})"},
        {"new_session -f -t5 s1", R"({"name":"s1","timeout":5,"force":true,"features":1})"},
        {"new_session s1 --time=7", R"({"name":"s1","timeout":7,"force":false,"features":1})"},
        {"end_session", "{}"},
        {"show_session", "{}"},
        {"ping -s", R"({"session":true,"timeout":5})"},
        {"ping --group g -t 9", R"({"group":"g","timeout":9})"},
        {"ping -b b1 -v", R"({"batch":"b1","server":true,"timeout":5})"},
        {"ping -n 10.0.0.1@tcp", R"({"ids":["10.0.0.1@tcp"],"timeout":5})"},
        {"add_group g 10.0.0.[1-3]@tcp 10.0.1.1@tcp",
         R"({"name":"g","ids":["10.0.0.[1-3]@tcp","10.0.1.1@tcp"]})"},
        {"del_group g", R"({"name":"g"})"},
        {"update_group --refresh g", R"({"op":"refresh","name":"g"})"},
        {"update_group -c invalid g", R"({"op":"clean","states":["invalid"],"name":"g"})"},
        {"update_group --remove 10.0.0.1@tcp g",
         R"({"op":"remove","ids":["10.0.0.1@tcp"],"name":"g"})"},
        {"list_group", "{}"},
        {"list_group -a g h", R"({"names":["g","h"]})"},
        {"stat --count 1 --delay 1 g", R"({"names":["g"],"timeout":5})"},
        {"show_error --session g", R"({"names":["g"]})"},
        {"add_batch b", R"({"name":"b"})"},
        {"run", R"({"name":"batch"})"},
        {"stop --force b", R"({"force":true,"name":"b"})"},
        {"list_batch", "{}"},
        {"list_batch --test 2 b", R"({"name":"b","test":2})"},
        {"query", R"({"test":0,"server":false,"timeout":5,"name":"batch"})"},
        {"query --test 1 -s -o 3 b", R"({"test":1,"server":true,"timeout":3,"name":"b"})"},
        {"add_test --from a --to b ping",
         R"({"batch":"batch","loop":-1,"concurrency":1,"from":"a","to":"b","test":"ping"})"},
        {"add_test --batch b1 --loop -1 --concurrency 4 --distribute 2:1 --from a --to b brw write "
         "check=simple size=4K",
         R"({"dist":2,"span":1,"batch":"b1","loop":-1,"concurrency":4,"from":"a","to":"b",)"
         R"("test":"brw","mode":"write","check":"simple","size":4096})"},
        {"add_test -f a -t b brw R C=FULL S=1m",
         R"({"batch":"batch","loop":-1,"concurrency":1,"from":"a","to":"b","test":"brw",)"
         R"("mode":"read","check":"full","size":1048576})"},
        {"add_test -f a -t b brw skip_rx_copy off=8",
         R"({"batch":"batch","loop":-1,"concurrency":1,"from":"a","to":"b","test":"brw",)"
         R"("check":"discard","offset":8})"},
    };
    for (const auto& c : cases) EXPECT_EQ(args_of(c.line), c.args) << c.line;
}

// What the kernel's tool says to wrong arguments, word for word. The exit codes differ on purpose:
// its usage errors have 4.
TEST(LstArgs, RefusalsEqualTheKernelTool) {
    for (const char* line : {
             "new_session --timeout x s1",
             "add_test --batch b1 --from cli --to srv foo",
             "add_test --batch b1 --from cli --to srv brw read size=2M",
             "add_test --batch b1 --from cli --to srv brw read size=0",
             "add_test --batch b1 --from cli --to srv brw read size=4096 check=none",
             "add_test --batch b1 --from cli --to srv brw bogus size=4K",
             "add_test --batch b1 --concurrency 0 --from cli --to srv ping",
             "add_test --batch b1 --concurrency 2000 --from cli --to srv ping",
             "add_test --batch b1 --distribute 0:1 --from cli --to srv ping",
             "add_test --batch b1 --distribute x --from cli --to srv ping",
             "add_test --batch b1 --loop 0 --from cli --to srv ping",
             "add_group thisnameistoolongthisnameistoolongthisnameistoolong 10.77.1.2@tcp",
             "stat --count 1 --delay 0 srv",
             "bogus_command",
         }) {
        LstCommand command;
        std::string complaint;
        bool usage = false;
        EXPECT_FALSE(parse_lst(split(line), command, complaint, usage)) << line;
        EXPECT_EQ(complaint + "\n",
                  test::transcript("21-lst-details.txt", std::string("lst ") + line).output);
        EXPECT_FALSE(usage);
    }
}

TEST(LstArgs, WrongUse) {
    for (const char* line : {"new_session a b",
                             "end_session x",
                             "ping",
                             "ping -s -g x",
                             "ping -g x y",
                             "add_group",
                             "add_group g",
                             "del_group",
                             "del_group a b",
                             "update_group g",
                             "update_group -f -c down g",
                             "update_group --clean wrong g",
                             "update_group -f",
                             "list_group -a",
                             "stat",
                             "show_error",
                             "add_batch",
                             "run a b",
                             "stop a b",
                             "list_batch -a",
                             "list_batch a b",
                             "query a b",
                             "add_test --from a --to b",
                             "add_test --from a ping",
                             "add_test --to b ping"}) {
        LstCommand command;
        std::string complaint;
        bool usage = false;
        EXPECT_FALSE(parse_lst(split(line), command, complaint, usage)) << line;
        EXPECT_TRUE(usage) << line;
    }
}

TEST(LstArgs, WrongOptionsAreNamed) {
    LstCommand command;
    std::string complaint;
    bool usage = false;
    // What getopt says, but as a text: with --json it becomes JSON.
    const struct {
        const char* line;
        const char* says;
    } cases[] = {
        {"stat --bogus x", "stat: unrecognized option '--bogus'"},
        {"run --timeout", "run: option '--timeout' requires an argument"},
        {"run --time", "run: option '--timeout' requires an argument"},
        {"run -t", "run: option requires an argument -- 't'"},
        {"run -q", "run: invalid option -- 'q'"},
        {"stop --force=1", "stop: option '--force' doesn't allow an argument"},
        {"stat --r g", "stat: option '--r' is ambiguous; possibilities: '--rpc' '--rate' '--read'"},
    };
    for (const auto& c : cases) {
        testing::internal::CaptureStderr();
        EXPECT_FALSE(parse_lst(split(c.line), command, complaint, usage)) << c.line;
        EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
        EXPECT_EQ(complaint, c.says);
        EXPECT_TRUE(usage);
    }
}

TEST(LstArgs, EveryCommandKnowsHelp) {
    std::istringstream all(lst_commands());
    for (std::string name; all >> name && name != "bench";) {
        for (const char* option : {"--help", "-h"}) {
            LstCommand command;
            std::string complaint;
            bool usage = false;
            EXPECT_TRUE(parse_lst({name, option}, command, complaint, usage)) << name;
            EXPECT_TRUE(command.help);
        }
    }
    BenchOptions bench;
    std::string complaint;
    EXPECT_TRUE(parse_bench({"bench", "--help"}, bench, complaint));
    EXPECT_TRUE(bench.help);
}

TEST(LstArgs, EmptyNamesAndThingsSaidTwice) {
    const struct {
        Words words;
        const char* says;
    } cases[] = {
        {{"new_session", ""}, "A name must not be empty"},
        {{"add_batch", ""}, "A name must not be empty"},
        {{"add_group", "", "10.0.0.1@tcp"}, "A name must not be empty"},
        {split("add_test --from a --to b brw size=4K size=8K"),
         "Duplicate parameter: size=8K\nFailed to add test (brw)"},
        {split("add_test --from a --to b brw read write"),
         "Duplicate parameter: write\nFailed to add test (brw)"},
        {split("add_test --from a --to b brw off=8 off=16"),
         "Duplicate parameter: off=16\nFailed to add test (brw)"},
        {split("add_test --from a --to b brw check=full check=full"),
         "Unknow flag full\nFailed to add test (brw)"},
    };
    for (const auto& c : cases) {
        LstCommand command;
        std::string complaint;
        bool usage = false;
        EXPECT_FALSE(parse_lst(c.words, command, complaint, usage));
        EXPECT_EQ(complaint, c.says);
    }
}

TEST(LstArgs, EveryCommandHasAUsageLine) {
    std::istringstream all(lst_commands());
    for (std::string name; all >> name;) {
        if (name == "help" || name == "exit") break;
        EXPECT_TRUE(lst_usage(name).starts_with("Usage: lst " + name)) << name;
    }
    EXPECT_EQ(lst_usage("nothing"), "");
}

TEST(LstArgs, Sizes) {
    i64 bytes = 0;
    EXPECT_TRUE(parse_size("4K", bytes));
    EXPECT_EQ(bytes, 4096);
    EXPECT_TRUE(parse_size("1m", bytes));
    EXPECT_EQ(bytes, 1 << 20);
    EXPECT_TRUE(parse_size("-5", bytes));
    for (const char* bad : {"", "K", "4KK", "4G", "x", "9223372036854775807K", "1.5K"})
        EXPECT_FALSE(parse_size(bad, bytes)) << bad;
}

TEST(LstBench, Arguments) {
    BenchOptions options;
    std::string complaint;
    ASSERT_TRUE(
        parse_bench(split("bench 10.0.0.1@tcp0 12345-10.0.0.2@tcp --sizes 4K,1M --seconds 0.5 "
                          "--concurrency 16 --check full --test read --json"),
                    options, complaint));
    EXPECT_EQ(options.client, "10.0.0.1@tcp");
    EXPECT_EQ(options.server, "10.0.0.2@tcp");
    EXPECT_EQ(options.sizes, (std::vector<i64>{4096, 1 << 20}));
    EXPECT_EQ(options.seconds, 0.5);
    EXPECT_EQ(options.concurrency, 16);
    EXPECT_EQ(options.check, "full");
    EXPECT_EQ(options.tests, std::vector<std::string>{"read"});
    EXPECT_TRUE(options.json);
    const struct {
        const char* line;
        const char* says;
    } cases[] = {
        {"bench 10.0.0.1@tcp", "bench needs two NIDs: that of the client and that of the server"},
        {"bench a 10.0.0.1@tcp", "NID: 'a' is not allowed; allowed: a NID, for example "
                                 "192.168.10.1@tcp"},
        {"bench a b --sizes 2M", "--sizes: '2M' is not allowed; allowed: sizes of 8 ... 1M, "
                                 "multiples of 8, as 4K,64K,1M"},
        {"bench a b --sizes 4K,,1M", "--sizes: '4K,,1M' is not allowed; allowed: sizes of 8 ... "
                                     "1M, multiples of 8, as 4K,64K,1M"},
        {"bench a b --seconds 0", "--seconds: '0' is not allowed; allowed: 0.1 ... 3600"},
        {"bench a b --check maybe", "--check: 'maybe' is not allowed; allowed: full, simple, none"},
        {"bench a b --concurrency 0", "--concurrency: '0' is not allowed; allowed: 1 ... 1024"},
        {"bench a b --test x", "--test: 'x' is not allowed; allowed: read, write, ping, or several "
                               "with commas"},
    };
    for (const auto& c : cases) {
        BenchOptions refused;
        EXPECT_FALSE(parse_bench(split(c.line), refused, complaint)) << c.line;
        EXPECT_EQ(complaint, c.says);
    }
}

}  // namespace
}  // namespace ulnet::tools
