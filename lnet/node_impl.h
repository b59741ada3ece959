// The inside of a Node: what its parts share. Each group of functions is in the file named above
// it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "lnet/control.h"
#include "lnet/ni.h"
#include "lnet/peer.h"
#include "lnet/ping.h"
#include "lnet/portal.h"
#include "lnet/snapshot.h"
#include "lnet/topology.h"

namespace ulnet {

using Pin = Published<NetTopology>::Pin;

// Work that a call on an MD leaves to be done once its lock is released.
struct Aftermath {
    MeImpl* dead_me = nullptr;  // its slot is to be given back
    bool deliver = false;       // the caller tells the events, now or as a task
    bool cancel = false;        // messages under way are to be cancelled
};

// An MD looked up by its cookie, locked; empty when the handle is stale.
struct LockedMd {
    std::unique_lock<std::mutex> lock;
    MdImpl* md = nullptr;
};

struct NodeImpl {
    static constexpr u32 homes_a_cpt = 8;
    // Telling an event is worth about this much; decides whether a sibling worker should do it.
    static constexpr Duration event_work{3000};
    static constexpr u32 events_a_turn = 16;
    static constexpr Duration closing_tick = std::chrono::milliseconds(1);

    NodeImpl(Sched&, std::span<Lnd* const>, const NodeOptions&);
    ~NodeImpl();

    // md.cc: MDs and MEs.
    Result<u64> attach_me(PortalId, const MatchSpec&, Unlink, Place);
    Result<u64> attach_md(u64 me_cookie, const MdSpec&);
    Result<u64> bind_md(const MdSpec&);
    LockedMd lock_md(u64 cookie);
    bool unlink_md(u64 cookie, Status why);
    enum class UnlinkMe : u8 { asked, handle_gone, failed_attach };
    void unlink_me(u64 cookie, UnlinkMe reason);
    // With the MD's lock held: nothing finds it any more. queue_unlink_event() then makes its event
    // unless messages are under way, whose last one brings it. After that, without the lock,
    // settle().
    Aftermath begin_unlink(MdImpl&, Status why);
    void queue_unlink_event(MdImpl&, Status why, Aftermath&);
    void settle(MdImpl&, MdHome&, const Aftermath&);
    void unlink_all(Status why);
    u64 mds_in_use() const;
    u64 mes_in_use() const;
    u64 tracked() const;

    // event.cc: the end of operations.
    // The message's part of its MD is over: its event is queued. Returns the status told.
    Status complete(CoreMsg&, Status, bool inline_allowed);
    void deliver(MdImpl&);
    void free_md(MdImpl&, MdHome&);
    // With the MD's lock held.
    void response_done(MdImpl&);
    void track_response(MdImpl&, Instant now, bool& arm);
    // Whether a PUT with ACK or a GET from that MD gets a deadline.
    bool tracks(const MdOptions&, MsgType) const;

    // msg.cc: messages.
    CoreMsg* new_msg(CptId);
    void unref(CoreMsg&);

    // send.cc: the way out.
    Status put(u64 md_cookie, const PutArgs&);
    Status get(u64 md_cookie, const GetArgs&);
    // A routed message: credits, then the driver, or its end.
    void submit(CoreMsg&);
    void after_peer_credit(CoreMsg&);
    void to_driver(CoreMsg&);
    // The end of a message that was sent, or was not.
    void finish_send(CoreMsg&, Status, Health, bool inline_allowed);
    void count_sent(const CoreMsg&, Status, Health);
    void return_credits(CoreMsg&, bool reached_driver, bool sent);
    // Ends it if it still waits; else what has it will see the mark.
    void cancel(CoreMsg&, Status);
    Status start(u64 md_cookie, const NetTopology&, CoreMsg&, const Nid& from);
    // Finds the NI and the peer NI and holds both, or says why not.
    Status route(CoreMsg&, const NetTopology&, const Nid& from);
    // An answer goes out by the NI that the request came in by and that the message holds.
    Status route_answer(CoreMsg&);

    // receive.cc: the end of what came in.
    bool take_response(CoreMsg&);
    void finish_receive(CoreMsg&, Status);
    // The ACK of a PUT, not sent yet; null when it cannot be made.
    CoreMsg* make_ack(const CoreMsg& put);

    // node.cc: interfaces.
    Error add_ni(const NiConfig&);
    Error del_ni(const Nid&, std::function<void()> done);
    void publish(std::unique_ptr<NetTopology>);
    std::unique_ptr<NetTopology> topology_copy() const;
    Result<std::unique_ptr<Ni>> open_ni(const NiConfig&, Lnd&, std::string& why);
    void close(Task& done);

    // closing.cc: the end of interfaces and of the Node.
    void begin_close(Ni&, std::function<void()> done);
    bool advance(Ni&);
    void advance_close();
    bool all_ended();
    void stop_timers_of(Ni&);
    // Goes on with what is closing; from the control strand.
    void advance_closing();
    void end_waiters_of(Ni&);

    Portal* portal(PortalId id) const { return portals[id].load(std::memory_order_acquire); }
    Portal& make_portal(PortalId id);
    CptId cpts() const { return static_cast<CptId>(mds.size()); }
    Duration transaction_timeout() const {
        return std::chrono::seconds(options.transaction_timeout_s);
    }

    Sched& sched;
    const std::vector<Lnd*> lnds;
    const NodeOptions options;
    const u64 interface_cookie;
    Counters<Count> counters;
    std::vector<std::unique_ptr<MsgPool>> msg_pools;  // by CPT, as the next three
    std::vector<std::unique_ptr<SlotTable<MdImpl>>> mds;
    std::vector<std::unique_ptr<SlotTable<MeImpl>>> mes;
    std::vector<std::unique_ptr<FloatHome>> homes;  // homes_a_cpt for each CPT
    std::array<std::atomic<Portal*>, portals_max> portals{};
    std::mutex portals_lock;  // guards portals_owned
    std::array<std::unique_ptr<Portal>, portals_max> portals_owned;
    PeerTable peers;
    Published<NetTopology> topology;
    PingTarget ping_target;
    std::atomic<u64> pings{0};  // pings of our own under way

    Control control;
    // The rest belongs to the control strand.
    std::vector<std::unique_ptr<Ni>> nis, closing_nis;
    StatsView stats_base{};
    enum class Life : u8 { open, nis_close, mds_end, last_pins, closed } life = Life::open;
    u64 last_epoch = 0;
    Task* close_done = nullptr;
    bool advancing = false;
    // Comes back to what is closing until it has closed.
    struct Tick final : Timer {
        explicit Tick(NodeImpl& node_of_tick) : node(node_of_tick) {}
        ~Tick() = default;
        void fire() override;
        NodeImpl& node;
    } tick{*this};
    bool tick_armed = false;  // until it was cancelled or its work on the strand has begun
    // Waits until the control strand is still, then tells that the Node has closed.
    struct Closer final : Task {
        explicit Closer(NodeImpl& node_of_closer) : node(node_of_closer) {}
        ~Closer() = default;
        void run() override;
        NodeImpl& node;
    } closer{*this};
    std::atomic<bool> completed{false};
};

}  // namespace ulnet
