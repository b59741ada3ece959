// What must hold in every run, whatever the faults. The workload reports operations and events
// here; the first violation fails the World.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <vector>

#include "tests/sim/world.h"

namespace ulnet::sim {

// Payload bytes are a function of an id and the offset.
void fill_pattern(std::span<std::byte> bytes, u64 id, u64 offset);
// The first byte that is wrong, or bytes.size().
std::size_t check_pattern(std::span<const std::byte> bytes, u64 id, u64 offset);

enum class OpKind : u8 { put, put_ack, get };

// One put or get as its two ends saw it.
struct OpRecord {
    u64 id = 0;
    OpKind kind = OpKind::put;
    u32 from = 0, to = 0;  // nodes
    u32 bytes = 0;
    u32 fits = 0;          // bytes that the target takes
    bool refused = false;  // the target takes nothing of it, or sends no ACK
    bool cancelled = false;
    bool excused = false;  // an end of it crashed
    Instant began{};
    bool started = false, ended = false;
    bool never_began = false;  // an end of it had gone before
    u32 sends = 0, answers = 0, arrivals = 0;
    int status = 0;  // the first bad one
    bool arrived_well = false, answered_well = false;
    u32 moved_there = 0, moved_told = 0;
    u64 sent_as = 0;  // the order in which drivers were given the messages
    bool succeeded() const { return ended && status == 0 && (kind == OpKind::put || answers == 1); }
};

// The event stream of one MD: never nested, nothing after the event with `unlinked`.
struct MdRecord {
    bool unlinked = false, in_handler = false;
};

// The order in which one receiving MD with a running offset was filled.
class OrderRecord {
 public:
    void add(u32 offset, u32 sender, u64 sequence) {
        entries_.push_back({offset, sender, sequence});
    }
    // Sequence numbers of each sender rise with the offset; else a sentence.
    std::string check();
    void clear() { entries_.clear(); }

 private:
    struct Entry {
        u32 offset, sender;
        u64 sequence;
    };
    std::vector<Entry> entries_;
};

class Checkers {
 public:
    explicit Checkers(World& world) : world_(world) {}

    OpRecord& begin(OpKind kind, u32 from, u32 to, u32 bytes);
    // The initiator sends it now; or nobody ever will.
    void start(OpRecord&);
    void never_began(OpRecord& op) { op.never_began = true; }
    // A driver was given the PUT.
    void sent(u64 id) {
        if (OpRecord* op = find(id)) op->sent_as = ++sent_;
    }
    // Events of the initiator's MD. `payload`: where a REPLY's bytes went; they are those of
    // `pattern` from `offset` on.
    void initiator_event(OpRecord&, const Event&, std::span<const std::byte> payload, u64 pattern,
                         u64 offset);
    // PUT or GET at the target, with the bytes that a PUT brought.
    void target_event(const Event&, std::span<const std::byte> payload, OpKind get_or_put);
    bool md_event(MdRecord&, const Event&);  // false: wrong; pair with md_event_over()
    void md_event_over(MdRecord& record) { record.in_handler = false; }
    void order(OrderRecord&);

    OpRecord* find(u64 id);
    u64 started() const { return started_; }
    u64 ended() const { return ended_; }
    u64 succeeded() const { return succeeded_; }
    bool all_ended() const { return started_ == ended_; }
    // An operation that has taken longer than `bound`, if there is one, fails the World.
    void check_liveness(Duration bound);
    // All operations that began at or after this one succeeded (but for those refused or
    // cancelled); each arrived exactly once.
    void check_success(u64 since_id);
    // At rest: what succeeded at the initiator happened at the target. (While things move, either
    // end may hear first.)
    void check_both_ends();

    // Credits, messages and trackers of a node are what they were when it was idle. On its control
    // strand; `where` is for the sentence.
    void audit(Node& node, const std::string& where);
    // The same for the driver: its connections are those it shows, and have the streams there are.
    void audit_connections(SimNode&);

 private:
    void check_answer(OpRecord&, const Event&, std::span<const std::byte> payload, u64 pattern,
                      u64 offset);
    void compare(const OpRecord& op);
    void wrong(const OpRecord& op, const std::string& what);

    World& world_;
    std::deque<OpRecord> ops_;  // by id, from 1
    std::size_t oldest_ = 0;    // all before have ended
    u64 started_ = 0, ended_ = 0, succeeded_ = 0, sent_ = 0;
};

}  // namespace ulnet::sim
