// The tap driver: see the header.
#include "tests/sim/tap.h"

namespace ulnet::sim {

namespace {

class TapNi final : public LndNi, public LndUp {
 public:
    TapNi(LndUp& up, TapHooks& hooks) : up_(up), hooks_(hooks) {}
    void set_inner(std::unique_ptr<LndNi> inner) { inner_ = std::move(inner); }

    void send(Msg& msg) override {
        if (hooks_.send(msg)) inner_->send(msg);
    }
    void receive(RxToken token, Msg* into, u32 len) override { inner_->receive(token, into, len); }
    Status park(RxToken token) override { return inner_->park(token); }
    void drop_peer(const Nid& nid) override { inner_->drop_peer(nid); }
    void describe(ctl::Value& out) const override { inner_->describe(out); }
    Status tune(std::size_t index, i64 value) override { return inner_->tune(index, value); }
    void close(Task& done) override { inner_->close(done); }

    Status arrived(const Hdr& hdr, const ProcessId& from, RxToken token, RdmaGet get) override {
        if (!hooks_.arrived(hdr, from)) {
            inner_->receive(token, nullptr, 0);
            return ok_status;
        }
        return up_.arrived(hdr, from, token, get);
    }
    void finished(Msg& msg, Status status, Health health) override {
        if (hooks_.finished(msg, status, health)) up_.finished(msg, status, health);
    }
    Msg* reply_for(Msg& get) override { return up_.reply_for(get); }
    void peer_event(const Nid& nid, PeerEvent event) override { up_.peer_event(nid, event); }
    void ni_event(NiEvent event) override { up_.ni_event(event); }

 private:
    LndUp& up_;
    TapHooks& hooks_;
    std::unique_ptr<LndNi> inner_;
};

class TapLnd final : public Lnd {
 public:
    TapLnd(std::unique_ptr<Lnd> inner, TapHooks& hooks) : inner_(std::move(inner)), hooks_(hooks) {}
    std::string_view name() const override { return inner_->name(); }
    NetType net_type() const override { return inner_->net_type(); }
    LndCaps caps() const override { return inner_->caps(); }
    std::span<const TunableSpec> tunables() const override { return inner_->tunables(); }
    Result<std::unique_ptr<LndNi>> open(const NiConfig& config, LndUp& up, Sched& sched,
                                        std::string& why) override {
        auto ni = std::make_unique<TapNi>(up, hooks_);
        Result<std::unique_ptr<LndNi>> inner = inner_->open(config, *ni, sched, why);
        if (!inner.ok()) return inner.status();
        ni->set_inner(std::move(*inner));
        return std::unique_ptr<LndNi>(std::move(ni));
    }

 private:
    std::unique_ptr<Lnd> inner_;
    TapHooks& hooks_;
};

}  // namespace

std::unique_ptr<Lnd> make_tap(std::unique_ptr<Lnd> inner, TapHooks& hooks) {
    return std::make_unique<TapLnd>(std::move(inner), hooks);
}

}  // namespace ulnet::sim
