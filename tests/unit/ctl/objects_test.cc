// The commands of net, peer, ping, stats, global, config and cpt on a real Node.
#include "lnet/ctl/objects.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "fake_lnd.h"
#include "lnds/lo/lo.h"
#include "tests/unit/cpt/wait.h"

namespace ulnet::ctl {
namespace {

struct Answer {
    Error error;
    Value value;
};

class TestCall final : public Call {
 public:
    TestCall(Value args, std::promise<Answer> answer)
        : args_(std::move(args)), answer_(std::move(answer)) {}
    const Value& args() const override { return args_; }
    void reply(Value result) override { answer_.set_value({{}, std::move(result)}); }
    void fail(Error error) override { answer_.set_value({std::move(error), {}}); }
    void progress(Value) override {}
    bool alive() const override { return true; }
    void on_gone(std::function<void()>) override {}

 private:
    const Value args_;
    std::promise<Answer> answer_;
};

class ObjectsTest : public ::testing::Test {
 protected:
    ObjectsTest()
        : sched_(CptTable::single(2), {.workers_per_cpt = 2, .pin = false, .seed = 1}),
          lo_(make_lo_lnd()), lnds_{lo_.get(), &tcp_} {
        run_on(sched_, 0, [&] {
            node_ = std::make_unique<Node>(sched_, lnds_, NodeOptions{});
            register_objects(*node_, registry_, {.lnds = lnds_, .addresses = [] {
                                                     return std::vector<InterfaceAddress>{
                                                         {"lo", {127, 0, 0, 1}, true, true},
                                                         {"eth0", {10, 0, 0, 1}, true, false},
                                                         {"eth1", {10, 0, 0, 2}, true, false}};
                                                 }});
            register_cpt(sched_, registry_);
        });
    }
    ~ObjectsTest() override {
        std::atomic<bool> closed = false;
        FnTask done([&] { closed = true; });
        node_->close(done);
        EXPECT_TRUE(test::eventually([&] { return closed.load(); }));
        node_.reset();
        sched_.stop();
    }
    Answer ask(std::string_view object, std::string_view verb, std::string_view args = "{}") {
        std::string why;
        const Result<Value> parsed = parse_json(args, why);
        EXPECT_TRUE(parsed.ok()) << why << args;
        const Command* command = registry_.find(object, verb);
        EXPECT_NE(command, nullptr) << object << verb;
        std::promise<Answer> promise;
        std::future<Answer> future = promise.get_future();
        auto call = std::make_shared<CallPtr>(
            std::make_unique<TestCall>(parsed.ok() ? *parsed : Value(), std::move(promise)));
        node_->control([command, call] { command->run(std::move(*call)); });
        return future.get();
    }
    void good(std::string_view object, std::string_view verb, std::string_view args = "{}") {
        const Answer answer = ask(object, verb, args);
        EXPECT_TRUE(answer.error.ok()) << answer.error.text;
    }
    void bad(std::string_view object, std::string_view verb, std::string_view args, int code,
             std::string_view says) {
        const Answer answer = ask(object, verb, args);
        EXPECT_EQ(answer.error.status.code(), -code) << args;
        EXPECT_NE(answer.error.text.find(says), std::string::npos) << answer.error.text;
    }
    std::string nids() {
        std::string text;
        const Answer answer = ask("net", "show");
        for (const Value& net : answer.value["net"].items())
            for (const Value& ni : net["local NI(s)"].items()) text += ni["nid"].as_text() + " ";
        return text;
    }

    ThreadSched sched_;
    std::unique_ptr<Lnd> lo_;
    test::FakeLnd tcp_;
    Lnd* lnds_[2];
    Registry registry_;
    std::unique_ptr<Node> node_;
};

TEST_F(ObjectsTest, NetAddShowDel) {
    good("net", "add", R"({"net":"tcp","if":"eth0"})");
    good("net", "add", R"({"nid":"10.0.0.2@tcp,127.0.0.5@tcp7","conns_per_peer":"3"})");
    EXPECT_EQ(nids(), "0@lo 10.0.0.1@tcp 10.0.0.2@tcp 127.0.0.5@tcp7 ");
    const Value shown = ask("net", "show", R"({"net":"tcp7","verbose":5})").value;
    const Value& ni = shown["net"].items()[0]["local NI(s)"].items()[0];
    EXPECT_EQ(ni["interfaces"]["0"], Value("lo"));
    EXPECT_EQ(ni["lnd tunables"]["conns_per_peer"], Value(3));
    EXPECT_EQ(ni["driver"]["connections"], Value(0));
    good("net", "del", R"({"net":"tcp","if":"eth1"})");
    EXPECT_EQ(nids(), "0@lo 10.0.0.1@tcp 127.0.0.5@tcp7 ");
    good("net", "del", R"({"net":"tcp"})");
    good("net", "del", R"({"nid":"127.0.0.5@tcp7"})");
    EXPECT_EQ(nids(), "0@lo ");
    good("net", "add", R"({"net":"tcp","if":"eth0"})");  // and again
    EXPECT_EQ(nids(), "0@lo 10.0.0.1@tcp ");
}

TEST_F(ObjectsTest, NetRefusals) {
    good("net", "add", R"({"net":"tcp","if":"eth0"})");
    bad("net", "add", R"({"net":"tcp","if":"eth0"})", EEXIST, "10.0.0.1@tcp exists on this node");
    bad("net", "add", R"({"net":"tcp","nid":"10.0.0.2@tcp"})", EINVAL, "not together with net");
    bad("net", "add", "{}", EINVAL, "missing mandatory parameters in NI config: 'network'");
    bad("net", "add", R"({"net":"tcp"})", EINVAL,
        "creating a local NI needs at least one interface");
    bad("net", "add", R"({"net":"o2ib","if":"eth0"})", EINVAL, "drivers of this node: tcp");
    bad("net", "add", R"({"net":"lo","if":"eth0"})", EINVAL, "every node has its loopback");
    bad("net", "add", R"({"net":"tcp1","if":"eth0","cpt":"[9]"})", ERANGE, "partitions 0 ... 0");
    bad("net", "del", "{}", EINVAL, "missing mandatory parameters");
    for (const char* verb : {"show", "del"})
        bad("net", verb, R"({"net":"tcp9"})", ESRCH, "this node has no network 'tcp9'");
    bad("net", "set", R"({"net":"tcp9","conns_per_peer":1})", ESRCH,
        "this node has no network 'tcp9'");
    bad("net", "del", R"({"net":"tcp","if":"eth0,eth9"})", ENODEV,
        "cannot del LNet NI: network 'tcp' is not on interface 'eth9'");
    bad("net", "del", R"({"net":"tcp","nid":"10.0.0.1@tcp"})", EINVAL, "not together with net");
    bad("net", "del", R"({"net":"lo"})", EINVAL, "'lo' is part of every node");
    bad("net", "del", R"({"nid":"0@lo"})", ENODEV, "no NI '0@lo' to remove");
    bad("net", "del", R"({"nid":["10.0.0.1@tcp","10.9.9.9@tcp"]})", ENODEV, "10.9.9.9@tcp");
    EXPECT_EQ(nids(), "0@lo 10.0.0.1@tcp ");  // the first of the two has not gone alone
}

TEST_F(ObjectsTest, AddingIsAllOrNothing) {
    tcp_.refused_nid = "10.0.0.2@tcp";
    bad("net", "add", R"({"nid":"10.0.0.1@tcp,127.0.0.1@tcp,10.0.0.2@tcp"})", EADDRINUSE,
        "the port is in use");
    EXPECT_EQ(nids(), "0@lo ");
    tcp_.refused_nid.clear();
    good("net", "add", R"({"nid":"10.0.0.1@tcp,127.0.0.1@tcp,10.0.0.2@tcp"})");
    EXPECT_EQ(nids(), "0@lo 10.0.0.1@tcp 127.0.0.1@tcp 10.0.0.2@tcp ");
}

TEST_F(ObjectsTest, NetSet) {
    good("net", "add", R"({"nid":"10.0.0.1@tcp,10.0.0.2@tcp1"})");
    const auto value = [&](int net, std::string_view name) {
        const Answer answer = ask("net", "show", R"({"verbose":5})");
        return answer.value["net"]
            .items()[static_cast<std::size_t>(net)]["local NI(s)"]
            .items()[0]["lnd tunables"][name];
    };
    good("net", "set", R"({"nid":"10.0.0.1@tcp","tunables":["mode=on","conns_per_peer=9"]})");
    EXPECT_EQ(value(1, "mode"), Value("on"));
    EXPECT_EQ(value(1, "conns_per_peer"), Value(9));
    EXPECT_EQ(value(2, "mode"), Value("off"));
    good("net", "set", R"({"net":"tcp1","timeout":"77"})");
    EXPECT_EQ(value(2, "timeout"), Value(77));
    EXPECT_EQ(value(1, "timeout"), Value(50));
    good("net", "set", R"({"all":true,"conns_per_peer":"4"})");
    EXPECT_EQ(value(1, "conns_per_peer"), Value(4));
    EXPECT_EQ(value(2, "conns_per_peer"), Value(4));
    bad("net", "set", "{}", EINVAL, "one of nid, net and all");
    bad("net", "set", R"({"all":true})", EINVAL, "needs a value");
    bad("net", "set", R"({"nid":"1.2.3.4@tcp","conns_per_peer":1})", ENODEV, "no NI '1.2.3.4@tcp'");
    bad("net", "set", R"({"all":true,"tunables":"tos=5"})", EINVAL, "is fixed while the NI runs");
    bad("net", "set", R"({"all":true,"tunables":"typo=5"})", EINVAL,
        "'typo' of 10.0.0.1@tcp is not known; allowed: conns_per_peer, sock_timeout, mode");
    bad("net", "set", R"({"all":true,"tunables":["mode=off","conns_per_peer=128"]})", ERANGE,
        "conns_per_peer: '128' is not allowed; allowed: 0 ... 127");
    EXPECT_EQ(value(1, "mode"), Value("on"));  // nothing of a refused request is done
}

TEST_F(ObjectsTest, Ping) {
    good("net", "add", R"({"net":"tcp","if":"eth0"})");
    const Value own = ask("ping", "run", R"({"nids":"0@lo"})").value;
    ASSERT_EQ(own["ping"].size(), 1u) << to_json(own);
    EXPECT_EQ(own["ping"].items()[0]["primary nid"], Value("10.0.0.1@tcp"));
    EXPECT_EQ(own["ping"].items()[0]["peer_ni"].size(), 1u);
    const Value mixed = ask("ping", "run", R"({"nids":["0@lo","10.0.0.[8-9]@tcp5"]})").value;
    EXPECT_EQ(mixed["ping"].size(), 1u);
    ASSERT_EQ(mixed["failed"].size(), 2u) << to_json(mixed);
    EXPECT_TRUE(mixed["failed"].items()[0]["descr"].as_text().starts_with(
        "failed to ping 10.0.0.8@tcp5: "));
    EXPECT_LT(mixed["failed"].items()[0]["errno"].as_int(), 0);
    const Value wrong_source =
        ask("ping", "run", R"({"nids":"0@lo","source":"1.1.1.1@tcp"})").value;
    EXPECT_EQ(wrong_source["failed"].size(), 1u) << to_json(wrong_source);
    bad("ping", "run", R"({"nids":"garbage"})", EINVAL, "nids: 'garbage' is not allowed");
    bad("ping", "run", "{}", EINVAL, "nothing to ping");
    bad("ping", "run", R"({"nids":"10.[0-255].[0-255].1@tcp"})", E2BIG, "is not allowed");
}

TEST_F(ObjectsTest, StatsPeersGlobalCpt) {
    good("ping", "run", R"({"nids":"0@lo"})");
    EXPECT_EQ(ask("stats", "show").value["statistics"].size(), 26u);
    good("stats", "reset");
    EXPECT_EQ(ask("stats", "show").value["statistics"]["send_count"], Value(0));
    good("peer", "show", R"({"verbose":5})");
    good("peer", "list");
    bad("peer", "show", R"({"nid":"10.9.9.9@tcp"})", ENOENT, "no peer has the NID '10.9.9.9@tcp'");
    EXPECT_EQ(ask("global", "show").value["global"]["retry_count"], Value(2));
    const Value cpts = ask("cpt", "show").value;
    ASSERT_EQ(cpts["cpt"].size(), 1u);
    EXPECT_EQ(cpts["cpt"].items()[0]["workers"].size(), 2u);
}

TEST_F(ObjectsTest, ConfigAppliesAndExports) {
    const auto apply = [&](const std::string& yaml) {
        return ask("config", "apply", to_json(Value::map({{"yaml", Value(yaml)}})));
    };
    const std::string file = "net:\n - net type: tcp\n   local NI(s):\n"
                             "    - interfaces: {0: eth0}\n      tunables: {credits: 99}\n"
                             "    - interfaces: {0: eth1}\n"
                             "global: {retry_count: 2, health_sensitivity: 100}\n";
    const Answer first = apply(file);
    ASSERT_TRUE(first.error.ok()) << first.error.text;
    EXPECT_NE(first.value["note"].as_text().find("global health_sensitivity"), std::string::npos);
    const Value exported = ask("config", "export").value;
    EXPECT_EQ(exported["net"].items()[0]["local NI(s)"].size(), 2u);
    EXPECT_TRUE(apply(to_yaml(exported, YamlStyle::netlink6)).error.ok());  // changes nothing
    EXPECT_EQ(ask("config", "export").value, exported);
    EXPECT_EQ(apply("net: [\n").error.status.code(), -EINVAL);
    EXPECT_NE(apply("global: {retry_count: 9}").error.text.find("can only change when"),
              std::string::npos);
    good("net", "del", R"({"net":"tcp"})");
    tcp_.refused_nid = "10.0.0.2@tcp";
    EXPECT_EQ(apply(file).error.status.code(), -EADDRINUSE);
    EXPECT_EQ(nids(), "0@lo ");
}

}  // namespace
}  // namespace ulnet::ctl
