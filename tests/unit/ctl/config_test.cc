// Plans of configuration files: what they add, what is refused and where, export and back.
#include "lnet/ctl/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "fake_lnd.h"
#include "lnet/ctl/bounds.h"

namespace ulnet::ctl {
namespace {

using test::FakeLnd;

class ConfigTest : public ::testing::Test {
 protected:
    ConfigTest() {
        context_.lnds = lnds_;
        context_.addresses = {
            {"lo", {127, 0, 0, 1}, true, true},
            {"eth0", {10, 0, 0, 1}, true, false},
            {"eth0", {10, 0, 0, 2}, true, false},
            {"eth1", {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, true, false},
            {"eth2", {}, false, false},
        };
        context_.cpts = 2;
    }
    Error plan(std::string_view text, std::span<const NiConfig> existing = {}) {
        std::string why;
        const Result<Value> tree = parse_yaml(text, why);
        EXPECT_TRUE(tree.ok()) << why;
        plan_ = {};
        return plan_config(tree.ok() ? *tree : Value(), context_, existing, {}, plan_);
    }
    FakeLnd tcp_;
    Lnd* lnds_[1] = {&tcp_};
    NiContext context_;
    ConfigPlan plan_;
};

TEST_F(ConfigTest, EverythingIsTakenOver) {
    const Error error = plan(R"(
net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
    - net type: tcp1
      local NI(s):
        - interfaces:
              0: eth0
          tunables:
              peer_timeout: 100
              peer_credits: 16
              peer_buffer_credits: 4
              credits: 512
          lnd tunables:
              conns_per_peer: 4
              mode: auto
          CPT: "[1]"
        - nid: 127.0.0.2@tcp1
          status: up
global:
    discovery: 0
    retry_count: 5
    transaction_timeout: 60
    health_sensitivity: 100
)");
    ASSERT_TRUE(error.ok()) << error.text;
    ASSERT_EQ(plan_.nis.size(), 2u);
    const NiConfig& first = plan_.nis[0];
    EXPECT_EQ(to_text(first.nid), "10.0.0.1@tcp1");
    EXPECT_EQ(to_text(first.net), "tcp1");
    EXPECT_EQ(first.interface, "eth0");
    EXPECT_EQ(first.peer_timeout_s, 100);
    EXPECT_EQ(first.peer_credits, 16u);
    EXPECT_EQ(first.peer_buffer_credits, 4u);
    EXPECT_EQ(first.credits, 512u);
    EXPECT_EQ(first.cpts, std::vector<CptId>{1});
    EXPECT_EQ(first.tunables, (std::vector<i64>{4, 50, -1, 2}));
    const NiConfig& second = plan_.nis[1];
    EXPECT_EQ(to_text(second.nid), "127.0.0.2@tcp1");
    EXPECT_EQ(second.interface, "lo");
    EXPECT_EQ(second.credits, 256u);
    EXPECT_EQ(second.tunables, (std::vector<i64>{1, 50, -1, 0}));
    EXPECT_FALSE(plan_.options.discovery);
    EXPECT_EQ(plan_.options.retry_count, 5u);
    EXPECT_EQ(plan_.options.transaction_timeout_s, 60u);
    EXPECT_EQ(plan_.note,
              "not available in this version and not applied: global health_sensitivity");
}

// What the kernel's tool exports is taken as it is; one sentence names all that is left out.
TEST_F(ConfigTest, TheKernelToolsSectionsAreTaken) {
    const std::string net = "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0}\n";
    const std::string rest = "route:\n- {net: o2ib, gateway: 10.0.0.9@tcp}\n"
                             "routing:\n- cpt[0]: {tiny: {npages: 0}}\n- enable: 0\n"
                             "buffers: {tiny: 0, small: 0, large: 0}\n"
                             "peer:\n- primary nid: 10.0.0.9@tcp\n"
                             "global: {numa_range: 0, max_interfaces: 200, discovery: 1, "
                             "drop_asym_route: 1, lnd_timeout: 16, recovery_limit: 0}\n"
                             "numa: {range: 0}\n"
                             "udsp:\n- {idx: 0, src: tcp, action: {priority: 0}}\n";
    const Error error = plan(net + rest);
    ASSERT_TRUE(error.ok()) << error.text;
    EXPECT_EQ(plan_.nis.size(), 1u);
    EXPECT_EQ(plan_.note, "not available in this version and not applied: sections route, routing, "
                          "buffers, peer, numa, udsp; global max_interfaces, drop_asym_route");
    ASSERT_TRUE(plan(net + "peer:\nroute:\nglobal: {discovery: 1}\n").ok());
    EXPECT_EQ(plan_.note, "");
    EXPECT_EQ(plan("ip2nets:\n- net-spec: tcp\n").text,
              "line 1, column 1: ip2nets: not available yet; allowed: net, global");
}

TEST_F(ConfigTest, AnEmptyFileAsksForNothing) {
    EXPECT_TRUE(plan("").ok());
    EXPECT_TRUE(plan("net:\nglobal:\n").ok());
    EXPECT_TRUE(plan_.nis.empty());
}

TEST_F(ConfigTest, RefusalsNameThePlace) {
    const std::string ni = "net:\n - net type: tcp\n   local NI(s):\n    - ";
    const struct {
        std::string text;
        int code;
        const char* says;
    } cases[] = {
        {"routes: [1]", EINVAL, "line 1, column 1: unknown key 'routes'; allowed: net, global"},
        {"- 1", EINVAL, "line 1, column 1: the file must be a map; allowed: net, global"},
        {"net: 5", EINVAL,
         "line 1, column 6: net: '5' is not allowed; allowed: a list of networks"},
        {"net: [5]", EINVAL, "line 1, column 7: net: '5' is not allowed; allowed: a map with"},
        {"net:\n - net type: bogus\n", EINVAL,
         "line 2, column 14: net type: 'bogus' is not allowed; allowed: the name of a network"},
        {"net:\n - local NI(s): []\n", EINVAL, "line 2, column 4: net type: nothing is not"},
        {"net:\n - net type: tcp\n", EINVAL,
         "line 2, column 4: local NI(s): nothing is not allowed; allowed: a list with at least"},
        {"net:\n - net type: o2ib\n   local NI(s):\n    - interfaces: {0: eth0}\n", EINVAL,
         "net: 'o2ib' is not allowed; drivers of this node: tcp"},
        {"net:\n - net type: tcp\n   typo: 1\n", EINVAL,
         "line 3, column 4: unknown key 'typo'; allowed: net type, local NI(s)"},
        {ni + "interfaces: {0: eth9}", ENODEV,
         "line 4, column 23: cannot add LNet NI: no interface matching 'eth9'; allowed: lo, eth0, "
         "eth1, eth2"},
        {ni + "interfaces: {0: eth1}", EADDRNOTAVAIL,
         "line 4, column 23: cannot add LNet NI: interface 'eth1' has no IPv4 address"},
        {ni + "interfaces: {0: 'eth0[7]'}", ERANGE,
         "line 4, column 23: cpt: '[7]' is not allowed; allowed: partitions 0 ... 1"},
        {ni + "nid: 10.9.9.9@tcp", EADDRNOTAVAIL,
         "line 4, column 12: nid: '10.9.9.9@tcp' is not allowed; no interface of this machine"},
        {ni + "nid: 10.0.0.1@tcp2", EINVAL,
         "line 4, column 12: nid: '10.0.0.1@tcp2' is not allowed; allowed: a NID on tcp"},
        {ni + "{nid: 10.0.0.1@tcp, interfaces: {0: lo}}", EINVAL,
         "line 4, column 13: nid: '10.0.0.1@tcp' is not allowed; the address is of eth0, and "
         "interfaces names 'lo'"},
        {ni + "{nid: 10.0.0.1@tcp}\n    - {nid: 10.0.0.1@tcp}\n", EEXIST,
         "line 5, column 13: cannot add LNet NI: 10.0.0.1@tcp exists on this node already"},
        {ni + "status: up", EINVAL,
         "line 4, column 7: creating a local NI needs at least one interface (if) or nid"},
        {ni + "{nid: 10.0.0.1@tcp, tunables: {peer_credits: 300}}", ERANGE,
         "line 4, column 52: peer_credits: '300' is not allowed; allowed: 1 ... 256 (credits of "
         "the interface)"},
        {ni + "{nid: 10.0.0.1@tcp, lnd tunables: {conns_per_peer: 128}}", ERANGE,
         "line 4, column 58: conns_per_peer: '128' is not allowed; allowed: 0 ... 127"},
        {ni + "{nid: 10.0.0.1@tcp, lnd tunables: {timeout: x}}", EINVAL,
         "line 4, column 51: sock_timeout: 'x' is not allowed; allowed: 1 ... 3600 s"},
        {ni + "{nid: 10.0.0.1@tcp, lnd tunables: {mode: maybe}}", EINVAL,
         "line 4, column 48: mode: 'maybe' is not allowed; allowed: off, on, auto"},
        {ni + "{nid: 10.0.0.1@tcp, lnd tunables: {typo: 1}}", EINVAL,
         "line 4, column 42: unknown tunable 'typo' of driver tcp; allowed: conns_per_peer, "
         "sock_timeout, tos, mode"},
        {"global: {retry_count: 60, transaction_timeout: 60}", EINVAL,
         "line 1, column 9: transaction_timeout: '60' is not allowed; allowed: more than"},
        {ni + "{nid: 10.0.0.1@tcp, lnd tunables: {conns_per_peer: 9, tos: 9}}", ERANGE,
         "line 4, column 13: tos: '9' is not allowed; allowed: less than conns_per_peer"},
        {"global: {typo: 1}", EINVAL, "line 1, column 10: unknown key 'typo'; allowed: discovery"},
    };
    for (const auto& c : cases) {
        const Error error = plan(c.text);
        EXPECT_EQ(error.status.code(), -c.code) << c.text;
        EXPECT_NE(error.text.find(c.says), std::string::npos) << error.text << "\n" << c.says;
    }
}

TEST_F(ConfigTest, WhatExistsAsAskedForStays) {
    const std::string text = "net:\n - net type: tcp\n   local NI(s):\n    - nid: 10.0.0.2@tcp\n";
    ASSERT_TRUE(plan(text).ok());
    const std::vector<NiConfig> existing = plan_.nis;
    ASSERT_TRUE(plan(text, existing).ok());
    EXPECT_TRUE(plan_.nis.empty());
    const Error error = plan(text + "      tunables: {credits: 9}\n", existing);
    EXPECT_EQ(error.status.code(), -EEXIST);
    EXPECT_TRUE(error.text.starts_with("line 4, column 7: 10.0.0.2@tcp exists on this node with"))
        << error.text;
}

TEST_F(ConfigTest, ExportPlansTheSameAgain) {
    ASSERT_TRUE(plan("net:\n - net type: tcp\n   local NI(s):\n"
                     "    - {nid: 10.0.0.1@tcp, lnd tunables: {mode: on}, CPT: '[0]'}\n"
                     "    - {nid: '2001:db8::1@tcp', tunables: {credits: 77}}\n"
                     " - net type: tcp5\n   local NI(s):\n    - interfaces: {0: eth0}\n"
                     "global: {retry_count: 3}\n")
                    .ok());
    const ConfigPlan first = plan_;
    ASSERT_EQ(first.nis.size(), 3u);
    std::vector<NiView> views(first.nis.size());
    for (std::size_t i = 0; i < views.size(); ++i) {
        views[i].config = first.nis[i];
        views[i].tunables = FakeLnd::specs;
    }
    for (const YamlStyle style : {YamlStyle::netlink6, YamlStyle::classic}) {
        const std::string text = to_yaml(export_config(views, first.options, 2), style);
        const Error error = plan(text);
        ASSERT_TRUE(error.ok()) << error.text << "\n" << text;
        ASSERT_EQ(plan_.nis.size(), first.nis.size());
        for (std::size_t i = 0; i < views.size(); ++i) {
            EXPECT_EQ(plan_.nis[i].nid, first.nis[i].nid);
            EXPECT_EQ(plan_.nis[i].tunables, first.nis[i].tunables);
            EXPECT_EQ(plan_.nis[i].credits, first.nis[i].credits);
            EXPECT_EQ(plan_.nis[i].interface, first.nis[i].interface);
            views[i].config = plan_.nis[i];
        }
        EXPECT_EQ(plan_.options.retry_count, 3u);
        EXPECT_EQ(to_yaml(export_config(views, plan_.options, 2), style), text);
    }
}

TEST(ConfigFile, ErrorsNameTheFile) {
    char name[] = "/tmp/ulnet-config-XXXXXX";
    ::close(::mkstemp(name));
    std::ofstream(name) << "net: [\n";
    Value tree;
    Error error = read_yaml_file(name, tree);
    EXPECT_TRUE(error.text.starts_with(std::string(name) + ": ")) << error.text;
    EXPECT_NE(error.text.find("at line 2, column 1"), std::string::npos) << error.text;
    std::ofstream(name, std::ios::trunc) << "net:\n";
    EXPECT_TRUE(read_yaml_file(name, tree).ok());
    ::unlink(name);
    error = read_yaml_file(name, tree);
    EXPECT_EQ(error.text, "cannot read '" + std::string(name) + "': No such file or directory");
    EXPECT_EQ(read_yaml_file("/", tree).text, "cannot read '/': Is a directory");
    std::ofstream(name) << std::string(text_bytes_max + 1, ' ');
    EXPECT_EQ(read_yaml_file(name, tree).status.code(), -EFBIG);
    std::ofstream(name, std::ios::trunc) << std::string("net:\0\n", 6);
    EXPECT_NE(read_yaml_file(name, tree).text.find("control characters"), std::string::npos);
    ::unlink(name);
}

TEST(Interfaces, TheMachineHasALoopback) {
    const std::vector<InterfaceAddress> all = interface_addresses();
    const u8 address[] = {127, 7, 7, 7};
    const InterfaceAddress* owner = find_address(all, address);
    ASSERT_NE(owner, nullptr);
    EXPECT_TRUE(owner->loopback);
    bool known = true;
    EXPECT_EQ(first_ipv4(all, "no such interface", known), nullptr);
    EXPECT_FALSE(known);
}

}  // namespace
}  // namespace ulnet::ctl
