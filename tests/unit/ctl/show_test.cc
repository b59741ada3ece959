// What show commands print equals the kernel tool's output byte for byte, from made-up views.
#include <gtest/gtest.h>

#include "fake_lnd.h"
#include "lnet/ctl/objects.h"
#include "transcript.h"

namespace ulnet::ctl {
namespace {

using test::FakeLnd;
using test::transcript;

NiView lo_view() {
    NiView ni{};
    ni.config.net = net_lo;
    ni.config.nid = nid_lo();
    ni.up = true;
    ni.driver = "lo";
    return ni;
}
NiView tcp_view(u64 messages) {
    NiView ni{};
    ni.config.net = *parse_net("tcp");
    ni.config.nid = *parse_nid("10.77.0.3@tcp");
    ni.config.interface = "eth0";
    ni.config.tunables = {1, 50, -1, 2};
    ni.up = true;
    ni.driver = "tcp";
    ni.tunables = FakeLnd::specs;
    ni.send_count = ni.recv_count = messages;
    ni.health = 1000;
    ni.dev_cpt = -1;
    return ni;
}
PeerView peer_view(const char* nid, bool multi_rail, u64 messages, i64 low) {
    PeerNiView ni{};
    ni.nid = *parse_nid(nid);
    ni.credits_max = 8;
    ni.credits_free = 8;
    ni.credits_low = low;
    ni.send_count = ni.recv_count = messages;
    ni.health = 1000;
    ni.refcount = 1;
    return {ni.nid, multi_rail, 273, {ni}};
}

TEST(Show, NetEqualsTheKernelTool) {
    const std::vector<NiView> nis{lo_view(), tcp_view(613)};
    const auto shown = [&](Net only, i64 level) {
        return to_yaml(show_nets(nis, only, level, 1), YamlStyle::netlink6);
    };
    EXPECT_EQ(shown(net_any, 0), transcript("lnetctl.txt", "lnetctl net show").output);
    EXPECT_EQ(shown(net_any, 1), transcript("lnetctl.txt", "lnetctl net show -v 1").output);
    EXPECT_EQ(shown(*parse_net("tcp"), 0),
              transcript("lnetctl.txt", "lnetctl net show --net tcp").output);
    EXPECT_EQ(show_nets(nis, *parse_net("tcp9"), 0, 1)["net"].size(), 0u);
}

TEST(Show, NetLevels) {
    NiView tcp = tcp_view(5);
    tcp.sent.put = 3;
    tcp.driver_view = Value::map({{"connections", Value(3)}});
    const std::vector<NiView> nis{tcp};
    const auto keys = [&](i64 level) {
        const Value shown = show_nets(nis, net_any, level, 4);
        const Value& ni = shown["net"].items()[0]["local NI(s)"].items()[0];
        std::string text;
        for (const auto& [key, value] : ni.members()) text += key + ",";
        return text;
    };
    EXPECT_EQ(keys(2), "nid,status,interfaces,statistics,sent_stats,received_stats,dropped_stats,"
                       "health stats,tunables,lnd tunables,dev cpt,CPT,");
    EXPECT_EQ(keys(3), keys(2));
    EXPECT_EQ(keys(4), "nid,status,interfaces,statistics,udsp info,sent_stats,received_stats,"
                       "dropped_stats,health stats,tunables,lnd tunables,dev cpt,CPT,");
    EXPECT_EQ(keys(5), keys(4) + "driver,");
    const Value shown = show_nets(nis, net_any, 5, 4);
    const Value& ni = shown["net"].items()[0]["local NI(s)"].items()[0];
    EXPECT_EQ(ni["CPT"], Value("[0,1,2,3]"));
    EXPECT_EQ(ni["sent_stats"]["put"], Value(3));
    EXPECT_EQ(ni["lnd tunables"]["mode"], Value("auto"));
    EXPECT_EQ(ni["driver"]["connections"], Value(3));
}

TEST(Show, PeerEqualsTheKernelTool) {
    const std::vector<PeerView> peers{peer_view("10.77.0.2@tcp", true, 611, 3),
                                      peer_view("10.77.0.3@tcp", false, 2, 7)};
    const std::vector<NiView> nis{tcp_view(0)};
    const auto shown = [&](i64 level) {
        return to_yaml(show_peers(peers, nis, level), YamlStyle::netlink6);
    };
    EXPECT_EQ(shown(0), transcript("lnetctl.txt", "lnetctl peer show").output);
    EXPECT_EQ(shown(1), transcript("lnetctl.txt", "lnetctl peer show -v 1").output);
    EXPECT_NE(shown(3).find("peer state: 273"), std::string::npos);
    EXPECT_EQ(shown(2).find("peer state"), std::string::npos);
}

TEST(Show, RouterCreditsFollowTheirSetting) {
    NiView tcp = tcp_view(0);
    tcp.config.peer_buffer_credits = 32;
    const std::vector<NiView> nis{tcp};
    const std::vector<PeerView> peers{peer_view("10.77.0.2@tcp", true, 0, 8)};
    const Value shown = show_peers(peers, nis, 1);
    EXPECT_EQ(shown["peer"].items()[0]["peer ni"].items()[0]["available_rtr_credits"], Value(32));
}

TEST(Show, StatsEqualTheKernelTool) {
    StatsView stats{};
    stats.msgs_max = 5;
    stats.send_count = stats.recv_count = 613;
    stats.local_error_count = 1;
    stats.send_length = 394008;
    stats.recv_length = 438624;
    EXPECT_EQ(to_yaml(show_stats(stats), YamlStyle::classic),
              transcript("lnetctl.txt", "lnetctl stats show").output);
}

TEST(Show, Global) {
    EXPECT_EQ(to_yaml(show_global({}), YamlStyle::classic), "global:\n"
                                                            "    discovery: 1\n"
                                                            "    retry_count: 2\n"
                                                            "    transaction_timeout: 150\n"
                                                            "    lnd_timeout: 49\n"
                                                            "    response_tracking: 3\n");
}

TEST(Show, CptsWithTheirWorkers) {
    const std::vector<CptStats> cpts{{0, 3, 17}};
    const std::vector<WorkerStats> workers{{0, 0, 250, 1000, 11, 2, 5}, {0, 1, 0, 0, 0, 0, 0}};
    EXPECT_EQ(to_yaml(show_cpts(CptTable::single(2), cpts, workers), YamlStyle::netlink6),
              "cpt:\n"
              "-     cpt: 0\n"
              "      cpus: \"[0,1]\"\n"
              "      node: 0\n"
              "      queue_length: 3\n"
              "      queue_max: 17\n"
              "      workers:\n"
              "      -     worker: 0\n"
              "            busy_percent: 25.0\n"
              "            busy_ns: 250\n"
              "            total_ns: 1000\n"
              "            tasks: 11\n"
              "            hand_offs: 2\n"
              "            wakeups: 5\n"
              "      -     worker: 1\n"
              "            busy_percent: 0.0\n"
              "            busy_ns: 0\n"
              "            total_ns: 0\n"
              "            tasks: 0\n"
              "            hand_offs: 0\n"
              "            wakeups: 0\n");
}

}  // namespace
}  // namespace ulnet::ctl
