// One context of a kfi NI: an endpoint and the peers whose home it is. A strand does all that
// concerns messages; the endpoint has a lock, so that any worker may poll it. Calls come from any
// worker. Upcalls come from the strand, with no lock held.
#pragma once

#include <array>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "cpt/sched.h"
#include "lnds/common/mem_cache.h"
#include "lnds/ofi/address.h"
#include "lnds/ofi/bell.h"
#include "lnds/ofi/moving.h"
#include "lnds/ofi/peer.h"
#include "lnds/ofi/tunables.h"

namespace ulnet::ofi {

class Context;
struct Rx;

// A message to send, encoded. The endpoint has it until its completion.
struct Out : Op, ListHook<Out> {
    std::array<std::byte, message_bytes_max> bytes;
    u32 len = 0;
    Peer* peer = nullptr;
    u64 place = no_place;
    Msg* msg = nullptr;  // ends with the completion
};

// A buffer that messages come into, one behind the other.
struct RxBuffer : Op {
    std::vector<std::byte> bytes;
    u32 refs = 0;  // messages in it that are still needed
    bool released = false;
};

// A read for an Rx or a write for a Transfer. Of nobody (0) once that is over: then it waits for
// its completion only.
struct MoveOp : Op, ListHook<MoveOp> {
    u64 id = 0;
};

// A message that came in: what a RxToken points to, and then the reading of its payload.
struct Rx : ListHook<Rx> {
    // The core has it; its payload is read, or written by the sender; the sender is asked whether
    // what was read was still valid.
    enum class State : u8 { shown, reading, writing, checking } state = State::shown;
    Context* context = nullptr;
    Peer* peer = nullptr;
    u64 session = 0;  // in which it came: ours
    u64 id = 0;       // our name for the reading
    bool bulk = false;
    Bulk segments;
    // An immediate payload: in the buffer, or copied.
    RxBuffer* buffer = nullptr;
    std::span<const std::byte> payload;
    std::vector<std::byte> copy;
    // The answer of the core.
    Msg* into = nullptr;
    u32 len = 0;
    Move move;                    // reading
    std::vector<Region> regions;  // writing: what the sender may write to, until the end
    Status status;
    Instant deadline = instant_never;
};

// A message of ours whose payload the peer reads, or that we write once the peer is ready.
struct Transfer {
    Msg* msg = nullptr;
    Peer* peer = nullptr;
    MemCache<Region>::Use use;
    Ready ready;
    Move move;
    bool moving = false;
    Instant deadline = instant_never;
};

struct NidHash {
    std::size_t operator()(const Nid& nid) const { return nid.hash(); }
};

enum class Count : u8 {
    sent,        // messages that the endpoint has taken
    received,    // messages that came
    read_bytes,  // of payload
    sessions,    // that began
    lost,        // that ended badly
    dropped,     // messages that were wrong, or of no session
    count_,
};

struct ContextSetup {
    u32 index = 0, count = 1;
    CptId cpt = 0;
    Nid nid;
    u64 epoch = 0;
    u32 credits = 8;
};

class Context final : private Strand, private Poller {
 public:
    // The contexts of an NI; the first one takes the requests of peers for all.
    using Siblings = std::vector<std::unique_ptr<Context>>;
    Context(const ContextSetup&, const AddressBook&, Tunables&, LndUp&, Sched&, const Siblings&);
    ~Context();
    // One sentence in `why`.
    Status open(std::string& why);
    void start();

    void send(Msg&);
    void receive(Rx&, Msg* into, u32 len);
    Status park(Rx&);
    void drop_peer(const Nid&);
    // All ends; then `closed` is posted.
    void close(ulnet::Task& closed);
    // Any worker, at any time.
    void describe(ctl::Value& peers) const;
    u64 count(Count which) const {
        return counts_[static_cast<std::size_t>(which)].load(std::memory_order_relaxed);
    }

 private:
    static constexpr u32 completions_max = 32;
    static constexpr u32 buffer_bytes = 256 * 1024;
    static constexpr std::size_t peers_max = 65536;

    class Alarm final : public Timer {
     public:
        explicit Alarm(Context& context) : context_(context) {}
        void fire() override { context_.wake_by_alarm(); }

     private:
        Context& context_;
    };
    class Later final : public ulnet::Task {
     public:
        explicit Later(Context& context) : context_(context) {}
        void run() override { context_.quiesce(); }

     private:
        Context& context_;
    };
    // What came from elsewhere since the last step.
    struct Inbox {
        List<Msg> sends;
        List<Rx> answers;
        std::vector<Nid> drops;
        std::vector<std::vector<std::byte>> hellos;
        std::vector<Completion> completions;
        bool close = false;
    };

    // context.cc: the strand, the poller, the end
    bool step(Budget&) override;
    unsigned poll(Budget&) override;
    Armed arm() override;
    int wait_fd() const override;
    bool take_inbox();
    unsigned collect();  // with the endpoint's lock
    void work_off(const Completion&);
    void wake_by_alarm();
    bool waits_for_endpoint() const;
    bool has_deadlines() const;
    void set_alarm(Instant now);
    void expire(Instant now);
    void begin_to_close(Instant now);
    void close_endpoint();
    void quiesce();
    void add(Count which, u64 amount = 1) {
        counts_[static_cast<std::size_t>(which)].fetch_add(amount, std::memory_order_relaxed);
    }

    // outgoing.cc: messages to peers
    void pump(Peer&);
    void ask(Peer&, Instant now);
    void send_immediate(Peer&, Msg&);
    void send_bulk(Peer&, Msg&);
    Head head_for(Peer&, Type) const;
    std::unique_ptr<Out> make_out(Peer&);
    template <class Body> void say(Peer&, Type, const Body&, u64 place);
    void say_head(Peer&, Type);
    void post(std::unique_ptr<Out>);
    Status try_post(Out&);
    void repost();
    void sent(Out&, Status);
    void return_credit(Peer&);

    // sessions.cc: HELLOs, and the end of sessions
    void hello(const Head&, std::span<const std::byte>);
    void take_verdict(Peer&, const Hello&, const HelloVerdict&);
    // `bye`: the peer knows.
    void lose(Peer&, Status, Health, bool bye = false);
    void end_all_of(Peer&, Status, Health);
    u64 fresh_session();
    void enter_places(Peer&, u32 context);
    void leave_places(Peer&);
    Hello own_hello(const Peer&) const;
    void note(const Peer&);

    // incoming.cc: messages of peers
    Peer* peer_of(const Nid&);
    void message(RxBuffer&, std::span<const std::byte>);
    void of_session(Peer&, const Head&, RxBuffer&, std::span<const std::byte>);
    void show(Peer&, const Hdr&, std::unique_ptr<Rx>);
    void done(Peer&, const Done&);
    void fin(Peer&, const Fin&, bool written);
    void end_transfer(u64 id, Status, Health);
    void release(RxBuffer&);
    void give(RxBuffer&);

    // moving.cc: answers of the core, payload
    void answered(Rx&);
    void say_ready(Rx&);
    void ready(Peer&, Ready);
    template <class Mover>
    Status move(Mover&, Op::Kind, u64 id, const MemView&, const std::vector<Segment>&, u64 place);
    void read_more(u64 id);
    void write_more(u64 id);
    void moved(MoveOp&, Status);
    void all_read(Rx&);
    void conclude(Rx&, Status, Health);
    void let_go(u64 id);

    const ContextSetup setup_;
    const AddressBook& book_;
    Tunables& tunables_;
    LndUp& up_;
    const Siblings& siblings_;

    mutable std::mutex endpoint_lock_;  // guards: *endpoint_
    std::unique_ptr<Endpoint> endpoint_;
    std::unique_ptr<Bell> bell_;  // shm; with the endpoint's lock
    std::mutex inbox_lock_;       // guards: inbox_; taken last
    Inbox inbox_;
    std::atomic<i64> last_work_ns_{0};

    // Of the strand.
    std::unique_ptr<MemCache<Region>> cache_;
    std::vector<std::unique_ptr<RxBuffer>> buffers_;
    std::unordered_map<Nid, std::unique_ptr<Peer>, NidHash> peers_;
    std::unordered_map<u64, Transfer> transfers_;
    std::unordered_map<u64, std::unique_ptr<Rx>> rxs_;
    std::vector<std::unique_ptr<Out>> free_outs_;
    std::unordered_map<u64, std::unique_ptr<Ringer>> ringers_;  // shm; by place
    std::deque<std::unique_ptr<Out>> blocked_outs_;  // the endpoint could not take them yet
    std::vector<u64> blocked_moves_;                 // Rxs and transfers with more to move
    List<Out> posted_;
    List<MoveOp> moves_;
    std::vector<RxBuffer*> empty_;  // to be given to the endpoint
    std::vector<Completion> todo_;
    u64 next_id_ = 1;
    bool closing_ = false, endpoint_closed_ = false;
    Instant close_at_{}, look_at_{}, armed_for_{};
    ulnet::Task* closed_ = nullptr;
    Alarm alarm_{*this};
    Later later_{*this};
    std::atomic<u32> alarms_{0};          // armed or firing
    std::atomic<bool> poller_in_{false};  // until it is removed
    mutable std::mutex shown_lock_;       // guards: shown_
    struct Shown {
        PeerState state;
        u32 waiting, credits;
    };
    std::unordered_map<Nid, Shown, NidHash> shown_;  // of a moment ago
    std::array<std::atomic<u64>, static_cast<std::size_t>(Count::count_)> counts_{};
};

}  // namespace ulnet::ofi
