// One NI of the driver: its peers, its tunables, its failed messages and its reaper. The core calls
// it through LndNi from any worker.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpt/base/log.h"
#include "cpt/counters.h"
#include "lnds/sock/refs.h"
#include "lnds/sock/stream.h"
#include "lnds/sock/tunables.h"
#include "lnds/sock/wire.h"
#include "lnet/lnd.h"

namespace ulnet::sock {

class Listener;
class Peer;
class SockLnd;

// Where an NI listens: for all connections, or for those of type CONTROL and for the others;
// nothing where it does not.
using Listeners = std::array<Listener*, 2>;

enum class Count : u8 {
    rx_messages,
    rx_bytes,
    tx_messages,
    tx_bytes,
    zc_acks_sent,
    keepalives_sent,
    keepalives_received,
    parked,
    accepted,
    refusals_sent,
    connects,
    connect_failures,
    refusals_received,
    protocol_errors,
    checksum_errors,
    timeouts,
    connections_lost,
    flips_injected,
    count_,
};

// The health that an errno stands for.
Health health_of(int error);

class SockNi final : public LndNi, public RefCounted {
 public:
    // What the driver's NIs share and lend to one of them.
    struct Shared {
        SockLnd& lnd;
        StreamOs& os;
    };
    SockNi(const NiConfig&, LndUp&, Sched&, Shared, u32 conns_per_peer_auto);
    ~SockNi() override;
    // Once, when open() has succeeded.
    void start(const Listeners&);

    void send(Msg&) override;
    void receive(RxToken, Msg* into, u32 len) override;
    Status park(RxToken) override;
    void drop_peer(const Nid&) override;
    void describe(ctl::Value&) const override;
    Status tune(std::size_t index, i64 value) override;
    void close(Task& done) override;

    // For the engine.
    Sched& sched() const { return sched_; }
    LndUp& up() const { return up_; }
    StreamOs& os() const { return shared_.os; }
    const Nid& nid() const { return config_.nid; }
    u64 incarnation() const { return incarnation_; }
    i64 tunable(Tunable which) const { return tunables_.get(which); }
    // Whether it is 1; it is 0 from now on.
    bool take_once(Tunable which) { return tunables_.take_once(which); }
    const Tunables& tunables() const { return tunables_; }
    Duration timeout() const { return tunables_.seconds(Tunable::sock_timeout); }
    u32 conns_per_peer() const;
    // Where peers take connections of this type.
    u16 port(ConnType) const;
    // The version for peers of which none is known: only version_max can say an IPv6 NID.
    u32 protocol() const {
        return nid().is_nid4() ? tunables_.get_u32(Tunable::protocol) : version_max;
    }
    StreamOptions stream_options() const;
    // From where we connect, but for the ports.
    Origin origin() const;
    void count(Count what, u64 amount = 1) const { counters_.add(what, amount); }
    // Ports above 1023 count as guests' (and we try for lower ones).
    bool privileged() const { return tunables_.get(Tunable::privileged) != 0; }
    bool guest() const { return guest_.load(std::memory_order_relaxed); }
    // Privileged ports are not ours to have: noted once.
    void become_guest();

    // The peer with a reference for the caller; null: the NI is closing or full.
    Ref<Peer> find_or_add_peer(const ProcessId&);
    // Forgets the peer when nothing keeps it; the caller's reference is given up.
    void release_peer(Ref<Peer>);
    // finished(msg) with this error, later and from a worker: also from within send().
    void fail_later(Msg&, int error);
    // One more received payload of this size: must a byte of it be flipped?
    bool flip_due(u32 payload_bytes);
    // A line in the log, not too many of them.
    void note(const std::string& text);
    // False: too many connections.
    bool add_conn();
    u32 conns() const { return conns_.load(std::memory_order_relaxed); }
    void drop_conn() { conns_.fetch_sub(1, std::memory_order_relaxed); }

 private:
    static constexpr u32 peers_max = 65536;
    static constexpr u32 conns_max = 16384;
    struct PeerHash {
        std::size_t operator()(const ProcessId& id) const { return id.nid.hash() ^ id.pid; }
    };
    // What works on one CPT.
    struct Shard {
        Shard(SockNi& owner, CptId at);
        bool fail_step(Budget&);
        SockNi& ni;
        const CptId cpt;
        std::mutex lock;  // guards: peers, closed
        std::unordered_map<ProcessId, Ref<Peer>, PeerHash> peers;
        bool closed = false;
        std::mutex fail_lock;  // guards: failed
        List<Msg> failed;
        StrandOf<Shard, &Shard::fail_step> fail_strand;
    };
    struct TickTimer final : Timer {
        explicit TickTimer(SockNi& owner) : ni(owner) {}
        void fire() override;
        SockNi& ni;
    };

    Shard& shard_of(const Nid&) const;
    std::vector<Ref<Peer>> peers_of(Shard&) const;
    void tell_of_untyped();
    void arm_tick();
    bool tick_step(Budget&);
    Duration tick_period() const;
    void last_ref() override;
    void quiesce();
    void os_released();

    const NiConfig config_;
    LndUp& up_;
    Sched& sched_;
    const Shared shared_;
    Tunables tunables_;
    const u64 incarnation_;
    const u32 conns_per_peer_auto_;
    mutable Counters<Count> counters_;
    std::vector<std::unique_ptr<Shard>> shards_;  // one a CPT of the NI
    std::atomic<bool> guest_{false};
    std::atomic<bool> closing_{false};
    std::atomic<u32> conns_{0};
    std::atomic<u32> peers_{0};
    std::atomic<u64> flips_seen_{0};
    LogLimit notes_;
    mutable std::mutex listeners_lock_;  // guards: listeners_
    Listeners listeners_{};              // in use until close()
    TickTimer tick_timer_{*this};
    StrandOf<SockNi, &SockNi::tick_step> tick_strand_;
    TaskOf<SockNi, &SockNi::quiesce> quiesce_{*this};
    TaskOf<SockNi, &SockNi::os_released> os_released_{*this};
    Task* done_ = nullptr;
};

}  // namespace ulnet::sock
