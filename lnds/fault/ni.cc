// Applying rules to what passes, and what comes of it later.
#include "lnds/fault/ni.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "lnds/fault/fault.h"

namespace ulnet::fault {
namespace {

constexpr std::size_t stalls_max = 1024;

CptId home_of(const NiConfig& config) {
    return config.cpts.empty() ? 0 : config.cpts.front();
}

// One of the bits, at random.
Health choose(u32 healths, Prng& prng) {
    u64 skip = prng.below(static_cast<u64>(std::popcount(healths)));
    for (u32 bit = 0; bit < 32; ++bit)
        if ((healths >> bit & 1) != 0 && skip-- == 0) return static_cast<Health>(bit);
    return Health::ok;
}

// The first item that is so; null = none.
template <class T, class Is> T* find(List<T>& list, Is is) {
    for (T& item : list)
        if (is(item)) return &item;
    return nullptr;
}

bool same(const RxToken& a, const RxToken& b) {
    return a.driver == b.driver && a.id == b.id;
}

}  // namespace

Copy::Copy(Msg& msg) : original(msg), bytes(msg.payload.len) {
    hdr = msg.hdr;
    next_hop = msg.next_hop;
    answers = msg.answers;
    deadline = msg.deadline;
    cpt = msg.cpt;
    msg.payload.copy_out(0, bytes);
    mem = Mem(bytes.data(), static_cast<u32>(bytes.size()), msg.cpt);
    payload = {&mem, 0, mem.size()};
}

FaultNi::FaultNi(const NiConfig& config, LndUp& up, Sched& sched, FaultRules& rules)
    : WrapNi(up), Strand(sched, home_of(config)), nid_(config.nid), rules_(rules) {}

FaultNi::~FaultNi() {
    while (Stall* const stall = stalls_.pop_front()) delete stall;
    CHECK(held_.empty() && copies_.empty());
}

const FaultRule* FaultNi::hit(FaultWay way, const Hdr& hdr, const Nid& peer) {
    return rules_.hit({way, hdr, nid_, peer}, sched_.now(), sched_.prng());
}

FaultNi::HeldPtr FaultNi::make(Held::Kind kind, const Nid& peer, Instant due) {
    auto held = std::make_unique<Held>();
    held->kind = kind;
    held->peer = peer;
    held->due = due;
    return held;
}

// With the lock held. What is due at the same time stays in order.
void FaultNi::insert(Held& item) {
    for (Held& other : held_) {
        if (other.due <= item.due) continue;
        held_.insert_before(other, item);
        return;
    }
    held_.push_back(item);
}

bool FaultNi::hold(HeldPtr& item) {
    {
        const std::lock_guard guard(lock_);
        if (closing_) return false;
        quiet_.store(false, std::memory_order_relaxed);
        insert(*item.release());
    }
    wake();
    return true;
}

Stall* FaultNi::join_stall(const Nid& peer) {
    if (quiet_.load(std::memory_order_relaxed)) return nullptr;
    const std::lock_guard guard(lock_);
    Stall* const stall = find(stalls_, [&](const Stall& each) { return each.peer == peer; });
    if (stall != nullptr) ++stall->joining;
    return stall;
}

void FaultNi::leave(Stall& stall) {
    {
        const std::lock_guard guard(lock_);
        --stall.joining;
    }
    wake();
}

void FaultNi::stall(const Nid& peer, Duration time) {
    const Instant until = sched_.now() + time;
    auto made = std::make_unique<Stall>();
    made->peer = peer;
    made->until = until;
    {
        const std::lock_guard guard(lock_);
        if (closing_ || stalls_.size() >= stalls_max) return;
        quiet_.store(false, std::memory_order_relaxed);
        // One that has begun lasts as long as it was to last.
        if (find(stalls_, [&](const Stall& each) { return each.peer == peer; })) return;
        stalls_.push_back(*made.release());
    }
    wake();
}

// --- sending

Msg& FaultNi::corrupted(Msg& msg) {
    auto copy = std::make_unique<Copy>(msg);
    if (copy->bytes.empty()) return msg;
    copy->bytes[sched_.prng().below(copy->bytes.size())] ^= std::byte{0x55};
    const std::lock_guard guard(lock_);
    quiet_.store(false, std::memory_order_relaxed);
    copies_.push_back(*copy);
    return *copy.release();
}

// Looks and holds in one step: were the stall over in between, the next message would overtake.
bool FaultNi::hold_behind_stall(Msg& msg) {
    if (quiet_.load(std::memory_order_relaxed)) return false;
    const Nid peer = msg.next_hop.nid;
    HeldPtr held = make(Held::Kind::send, peer);
    held->msg = &msg;
    {
        const std::lock_guard guard(lock_);
        const Stall* const stall =
            find(stalls_, [&](const Stall& each) { return each.peer == peer; });
        if (closing_ || stall == nullptr) return false;
        held->due = std::min(stall->until, msg.deadline);
        insert(*held.release());
    }
    wake();
    return true;
}

// To the driver, or behind a stall.
void FaultNi::forward(Msg& msg) {
    if (!hold_behind_stall(msg)) inner().send(msg);
}

void FaultNi::send(Msg& msg) {
    const Nid peer = msg.next_hop.nid;
    const FaultRule* const rule = hit(FaultWay::send, msg.hdr, peer);
    if (rule == nullptr) return forward(msg);
    HeldPtr held;
    switch (rule->action) {
    case FaultAction::drop:
        held = make(Held::Kind::finish, peer);
        held->msg = &msg;
        if (rule->healths != 0) held->health = choose(rule->healths, sched_.prng());
        held->status = status_of(held->health);
        if (!hold(held)) inner().send(msg);  // which ends it, since it closes
        return;
    case FaultAction::delay:
        held = make(Held::Kind::send, peer, std::min(sched_.now() + rule->time, msg.deadline));
        held->msg = &msg;
        if (!hold(held)) inner().send(msg);
        return;
    case FaultAction::reset:
        forward(msg);  // `msg` may be gone now
        held = make(Held::Kind::reset, peer);
        hold(held);
        return;
    case FaultAction::stall:
        stall(peer, rule->time);
        return forward(msg);
    case FaultAction::corrupt:
        return forward(corrupted(msg));
    default:
        return forward(msg);
    }
}

void FaultNi::finished(Msg& msg, Status status, Health health) {
    std::unique_ptr<Copy> copy;
    if (!quiet_.load(std::memory_order_relaxed)) {
        const std::lock_guard guard(lock_);
        copy.reset(find(copies_, [&](const Copy& each) { return &each == &msg; }));
        if (copy) copies_.remove(*copy);
    }
    up_.finished(copy ? copy->original : msg, status, health);
}

// --- receiving

// Parks the message with the driver until then. False: it has to be shown now.
bool FaultNi::hold_arrival(const Hdr& hdr, const ProcessId& from, RxToken token, RdmaGet get,
                           Instant due) {
    if (!inner().park(token).ok()) return false;
    HeldPtr held = make(Held::Kind::arrival, from.nid, due);
    held->hdr = hdr;
    held->from = from;
    held->token = token;
    held->get = get;
    if (!hold(held)) inner().receive(token, nullptr, 0);  // the NI closes
    return true;
}

// To the core, or behind a stall, which must not end before the message waits there: what comes
// next would overtake.
Status FaultNi::show(const Hdr& hdr, const ProcessId& from, RxToken token, RdmaGet get) {
    if (Stall* const stall = open() ? join_stall(from.nid) : nullptr) {
        const bool held = hold_arrival(hdr, from, token, get, stall->until);
        leave(*stall);
        if (held) return ok_status;
    }
    return up_.arrived(hdr, from, token, get);
}

Status FaultNi::arrived(const Hdr& hdr, const ProcessId& from, RxToken token, RdmaGet get) {
    const FaultRule* const rule =
        open() ? hit(FaultWay::receive, hdr, from.nid) : nullptr;  // nothing can be done yet
    if (rule == nullptr) return show(hdr, from, token, get);
    switch (rule->action) {
    case FaultAction::drop:
        inner().receive(token, nullptr, 0);
        return ok_status;
    case FaultAction::delay:
        if (hold_arrival(hdr, from, token, get, sched_.now() + rule->time)) return ok_status;
        break;
    case FaultAction::reset:
        if (HeldPtr held = make(Held::Kind::reset, from.nid)) hold(held);
        break;
    case FaultAction::stall:
        stall(from.nid, rule->time);
        break;
    default:
        break;
    }
    return show(hdr, from, token, get);
}

Status FaultNi::park(RxToken token) {
    {
        const std::lock_guard guard(lock_);
        if (same(showing_, token)) return ok_status;  // it is parked already
    }
    return inner().park(token);
}

// --- later

// The next item that is due, when the NI closes any.
FaultNi::HeldPtr FaultNi::next(bool& closing) {
    const Instant now = sched_.now();
    const std::lock_guard guard(lock_);
    closing = closing_;
    if (held_.empty() || (!closing_ && held_.front().due > now)) return nullptr;
    HeldPtr item(held_.pop_front());
    if (item->kind == Held::Kind::arrival) showing_ = item->token;
    return item;
}

void FaultNi::work_off(Held& item, bool closing) {
    switch (item.kind) {
    case Held::Kind::send:
        if (closing)
            finished(*item.msg, Status(-ESHUTDOWN), Health::local_error);
        else if (item.msg->deadline <= sched_.now())
            finished(*item.msg, Status(-ETIMEDOUT), Health::network_timeout);
        else
            inner().send(*item.msg);
        return;
    case Held::Kind::finish:
        finished(*item.msg, item.status, item.health);
        return;
    case Held::Kind::reset:
        if (!closing) inner().drop_peer(item.peer);
        return;
    case Held::Kind::arrival:
        break;
    }
    const Status status =
        closing ? Status(-ESHUTDOWN) : up_.arrived(item.hdr, item.from, item.token, item.get);
    {
        const std::lock_guard guard(lock_);
        showing_ = {};
    }
    if (status.ok()) return;
    inner().receive(item.token, nullptr, 0);
    if (!closing) inner().drop_peer(item.from.nid);
}

bool FaultNi::step(Budget& budget) {
    for (;;) {
        if (!budget.left()) return true;
        bool closing = false;
        const HeldPtr item = next(closing);
        if (item == nullptr) break;
        work_off(*item, closing);
        budget.take(1, 0);
    }
    set_alarm();
    bool close_inner = false;
    {
        const std::lock_guard guard(lock_);
        close_inner = closing_ && held_.empty() && !inner_closing_;
        if (close_inner) inner_closing_ = true;
    }
    if (close_inner) inner().close(closed_);
    return false;
}

// For the first item that is not due yet, or the end of a stall that nothing waits behind. Stalls
// that are over go once nothing of theirs is held, so that nothing overtakes.
void FaultNi::set_alarm() {
    const Instant now = sched_.now();
    Instant first = instant_never;
    List<Stall> over;
    {
        const std::lock_guard guard(lock_);
        for (auto at = stalls_.begin(); at != stalls_.end();) {
            Stall& stall = *at;
            ++at;
            if (stall.joining > 0) continue;  // wakes this strand
            const bool waited_for =
                find(held_, [&](const Held& item) { return item.peer == stall.peer; }) != nullptr;
            if ((stall.until > now || waited_for) && !closing_) {
                first = std::min(first, std::max(stall.until, now));
                continue;
            }
            stalls_.remove(stall);
            over.push_back(stall);
        }
        if (!held_.empty()) first = std::min(first, held_.front().due);
        quiet_.store(held_.empty() && stalls_.empty() && copies_.empty(),
                     std::memory_order_relaxed);
        if (closing_) first = instant_never;
    }
    while (Stall* const stall = over.pop_front()) delete stall;
    if (sched_.cancel(alarm_)) alarms_.fetch_sub(1, std::memory_order_acq_rel);
    if (first == instant_never) return;
    alarms_.fetch_add(1, std::memory_order_relaxed);
    sched_.arm(cpt(), alarm_, first);
}

void FaultNi::drop_peer(const Nid& nid) {
    {
        const std::lock_guard guard(lock_);
        List<Held> ended;
        for (auto at = held_.begin(); at != held_.end();) {
            Held& item = *at;
            ++at;
            if (item.kind != Held::Kind::send || item.peer != nid) continue;
            held_.remove(item);
            item.kind = Held::Kind::finish;
            item.due = {};
            item.status = Status(-EHOSTDOWN);
            item.health = Health::remote_dropped;
            ended.push_back(item);
        }
        while (Held* const item = ended.pop_front()) insert(*item);
    }
    wake();
    inner().drop_peer(nid);
}

void FaultNi::describe(ctl::Value& out) const {
    inner().describe(out);
    ctl::Value& fault = out.set("fault", ctl::Value::map());
    rules_.describe(fault.set("rules", {}));
    const std::lock_guard guard(lock_);
    fault.set("held", static_cast<u64>(held_.size()));
    fault.set("stalled_peers", static_cast<u64>(stalls_.size()));
}

void FaultNi::close(ulnet::Task& done) {
    {
        const std::lock_guard guard(lock_);
        closing_ = true;
        done_ = &done;
    }
    wake();
}

// The driver has closed: wait for the last step and alarm to return.
void FaultNi::quiesce() {
    if (!idle() || alarms_.load(std::memory_order_acquire) != 0)
        sched_.post(cpt(), closed_);
    else
        sched_.post(cpt(), *done_);
}

class FaultLnd final : public WrapLnd {
 public:
    FaultLnd(std::unique_ptr<Lnd> inner, FaultRules& rules)
        : WrapLnd(std::move(inner)), rules_(rules) {}

 private:
    std::unique_ptr<WrapNi> wrap(const NiConfig& config, LndUp& up, Sched& sched) override {
        return std::make_unique<FaultNi>(config, up, sched, rules_);
    }
    FaultRules& rules_;
};

}  // namespace ulnet::fault

namespace ulnet {

std::unique_ptr<Lnd> make_fault_lnd(std::unique_ptr<Lnd> inner, FaultRules& rules) {
    return std::make_unique<fault::FaultLnd>(std::move(inner), rules);
}

}  // namespace ulnet
