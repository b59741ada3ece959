// A local interface: what the core keeps of it, and the upcalls of its driver.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cpt/base/log.h"
#include "lnet/credit.h"
#include "lnet/hash_lists.h"
#include "lnet/stats.h"

namespace ulnet {

class Ni;

// The messages of an NI that belong to one CPT. The timer is armed while messages wait.
struct alignas(64) NiQueue final : Timer {
    NiQueue(Ni& ni_of_queue, u32 index_in_ni, CptId cpt_of_queue, i64 credits)
        : ni(ni_of_queue), index(index_in_ni), cpt(cpt_of_queue), pool(credits) {}
    ~NiQueue() = default;
    void fire() override;
    static constexpr u32 answers_waiting_max = 1u << 16;  // as PeerNi's, for all peers together
    Ni& ni;
    const u32 index;
    const CptId cpt;
    // Messages and armed timers that hold on to the NI through this queue.
    std::atomic<u64> refs{0};
    std::mutex lock;
    CreditPool pool;     // guarded by `lock`
    bool armed = false;  // guarded by `lock`
};

// Life: made and opened on the control strand; published in the NetTopology; `closing`;
// unpublished; its waiters ended; the driver closed; all references gone; no Pin left that knew it;
// destroyed.
class Ni final : public LndUp {
 public:
    Ni(NodeImpl& node, const NiConfig& config, Lnd& driver, std::vector<CptId> cpts);
    ~Ni();
    Ni(const Ni&) = delete;

    Status arrived(const Hdr&, const ProcessId& from, RxToken, RdmaGet) override;
    void finished(Msg&, Status, Health) override;
    Msg* reply_for(Msg& get) override;
    void peer_event(const Nid&, PeerEvent) override;
    void ni_event(NiEvent) override;

    const Nid& nid() const { return config.nid; }
    bool loopback() const { return loopback_; }
    bool up() const { return up_.load(std::memory_order_relaxed); }
    void set_up(bool up) { up_.store(up, std::memory_order_relaxed); }
    bool closing() const { return closing_.load(); }
    void set_closing() { closing_.store(true); }
    NiQueue& queue(u32 index) { return *queues_[index]; }
    u32 queues() const { return static_cast<u32>(queues_.size()); }
    u32 queue_of(u64 peer_hash) const {
        return static_cast<u32>(mix_hash(peer_hash) % queues_.size());
    }
    // Holds the NI for a message unless it closes. The caller has a Pin.
    bool hold(u32 queue);
    void release(u32 queue) { queues_[queue]->refs.fetch_sub(1); }
    u64 refs() const;
    // The driver's side; null until it is open.
    LndNi* lnd() const { return lnd_.load(std::memory_order_acquire); }
    void opened(std::unique_ptr<LndNi> lnd);
    // A message that waited on a lazy portal has its MD, or will not get one.
    void receive_parked(CoreMsg& msg);
    void drop_parked(CoreMsg& msg);
    // How long a message may take (lnet-wire 13).
    Duration message_timeout() const;

    NodeImpl& node;
    const NiConfig config;
    Lnd& driver;
    const LndCaps caps;
    const std::vector<CptId> cpts;
    Counters<NiCount> counters;
    std::atomic<i32> health{1000};
    std::atomic<u32> parked{0};  // messages of this NI that wait on lazy portals

    // Of the control strand.
    std::vector<i64> tunables;
    // Closing, step by step.
    enum class Closing : u8 { unpublished, draining, forgotten } step = Closing::unpublished;
    u64 epoch = 0;  // of the NetTopology without it
    bool driver_closed = false;
    std::function<void()> closed;

    // Posted by the driver when it has closed.
    struct Closed final : Task {
        explicit Closed(Ni& ni_of_task) : ni(ni_of_task) {}
        ~Closed() = default;
        void run() override;
        Ni& ni;
    } closed_task{*this};

 private:
    struct Arrival;
    Status check(const Hdr& hdr, RdmaGet rdma, bool& drop) const;
    void complain(const Hdr&, const Nid& from);
    // Notes who sent it. False: the table of peers is full.
    bool heard(Arrival&);
    void count_drop(const Hdr&, const Nid& from);
    void drop(const Arrival&);
    void take_put(const Arrival&);
    void take_get(const Arrival&);
    void take_reply(const Arrival&);
    void take_ack(const Arrival&);
    CoreMsg* receiver(const Arrival&, Event::Kind);

    const bool loopback_;
    LogLimit complaints_;
    std::atomic<bool> up_{true};
    std::atomic<bool> closing_{false};
    std::unique_ptr<LndNi> owned_;
    std::atomic<LndNi*> lnd_{nullptr};
    std::vector<std::unique_ptr<NiQueue>> queues_;
};

}  // namespace ulnet
