// One NI of network type kfi: a context for each CPT it works on. Any worker.
#pragma once

#include <functional>

#include "lnds/ofi/context.h"

namespace ulnet::ofi {

class OfiNi final : public LndNi {
 public:
    // `gone` runs when the NI is destroyed.
    OfiNi(const NiConfig&, LndUp&, Sched&, std::function<void()> gone);
    ~OfiNi() override;
    Status open(std::string& why);

    void send(Msg&) override;
    void receive(RxToken, Msg* into, u32 len) override;
    Status park(RxToken) override;
    void drop_peer(const Nid&) override;
    void describe(ctl::Value&) const override;
    Status tune(std::size_t index, i64 value) override;
    void close(Task& done) override;

 private:
    class Closed final : public Task {
     public:
        explicit Closed(OfiNi& ni) : ni_(ni) {}
        void run() override;

     private:
        OfiNi& ni_;
    };
    Context& home(const Nid&) const;

    Sched& sched_;
    const std::function<void()> gone_;
    const CptId cpt_;
    Tunables tunables_;
    const AddressBook book_;
    Context::Siblings contexts_;
    std::vector<std::unique_ptr<Closed>> closed_;
    std::atomic<std::size_t> open_{0};
    Task* done_ = nullptr;
};

}  // namespace ulnet::ofi
