// What lnetctl prints of canned answers equals the kernel tool's output; its words and help.
#include <gtest/gtest.h>

#include "tools/cli.h"
#include "tools/lnetctl_format.h"
#include "transcript.h"

namespace ulnet::tools {
namespace {

using ctl::Value;
using test::transcript;

Value json(std::string_view text) {
    std::string why;
    Result<Value> value = ctl::parse_json(text, why);
    EXPECT_TRUE(value.ok()) << why << text;
    return value.ok() ? *value : Value();
}

TEST(Lnetctl, PingEqualsTheKernelTool) {
    const std::string good = R"({"primary nid":"10.77.0.2@tcp","Multi-Rail":true,)"
                             R"("peer_ni":[{"nid":"10.77.0.2@tcp"}]})";
    EXPECT_EQ(ping_text(json(R"({"ping":[)" + good +
                             R"(],"failed":[{"errno":-113,)"
                             R"("descr":"failed to ping 10.77.0.99@tcp: No route to host"}]})")),
              transcript("lnetctl.txt", "lnetctl ping 10.77.0.2@tcp 10.77.0.99@tcp").output);
    EXPECT_EQ(ping_text(json(R"({"failed":[{"errno":-113,)"
                             R"("descr":"failed to ping 10.77.0.2@tcp5: No route to host"}]})")),
              transcript("lnetctl.txt", "lnetctl ping 10.77.0.2@tcp5").output);
    EXPECT_NE(ping_text(json(R"({"failed":[{"errno":-1,"descr":"it's"}]})")).find("! 'it''s'"),
              std::string::npos);
}

TEST(Lnetctl, ErrorBlocksEqualTheKernelTool) {
    EXPECT_EQ(error_block_netlink("show", "net", -3, "Network is down"),
              transcript("lnetctl.txt", "lnetctl net show --net tcp9").output);
    EXPECT_EQ(error_block_netlink("manage", "ping", -22,
                                  "\"Unable to parse nidlist: no valid NIDs in string\""),
              transcript("lnetctl.txt", "lnetctl ping garbage").output);
    EXPECT_EQ(error_block_classic("add", "route", -22, "bad param"),
              "add:\n"
              "    - route:\n"
              "          errno: -22\n"
              "          descr: \"bad param\"\n");
    std::string why;
    const auto back = ctl::parse_yaml(error_block_netlink("add", "net", -5, "a \"b\"\n: c"), why);
    ASSERT_TRUE(back.ok()) << why;
    EXPECT_EQ((*back)["add"].items()[0]["descr"], Value("a \"b\"\n: c"));
}

TEST(Lnetctl, HelpComesFromTheTables) {
    const std::string help = help_of(*ctl::find_object("net"));
    EXPECT_NE(help.find("net add: "), std::string::npos);
    EXPECT_NE(help.find("\t--peer-credits, -c N: "), std::string::npos);
    EXPECT_NE(help.find("(1 ... 65535)"), std::string::npos);
    EXPECT_NE(help.find("net show: "), std::string::npos);
    EXPECT_NE(help_of(*ctl::find_object("ping")).find("ping NID[,NID...]: "), std::string::npos);
}

TEST(Lnetctl, CommonOptions) {
    ::unsetenv("LNET_NODE");
    Words words{"--json", "--node", "x", "net", "show", "--json"};
    Common common;
    ASSERT_TRUE(take_common(words, common).ok());
    EXPECT_TRUE(common.json);
    EXPECT_EQ(common.node, "x");
    EXPECT_EQ(words, (Words{"net", "show", "--json"}));
    ::setenv("LNET_NODE", "other", 1);
    words = {"net"};
    Common from_environment;
    ASSERT_TRUE(take_common(words, from_environment).ok());
    EXPECT_EQ(from_environment.node, "other");
    words = {"--socket=here.sock", "net"};
    ASSERT_TRUE(take_common(words, common).ok());
    EXPECT_EQ(common.node, "./here.sock");
    ::unsetenv("LNET_NODE");
    words = {"--node"};
    EXPECT_EQ(take_common(words, common).text, "option '--node' requires an argument");
}

TEST(Lnetctl, WrongOptionsAreNamed) {
    constexpr LongOption options[] = {{"net", required_argument, 'n'},
                                      {"nid", required_argument, 256},
                                      {"all", no_argument, 'a'}};
    const auto complaint = [&](const Words& words) {
        std::vector<Parsed> parsed;
        std::string why;
        EXPECT_FALSE(parse_options(words, options, parsed, why));
        return why;
    };
    EXPECT_EQ(complaint({"x", "--bogus=1", "y"}), "unrecognized option '--bogus=1'");
    EXPECT_EQ(complaint({"x", "--all", "-xa"}), "invalid option -- 'x'");
    EXPECT_EQ(complaint({"x", "y", "--net"}), "option '--net' requires an argument");
    EXPECT_EQ(complaint({"x", "-n"}), "option requires an argument -- 'n'");
    EXPECT_EQ(complaint({"x", "--nid"}), "option '--nid' requires an argument");
    EXPECT_EQ(complaint({"x", "--all=5"}), "option '--all' doesn't allow an argument");
    EXPECT_EQ(complaint({"x", "--n", "5"}),
              "option '--n' is ambiguous; possibilities: '--net' '--nid'");
}

TEST(Lnetctl, WhatComesLaterIsKnown) {
    EXPECT_TRUE(comes_later("route", "add"));
    EXPECT_TRUE(comes_later("set", "discovery"));
    EXPECT_TRUE(comes_later("peer", "add"));
    EXPECT_FALSE(comes_later("peer", "bogus"));
    EXPECT_FALSE(comes_later("bogus", "bogus"));
    EXPECT_EQ(option_error("net set", {"set", "--all", "--health=5"}, "why").text,
              "net set: option '--health' is not available yet");
    EXPECT_EQ(option_error("net set", {"set", "--all"}, "why").text, "net set: why");
}

TEST(Lnetctl, OptionalArgumentsMayBeTheNextWord) {
    constexpr LongOption options[] = {{"verbose", optional_argument, 'v'}};
    const auto parse = [&](const Words& words) {
        std::vector<Parsed> parsed;
        std::string why;
        EXPECT_TRUE(parse_options(words, options, parsed, why)) << why;
        std::string text;
        for (const Parsed& each : parsed)
            text += (each.letter != 0 ? std::string(1, static_cast<char>(each.letter)) : "") + "=" +
                    each.value + " ";
        return text;
    };
    EXPECT_EQ(parse({"show", "-v", "2"}), "v=2 ");
    EXPECT_EQ(parse({"show", "-v2"}), "v=2 ");
    EXPECT_EQ(parse({"show", "--verbose=3"}), "v=3 ");
    EXPECT_EQ(parse({"show", "--verb", "3"}), "v=3 ");
    EXPECT_EQ(parse({"show", "-v"}), "v= ");
    EXPECT_EQ(parse({"show", "-v", "x"}), "v= =x ");
}

}  // namespace
}  // namespace ulnet::tools
