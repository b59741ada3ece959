// A driver that only has a name and tunables, for tests of configuration.
#pragma once

#include "lnet/lnd.h"

namespace ulnet::test {

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
    Result<std::unique_ptr<LndNi>> open(const NiConfig&, LndUp&, Sched&,
                                        std::string& why) override {
        why = "a driver for tests opens nothing";
        return Status(-EIO);
    }
};

}  // namespace ulnet::test
