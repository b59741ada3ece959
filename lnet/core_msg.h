// The core's side of a message: its state, what it holds, and the event it will become.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "lnet/lnd.h"
#include "lnet/lnet.h"

namespace ulnet {

class Ni;
class MsgPool;
struct MdImpl;
struct PeerNi;

// Where a message is. Only its owner of the moment moves it, through CoreMsg::set_state().
enum class MsgState : u8 {
    free,              // in its pool
    routing,           // being made, the way is looked for
    wait_peer_credit,  // in line at the peer NI, or on the way from there
    wait_ni_credit,    // in line at the NI's queue, or on the way from there
    sending,           // with the driver
    matching,          // arrived, the MD is looked for
    wait_buffer,       // arrived on a lazy portal and waits for an MD
    receiving,         // with the driver, its payload comes in
    finishing,         // its event is due
};
constexpr std::size_t msg_states = 9;

struct OnMd;      // hook: messages under way on an MD
struct OnQueue;   // hook: the one line a message waits in: credits, a lazy portal, or its pool
struct OnEvents;  // hook: events of an MD not told yet

// An event that waits for its turn on its MD. `msg` is null for the unlink event, which is the
// MD's.
struct EventNode : ListHook<OnEvents> {
    Event event{};
    struct CoreMsg* msg = nullptr;
};

struct CoreMsg final : Msg, Task, ListHook<OnMd>, ListHook<OnQueue>, EventNode {
    NodeImpl* node = nullptr;
    MsgPool* home = nullptr;
    MsgState state = MsgState::free;
    bool sends = false;           // to a driver's send(); else it was received
    bool wants_response = false;  // an ACK or REPLY will follow to the same MD
    bool by_rdma = false;      // a REPLY that the driver fetches: payload.len tells how much came
    std::atomic<u32> refs{0};  // the owner, and whoever tries to cancel it
    // Set before the message can be found by others, then fixed until it is free again.
    Ni* ni = nullptr;               // counted in the NI
    u32 ni_queue = 0;               // which CPT queue of the NI
    PeerNi* peer = nullptr;         // counted in the peer NI; null on loopback and when received
    MdImpl* md = nullptr;           // set under the MD's lock
    bool cancel_asked = false;      // guarded by the MD's lock
    std::atomic<int> cancelled{0};  // the negative errno that the message must end with
    bool waits_for_peer = false;    // guarded by the peer NI's lock
    bool waits_for_ni = false;      // guarded by the NI queue's lock
    bool has_peer_credit = false, has_ni_credit = false;
    RxToken token{};                       // received: for the driver
    std::atomic<bool> sender_gone{false};  // waits on a lazy portal, its connection is no more
    Instant sent_at{};
    u64 peer_hash = 0;  // of the sending peer NI: where matching starts

    void set_state(MsgState next);
    // Goes on with a granted credit, or ends.
    void run() override;
    void reset();
};

// The messages of a CPT: they come from and return to a free list, grown in chunks, never freed.
class MsgPool {
 public:
    static constexpr u32 chunk_messages = 32;

    MsgPool(NodeImpl& node, CptId cpt, u32 messages_max)
        : node_(node), cpt_(cpt), messages_max_(messages_max) {}
    ~MsgPool();
    MsgPool(const MsgPool&) = delete;
    // Null when messages_max are in use, or memory is short.
    CoreMsg* take();
    void give(CoreMsg& msg);
    struct Use {
        u64 now, max;
    };
    Use use() const;
    void reset_max();

 private:
    struct Chunk {
        std::array<CoreMsg, chunk_messages> messages;
        std::unique_ptr<Chunk> next;
    };
    NodeImpl& node_;
    const CptId cpt_;
    const u32 messages_max_;
    mutable std::mutex lock_;  // guards the rest
    List<CoreMsg, OnQueue> free_;
    std::unique_ptr<Chunk> chunks_;
    u64 messages_ = 0;
    u64 in_use_ = 0, in_use_max_ = 0;
};

}  // namespace ulnet
