// Checkers: see the header.
#include "tests/sim/checkers.h"

#include <algorithm>
#include <cstring>

#include "cpt/cpt.h"
#include "lnds/sock/lnd.h"
#include "lnds/sock/ni.h"
#include "lnet/credit.h"

namespace ulnet::sim {

namespace {

u64 pattern_word(u64 id, u64 index) {
    u64 value = id * 0x9e3779b97f4a7c15 + index;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    return value ^ (value >> 27);
}

std::byte pattern_byte(u64 id, u64 offset) {
    return static_cast<std::byte>(pattern_word(id, offset / 8) >> (offset % 8 * 8));
}

const char* name_of(OpKind kind) {
    switch (kind) {
    case OpKind::put:
        return "put";
    case OpKind::put_ack:
        return "put with ack";
    case OpKind::get:
        return "get";
    }
    return "?";
}

}  // namespace

void fill_pattern(std::span<std::byte> bytes, u64 id, u64 offset) {
    std::size_t at = 0;
    for (; at < bytes.size() && (offset + at) % 8 != 0; ++at)
        bytes[at] = pattern_byte(id, offset + at);
    for (; at + 8 <= bytes.size(); at += 8) {
        const u64 word = pattern_word(id, (offset + at) / 8);
        std::memcpy(bytes.data() + at, &word, 8);
    }
    for (; at < bytes.size(); ++at) bytes[at] = pattern_byte(id, offset + at);
}

std::size_t check_pattern(std::span<const std::byte> bytes, u64 id, u64 offset) {
    std::size_t at = 0;
    for (; at < bytes.size() && (offset + at) % 8 != 0; ++at)
        if (bytes[at] != pattern_byte(id, offset + at)) return at;
    for (; at + 8 <= bytes.size(); at += 8) {
        const u64 word = pattern_word(id, (offset + at) / 8);
        if (std::memcmp(bytes.data() + at, &word, 8) != 0) break;
    }
    for (; at < bytes.size(); ++at)
        if (bytes[at] != pattern_byte(id, offset + at)) return at;
    return bytes.size();
}

std::string OrderRecord::check() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
        return a.offset != b.offset ? a.offset < b.offset : a.sequence < b.sequence;
    });
    std::map<u32, u64> last;
    for (const Entry& entry : entries_) {
        u64& before = last[entry.sender];
        if (entry.sequence <= before)
            return "message " + std::to_string(entry.sequence) + " of sender " +
                   std::to_string(entry.sender) + " was matched after message " +
                   std::to_string(before);
        before = entry.sequence;
    }
    return {};
}

OpRecord& Checkers::begin(OpKind kind, u32 from, u32 to, u32 bytes) {
    OpRecord op;
    op.id = ops_.size() + 1;
    op.kind = kind;
    op.from = from;
    op.to = to;
    op.bytes = op.fits = bytes;
    op.began = world_.now();
    ops_.push_back(op);
    return ops_.back();
}

OpRecord* Checkers::find(u64 id) {
    return id >= 1 && id <= ops_.size() ? &ops_[id - 1] : nullptr;
}

void Checkers::wrong(const OpRecord& op, const std::string& what) {
    world_.fail(std::string(name_of(op.kind)) + " " + std::to_string(op.id) + " of " +
                std::to_string(op.bytes) + " bytes from node " + std::to_string(op.from) +
                " to node " + std::to_string(op.to) + " (begun at " + to_text(op.began) +
                "): " + what);
}

void Checkers::start(OpRecord& op) {
    op.started = true;
    op.began = world_.now();
    ++started_;
}

void Checkers::initiator_event(OpRecord& op, const Event& event, std::span<const std::byte> payload,
                               u64 pattern, u64 offset) {
    world_.engine.trace(Trace::event, op.id, static_cast<u64>(event.kind),
                        static_cast<u64>(-event.status.code()));
    if (op.ended) return wrong(op, "an event after the one with `unlinked`");
    if (!event.status.ok() && op.status == 0) op.status = event.status.code();
    switch (event.kind) {
    case Event::Kind::send:
        if (++op.sends > 1) wrong(op, "two SEND events");
        break;
    case Event::Kind::ack:
    case Event::Kind::reply:
        check_answer(op, event, payload, pattern, offset);
        break;
    case Event::Kind::unlink:
        if (!event.unlinked) wrong(op, "an UNLINK event that does not unlink");
        if (op.status == 0) op.status = -ECANCELED;
        break;
    case Event::Kind::get:
    case Event::Kind::put:
        wrong(op, "the event of a target on the initiator's MD");
        break;
    }
    if (!event.unlinked) return;
    op.ended = true;
    ++ended_;
    world_.engine.trace(Trace::operation, op.id, static_cast<u64>(-op.status), op.moved_told);
    if (op.sends == 0 && op.status == 0) wrong(op, "it ended well without a SEND event");
    if (op.succeeded()) ++succeeded_;
}

// Both ends have told how much was moved.
void Checkers::compare(const OpRecord& op) {
    if (op.arrived_well && op.answered_well && op.moved_told != op.moved_there)
        wrong(op, "the target moved " + std::to_string(op.moved_there) +
                      " bytes, the initiator is told " + std::to_string(op.moved_told));
}

void Checkers::check_both_ends() {
    for (const OpRecord& op : ops_)
        if (op.kind != OpKind::put && op.succeeded() && op.arrivals != 1)
            return wrong(op, "it succeeded, but arrived " + std::to_string(op.arrivals) + " times");
}

void Checkers::check_answer(OpRecord& op, const Event& event, std::span<const std::byte> payload,
                            u64 pattern, u64 offset) {
    const bool ack = event.kind == Event::Kind::ack;
    if (ack != (op.kind == OpKind::put_ack) || op.kind == OpKind::put)
        return wrong(op, ack ? "an ACK that nobody asked for" : "a REPLY to a put");
    if (++op.answers > 1) return wrong(op, ack ? "two ACKs" : "two REPLYs");
    if (!event.status.ok()) return;
    op.moved_told = event.mlength;
    op.answered_well = true;
    compare(op);
    if (ack) return;
    CHECK(event.mlength <= payload.size());
    const std::size_t bad = check_pattern(payload.first(event.mlength), pattern, offset);
    if (bad < event.mlength) wrong(op, "byte " + std::to_string(bad) + " of the REPLY is wrong");
}

void Checkers::target_event(const Event& event, std::span<const std::byte> payload,
                            OpKind get_or_put) {
    OpRecord* const op = find(event.match_bits);
    if (op == nullptr)
        return world_.fail("a message that nobody sent: match bits " +
                           std::to_string(event.match_bits));
    if ((op->kind == OpKind::get) != (get_or_put == OpKind::get))
        return wrong(*op, "it arrived as another type");
    if (++op->arrivals > 1) return wrong(*op, "it arrived twice");
    if (op->refused && op->fits == 0 && op->bytes > 0)
        return wrong(*op, "it was taken though it does not fit");
    if (event.rlength != op->bytes)
        return wrong(*op, "it arrived with " + std::to_string(event.rlength) + " bytes");
    if (event.mlength > event.rlength) return wrong(*op, "more was moved than was sent");
    if (!event.status.ok()) return;  // its payload was lost on the way
    if (event.mlength != op->fits)
        return wrong(*op, std::to_string(event.mlength) + " bytes of it were taken, not " +
                              std::to_string(op->fits));
    op->moved_there = event.mlength;
    op->arrived_well = true;
    compare(*op);
    if (get_or_put == OpKind::get) return;
    const std::size_t bad = check_pattern(payload, op->id, 0);
    if (bad < payload.size()) wrong(*op, "byte " + std::to_string(bad) + " of it is wrong");
}

bool Checkers::md_event(MdRecord& record, const Event& event) {
    world_.engine.trace(Trace::event, event.match_bits, static_cast<u64>(event.kind),
                        event.mlength);
    if (record.unlinked)
        world_.fail("an event on a target's MD after the one with `unlinked`, match bits " +
                    std::to_string(event.match_bits));
    if (record.in_handler) world_.fail("the handler of a target's MD was called within itself");
    record.in_handler = true;
    record.unlinked = record.unlinked || event.unlinked;
    return !world_.failed();
}

void Checkers::order(OrderRecord& record) {
    const std::string bad = record.check();
    if (!bad.empty()) world_.fail(bad);
    record.clear();
}

void Checkers::check_liveness(Duration bound) {
    while (oldest_ < ops_.size() && (ops_[oldest_].ended || ops_[oldest_].never_began)) ++oldest_;
    for (std::size_t i = oldest_; i < ops_.size(); ++i) {
        const OpRecord& op = ops_[i];
        if (op.began + bound > world_.now()) break;
        if (!op.ended && !op.never_began)
            return wrong(op, "it has not ended: " + std::to_string(op.sends) + " SEND, " +
                                 std::to_string(op.answers) + " answers, " +
                                 std::to_string(op.arrivals) + " arrivals");
    }
}

void Checkers::check_success(u64 since_id) {
    for (std::size_t i = since_id - 1; i < ops_.size(); ++i) {
        const OpRecord& op = ops_[i];
        if (op.never_began) continue;
        if (!op.started) return wrong(op, "it never began");
        if (!op.ended) return wrong(op, "it has not ended");
        if (op.cancelled || op.excused) continue;
        if (op.refused) {
            if (op.kind != OpKind::put && op.succeeded())
                return wrong(op, "it succeeded though the target refuses it");
            continue;
        }
        if (!op.succeeded())
            return wrong(op, "it failed: " + std::string(Status(op.status).text()));
        if (op.arrivals != 1)
            return wrong(op, "it arrived " + std::to_string(op.arrivals) + " times");
    }
}

void Checkers::audit(Node& node, const std::string& where) {
    const auto differs = [&](const std::string& what, i64 is, i64 should) {
        if (is != should)
            world_.fail(where + ": " + what + " is " + std::to_string(is) + " at rest, not " +
                        std::to_string(should));
    };
    const StatsView stats = inspect_stats(node);
    differs("msgs_alloc", static_cast<i64>(stats.msgs_alloc), 0);
    differs("rst_alloc", static_cast<i64>(stats.rst_alloc), 0);
    for (const NiView& ni : inspect_nis(node)) {
        if (ni.config.credits == 0) continue;
        const u32 queues = static_cast<u32>(ni.config.cpts.empty() ? node.sched().cpts().size()
                                                                   : ni.config.cpts.size());
        differs("NI credits", ni.credits_free,
                i64{queues} * queue_credits(ni.config.credits, ni.config.peer_credits, queues));
    }
    for (const PeerView& peer : inspect_peers(node)) {
        for (const PeerNiView& ni : peer.nis) {
            differs("messages queued to " + to_text(ni.nid), static_cast<i64>(ni.queued), 0);
            differs("credits of " + to_text(ni.nid), ni.credits_free, ni.credits_max);
        }
    }
}

void Checkers::audit_connections(SimNode& node) {
    SimNode::Life& life = node.life();
    if (life.sock == nullptr || !node.ready()) return;
    const sock::Ref<sock::SockNi> ni = life.sock->find_ni(node.nid());
    ctl::Value view;
    ni->describe(view);
    const u64 shown = view["connections"].items().size();
    const auto differs = [&](const char* what, u64 is) {
        if (is != shown)
            world_.fail("node " + std::to_string(node.index()) + ": " + what + " are " +
                        std::to_string(is) + " at rest, but it shows " + std::to_string(shown));
    };
    differs("connections", ni->conns());
    differs("streams", life.kernel.open_streams());
}

}  // namespace ulnet::sim
