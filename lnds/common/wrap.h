// A driver around another driver: what every decorator passes on unchanged. A decorator derives
// from WrapNi and overrides the calls it looks at, and from WrapLnd to say which NI it makes.
// Called as drivers are (lnet/lnd.h); holds no lock.
#pragma once

#include <atomic>

#include "lnet/lnd.h"

namespace ulnet {

class WrapNi : public LndNi, public LndUp {
 public:
    explicit WrapNi(LndUp& up) : up_(up) {}
    void opened(std::unique_ptr<LndNi> inner) {
        owned_ = std::move(inner);
        inner_.store(owned_.get(), std::memory_order_release);
    }

    void send(Msg& msg) override { inner().send(msg); }
    void receive(RxToken token, Msg* into, u32 len) override { inner().receive(token, into, len); }
    Status park(RxToken token) override { return inner().park(token); }
    void drop_peer(const Nid& nid) override { inner().drop_peer(nid); }
    void describe(ctl::Value& out) const override { inner().describe(out); }
    Status tune(std::size_t index, i64 value) override { return inner().tune(index, value); }
    void close(Task& done) override { inner().close(done); }

    Status arrived(const Hdr& hdr, const ProcessId& from, RxToken token, RdmaGet get) override {
        return up_.arrived(hdr, from, token, get);
    }
    void finished(Msg& msg, Status status, Health health) override {
        up_.finished(msg, status, health);
    }
    Msg* reply_for(Msg& get) override { return up_.reply_for(get); }
    void peer_event(const Nid& nid, PeerEvent event) override { up_.peer_event(nid, event); }
    void ni_event(NiEvent event) override { up_.ni_event(event); }

 protected:
    // An open NI may make upcalls before its opener holds it.
    bool open() const { return inner_.load(std::memory_order_acquire) != nullptr; }
    LndNi& inner() const {
        LndNi* const ni = inner_.load(std::memory_order_acquire);
        CHECK(ni != nullptr);
        return *ni;
    }
    LndUp& up_;

 private:
    std::unique_ptr<LndNi> owned_;
    std::atomic<LndNi*> inner_{nullptr};
};

class WrapLnd : public Lnd {
 public:
    explicit WrapLnd(std::unique_ptr<Lnd> inner) : inner_(std::move(inner)) {}
    std::string_view name() const override { return inner_->name(); }
    NetType net_type() const override { return inner_->net_type(); }
    LndCaps caps() const override { return inner_->caps(); }
    std::span<const TunableSpec> tunables() const override { return inner_->tunables(); }
    Error check_together(std::span<const i64> values) const override {
        return inner_->check_together(values);
    }
    Error check_addresses(const NiConfig& config) const override {
        return inner_->check_addresses(config);
    }
    Result<std::unique_ptr<LndNi>> open(const NiConfig& config, LndUp& up, Sched& sched,
                                        std::string& why) override {
        std::unique_ptr<WrapNi> ni = wrap(config, up, sched);
        Result<std::unique_ptr<LndNi>> inner = inner_->open(config, *ni, sched, why);
        if (!inner.ok()) return inner.status();
        ni->opened(std::move(*inner));
        return std::unique_ptr<LndNi>(std::move(ni));
    }

 protected:
    virtual std::unique_ptr<WrapNi> wrap(const NiConfig&, LndUp&, Sched&) = 0;

 private:
    const std::unique_ptr<Lnd> inner_;
};

}  // namespace ulnet
