// One NI of the message-level driver. Called by the core on workers and by the SimNet outside of
// them; upcalls are made on workers only.
#pragma once

#include <map>
#include <memory>

#include "lnds/sim/sim_net.h"

namespace ulnet::sim {

class SimNi;

// What comes from one peer: frames wait in order; a strand tells the core of one at a time.
class SimPeer final : public Strand {
 public:
    SimPeer(SimNi&, Sched&, CptId, const ProcessId&);
    ~SimPeer() = default;
    void arrived(SimFrame&);
    // The core's answer to the message being told.
    void receive(u64 id, Msg* into, u32 len);
    void park(u64 id);
    // The frames that wait are lost, and so is the payload of the message the core has in hand.
    void lose();
    // No message is in the core's hands and none waits.
    bool quiet() const { return queue_.empty() && state_ == State::ready; }
    const ProcessId& id() const { return id_; }
    u64 queued() const { return queue_.size(); }
    bool parked() const { return parked_; }

 private:
    // announced: arrived() is being called; waiting: the core owes a receive(); assigned: it came.
    enum class State : u8 { ready, announced, waiting, assigned };
    bool step(Budget&) override;
    bool announce();
    void place();

    SimNi& ni_;
    const ProcessId id_;
    List<SimFrame> queue_;
    SimFrame* current_ = nullptr;
    State state_ = State::ready;
    u64 token_ = 0;
    bool lost_ = false;  // the payload of the current message went with the way to the peer
    bool parked_ = false;
    Msg* into_ = nullptr;
    u32 len_ = 0;
};

class SimNi final : public LndNi, public SimPort {
 public:
    SimNi(const NiConfig&, LndUp&, Sched&, SimNet&);
    ~SimNi() override;
    SimNi(const SimNi&) = delete;

    void send(Msg&) override;
    void receive(RxToken, Msg* into, u32 len) override;
    Status park(RxToken) override;
    void drop_peer(const Nid&) override;
    void describe(ctl::Value&) const override;
    Status tune(std::size_t index, i64 value) override;
    void close(Task& done) override;

    void arrived(SimFrame&) override;
    void sent(Msg&, Status, Health) override;
    void peer_lost(const Nid&) override;

    // For SimPeer.
    LndUp& up() { return up_; }
    SimNet& net() { return net_; }
    bool closing() const { return close_done_ != nullptr; }
    void protocol_error(SimPeer&);
    void progressed();
    void count_received(u32 bytes);

 private:
    // Ends of sends wait here for a worker.
    struct Finisher final : Strand {
        Finisher(SimNi& owner, Sched& sched, CptId cpt) : Strand(sched, cpt), ni(owner) {}
        ~Finisher() = default;
        bool step(Budget&) override;
        SimNi& ni;
        List<Msg> ended;
    };
    struct Closer final : Task {
        explicit Closer(SimNi& owner) : ni(owner) {}
        ~Closer() = default;
        void run() override { ni.try_close(); }
        SimNi& ni;
        bool posted = false;
    };
    SimPeer& peer(const ProcessId&);
    CptId cpt_of(const Nid&) const;
    void end(Msg&, Status, Health);
    void try_close();

    const NiConfig config_;
    LndUp& up_;
    Sched& sched_;
    SimNet& net_;
    std::map<ProcessId, std::unique_ptr<SimPeer>> peers_;
    Finisher finisher_;
    Closer closer_{*this};
    Task* close_done_ = nullptr;
    bool closed_ = false;
    u64 in_flight_ = 0;  // sends not told finished()
    u64 sent_ = 0, received_ = 0, failed_ = 0, bytes_sent_ = 0, bytes_received_ = 0;
};

}  // namespace ulnet::sim
