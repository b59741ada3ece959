// A network in memory for tests: Nodes of one process, each with a LinkLnd, send messages to each
// other through tasks of the Sched. A test may look at each message on its way, change its bytes,
// lose it, or cut a node off.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lnet/lnd.h"

namespace ulnet::lst {

class LinkNi;

enum class Fate : u8 { deliver, lose };

// What the Nodes are connected by; outlives them.
class LinkNet {
 public:
    // Sees each message before it is delivered, on a worker, one at a time; may change the payload.
    using Hook = std::function<Fate(const Hdr&, std::span<std::byte> payload)>;
    void set_hook(Hook hook);
    // Messages to and from the node vanish (silent), or fail at the sender with -EHOSTUNREACH.
    void cut(const Nid&, bool silent);
    void heal(const Nid&);
    // Messages are delivered, but senders do not hear that they are sent until keeping ends.
    void keep_sent(bool);

 private:
    friend class LinkNi;
    enum class Cut : u8 { no, silent, loud };
    Cut cut_of(const Nid& a, const Nid& b);
    std::recursive_mutex mutex_;
    Hook hook_;
    std::map<Nid, LinkNi*> nis_;
    std::map<Nid, Cut> cuts_;
    bool keeps_sent_ = false;
    std::vector<std::function<void()>> kept_;
};

class LinkNi final : public LndNi {
 public:
    LinkNi(LinkNet&, const NiConfig&, LndUp&, Sched&);
    ~LinkNi() override;
    void send(Msg&) override;
    void receive(RxToken, Msg* into, u32 len) override;
    Status park(RxToken) override { return ok_status; }
    void drop_peer(const Nid&) override {}
    void describe(ctl::Value&) const override {}
    Status tune(std::size_t, i64) override { return Status(-EINVAL); }
    void close(Task& done) override;

 private:
    // A message under way, with a copy of its bytes.
    struct Delivery final : Task {
        LinkNi* to = nullptr;
        Hdr hdr;
        ProcessId from;
        std::vector<std::byte> payload;
        Msg* into = nullptr;
        u32 len = 0;
        bool shown = false;
        void run() override;
    };
    struct Sent final : Task {
        LinkNi* ni = nullptr;
        Msg* msg = nullptr;
        Status status;
        void run() override;
    };
    void hold() { held_.fetch_add(1); }
    void let_go();

    LinkNet& net_;
    LndUp& up_;
    Sched& sched_;
    const Nid nid_;
    std::atomic<u64> held_{1};
    std::atomic<Task*> done_{nullptr};
};

class LinkLnd final : public Lnd {
 public:
    explicit LinkLnd(LinkNet& net) : net_(net) {}
    std::string_view name() const override { return "tcp"; }
    NetType net_type() const override { return NetType::tcp; }
    LndCaps caps() const override { return {.timeout = std::chrono::seconds(50)}; }
    std::span<const TunableSpec> tunables() const override { return {}; }
    Result<std::unique_ptr<LndNi>> open(const NiConfig& config, LndUp& up, Sched& sched,
                                        std::string&) override {
        return std::unique_ptr<LndNi>(std::make_unique<LinkNi>(net_, config, up, sched));
    }

 private:
    LinkNet& net_;
};

}  // namespace ulnet::lst
