// Whole conversations: a console and nodes on a network in memory.
#include <gtest/gtest.h>

#include "tests/unit/selftest/rig.h"

namespace ulnet::lst {
namespace {

TEST(SelftestConversation, ping_between_three) {
    Rig rig;
    Host& console = rig.add(1);
    Host& client = rig.add(2);
    Host& server = rig.add(3);
    console.must("new_session", map({{"name", "s1"}, {"key", 7}}));
    const Value added = console.must(
        "add_group", map({{"name", "cli"}, {"ids", texts({client.text()})}, {"key", 7}}));
    EXPECT_EQ(added["added"].items()[0]["nodes"].items()[0]["state"].as_text(), "Active");
    console.must("add_group", map({{"name", "srv"}, {"ids", texts({server.text()})}}));
    console.must("add_test", map({{"from", "cli"}, {"to", "srv"}, {"test", "ping"}, {"loop", 20}}));
    console.must("run");
    EXPECT_TRUE(eventually([&] { return console.must("query")["idle"].as_int() == 1; }));
    console.must("stop");
    const Value stats = client.must("node_stats");
    EXPECT_EQ(stats["tests"].items()[0]["rpcs"].as_int(), 20);
    EXPECT_EQ(stats["tests"].items()[0]["errors"].as_int(), 0);
    console.must("end_session");
    EXPECT_TRUE(client.must("node_stats")["session"].is_null());
}

}  // namespace
}  // namespace ulnet::lst
