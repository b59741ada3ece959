// Whole conversations: a console and nodes on a network in memory.
#include <gtest/gtest.h>

#include <set>

#include "selftest/pattern.h"
#include "tests/unit/selftest/rig.h"

namespace ulnet::lst {
namespace {

// A console (host 1), `clients` hosts from number 2 on, then `servers` hosts.
class SelftestConversation : public testing::Test {
 protected:
    void start(u32 clients, u32 servers, const SelftestOptions& options = {},
               const NodeOptions& node_options = {}) {
        console = &rig.add(1, options, node_options);
        for (u32 i = 0; i < clients + servers; ++i) rig.add(2 + i, options, node_options);
        console->must("new_session", map({{"name", "s1"}}));
        add_group("cli", 1, clients);
        add_group("srv", 1 + clients, servers);
    }
    Value add_group(const std::string& name, std::size_t first, std::size_t count) {
        Value ids = Value::list();
        for (std::size_t i = 0; i < count; ++i) ids.push(rig[first + i].text());
        return console->must("add_group", map({{"name", name}, {"ids", ids}}));
    }
    Value add_test(Value::Map more) {
        Value args = map({{"from", "cli"}, {"to", "srv"}, {"test", "brw"}});
        for (auto& [key, value] : more) args.set(key, std::move(value));
        const Value reply = console->must("add_test", args);
        for (const char* side : {"servers", "clients"}) {
            EXPECT_EQ(reply[side]["rpc_failed"].as_int(), 0);
            EXPECT_EQ(reply[side]["framework_failed"].as_int(), 0);
        }
        return reply;
    }
    bool all_idle(const char* batch = "batch") {
        const Value state = console->must("query", map({{"name", batch}}));
        EXPECT_EQ(state["failed"].as_int(), 0);
        return state["running"].as_int() == 0;
    }
    void run_to_end() {
        EXPECT_EQ(console->must("run")["framework_failed"].as_int(), 0);
        ASSERT_TRUE(eventually([&] { return all_idle(); }));
    }
    i64 sum(Host& host, const char* key) {
        i64 total = 0;
        const Value stats = host.must("node_stats");
        for (const Value& test : stats["tests"].items()) total += test[key].as_int();
        return total;
    }
    Rig rig;
    Host* console = nullptr;
};

TEST_F(SelftestConversation, ping) {
    start(1, 1);
    add_test({{"test", "ping"}, {"loop", 20}, {"concurrency", 3}});
    run_to_end();
    EXPECT_EQ(sum(rig[1], "rpcs"), 60);
    EXPECT_EQ(sum(rig[1], "errors"), 0);
    const Value stats = rig[1].must("node_stats");
    const Value& latency = stats["tests"].items()[0]["latency"];
    EXPECT_EQ(latency["count"].as_int(), 60);
    EXPECT_GT(latency["p50_ns"].as_int(), 0);
    EXPECT_GE(latency["p99_ns"].as_int(), latency["p50_ns"].as_int());
    const Value ended = console->must("end_session");
    EXPECT_EQ(ended["nodes"].size(), 2u);
    EXPECT_TRUE(rig[1].must("node_stats")["session"].is_null());
    EXPECT_TRUE(rig[2].must("node_stats")["session"].is_null());
    EXPECT_EQ(console->call("show_session").code(), -ESRCH);
}

// Every mode, check and size in one batch, all at the same time.
TEST_F(SelftestConversation, brw_in_all_sizes) {
    start(1, 1);
    i64 bytes = 0, rpcs = 0;
    for (const char* mode : {"read", "write"}) {
        for (const char* check : {"none", "simple", "full", "discard"}) {
            for (const i64 size : {8, 24, 4088, 4096, 4104, 12296, 65536, 1048568, 1048576}) {
                add_test({{"mode", mode},
                          {"check", check},
                          {"size", size},
                          {"loop", 3},
                          {"concurrency", 2}});
                bytes += size * 6;
                rpcs += 6;
            }
        }
    }
    run_to_end();
    EXPECT_EQ(sum(rig[1], "rpcs"), rpcs);
    EXPECT_EQ(sum(rig[1], "bytes"), bytes);
    EXPECT_EQ(sum(rig[1], "errors"), 0);
    const Value stat = console->must("stat", map({{"names", texts({"srv"})}}));
    const Value& server = stat["groups"].items()[0]["nodes"].items()[0];
    EXPECT_EQ(server["rpc"]["bulk_get"].as_int() + server["rpc"]["bulk_put"].as_int(), bytes);
    EXPECT_EQ(server["rpc"]["dropped"].as_int(), 0);
    EXPECT_GE(server["lnet"]["recv_length"].as_int(), bytes / 2);
}

TEST_F(SelftestConversation, offsets_when_told_that_they_are_unsafe) {
    start(1, 1);
    EXPECT_EQ(console
                  ->call("add_test",
                         map({{"from", "cli"}, {"to", "srv"}, {"test", "brw"}, {"offset", 512}}))
                  .code(),
              -EINVAL);
    for (const char* mode : {"read", "write"})
        add_test({{"mode", mode},
                  {"check", "full"},
                  {"size", 12288},
                  {"offset", 512},
                  {"unsafe_offset", true},
                  {"loop", 4}});
    run_to_end();
    EXPECT_EQ(sum(rig[1], "rpcs"), 8);
    EXPECT_EQ(sum(rig[1], "errors"), 0);
}

TEST_F(SelftestConversation, distribution) {
    start(5, 3);
    std::mutex mutex;
    std::map<Nid, std::set<Nid>> seen;
    rig.net.set_hook([&](const Hdr& hdr, std::span<std::byte>) {
        const std::lock_guard lock(mutex);
        if (hdr.type == MsgType::put && hdr.portal == portal_test)
            seen[hdr.src_nid].insert(hdr.dest_nid);
        return Fate::deliver;
    });
    add_test({{"test", "ping"}, {"loop", 5}, {"dist", 1}, {"span", 2}});
    run_to_end();
    const u32 wanted[5][2] = {{0, 1}, {2, 0}, {1, 2}, {0, 1}, {2, 0}};
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(sum(rig[1 + i], "rpcs"), 10);
        const std::lock_guard lock(mutex);
        EXPECT_EQ(seen[rig[1 + i].nid()],
                  (std::set<Nid>{rig[6 + wanted[i][0]].nid(), rig[6 + wanted[i][1]].nid()}));
    }
    EXPECT_EQ(
        console
            ->call("add_test", map({{"from", "cli"}, {"to", "srv"}, {"test", "ping"}, {"span", 4}}))
            .code(),
        -EINVAL);
    EXPECT_EQ(
        console
            ->call("add_test", map({{"from", "cli"}, {"to", "srv"}, {"test", "ping"}, {"dist", 6}}))
            .code(),
        -EINVAL);
}

TEST_F(SelftestConversation, stop_ends_what_runs_for_ever) {
    start(2, 1);
    add_test({{"mode", "write"}, {"check", "full"}, {"size", 65536}, {"concurrency", 8}});
    add_test({{"test", "ping"}, {"concurrency", 8}});
    for (int round = 0; round < 3; ++round) {
        console->must("run");
        EXPECT_FALSE(all_idle());
        EXPECT_EQ(console->must("query", map({{"test", 1}}))["running"].as_int(), 2);
        EXPECT_EQ(console->must("list_batch")["batches"].items()[0]["state"].as_int(), 177);
        console->must("run");  // running already: nothing happens
        const Value stopped = console->must("stop", map({{"force", round == 1}}));
        EXPECT_EQ(stopped["active"].as_int(), 0);
        EXPECT_TRUE(all_idle());
        EXPECT_EQ(console->must("list_batch")["batches"].items()[0]["state"].as_int(), 176);
    }
    EXPECT_GT(sum(rig[1], "rpcs"), 0);
    EXPECT_EQ(sum(rig[1], "errors"), 0);
    EXPECT_EQ(sum(rig[2], "errors"), 0);
    // A running batch takes no more tests.
    console->must("run");
    EXPECT_EQ(
        console->call("add_test", map({{"from", "cli"}, {"to", "srv"}, {"test", "ping"}})).code(),
        -EPERM);
    console->must("end_session");
    EXPECT_EQ(rig[1].must("node_stats")["framework"]["active_batches"].as_int(), 0);
}

TEST_F(SelftestConversation, a_flipped_byte_is_found_and_shown) {
    start(1, 1);
    std::atomic<int> flips{0};
    rig.net.set_hook([&](const Hdr& hdr, std::span<std::byte> payload) {
        const bool data =
            payload.size() == 65536 && (hdr.type == MsgType::reply || hdr.portal == portal_reply);
        if (data && flips.fetch_add(1) == 0) payload[12345] ^= std::byte{0x10};
        return Fate::deliver;
    });
    for (const char* mode : {"write", "read"}) {
        flips = 0;
        const std::string batch = std::string("b-") + mode;
        console->must("add_batch", map({{"name", batch}}));
        add_test({{"batch", batch},
                  {"mode", mode},
                  {"check", "full"},
                  {"size", 65536},
                  {"loop", 5},
                  {"stop_on_error", false}});
        console->must("run", map({{"name", batch}}));
        ASSERT_TRUE(eventually([&] { return all_idle(batch.c_str()); }));
    }
    const Value errors = console->must("show_error", map({{"names", texts({"cli", "srv"})}}));
    const Value& client = errors["groups"].items()[0]["nodes"].items()[0];
    EXPECT_EQ(client["framework"]["brw_errors"].as_int(), 2);
    EXPECT_EQ(client["rpc"]["errors"].as_int(), 0);
    const Value& server = errors["groups"].items()[1]["nodes"].items()[0];
    EXPECT_EQ(server["framework"]["brw_errors"].as_int(), 0);
    EXPECT_EQ(sum(rig[1], "rpcs"), 8);
    EXPECT_EQ(sum(rig[1], "errors"), 2);
}

TEST_F(SelftestConversation, an_error_stops_the_unit) {
    start(1, 1, {.brw_inject_errors = 1});
    add_test({{"mode", "write"}, {"check", "simple"}, {"size", 8192}, {"loop", 1000}});
    run_to_end();
    EXPECT_EQ(sum(rig[1], "errors"), 1);
    EXPECT_LT(sum(rig[1], "rpcs"), 1000);
}

TEST_F(SelftestConversation, injected_errors_are_all_found) {
    start(1, 1, {.brw_inject_errors = 6});
    for (const char* mode : {"read", "write"})
        add_test({{"mode", mode},
                  {"check", "full"},
                  {"size", 4096},
                  {"loop", 50},
                  {"stop_on_error", false}});
    run_to_end();
    EXPECT_EQ(sum(rig[1], "errors"), 6);
    EXPECT_EQ(sum(rig[1], "rpcs"), 94);
}

TEST_F(SelftestConversation, a_server_that_dies_in_mid_batch) {
    start(2, 2, {.rpc_timeout_s = 3});
    add_test({{"mode", "write"}, {"check", "full"}, {"size", 65536}, {"concurrency", 4}});
    add_test({{"test", "ping"}, {"concurrency", 4}});
    console->must("run");
    EXPECT_TRUE(eventually([&] { return sum(rig[1], "rpcs") > 20; }));
    const std::string dead = rig[3].text();
    rig.kill(3);
    // Each unit of the first client ends once with its error: 4 + 4, all expired.
    EXPECT_TRUE(eventually([&] { return sum(rig[1], "active") == 0; }));
    EXPECT_EQ(sum(rig[1], "errors"), 8);
    const Value stats = rig[1].must("node_stats");
    EXPECT_EQ(stats["rpc"]["expired"].as_int(), 8);
    EXPECT_EQ(stats["framework"]["brw_errors"].as_int(), 4);
    EXPECT_EQ(stats["framework"]["ping_errors"].as_int(), 4);
    EXPECT_GT(sum(rig[2], "active"), 0);  // the second client's server lives
    console->must("stop");
    // The console learns it, too, and goes on without the node.
    const Value pinged = console->must("ping", map({{"group", "srv"}}));
    EXPECT_EQ(pinged["rpc_failed"].as_int(), 1);
    EXPECT_EQ(pinged["nodes"].items()[0]["nid"].as_text(), dead);
    EXPECT_EQ(pinged["nodes"].items()[0]["rpc_errno"].as_int(), ETIMEDOUT);
    EXPECT_EQ(pinged["nodes"].items()[1]["state"].as_text(), "Active");
    console->must("end_session");
    console->must("new_session", map({{"name", "s2"}}));
    add_group("cli", 1, 2);
    add_group("srv", 3, 1);
    add_test({{"test", "ping"}, {"loop", 5}});
    run_to_end();
    EXPECT_EQ(sum(rig[1], "errors"), 0);
    EXPECT_EQ(sum(rig[1], "rpcs"), 5);
}

// Requests fail at once; those that were out when the line broke wait for their time-out.
TEST_F(SelftestConversation, an_unreachable_server) {
    start(1, 1, {.rpc_timeout_s = 1});
    add_test({{"mode", "read"}, {"check", "simple"}, {"size", 4096}, {"concurrency", 4}});
    console->must("run");
    EXPECT_TRUE(eventually([&] { return sum(rig[1], "rpcs") > 20; }));
    rig.net.cut(rig[2].nid(), false);
    EXPECT_TRUE(eventually([&] { return sum(rig[1], "active") == 0; }));
    EXPECT_EQ(sum(rig[1], "errors"), 4);
    console->must("run");
    EXPECT_TRUE(eventually([&] { return sum(rig[1], "active") == 0; }));
    EXPECT_EQ(sum(rig[1], "errors"), 8);
    EXPECT_LE(rig[1].must("node_stats")["rpc"]["expired"].as_int(), 4);
    rig.net.heal(rig[2].nid());
}

TEST_F(SelftestConversation, lost_messages_expire) {
    start(1, 1, {.rpc_timeout_s = 2}, {.transaction_timeout_s = 1});
    std::atomic<u32> messages{0};
    const Nid mine = console->nid();
    rig.net.set_hook([&, mine](const Hdr& hdr, std::span<std::byte>) {
        const bool ours = hdr.src_nid == mine || hdr.dest_nid == mine;
        return !ours && messages.fetch_add(1) % 7 == 3 ? Fate::lose : Fate::deliver;
    });
    for (const char* mode : {"read", "write"})
        add_test({{"mode", mode},
                  {"check", "full"},
                  {"size", 16384},
                  {"loop", 4},
                  {"concurrency", 3},
                  {"stop_on_error", false}});
    run_to_end();
    EXPECT_EQ(sum(rig[1], "rpcs") + sum(rig[1], "errors"), 24);
    EXPECT_GT(sum(rig[1], "errors"), 0);
    const Value stats = rig[1].must("node_stats");
    EXPECT_EQ(stats["rpc"]["expired"].as_int(), sum(rig[1], "errors"));
    rig.net.set_hook({});
    add_test({{"test", "ping"}, {"loop", 3}});
}

TEST_F(SelftestConversation, force_aborts_what_waits) {
    start(1, 1);
    add_test({{"mode", "write"}, {"size", 65536}, {"concurrency", 5}});
    rig.net.set_hook([](const Hdr& hdr, std::span<std::byte>) {
        return hdr.portal == portal_test && hdr.type == MsgType::put ? Fate::lose : Fate::deliver;
    });
    console->must("run");
    EXPECT_TRUE(eventually([&] { return rig[1].must("node_stats")["rpc"]["sent"].as_int() >= 5; }));
    Pending gentle = console->start("stop", map({{"wait", false}}));
    gentle.wait();
    EXPECT_FALSE(all_idle());  // the RPCs wait for their time-out
    EXPECT_EQ(console->must("stop", map({{"force", true}}))["active"].as_int(), 0);
    EXPECT_EQ(sum(rig[1], "errors"), 0);  // stopped, not failed
    EXPECT_TRUE(all_idle());
}

TEST_F(SelftestConversation, a_session_ends_while_its_tests_run) {
    start(1, 1);
    add_test({{"mode", "read"}, {"check", "full"}, {"size", 65536}, {"concurrency", 16}});
    for (int round = 0; round < 3; ++round) {
        console->must("run");
        EXPECT_TRUE(eventually([&] { return sum(rig[1], "rpcs") > 10; }));
        console->must("end_session");
        EXPECT_TRUE(eventually([&] {
            return rig[1].must("node_stats")["framework"]["zombie_sessions"].as_int() == 0;
        }));
        console->must("new_session", map({{"name", "next"}}));
        add_group("cli", 1, 1);
        add_group("srv", 2, 1);
        add_test({{"mode", "read"}, {"check", "full"}, {"size", 65536}, {"concurrency", 16}});
    }
}

TEST_F(SelftestConversation, everything_closes_while_tests_run) {
    start(2, 1);
    add_test({{"mode", "write"}, {"check", "full"}, {"size", 65536}, {"concurrency", 8}});
    add_test({{"test", "ping"}, {"concurrency", 8}});
    console->must("run");
    EXPECT_TRUE(eventually([&] { return sum(rig[1], "rpcs") > 10; }));
    Pending stop = console->start("stop");
    Pending query = console->start("query");
    rig[1].close_selftest();
    rig[3].close_selftest();
    console->close_selftest();
    stop.wait();
    query.wait();
}

TEST_F(SelftestConversation, data_of_units_is_bounded) {
    start(1, 1, {.client_bulk_bytes_max = 8u << 20});
    add_test({{"size", 1 << 20}, {"concurrency", 6}, {"loop", 1}});
    const Value refused = console->must("add_test", map({{"from", "cli"},
                                                         {"to", "srv"},
                                                         {"test", "brw"},
                                                         {"size", 1 << 20},
                                                         {"concurrency", 3}}));
    EXPECT_EQ(refused["clients"]["framework_failed"].as_int(), 1);
    EXPECT_EQ(refused["clients"]["nodes"].items()[0]["framework_errno"].as_int(), ENOMEM);
    add_test({{"size", 1 << 20}, {"concurrency", 2}, {"loop", 1}});
    run_to_end();
    EXPECT_EQ(sum(rig[1], "rpcs"), 8);
}

TEST_F(SelftestConversation, few_server_buffers_serve_many) {
    start(2, 1, {.server_bulk_bytes_max = 1u << 20});
    for (const char* mode : {"read", "write"})
        add_test({{"mode", mode},
                  {"check", "full"},
                  {"size", 1 << 20},
                  {"loop", 4},
                  {"concurrency", 8}});
    run_to_end();
    for (const std::size_t client : {1u, 2u}) {
        EXPECT_EQ(sum(rig[client], "rpcs"), 64);
        EXPECT_EQ(sum(rig[client], "errors"), 0);
    }
}

// A node that is console, client and server at once talks to itself.
TEST_F(SelftestConversation, a_node_alone) {
    console = &rig.add(1);
    console->must("new_session");
    add_group("all", 0, 1);
    for (const char* mode : {"read", "write"})
        add_test({{"from", "all"},
                  {"to", "all"},
                  {"mode", mode},
                  {"check", "full"},
                  {"size", 65536},
                  {"loop", 10},
                  {"concurrency", 2}});
    run_to_end();
    EXPECT_EQ(sum(*console, "rpcs"), 40);
    EXPECT_EQ(sum(*console, "errors"), 0);
    console->must("end_session");
}

TEST_F(SelftestConversation, old_nodes_without_bulk_len) {
    console = &rig.add(1);
    rig.add(2);
    rig.add(3);
    console->must("new_session", map({{"features", 0}}));
    EXPECT_EQ(add_group("cli", 1, 1)["features"].as_int(-1), 0);
    add_group("srv", 2, 1);
    EXPECT_EQ(console
                  ->call("add_test",
                         map({{"from", "cli"}, {"to", "srv"}, {"test", "brw"}, {"size", 512}}))
                  .code(),
              -EINVAL);
    for (const char* mode : {"read", "write"})
        add_test({{"mode", mode}, {"check", "full"}, {"size", 8192}, {"loop", 5}});
    run_to_end();
    EXPECT_EQ(sum(rig[1], "rpcs"), 10);
    EXPECT_EQ(sum(rig[1], "bytes"), 81920);
}

}  // namespace
}  // namespace ulnet::lst
