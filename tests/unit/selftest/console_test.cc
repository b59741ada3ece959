// The console's commands: arguments, refusals, states of nodes, sessions that end.
#include <gtest/gtest.h>

#include "selftest/transaction.h"
#include "tests/unit/selftest/console_fixture.h"
#include "tests/unit/selftest/raw.h"

namespace ulnet::lst {
namespace {

using namespace std::chrono_literals;

TEST_F(SelftestConsole, session) {
    hosts(1);
    EXPECT_EQ(code("show_session"), -ESRCH);
    EXPECT_EQ(code("end_session"), -ESRCH);
    EXPECT_EQ(code("add_batch", {{"name", "b"}}), -ESRCH);
    EXPECT_EQ(code("new_session", {{"name", std::string(32, 'x')}}), -ENAMETOOLONG);
    EXPECT_EQ(code("new_session", {{"name", ""}}), -EINVAL);
    EXPECT_EQ(code("new_session", {{"timeout", -1}}), -EINVAL);
    EXPECT_EQ(code("new_session", {{"features", 2}}), -EINVAL);
    const Value made =
        console().must("new_session", map({{"name", "s1"}, {"timeout", 100}, {"key", 4711}}));
    EXPECT_EQ(made["name"].as_text(), "s1");
    EXPECT_EQ(made["features"].as_int(), 1);
    EXPECT_EQ(made["timeout"].as_int(), 100);
    EXPECT_FALSE(made["force"].as_bool(true));
    const Value shown = console().must("show_session");
    EXPECT_EQ(shown["key"].as_int(), 4711);
    EXPECT_EQ(shown["nid"].as_text(), console().text());
    EXPECT_EQ(shown["id"].as_text(),
              std::to_string(shown["stamp"].as_int()) + "@" + console().text());
    EXPECT_EQ(shown["nodes"].as_int(-1), 0);
    EXPECT_EQ(code("new_session", {{"name", "s2"}}), -EEXIST);
    EXPECT_EQ(code("add_batch", {{"name", "b"}, {"key", 99}}), -EACCES);
    EXPECT_EQ(code("show_session", {{"key", 99}}), -EACCES);
    EXPECT_EQ(code("add_batch", {{"name", "b"}, {"key", 4711}}), 0);
    EXPECT_EQ(code("new_session", {{"name", "s2"}, {"force", true}}), 0);
    EXPECT_EQ(console().must("show_session")["name"].as_text(), "s2");
    EXPECT_GT(console().must("show_session")["stamp"].as_int(), shown["stamp"].as_int());
    EXPECT_EQ(code("end_session"), 0);
}

TEST_F(SelftestConsole, groups) {
    hosts(4);
    console().must("new_session");
    const Value added = console().must(
        "add_group", map({{"name", "a"}, {"ids", texts({"10.0.0.[2-3]@tcp", rig[1].text()})}}));
    ASSERT_EQ(added["added"].size(), 2u);
    EXPECT_EQ(added["added"].items()[0]["ids"].as_text(), "10.0.0.[2-3]@tcp");
    EXPECT_EQ(added["added"].items()[0]["nodes"].size(), 2u);
    EXPECT_FALSE(added["deleted"].as_bool(true));
    EXPECT_EQ(code("add_group", {{"name", "a"}, {"ids", texts({rig[1].text()})}}), -EEXIST);
    EXPECT_EQ(code("add_group", {{"name", "b"}}), -EINVAL);
    EXPECT_EQ(code("add_group", {{"name", "b"}, {"ids", texts({"nonsense"})}}), -EINVAL);
    EXPECT_EQ(code("add_group", {{"name", "b"}, {"ids", texts({"fd00::1@tcp"})}}), -EAFNOSUPPORT);
    EXPECT_EQ(code("add_group", {{"name", std::string(32, 'b')}, {"ids", texts({rig[1].text()})}}),
              -ENAMETOOLONG);
    EXPECT_EQ(console().must("list_group")["groups"].size(), 1u);

    group("b", {rig[2].text(), rig[3].text()});
    EXPECT_EQ(console().must("show_session")["nodes"].as_int(), 3);
    // A node that two groups hold has one reference of the session only.
    EXPECT_EQ(session_of(rig[2])["references"].as_int(), 1);
    const Value list = console().must("list_group", map({{"names", texts({"b", "nosuch"})}}));
    EXPECT_EQ(list["groups"].items()[0]["counts"]["active"].as_int(), 2);
    EXPECT_EQ(list["missing"].items()[0].as_text(), "nosuch");

    EXPECT_EQ(code("del_group", {{"name", "nosuch"}}), -ENOENT);
    EXPECT_EQ(console().must("del_group", map({{"name", "b"}}))["nodes"].size(), 1u);
    EXPECT_FALSE(session_of(rig[2]).is_null());  // still in group a
    EXPECT_TRUE(session_of(rig[3]).is_null());
    EXPECT_EQ(
        code("update_group", {{"name", "a"}, {"op", "remove"}, {"ids", texts({rig[3].text()})}}),
        -ENOENT);
    const Value removed = console().must(
        "update_group", map({{"name", "a"}, {"op", "remove"}, {"ids", texts({rig[2].text()})}}));
    EXPECT_EQ(removed["removed"].as_int(), 1);
    EXPECT_TRUE(session_of(rig[2]).is_null());
    EXPECT_EQ(code("update_group", {{"name", "a"}, {"op", "shake"}}), -EINVAL);
    EXPECT_EQ(code("update_group", {{"name", "a"}, {"op", "clean"}, {"states", texts({"odd"})}}),
              -EINVAL);
    EXPECT_EQ(code("update_group", {{"name", "nosuch"}, {"op", "refresh"}}), -ENOENT);

    group("c", {rig[3].text()});
    console().must("add_test", map({{"from", "a"}, {"to", "c"}, {"test", "ping"}}));
    EXPECT_EQ(code("del_group", {{"name", "a"}}), -EBUSY);
    EXPECT_EQ(code("update_group", {{"name", "c"}, {"op", "refresh"}}), -EBUSY);
}

TEST_F(SelftestConsole, nodes_that_do_not_answer) {
    hosts(3);
    console().must("new_session");
    rig.net.cut(rig[1].nid(), false);
    const Value bad =
        console().must("add_group", map({{"name", "bad"}, {"ids", texts({rig[1].text()})}}));
    EXPECT_TRUE(bad["deleted"].as_bool());
    const Value& node = bad["added"].items()[0]["nodes"].items()[0];
    EXPECT_EQ(node["rpc_errno"].as_int(), EHOSTUNREACH);
    EXPECT_EQ(node["state"].as_text(), "Down");
    EXPECT_EQ(bad["added"].items()[0]["rpc_failed"].as_int(), 1);
    EXPECT_EQ(console().must("list_group")["groups"].size(), 0u);
    EXPECT_EQ(console().must("show_session")["nodes"].as_int(), 0);

    const Value half = console().must(
        "add_group", map({{"name", "half"}, {"ids", texts({rig[1].text(), rig[2].text()})}}));
    EXPECT_FALSE(half["deleted"].as_bool(true));
    EXPECT_EQ(state("half", 0), "Down");
    EXPECT_EQ(state("half", 1), "Active");
    rig.net.heal(rig[1].nid());
    console().must("update_group", map({{"name", "half"}, {"op", "refresh"}}));
    EXPECT_EQ(state("half", 0), "Active");
    rig.net.cut(rig[1].nid(), false);
    console().must("ping", map({{"group", "half"}}));
    EXPECT_EQ(state("half", 0), "Down");
    const Value cleaned = console().must(
        "update_group", map({{"name", "half"}, {"op", "clean"}, {"states", texts({"invalid"})}}));
    EXPECT_EQ(cleaned["removed"].as_int(), 1);
    const Value emptied = console().must(
        "update_group", map({{"name", "half"}, {"op", "clean"}, {"states", texts({"active"})}}));
    EXPECT_TRUE(emptied["deleted"].as_bool());
    rig.net.heal(rig[1].nid());
}

TEST_F(SelftestConsole, a_busy_node_and_force) {
    hosts(3);
    console().must("new_session", map({{"name", "mine"}}));
    group("g", {rig[2].text()});
    rig[1].must("new_session", map({{"name", "theirs"}}));
    const Value refused =
        rig[1].must("add_group", map({{"name", "g"}, {"ids", texts({rig[2].text()})}}));
    const Value& node = refused["added"].items()[0]["nodes"].items()[0];
    EXPECT_EQ(node["framework_errno"].as_int(), EBUSY);
    EXPECT_EQ(node["state"].as_text(), "Busy");
    EXPECT_EQ(node["session"].as_text(), "mine");
    EXPECT_EQ(node["session_nid"].as_text(), console().text());
    rig[1].must("end_session");
    const Answer bench = rig[1].call(
        "bench", map({{"client", rig[1].text()}, {"server", rig[2].text()}, {"seconds", 1}}));
    EXPECT_EQ(bench.code(), -EBUSY);
    EXPECT_NE(bench.error.text.find("session \"mine\" of " + console().text()), std::string::npos)
        << bench.error.text;
    rig[1].must("new_session", map({{"name", "theirs"}}));
    const Answer again = rig[1].call("new_session", map({{"name", "more"}}));
    EXPECT_EQ(again.error.text, "session already exists: \"theirs\" of " + rig[1].text());
    const Value pinged = rig[1].must("ping", map({{"ids", texts({rig[2].text()})}}));
    EXPECT_EQ(pinged["nodes"].items()[0]["session"].as_text(), "mine");
    EXPECT_EQ(pinged["nodes"].items()[0]["session_nid"].as_text(), console().text());
    rig[1].must("new_session", map({{"name", "theirs"}, {"force", true}}));
    const Value taken =
        rig[1].must("add_group", map({{"name", "g"}, {"ids", texts({rig[2].text()})}}));
    EXPECT_EQ(taken["added"].items()[0]["nodes"].items()[0]["state"].as_text(), "Active");
    EXPECT_EQ(session_of(rig[2])["name"].as_text(), "theirs");
    // The one that lost it sees that.
    console().must("ping", map({{"group", "g"}}));
    EXPECT_EQ(state("g"), "Busy");
    console().must("end_session");
    EXPECT_EQ(session_of(rig[2])["name"].as_text(), "theirs");
}

TEST_F(SelftestConsole, a_node_that_agrees_on_other_features) {
    hosts(2);
    Host& old = rig.add_bare(9);
    Raw raw(old);
    console().must("new_session");
    group("new", {rig[1].text()});
    raw.post(portal_framework, static_cast<u64>(Service::make_session), message_bytes);
    Pending add =
        console().start("add_group", map({{"name", "old"}, {"ids", texts({old.text()})}}));
    const std::optional<Raw::Arrival> request = raw.next(static_cast<u64>(Service::make_session));
    ASSERT_TRUE(request.has_value());
    Header header;
    MakeSessionRequest body;
    ASSERT_TRUE(decode_message(request->bytes, header, body));
    EXPECT_EQ(name_text(body.name), "lst");
    EXPECT_EQ(body.force, 0u);
    header = {.type = reply_type(Type::make_session), .features = 0};
    Message reply;
    encode_message(reply, native_order, header, MakeSessionReply{0, body.sid, 100, {}});
    raw.put(console().nid(), portal_reply, body.rpyid, reply);
    const Answer answer = add.wait();
    EXPECT_EQ(answer.value["added"].items()[0]["nodes"].items()[0]["framework_errno"].as_int(),
              EPROTO);
    EXPECT_TRUE(answer.value["deleted"].as_bool());
    EXPECT_EQ(answer.value["features"].as_int(), 1);
}

TEST_F(SelftestConsole, batches_and_tests) {
    hosts(3);
    console().must("new_session");
    group("cli", {rig[1].text()});
    group("srv", {rig[2].text()});
    EXPECT_EQ(console().must("add_batch", map({{"name", "b"}}))["id"].as_int(), 2);
    EXPECT_EQ(code("add_batch", {{"name", "b"}}), -EEXIST);
    EXPECT_EQ(code("add_batch", {{"name", ""}}), -EINVAL);
    const auto test_code = [&](Value::Map more) {
        Value args = map({{"from", "cli"}, {"to", "srv"}, {"test", "brw"}, {"batch", "b"}});
        for (auto& [key, value] : more) args.set(key, std::move(value));
        return console().call("add_test", args).code();
    };
    EXPECT_EQ(test_code({{"batch", "nosuch"}}), -ENOENT);
    EXPECT_EQ(test_code({{"from", "nosuch"}}), -ENOENT);
    EXPECT_EQ(test_code({{"to", "nosuch"}}), -ENOENT);
    for (Value::Map bad : {Value::Map{{"loop", 0}},
                           {{"loop", -2}},
                           {{"concurrency", 0}},
                           {{"concurrency", 1025}},
                           {{"dist", 0}},
                           {{"span", 0}},
                           {{"span", 342}},
                           {{"test", "foo"}},
                           {{"mode", "append"}},
                           {{"check", "half"}},
                           {{"size", 0}},
                           {{"size", 1048584}},
                           {{"size", 12}},
                           {{"offset", 4}},
                           {{"offset", 8}}})
        EXPECT_EQ(test_code(bad), -EINVAL) << bad[0].first;
    EXPECT_EQ(test_code({{"loop", 10}, {"concurrency", 4}}), 0);
    EXPECT_EQ(test_code({{"test", "ping"}}), 0);
    const Value all = console().must("list_batch");
    EXPECT_EQ(all["batches"].size(), 2u);
    const Value one = console().must("list_batch", map({{"name", "b"}}));
    const Value& batch = one["batches"].items()[0];
    EXPECT_EQ(batch["state"].as_int(), 176);
    EXPECT_EQ(batch["client"]["active"].as_int(), 1);
    EXPECT_EQ(batch["servers"].items()[0]["nid"].as_text(), rig[2].text());
    ASSERT_EQ(batch["tests"].size(), 2u);
    EXPECT_EQ(batch["tests"].items()[0]["type"].as_text(), "brw");
    EXPECT_EQ(batch["tests"].items()[0]["loop"].as_int(), 10);
    EXPECT_EQ(batch["tests"].items()[1]["loop"].as_int(), -1);
    EXPECT_EQ(code("list_batch", {{"name", "nosuch"}}), -ENOENT);
    EXPECT_EQ(code("list_batch", {{"name", "b"}, {"test", 3}}), -ENOENT);
    const Value second = console().must("list_batch", map({{"name", "b"}, {"test", 2}}));
    EXPECT_EQ(second["batches"].items()[0]["tests"].items()[0]["index"].as_int(), 2);
    EXPECT_EQ(code("run", {{"name", "nosuch"}}), -ENOENT);
    EXPECT_EQ(code("stop", {{"name", "nosuch"}}), -ENOENT);
    EXPECT_EQ(code("query", {{"name", "nosuch"}}), -ENOENT);
    EXPECT_EQ(code("query", {{"name", "b"}, {"test", 3}}), -ENOENT);
    EXPECT_EQ(code("query", {{"name", "b"}, {"timeout", 0}}), -EINVAL);
    const Value servers = console().must("query", map({{"name", "b"}, {"server", true}}));
    EXPECT_EQ(servers["idle"].as_int(), 1);
    EXPECT_EQ(code("run"), 0);  // the default batch is empty
    EXPECT_EQ(code("stop"), 0);
    EXPECT_EQ(code("stat", {{"names", texts({"nosuch"})}}), -ENOENT);
    EXPECT_EQ(code("stat"), -EINVAL);
    EXPECT_EQ(code("ping"), -EINVAL);
    EXPECT_EQ(code("ping", {{"group", "nosuch"}}), -ENOENT);
    EXPECT_EQ(console().must("ping", map({{"session", true}}))["nodes"].size(), 2u);
    EXPECT_EQ(console().must("ping", map({{"batch", "b"}}))["nodes"].size(), 1u);
    const Value stat = console().must("stat", map({{"names", texts({"cli", "10.0.0.[2-3]@tcp"})}}));
    EXPECT_EQ(stat["groups"].items()[1]["nodes"].size(), 2u);
    EXPECT_GT(stat["groups"].items()[0]["nodes"].items()[0]["lnet"]["recv_count"].as_int(), 0);
}

// Nodes that are asked keep quiet: below 6 s that says nothing about them.
TEST_F(SelftestConsole, short_limits_interrupt) {
    hosts(2);
    console().must("new_session");
    group("g", {rig[1].text()});
    rig.net.cut(rig[1].nid(), true);
    const Value pinged = console().must("ping", map({{"group", "g"}, {"timeout", 1}}));
    EXPECT_EQ(pinged["nodes"].items()[0]["rpc_errno"].as_int(), ETIMEDOUT);
    EXPECT_EQ(state("g"), "Active");
    rig.net.heal(rig[1].nid());
}

TEST_F(SelftestConsole, unused_sessions_end) {
    hosts(2, {.ping_interval_ms = 50});
    console().must("new_session", map({{"timeout", 1}}));
    group("g", {rig[1].text()});
    EXPECT_TRUE(eventually([&] { return session_of(rig[1]).is_null(); }));
    // Asking keeps a session alive, so the end is seen from the node first.
    EXPECT_TRUE(eventually([&] { return code("show_session") == -ESRCH; }));
    EXPECT_EQ(code("new_session"), 0);
}

TEST_F(SelftestConsole, nodes_hear_of_the_console) {
    hosts(2, {.session_timeout_s = 3, .ping_interval_ms = 50});
    console().must("new_session");
    group("g", {rig[1].text()});
    const i64 before = rig[1].must("node_stats")["rpc"]["rcvd"].as_int();
    EXPECT_TRUE(eventually(
        [&] { return rig[1].must("node_stats")["rpc"]["rcvd"].as_int() >= before + 2; }));
    EXPECT_FALSE(session_of(rig[1]).is_null());
    EXPECT_EQ(state("g"), "Active");
}

TEST_F(SelftestConsole, many_commands_at_once) {
    hosts(2);
    console().must("new_session");
    group("g", {rig[1].text()});
    std::vector<Pending> pending;
    for (int i = 0; i < 200; ++i) pending.push_back(console().start("ping", map({{"group", "g"}})));
    int good = 0;
    for (Pending& each : pending) {
        const Answer answer = each.wait();
        EXPECT_TRUE(answer.ok() || answer.code() == -EBUSY);
        good += answer.ok();
    }
    EXPECT_GE(good, 64);
}

TEST_F(SelftestConsole, a_hundred_nodes_that_are_not_there) {
    hosts(1);
    console().must("new_session");
    const Value added = console().must(
        "add_group", map({{"name", "g"}, {"ids", texts({"10.9.[0-9].[1-150]@tcp"})}}));
    EXPECT_EQ(added["added"].items()[0]["rpc_failed"].as_int(), 1500);
    EXPECT_TRUE(added["deleted"].as_bool());
}

TEST_F(SelftestConsole, commands_whose_asker_has_gone_before_their_turn_are_given_up) {
    hosts(2);
    console().must("new_session");
    rig.net.cut(rig[1].nid(), true);
    Pending slow = console().start("ping", map({{"ids", texts({rig[1].text()})}, {"timeout", 3}}));
    Pending given_up = console().start("add_batch", map({{"name", "b"}}));
    given_up.leave();
    EXPECT_EQ(given_up.wait().code(), -ECANCELED);
    EXPECT_TRUE(slow.wait().ok());
    EXPECT_EQ(code("list_batch", {{"name", "b"}}), -ENOENT);
    rig.net.heal(rig[1].nid());
}

TEST_F(SelftestConsole, what_is_missing_is_named) {
    hosts(3);
    console().must("new_session");
    group("g", {rig[1].text()});
    group("h", {rig[2].text()});
    const auto says = [&](std::string_view verb, Value::Map args, const std::string& words) {
        const Answer answer = console().call(verb, map(std::move(args)));
        EXPECT_EQ(answer.code(), -ENOENT) << verb;
        EXPECT_NE(answer.error.text.find(words), std::string::npos) << answer.error.text;
    };
    const Value::Map ping = {{"from", "g"}, {"to", "h"}, {"test", "ping"}};
    const auto with = [&](const char* key, const char* value) {
        Value args = map(ping);
        args.set(key, value);
        return args.members();
    };
    says("add_test", with("to", "nosuch"), R"(group in current session: "nosuch")");
    says("add_test", with("from", "nosuch"), R"(group in current session: "nosuch")");
    says("add_test", with("batch", "nosuch"), R"(batch in current session: "nosuch")");
    for (const char* verb : {"run", "stop", "query", "list_batch"})
        says(verb, {{"name", "nosuch"}}, R"(batch in current session: "nosuch")");
    for (const char* verb : {"query", "list_batch"})
        says(verb, {{"name", "batch"}, {"test", 3}}, R"(test in current session: 3 of batch)");
    for (const char* verb : {"del_group", "update_group"})
        says(verb, {{"name", "nosuch"}}, R"(group in current session: "nosuch")");
    says("ping", {{"group", "nosuch"}}, R"(group in current session: "nosuch")");
    says("ping", {{"batch", "nosuch"}}, R"(batch in current session: "nosuch")");
    for (const char* verb : {"stat", "show_error"}) {
        says(verb, {{"names", texts({"g", "nosuch"})}}, R"(group in current session: "nosuch")");
        says(verb, {{"names", texts({"10.0.0.[2-9]@tcp"})}},
             R"(node in current session: "10.0.0.4@tcp")");
        EXPECT_EQ(code(verb, {{"names", texts({"x@y"})}}), -EINVAL);
    }
    const auto remove = [&](const std::string& nid) {
        return Value::Map{{"name", "g"}, {"op", "remove"}, {"ids", texts({nid})}};
    };
    says("update_group", remove("10.0.0.9@tcp"), R"(node in current session: "10.0.0.9@tcp")");
    says("update_group", remove(rig[2].text()), R"(node in group "g": "10.0.0.3@tcp")");
}

TEST_F(SelftestConsole, nodes_that_are_left_out_are_named) {
    hosts(3);
    console().must("new_session");
    group("g", {rig[1].text(), rig[2].text()});
    group("me", {console().text()});
    const Value ping = map({{"from", "g"}, {"to", "me"}, {"test", "ping"}});
    EXPECT_EQ(console().must("add_test", ping)["clients"]["skipped"].size(), 0u);
    rig.net.cut(rig[2].nid(), false);
    const Value first = console().must("stat", map({{"names", texts({"g"})}}));
    EXPECT_EQ(first["groups"].items()[0]["rpc_failed"].as_int(), 1);
    EXPECT_EQ(first["groups"].items()[0]["skipped"].size(), 0u);
    const auto check = [&](const Value& in) {
        ASSERT_EQ(in["skipped"].size(), 1u) << to_json(in);
        const Value& node = in["skipped"].items()[0];
        EXPECT_EQ(node["nid"].as_text(), rig[2].text());
        EXPECT_EQ(node["state"].as_text(), "Down");
        EXPECT_EQ(node["errno"].as_int(), EHOSTUNREACH);
    };
    for (const char* verb : {"stat", "show_error"})
        check(console().must(verb, map({{"names", texts({"g"})}}))["groups"].items()[0]);
    for (const char* verb : {"run", "query", "stop"}) check(console().must(verb));
    check(console().must("add_test", ping)["clients"]);
    rig.net.heal(rig[2].nid());
}

// A node that stops answering while a batch is being stopped.
TEST_F(SelftestConsole, stop_names_who_does_not_answer) {
    hosts(2);
    console().must("new_session");
    group("g", {rig[1].text()});
    group("me", {console().text()});
    console().must("add_test", map({{"from", "g"}, {"to", "me"}, {"test", "ping"}}));
    console().must("run");
    rig.net.cut(rig[1].nid(), false);
    const Value stopped = console().must("stop");
    EXPECT_EQ(stopped["nodes"].items()[0]["rpc_errno"].as_int(), EHOSTUNREACH);
    rig.net.heal(rig[1].nid());
}

}  // namespace
}  // namespace ulnet::lst
