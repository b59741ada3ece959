// Loopback: a message is shown to the core by a strand of its CPT, never from within send(), and
// its payload is copied by whichever worker calls receive(). Both messages are finished by the
// strand, so that no upcall comes from within a call of the core.
#include "lnds/lo/lo.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "cpt/cpt.h"

namespace ulnet {
namespace {

class LoNi;

// Messages of one CPT.
class LoLane final : public Strand {
 public:
    LoLane(Sched& sched, CptId cpt, LoNi& ni) : Strand(sched, cpt), ni_(ni) {}
    void send(Msg&);
    void received(Msg& sent, Msg* into, u32 len);

 private:
    // Scratch words of the message that is sent.
    static constexpr unsigned scratch_into = 0;
    bool step(Budget&) override;
    void finish(Msg& sent);
    void show(Msg& sent);

    LoNi& ni_;
    std::mutex lock_;  // guards: sent_, done_
    List<Msg> sent_;   // not shown to the core yet
    List<Msg> done_;   // copied or discarded
};

class LoNi final : public LndNi {
 public:
    LoNi(const NiConfig& config, LndUp& up, Sched& sched)
        : up_(up), sched_(sched), nid_(config.nid) {
        const u32 cpts = sched.cpts().size();
        for (CptId cpt = 0; cpt < cpts; ++cpt)
            lanes_.push_back(std::make_unique<LoLane>(sched, cpt, *this));
    }
    // One hold for the message, one for the call: the message may be finished before it returns.
    void send(Msg& msg) override {
        hold();
        hold();
        lane(msg).send(msg);
        let_go();
    }
    void receive(RxToken token, Msg* into, u32 len) override {
        Msg& sent = *static_cast<Msg*>(token.driver);
        hold();
        lane(sent).received(sent, into, len);
        let_go();
    }
    Status park(RxToken) override { return ok_status; }
    void drop_peer(const Nid&) override {}
    void describe(ctl::Value& out) const override {
        if (!out.is_map()) out = ctl::Value::map();
        out.set("messages", messages_.load(std::memory_order_relaxed));
        // One is held by the NI itself until it closes.
        const u64 held = held_.load(std::memory_order_relaxed);
        out.set("in_flight", closing() ? held : held - 1);
    }
    Status tune(std::size_t, i64) override { return Status(-EINVAL); }
    void close(Task& done) override {
        done_ = &done;
        closing_.store(true, std::memory_order_release);
        for (const auto& each : lanes_) each->wake();
        let_go();
    }

    LndUp& up() const { return up_; }
    const Nid& nid() const { return nid_; }
    bool closing() const { return closing_.load(std::memory_order_acquire); }
    void count_message() { messages_.fetch_add(1, std::memory_order_relaxed); }
    void let_go() {
        if (held_.fetch_sub(1, std::memory_order_acq_rel) == 1) sched_.post(0, quiesce_);
    }

 private:
    class Quiesce final : public Task {
     public:
        explicit Quiesce(LoNi& ni) : ni_(ni) {}
        void run() override { ni_.quiesce(); }

     private:
        LoNi& ni_;
    };
    void hold() { held_.fetch_add(1, std::memory_order_relaxed); }
    LoLane& lane(const Msg& msg) const { return *lanes_[msg.cpt % lanes_.size()]; }
    // All messages are finished: wait for the last steps to return.
    void quiesce() {
        for (const auto& each : lanes_) {
            if (each->idle()) continue;
            sched_.post(0, quiesce_);
            return;
        }
        sched_.post(0, *done_);
    }

    LndUp& up_;
    Sched& sched_;
    const Nid nid_;
    std::vector<std::unique_ptr<LoLane>> lanes_;  // by CPT
    std::atomic<u64> held_{1};                    // messages, and 1 until close()
    std::atomic<u64> messages_{0};
    std::atomic<bool> closing_{false};
    Task* done_ = nullptr;
    Quiesce quiesce_{*this};
};

void LoLane::send(Msg& msg) {
    {
        const std::lock_guard guard(lock_);
        sent_.push_back(msg);
    }
    wake();
}

void LoLane::received(Msg& sent, Msg* into, u32 len) {
    if (into != nullptr) {
        MemView from = sent.payload;
        from.len = std::min(from.len, len);
        copy_view(into->payload, from);
    }
    sent.scratch[scratch_into] = reinterpret_cast<u64>(into);
    {
        const std::lock_guard guard(lock_);
        done_.push_back(sent);
    }
    wake();
}

bool LoLane::step(Budget& budget) {
    while (budget.left()) {
        Msg* done = nullptr;
        Msg* sent = nullptr;
        {
            const std::lock_guard guard(lock_);
            done = done_.pop_front();
            if (done == nullptr) sent = sent_.pop_front();
        }
        if (done != nullptr)
            finish(*done);
        else if (sent != nullptr)
            show(*sent);
        else
            return false;
        budget.take(1, 0);
    }
    return true;
}

void LoLane::show(Msg& sent) {
    if (ni_.closing()) {
        ni_.up().finished(sent, Status(-ESHUTDOWN), Health::local_error);
        ni_.let_go();
        return;
    }
    ni_.count_message();
    const ProcessId from{ni_.nid(), sent.hdr.src_pid};
    const Status status = ni_.up().arrived(sent.hdr, from, {&sent, 0}, {});
    if (status.ok()) return;
    // There is no connection to drop: the message ends, as it would with one.
    ni_.up().finished(sent, status, Health::local_error);
    ni_.let_go();
}

// The receiver first: when the sender hears of the end, the bytes are there.
void LoLane::finish(Msg& sent) {
    if (auto* const into = reinterpret_cast<Msg*>(sent.scratch[scratch_into]))
        ni_.up().finished(*into, ok_status, Health::ok);
    ni_.up().finished(sent, ok_status, Health::ok);
    ni_.let_go();
}

class LoLnd final : public Lnd {
 public:
    std::string_view name() const override { return "lo"; }
    NetType net_type() const override { return NetType::lo; }
    LndCaps caps() const override { return {.timeout = std::chrono::seconds(50)}; }
    std::span<const TunableSpec> tunables() const override { return {}; }
    Result<std::unique_ptr<LndNi>> open(const NiConfig& config, LndUp& up, Sched& sched,
                                        std::string& why) override {
        if (config.net != net_lo || !config.nid.is_lo()) {
            why = "lo: the only NID of loopback is 0@lo, not " + to_text(config.nid);
            return Status(-EINVAL);
        }
        return std::unique_ptr<LndNi>(std::make_unique<LoNi>(config, up, sched));
    }
};

}  // namespace

std::unique_ptr<Lnd> make_lo_lnd() {
    return std::make_unique<LoLnd>();
}

}  // namespace ulnet
