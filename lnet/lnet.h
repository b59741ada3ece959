// The core as its users see it: a Node with portals, match entries (MEs), memory descriptors (MDs)
// and the four messages. Semantics: docs/architecture.md and the protocol facts in docs/wire/.
//
// All calls of a Node come from workers of its Sched, unless marked "any thread". Handlers run on a
// worker and must not block; they may call the Node.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpt/mem.h"
#include "cpt/sched.h"
#include "lnet/nid.h"
#include "lnet/wire/hdr.h"
#include "lnet/wire/ping.h"

namespace ulnet {

class Lnd;
struct NiConfig;
struct NodeImpl;

using PortalId = u32;
constexpr u32 portals_max = 64;
constexpr PortalId portal_lnet = 0;
constexpr u64 match_bits_lnet = u64{1} << 63;
constexpr u32 payload_max = 1u << 20;
constexpr u32 threshold_infinite = 0xffffffff;

// What a handler is told. Handlers of one MD never run concurrently; the event with `unlinked` is
// the last one for its MD.
struct Event {
    enum class Kind : u8 { get = 1, put, reply, ack, send, unlink };
    Kind kind;
    Status status;
    bool unlinked;
    ProcessId initiator;  // primary NID of the peer, pid; ANY for send
    Nid source;           // src_nid of the header
    Nid sender;           // last hop
    ProcessId target;
    PortalId portal;
    u64 match_bits, hdr_data;
    u32 rlength, mlength;  // requested and moved bytes
    u32 offset;            // within the MD; a remote one beyond its end comes with mlength 0
    MsgType msg_type;
    void* user;
};
using EventFn = void (*)(const Event&);

struct MdOptions {
    bool put = false, get = false;  // passive: which messages it accepts
    bool manage_remote = false;     // the offset comes from the message
    bool truncate = false;          // longer messages are cut
    bool ack_disable = false;       // never ACK
    bool auto_unlink = false;       // unlink when exhausted and idle
    // A deadline (transaction time-out) for the ACK or REPLY: always; never; else as the node's
    // response_tracking says. Both at once: EINVAL.
    bool track_response = false, no_track_response = false;
    // What a PUT brings is counted and thrown away by the driver: the memory stays as it is.
    bool discard = false;
    friend bool operator==(const MdOptions&, const MdOptions&) = default;
};
// From LNet's own mask (lnet-wire 12.1). What a Mem and MdSpec say by themselves (KIOV, MAX_SIZE,
// BULK_HANDLE) is accepted and adds nothing. EINVAL with a sentence: GPU_ADDR, GNILND, unknown
// bits.
Error md_options(u32 mask, MdOptions& out);

struct MdSpec {
    const Mem* mem = nullptr;  // null = no bytes; outlives the MD (until its unlinked event)
    MdOptions options;
    u32 threshold = threshold_infinite;  // operations allowed; PUT with ACK and GET count two
    u32 max_size = 0;  // 0 = not set; else exhausted when less room than this is left
    EventFn handler = nullptr;
    void* user = nullptr;
};

struct MatchSpec {
    ProcessId from;  // ANY NID or pid = wildcard
    u64 bits = 0;
    u64 ignore = 0;  // bits set here do not count
};
enum class Unlink : u8 { retain, with_md };  // with_md: the ME goes when its MD does
enum class Place : u8 { before, after };
enum class Ack : u8 { no, yes };

struct PutArgs {
    ProcessId to;
    PortalId portal;
    u64 match_bits = 0;
    u32 offset = 0;
    u64 hdr_data = 0;
    Ack ack = Ack::no;
    Nid from;  // ANY = the core chooses
};
struct GetArgs {
    ProcessId to;
    PortalId portal;
    u64 match_bits = 0;
    u32 offset = 0;
    Nid from;
};

class Node;

// Handles: move-only, with a generation, so that a stale one is refused and never followed.
// Destroying one unlinks what it names (an MD busy with a message ends when that does); but the
// handle of a with_md ME that has its MD may go, the ME then belongs to the MD. Not to be
// destroyed after the Node, unless given up.
class Me {
 public:
    Me() = default;
    Me(Me&&) noexcept;
    Me& operator=(Me&&) noexcept;
    ~Me();
    explicit operator bool() const { return node_ != nullptr; }

 private:
    friend struct NodeImpl;
    friend class Node;
    NodeImpl* node_ = nullptr;
    u64 cookie_ = 0;
};
class Md {
 public:
    Md() = default;
    Md(Md&&) noexcept;
    Md& operator=(Md&&) noexcept;
    ~Md();
    explicit operator bool() const { return node_ != nullptr; }
    // Gives the MD up to its own threshold: it lives until exhausted (auto_unlink).
    void release() { node_ = nullptr; }

 private:
    friend struct NodeImpl;
    friend class Node;
    NodeImpl* node_ = nullptr;
    u64 cookie_ = 0;
};

// Whose ACKs and REPLYs have a deadline when the MD does not say.
enum class ResponseTracking : u8 { own, get, put, all };  // own: LNet's own pings and pushes

struct NodeOptions {
    u32 retry_count = 2;
    u32 transaction_timeout_s = 150;
    ResponseTracking response_tracking = ResponseTracking::all;
    u32 messages_max = 1u << 20;  // of a CPT: more are refused (ENOMEM) or dropped
    bool discovery = true;        // advertised; pushes are answered
};

class Node {
 public:
    // Makes the Node with its loopback NI; `lnds` outlive it. From a worker or before start.
    Node(Sched&, std::span<Lnd* const> lnds, const NodeOptions&);
    // close() must have completed.
    ~Node();
    Node(const Node&) = delete;

    Sched& sched();
    // Runs fn on the control strand: configuration and inspection happen there and only there. Any
    // thread. Work queued when the Node closes still runs.
    void control(std::function<void()> fn);
    // Ends all traffic: every operation gets its event, NIs close, then `done` is posted.
    void close(Task& done);

    // Interfaces (control strand). The text of an Error is for the user.
    Error add_ni(const NiConfig&);
    // Ends the NI's messages (-ESHUTDOWN...), then calls done on the control strand.
    Error del_ni(const Nid&, std::function<void()> done);

    // Portals. Lazy: messages without a match wait instead of being dropped.
    Status set_lazy(PortalId, bool lazy);

    // EINVAL, EPERM (unique and wildcard MEs on one portal).
    Result<Me> attach(PortalId, const MatchSpec&, Unlink, Place = Place::after);
    // On failure the ME is gone too (with_md). Messages that waited are matched at once.
    Result<Md> attach(Me&, const MdSpec&);
    // A free-floating MD for put and get.
    Result<Md> bind(const MdSpec&);
    // ok: everything else comes as events, also a failure to send (send event with its status).
    // ENOENT: not a live free-floating MD. EINVAL: portal, length.
    Status put(Md&, const PutArgs&);
    Status get(Md&, const GetArgs&);
    // Ends in exactly one event with `unlinked`; operations under way end first.
    void unlink(Md&&);
    void unlink(Me&&);

    // NIDs of this node, loopback first. Any worker.
    std::vector<Nid> nids() const;
    // Primary NID of the peer that has this NID (itself when unknown). Any worker.
    Nid primary(const Nid&) const;

    // Pings a peer; done runs on a worker, once, at the latest at the time-out.
    using PingDone = std::function<void(Result<PingInfo>)>;
    void ping(const ProcessId& to, const Nid& from, Duration timeout, PingDone done);

    NodeImpl& impl() { return *impl_; }  // for inspect.h and lnet/ctl

 private:
    std::unique_ptr<NodeImpl> impl_;
};

}  // namespace ulnet
