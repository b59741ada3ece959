// The driver seam: the only thing between the core and a network driver (LND).
//
// Contract: upcalls never come with a driver lock held. finished() comes exactly once for each
// send() and each receive() that names a message. receive() or park() is called exactly once for
// each arrived() that returned ok; receive() may be called from within arrived(), later, or from
// another worker; park() only from within arrived(), to be followed by receive(). After close()'s
// `done` was posted the driver calls nothing. All calls come from workers of the Sched.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cpt/sched.h"
#include "lnet/ctl/value.h"
#include "lnet/msg.h"

namespace ulnet {

struct LndCaps {
    u32 frags_max = Mem::frags_max;
    u32 payload_max = 1u << 20;
    Duration timeout{};  // message deadlines derive from it
    bool rdma = false;   // answers GETs itself, through reply_for()
    bool busy_poll = false;
    bool checksums = false;
};

// One tunable of a driver, self-describing: feeds lnetctl, validation and the man pages.
struct TunableSpec {
    std::string_view name;
    i64 def, low, high;                       // for words: index into `words`
    std::span<const std::string_view> words;  // empty = a number
    std::string_view unit;                    // "s", "ms", "bytes", ""
    bool per_ni;                              // settable per NI at run time
    std::string_view help;
};

// What an NI is made of. Built and validated by the core's control plane.
struct NiConfig {
    Net net;
    Nid nid;                  // the address is of `interface`
    std::string interface;    // "eth0"; empty for lo
    std::vector<CptId> cpts;  // where it works; empty = all
    u32 credits = 256, peer_credits = 8, peer_buffer_credits = 0;
    i32 peer_timeout_s = 180;
    std::vector<i64> tunables;  // parallel to Lnd::tunables(), all set
    // Where NIDs of the net are, its own too, for drivers whose NIDs are not addresses.
    std::vector<std::pair<Nid, std::string>> addresses;
};

enum class PeerEvent : u8 { up, down };
enum class NiEvent : u8 { up, down, fatal };

// A GET whose initiator has told the driver where the data shall go; only drivers with caps().rdma.
// The core then ends it in one of two ways: by send() of a REPLY that names the token in
// Msg::answers, or, when there will be none, by receive(token, null, 0).
struct RdmaGet {
    bool possible = false;
};

// Implemented by the core, one an NI. Any worker may call.
class LndUp {
 public:
    // A header came in from `from` (the sending peer NI). Not ok: a protocol error, the driver
    // drops the connection(s) to this peer. Ok: receive() is called once for the token.
    virtual Status arrived(const Hdr&, const ProcessId& from, RxToken, RdmaGet) = 0;
    virtual void finished(Msg&, Status, Health) = 0;
    // The REPLY to a GET with the driver, for one that lets the peer write where the data shall go:
    // the payload of the message. Asked before the peer learns of it, since it keeps the memory.
    // Ends with finished(), payload.len cut to what came; independent of finished(get). Null: the
    // MD is gone, the GET must end too.
    virtual Msg* reply_for(Msg& get) = 0;
    virtual void peer_event(const Nid&, PeerEvent) = 0;
    virtual void ni_event(NiEvent) = 0;

 protected:
    ~LndUp() = default;
};

class LndNi {
 public:
    virtual ~LndNi() = default;
    // Never blocks and never calls finished() from within.
    virtual void send(Msg&) = 0;
    // Puts the first `len` payload bytes into into->payload (whose len is `len`) and discards the
    // rest, then calls finished(*into). Null: discards all, nothing is called.
    virtual void receive(RxToken, Msg* into, u32 len) = 0;
    // The core cannot decide yet; the driver holds the message (a stream stops reading).
    virtual Status park(RxToken) = 0;
    // Ends all connections to the peer; its queued messages finish with -EHOSTDOWN... as they fail.
    virtual void drop_peer(const Nid&) = 0;
    // Connections, queue depths, counters: read-only, for `show`.
    virtual void describe(ctl::Value&) const = 0;
    // Runtime change of a per-NI tunable, already validated.
    virtual Status tune(std::size_t index, i64 value) = 0;
    // Refuses new work, ends all messages with -ESHUTDOWN, then posts `done` (CPT of the NI).
    virtual void close(Task& done) = 0;
};

class Lnd {
 public:
    virtual ~Lnd() = default;
    virtual std::string_view name() const = 0;  // "tcp", "lo"
    virtual NetType net_type() const = 0;
    virtual LndCaps caps() const = 0;
    virtual std::span<const TunableSpec> tunables() const = 0;
    // Whether values that are each in their range fit together. The text names key, value and what
    // is allowed.
    virtual Error check_together(std::span<const i64>) const { return {}; }
    // Whether NiConfig::addresses (not empty) can be used. The text names NID, value and what is
    // allowed.
    virtual Error check_addresses(const NiConfig& config) const {
        return {Status(-EINVAL), "not allowed for network " + to_text(config.net) +
                                     ", whose NIDs are addresses themselves"};
    }
    // `why` gets one sentence for the user when it fails (port in use, no such address...).
    virtual Result<std::unique_ptr<LndNi>> open(const NiConfig&, LndUp&, Sched&,
                                                std::string& why) = 0;
};

}  // namespace ulnet
