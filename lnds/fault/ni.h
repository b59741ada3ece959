// One NI of the fault driver. Calls and upcalls come from any worker; what is held back, and every
// end that this driver makes up, is worked off by one strand and its timer.
#pragma once

#include <vector>

#include "lnds/common/wrap.h"
#include "lnet/fault_rule.h"

namespace ulnet::fault {

// Something to do later.
struct Held : ListHook<Held> {
    enum class Kind : u8 {
        send,     // give `msg` to the driver
        finish,   // end `msg` with `status` and `health`
        arrival,  // show the message of `token` to the core
        reset,    // end the connections to `peer`
    };
    Kind kind;
    Instant due{};
    Nid peer;
    Msg* msg = nullptr;
    Status status;
    Health health = Health::ok;
    Hdr hdr;
    ProcessId from;
    RxToken token;
    RdmaGet get;
};

// Nothing passes between this NI and the peer until then.
struct Stall : ListHook<Stall> {
    Nid peer;
    Instant until{};
    u32 joining = 0;  // arrivals that are being parked to wait behind it
};

// A message that is sent instead of another one.
struct Copy : Msg, ListHook<Copy> {
    explicit Copy(Msg& msg);
    Msg& original;
    std::vector<std::byte> bytes;
    Mem mem;
};

class FaultNi final : public WrapNi, private Strand {
 public:
    FaultNi(const NiConfig&, LndUp&, Sched&, FaultRules&);
    ~FaultNi() override;

    void send(Msg&) override;
    Status park(RxToken) override;
    void drop_peer(const Nid&) override;
    void describe(ctl::Value&) const override;
    void close(ulnet::Task& done) override;

    Status arrived(const Hdr&, const ProcessId& from, RxToken, RdmaGet) override;
    void finished(Msg&, Status, Health) override;

 private:
    class Alarm final : public Timer {
     public:
        explicit Alarm(FaultNi& ni) : ni_(ni) {}
        void fire() override {
            ni_.wake();
            ni_.alarms_.fetch_sub(1, std::memory_order_acq_rel);
        }

     private:
        FaultNi& ni_;
    };
    class Closed final : public ulnet::Task {
     public:
        explicit Closed(FaultNi& ni) : ni_(ni) {}
        void run() override { ni_.quiesce(); }

     private:
        FaultNi& ni_;
    };
    using HeldPtr = std::unique_ptr<Held>;

    const FaultRule* hit(FaultWay, const Hdr&, const Nid& peer);
    static HeldPtr make(Held::Kind, const Nid& peer, Instant due = {});
    // False: the NI closes, and nothing is held any more; the item is as it was.
    bool hold(HeldPtr&);
    void insert(Held&);
    void stall(const Nid& peer, Duration time);
    // Null: none. Else it stays until leave().
    Stall* join_stall(const Nid& peer);
    void leave(Stall&);
    bool hold_behind_stall(Msg&);
    void forward(Msg&);
    Status show(const Hdr&, const ProcessId& from, RxToken, RdmaGet);
    bool hold_arrival(const Hdr&, const ProcessId& from, RxToken, RdmaGet, Instant due);
    Msg& corrupted(Msg&);

    bool step(Budget&) override;
    HeldPtr next(bool& closing);
    void work_off(Held&, bool closing);
    void set_alarm();
    void quiesce();

    const Nid nid_;
    FaultRules& rules_;
    Alarm alarm_{*this};
    Closed closed_{*this};
    std::atomic<u32> alarms_{0};     // armed or firing
    std::atomic<bool> quiet_{true};  // nothing is held, stalled or copied: the short way
    mutable std::mutex lock_;        // guards: all below
    List<Held> held_;                // by due, in order of coming
    List<Stall> stalls_;             // at most stalls_max
    List<Copy> copies_;              // with the driver
    RxToken showing_;                // to the core by the strand, parked with the driver
    bool closing_ = false, inner_closing_ = false;
    ulnet::Task* done_ = nullptr;
};

}  // namespace ulnet::fault
