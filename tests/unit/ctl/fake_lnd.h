// A driver with tunables and NIs that carry no messages, for tests of configuration.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lnet/lnd.h"

namespace ulnet::test {

class FakeNi final : public LndNi {
 public:
    FakeNi(Sched& sched, CptId cpt) : sched_(sched), cpt_(cpt) {}
    void send(Msg&) override { ADD_FAILURE() << "these NIs carry nothing"; }
    void receive(RxToken, Msg*, u32) override { ADD_FAILURE() << "nothing has arrived"; }
    Status park(RxToken) override { return Status(-EIO); }
    void drop_peer(const Nid&) override {}
    void describe(ctl::Value& out) const override { out.set("connections", 0); }
    Status tune(std::size_t, i64) override { return ok_status; }
    void close(Task& done) override { sched_.post(cpt_, done); }

 private:
    Sched& sched_;
    const CptId cpt_;
};

class FakeLnd final : public Lnd {
 public:
    static constexpr std::string_view modes[] = {"off", "on", "auto"};
    static constexpr TunableSpec specs[] = {
        {"conns_per_peer", 1, 0, 127, {}, "", true, "connections"},
        {"sock_timeout", 50, 1, 3600, {}, "s", true, "time-out"},
        {"tos", -1, -1, 255, {}, "", false, "type of service"},
        {"mode", 0, 0, 2, modes, "", true, "a word"},
    };
    std::string_view name() const override { return "tcp"; }
    NetType net_type() const override { return NetType::tcp; }
    LndCaps caps() const override { return {}; }
    std::span<const TunableSpec> tunables() const override { return specs; }
    Error check_together(std::span<const i64> values) const override {
        if (values[2] < values[0] || values[2] < 0) return {};
        return {Status(-ERANGE), "tos: '" + std::to_string(values[2]) +
                                     "' is not allowed; allowed: less than conns_per_peer"};
    }
    Result<std::unique_ptr<LndNi>> open(const NiConfig& config, LndUp&, Sched& sched,
                                        std::string& why) override {
        if (to_text(config.nid) == refused_nid) {
            why = "the port is in use";
            return Status(-EADDRINUSE);
        }
        const CptId cpt = config.cpts.empty() ? 0 : config.cpts.front();
        return std::unique_ptr<LndNi>(new FakeNi(sched, cpt));
    }
    std::string refused_nid;  // cannot be opened
};

}  // namespace ulnet::test
