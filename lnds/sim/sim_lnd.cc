// The message-level driver. From each peer it reads one message at a time, as from a connection: it
// waits for the core to say where the payload goes, also while the core keeps the message parked.
#include "lnds/sim/sim_lnd.h"

#include <array>
#include <map>
#include <optional>

#include "lnds/sim/sim_ni.h"

namespace ulnet {

namespace {

constexpr std::array<TunableSpec, 1> specs{{
    {"timeout", 50, 1, 3600, {}, "s", false, "seconds a message may take"},
}};

class SimLnd final : public Lnd {
 public:
    SimLnd(SimNet& net, NetType type) : net_(net), type_(type) {}
    std::string_view name() const override { return "sim"; }
    NetType net_type() const override { return type_; }
    LndCaps caps() const override {
        LndCaps caps;
        caps.timeout = std::chrono::seconds(specs[0].def);
        return caps;
    }
    std::span<const TunableSpec> tunables() const override { return specs; }
    Result<std::unique_ptr<LndNi>> open(const NiConfig& config, LndUp& up, Sched& sched,
                                        std::string& why) override {
        auto ni = std::make_unique<sim::SimNi>(config, up, sched, net_);
        const Status status = net_.attach(config.nid, sched, *ni);
        if (!status.ok()) {
            why = "NID " + to_text(config.nid) + ": " + status.text();
            return status;
        }
        return std::unique_ptr<LndNi>(std::move(ni));
    }

 private:
    SimNet& net_;
    const NetType type_;
};

}  // namespace

std::unique_ptr<Lnd> make_sim_lnd(SimNet& net, NetType type) {
    return std::make_unique<SimLnd>(net, type);
}

}  // namespace ulnet
