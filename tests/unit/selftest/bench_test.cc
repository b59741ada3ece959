// The console's bench: numbers, refusals, servers that die and askers that go away.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/selftest/console_fixture.h"

namespace ulnet::lst {
namespace {

class SelftestBench : public SelftestConsole {};

TEST_F(SelftestBench, bench_with_this_node_as_client) {
    hosts(2);
    for (const char* mode : {"read", "write"}) {
        Pending pending = console().start("bench", map({{"client", console().text()},
                                                        {"server", rig[1].text()},
                                                        {"mode", mode},
                                                        {"seconds", 1},
                                                        {"check", "simple"},
                                                        {"concurrency", 4},
                                                        {"size", 65536}}));
        EXPECT_TRUE(eventually([&] { return !session_of(rig[1]).is_null() || pending.done(); }));
        const Answer answer = pending.wait();
        ASSERT_TRUE(answer.ok()) << answer.error.text;
        const Value& v = answer.value;
        EXPECT_GE(answer.parts.size(), 1u);
        EXPECT_EQ(v["source"].as_text(), "local");
        EXPECT_GE(v["seconds"].as_real(), 0.9);
        EXPECT_GT(v["rpcs"].as_int(), 0);
        EXPECT_EQ(v["bytes"].as_int(), v["rpcs"].as_int() * 65536);
        EXPECT_EQ(v["errors"].as_int(), 0);
        EXPECT_GT(v["latency_p50_ns"].as_int(), 0);
        EXPECT_GE(v["latency_p99_ns"].as_int(), v["latency_p50_ns"].as_int());
        EXPECT_EQ(v["mode"].as_text(), mode);
        EXPECT_EQ(answer.parts.back()["rpcs"].as_int(), v["rpcs"].as_int());
        EXPECT_TRUE(session_of(rig[1]).is_null());
        EXPECT_EQ(code("show_session"), -ESRCH);
    }
}

TEST_F(SelftestBench, bench_between_two_others) {
    hosts(3);
    const Value v = console().must("bench", map({{"client", rig[1].text()},
                                                 {"server", rig[2].text()},
                                                 {"mode", "read"},
                                                 {"seconds", 1},
                                                 {"size", 4096}}));
    EXPECT_EQ(v["source"].as_text(), "stat");
    EXPECT_GT(v["rpcs"].as_int(), 0);
    EXPECT_GT(v["bytes"].as_int(), 0);
    EXPECT_FALSE(v.has("latency_p50_ns"));
    const Value p = console().must("bench", map({{"client", rig[1].text()},
                                                 {"server", rig[2].text()},
                                                 {"test", "ping"},
                                                 {"seconds", 1}}));
    EXPECT_GT(p["rpcs"].as_int(), 0);
    EXPECT_EQ(p["bytes"].as_int(), 0);
}

TEST_F(SelftestBench, bench_refusals_leave_nothing_behind) {
    hosts(3);
    const auto bench = [&](Value::Map more) {
        Value args = map({{"client", console().text()}, {"server", rig[1].text()}, {"seconds", 1}});
        for (auto& [key, value] : more) args.set(key, std::move(value));
        return console().call("bench", args).code();
    };
    EXPECT_EQ(bench({{"seconds", 0}}), -EINVAL);
    EXPECT_EQ(bench({{"server", "10.0.0.[2-3]@tcp"}}), -EINVAL);
    EXPECT_EQ(bench({{"server", "fd00::1@tcp"}}), -EAFNOSUPPORT);
    EXPECT_EQ(bench({{"size", 7}}), -EINVAL);
    EXPECT_EQ(bench({{"server", "10.0.0.99@tcp"}}), -EHOSTUNREACH);
    rig[2].must("new_session", map({{"name", "theirs"}}));
    rig[2].must("add_group", map({{"name", "g"}, {"ids", texts({rig[1].text()})}}));
    EXPECT_EQ(bench({}), -EBUSY);
    rig[2].must("end_session");
    EXPECT_EQ(code("show_session"), -ESRCH);
    EXPECT_TRUE(session_of(console()).is_null());
    console().must("new_session");
    EXPECT_EQ(bench({}), -EEXIST);
    console().must("end_session");
    EXPECT_EQ(bench({}), 0);
}

TEST_F(SelftestBench, a_bench_whose_asker_goes_away) {
    hosts(2);
    Pending bench = console().start(
        "bench", map({{"client", console().text()}, {"server", rig[1].text()}, {"seconds", 600}}));
    EXPECT_TRUE(eventually([&] { return bench.parts() > 0; }));
    EXPECT_EQ(code("new_session"), -EBUSY);
    EXPECT_EQ(code("show_session"), 0);
    bench.leave();
    // What comes from now on waits for the end of the bench, and does not fail because of it.
    EXPECT_EQ(code("new_session"), 0);
    EXPECT_EQ(bench.wait().code(), -ECANCELED);
    EXPECT_TRUE(eventually([&] { return session_of(rig[1]).is_null(); }));
}

// The same between two others, where the console waits for an answer most of the time.
TEST_F(SelftestBench, a_bench_whose_asker_goes_away_at_any_time) {
    hosts(3);
    for (int i = 0; i < 10; ++i) {
        const std::size_t parts = i == 9 ? 1 : 0;
        Pending bench = console().start(
            "bench", map({{"client", rig[1].text()}, {"server", rig[2].text()}, {"seconds", 600}}));
        EXPECT_TRUE(eventually([&] { return bench.parts() >= parts; }));
        for (int turns = i * 100; turns > 0; --turns) std::this_thread::yield();
        bench.leave();
        EXPECT_EQ(bench.wait().code(), -ECANCELED);
        EXPECT_TRUE(eventually(
            [&] { return session_of(rig[1]).is_null() && session_of(rig[2]).is_null(); }));
    }
    EXPECT_EQ(code("new_session"), 0);
}

TEST_F(SelftestBench, a_bench_whose_asker_goes_away_while_a_node_is_silent) {
    hosts(2);
    rig.net.cut(rig[1].nid(), true);
    Pending bench = console().start(
        "bench", map({{"client", console().text()}, {"server", rig[1].text()}, {"seconds", 600}}));
    EXPECT_TRUE(eventually([&] { return !session_of(console()).is_null(); }));
    bench.leave();
    EXPECT_EQ(bench.wait().code(), -ECANCELED);
    EXPECT_TRUE(session_of(console()).is_null());
    rig.net.heal(rig[1].nid());
    EXPECT_EQ(code("new_session"), 0);
}

TEST_F(SelftestBench, a_bench_whose_server_dies) {
    hosts(2, {.rpc_timeout_s = 2});
    Pending bench = console().start(
        "bench", map({{"client", console().text()}, {"server", rig[1].text()}, {"seconds", 600}}));
    EXPECT_TRUE(eventually([&] { return bench.parts() > 0; }));
    rig.kill(1);
    const Answer answer = bench.wait();
    ASSERT_TRUE(answer.ok()) << answer.error.text;
    EXPECT_EQ(answer.value["errors"].as_int(), 8);  // each unit once
    EXPECT_GT(answer.value["rpcs"].as_int(), 0);
}

// With a time-out of RPCs that is longer than the bench nothing but the standstill tells.
TEST_F(SelftestBench, a_bench_that_stands_still_fails) {
    hosts(2);
    Pending bench = console().start(
        "bench", map({{"client", console().text()}, {"server", rig[1].text()}, {"seconds", 600}}));
    EXPECT_TRUE(eventually([&] { return bench.parts() > 0; }));
    rig.net.cut(rig[1].nid(), true);
    const Answer answer = bench.wait();
    EXPECT_EQ(answer.code(), -ETIMEDOUT) << answer.error.text;
    rig.net.heal(rig[1].nid());
}

TEST_F(SelftestBench, a_bench_of_a_fraction_of_a_second) {
    hosts(2);
    const auto seconds_of = [&](double seconds) {
        const Value args = map({{"client", console().text()},
                                {"server", rig[1].text()},
                                {"size", 4096},
                                {"seconds", seconds}});
        return console().must("bench", args)["seconds"].as_real();
    };
    EXPECT_GE(seconds_of(1.5), 1.5);
    // A late timer makes it longer; not every time.
    EXPECT_TRUE(eventually([&] {
        const double seconds = seconds_of(0.25);
        EXPECT_GE(seconds, 0.25);
        return seconds < 1;
    }));
}

TEST_F(SelftestBench, closing_answers_everything) {
    hosts(2);
    Pending bench = console().start(
        "bench", map({{"client", console().text()}, {"server", rig[1].text()}, {"seconds", 600}}));
    EXPECT_TRUE(eventually([&] { return bench.parts() > 0; }));
    console().close_selftest();
    EXPECT_TRUE(bench.done());
    EXPECT_EQ(bench.wait().code(), -ESHUTDOWN);
}

}  // namespace
}  // namespace ulnet::lst
