// The driver: capabilities, and the opening of NIs.
#include <atomic>
#include <cerrno>

#include "lnds/ofi/ni.h"
#include "lnds/ofi/ofi.h"

namespace ulnet::ofi {
namespace {

class OfiLnd final : public Lnd {
 public:
    std::string_view name() const override { return "kfi"; }
    NetType net_type() const override { return NetType::kfi; }
    LndCaps caps() const override {
        return {.timeout = std::chrono::seconds(50), .busy_poll = true};
    }
    std::span<const TunableSpec> tunables() const override { return tunable_specs(); }
    Error check_addresses(const NiConfig& config) const override {
        const Provider provider = Tunables(config.tunables).provider();
        for (const auto& [nid, text] : config.addresses) {
            const Error error = check_address(provider, text);
            if (!error.ok())
                return {error.status,
                        to_text(nid) + ": '" + text + "' is not allowed; " + error.text};
        }
        return {};
    }
    Result<std::unique_ptr<LndNi>> open(const NiConfig& config, LndUp& up, Sched& sched,
                                        std::string& why) override {
        std::function<void()> gone = [] {};
        if (Tunables(config.tunables).provider() == Provider::shm) {
            if (shm_in_use_.exchange(true)) {
                why = "provider: 'shm' is not allowed; this node has an interface of that provider "
                      "already, and libfabric allows one in a process";
                return Status(-EBUSY);
            }
            gone = [this] { shm_in_use_.store(false); };
        }
        auto ni = std::make_unique<OfiNi>(config, up, sched, std::move(gone));
        if (const Status status = ni->open(why); !status.ok()) return status;
        return std::unique_ptr<LndNi>(std::move(ni));
    }

 private:
    std::atomic<bool> shm_in_use_{false};
};

}  // namespace

std::unique_ptr<Lnd> make_ofi_lnd() {
    return std::make_unique<OfiLnd>();
}

}  // namespace ulnet::ofi
