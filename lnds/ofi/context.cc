// The strand of a context, its poller, and its end.
#include "lnds/ofi/context.h"

#include <algorithm>
#include <cerrno>

namespace ulnet::ofi {
namespace {

constexpr Duration tick = std::chrono::milliseconds(100);      // deadlines are looked at so often
constexpr Duration retry = std::chrono::microseconds(500);     // of what the endpoint did not take
constexpr Duration bye_time = std::chrono::milliseconds(200);  // for the last words
constexpr std::size_t todo_max = 4096;
constexpr int rounds_max = 8;  // of one step

}  // namespace

Context::Context(const ContextSetup& setup, const AddressBook& book, Tunables& tunables, LndUp& up,
                 Sched& sched, const Siblings& siblings)
    : Strand(sched, setup.cpt), setup_(setup), book_(book), tunables_(tunables), up_(up),
      siblings_(siblings) {
    todo_.reserve(todo_max);
}

Context::~Context() {
    while (MoveOp* const op = moves_.pop_front()) delete op;
    while (Out* const out = posted_.pop_front()) delete out;
}

Status Context::open(std::string& why) {
    const std::string place = book_.find(setup_.nid, setup_.index);
    if (tunables_.provider() == Provider::shm) {
        Result<std::unique_ptr<Bell>> bell = Bell::open(place);
        if (!bell.ok()) {
            why = "the name " + place + " of " + to_text(setup_.nid) +
                  " cannot be taken: " + bell.status().text();
            return bell.status();
        }
        bell_ = std::move(*bell);
    }
    auto endpoint = Endpoint::open(tunables_.provider(), place, endpoint_lock_, why);
    if (bell_ && endpoint.status() == Status(-EBUSY)) {
        // Left by a process that was killed, whose number another one has now.
        Bell::clear_endpoint(place);
        endpoint = Endpoint::open(tunables_.provider(), place, endpoint_lock_, why);
    }
    if (!endpoint.ok()) return endpoint.status();
    endpoint_ = std::move(*endpoint);
    cache_ = std::make_unique<MemCache<Region>>(
        MemCache<Region>::Limits{},
        [this](std::byte* base, u64 len) { return endpoint_->expose(base, len); });
    const std::lock_guard guard(endpoint_lock_);
    for (u32 i = 0; i < tunables_.get_u32(Tunable::rx_buffers); ++i) {
        buffers_.push_back(std::make_unique<RxBuffer>());
        RxBuffer& buffer = *buffers_.back();
        buffer.kind = Op::Kind::receive;
        buffer.bytes.resize(buffer_bytes);
        if (const Status status = endpoint_->give_buffer(buffer, buffer.bytes); !status.ok()) {
            why = std::string("a buffer for messages: ") + status.text();
            return status;
        }
    }
    return ok_status;
}

void Context::start() {
    poller_in_.store(true, std::memory_order_release);
    sched_.add_poller(cpt(), *this);
    wake();
}

// --- calls from elsewhere

void Context::send(Msg& msg) {
    {
        const std::lock_guard guard(inbox_lock_);
        inbox_.sends.push_back(msg);
    }
    wake();
}

// The payload of an immediate message is copied by whoever asks for it.
void Context::receive(Rx& rx, Msg* into, u32 len) {
    rx.into = into;
    rx.len = len;
    if (into != nullptr && !rx.bulk) into->payload.copy_in(0, rx.payload.first(len));
    {
        const std::lock_guard guard(inbox_lock_);
        inbox_.answers.push_back(rx);
    }
    wake();
}

// Within arrived(): on the strand. What waits longer must not hold the buffer.
Status Context::park(Rx& rx) {
    if (rx.bulk || rx.payload.empty()) return ok_status;
    rx.copy.assign(rx.payload.begin(), rx.payload.end());
    rx.payload = rx.copy;
    return ok_status;
}

void Context::drop_peer(const Nid& nid) {
    {
        const std::lock_guard guard(inbox_lock_);
        inbox_.drops.push_back(nid);
    }
    wake();
}

void Context::close(ulnet::Task& closed) {
    {
        const std::lock_guard guard(inbox_lock_);
        inbox_.close = true;
        closed_ = &closed;
    }
    wake();
}

void Context::describe(ctl::Value& peers) const {
    const std::lock_guard guard(shown_lock_);
    for (const auto& [nid, state] : shown_) {
        ctl::Value peer = ctl::Value::map();
        peer.set("nid", to_text(nid));
        peer.set("state", state.state == PeerState::up       ? "up"
                          : state.state == PeerState::asking ? "asking"
                                                             : "idle");
        peer.set("context", setup_.index);
        peer.set("waiting", state.waiting);
        peer.set("credits", state.credits);
        peers.push(std::move(peer));
    }
}

// --- the poller

// With the endpoint's lock, so that completions keep their order.
unsigned Context::collect() {
    if (endpoint_closed_) return 0;
    std::array<Completion, completions_max> batch;
    const unsigned count = endpoint_->poll(batch);
    if (count == 0) return 0;
    last_work_ns_.store(sched_.now().time_since_epoch().count(), std::memory_order_relaxed);
    const std::lock_guard guard(inbox_lock_);
    inbox_.completions.insert(inbox_.completions.end(), batch.begin(), batch.begin() + count);
    return count;
}

unsigned Context::poll(Budget&) {
    unsigned count = 0;
    {
        const std::unique_lock guard(endpoint_lock_, std::try_to_lock);
        if (!guard.owns_lock()) return 0;  // somebody does it just now
        if (bell_) bell_->wake();
        count = collect();
    }
    if (count > 0) wake();
    return count;
}

Armed Context::arm() {
    const i64 quiet_ns =
        sched_.now().time_since_epoch().count() - last_work_ns_.load(std::memory_order_relaxed);
    if (quiet_ns < tunables_.get(Tunable::poll_us) * 1000) return Armed::busy;
    bool found = false, sleeps = false;
    {
        const std::lock_guard guard(endpoint_lock_);
        if (bell_) bell_->lie_down();
        found = collect() > 0;
        sleeps = !found && (endpoint_closed_ || bell_ != nullptr || endpoint_->may_wait());
        if (bell_ && !sleeps) bell_->wake();
    }
    if (found) wake();
    return sleeps ? Armed::yes : Armed::busy;
}

int Context::wait_fd() const {
    return bell_ ? bell_->fd() : endpoint_->wait_fd();
}

// --- the strand

bool Context::step(Budget& budget) {
    const Instant now = sched_.now();
    // The pollers do this; but nobody else may come to it while this strand has its hands full.
    bool more = false;
    if (waits_for_endpoint()) {
        const std::lock_guard guard(endpoint_lock_);
        more = collect() == completions_max;
    }
    // What the core answers from within our calls is worked off at once.
    for (int round = 0; round < rounds_max && take_inbox(); ++round) {
        for (const Completion& completion : todo_) {
            work_off(completion);
            budget.take(1, completion.bytes);
        }
        todo_.clear();
    }
    repost();
    if (now >= look_at_ || closing_) {
        look_at_ = now + tick;
        expire(now);
    }
    set_alarm(now);
    return more;
}

// False: there was nothing.
bool Context::take_inbox() {
    Inbox in;
    {
        const std::lock_guard guard(inbox_lock_);
        in.sends.splice_back(inbox_.sends);
        in.answers.splice_back(inbox_.answers);
        in.drops.swap(inbox_.drops);
        in.hellos.swap(inbox_.hellos);
        todo_.swap(inbox_.completions);
        in.close = std::exchange(inbox_.close, false);
    }
    if (in.sends.empty() && in.answers.empty() && in.drops.empty() && in.hellos.empty() &&
        todo_.empty() && !in.close)
        return false;
    while (Msg* const msg = in.sends.pop_front()) {
        Peer* const peer = closing_ ? nullptr : peer_of(msg->next_hop.nid);
        if (peer == nullptr) {
            up_.finished(*msg, Status(closing_ ? -ESHUTDOWN : -ENOMEM), Health::local_error);
            continue;
        }
        peer->waiting.push_back(*msg);
        pump(*peer);
    }
    while (Rx* const rx = in.answers.pop_front()) answered(*rx);
    for (const std::vector<std::byte>& bytes : in.hellos)
        if (const Result<Head> head = decode_head(bytes); head.ok() && !closing_)
            hello(*head, bytes);
    for (const Nid& nid : in.drops) {
        const auto found = peers_.find(nid);
        if (found == peers_.end()) continue;
        Peer& peer = *found->second;
        while (Msg* const msg = peer.waiting.pop_front())
            up_.finished(*msg, Status(-EHOSTDOWN), Health::remote_dropped);
        lose(peer, Status(-EHOSTDOWN), Health::remote_dropped);
    }
    if (in.close) begin_to_close(sched_.now());
    return true;
}

void Context::work_off(const Completion& completion) {
    if (completion.op == nullptr) return;  // of nothing that we know
    switch (completion.op->kind) {
    case Op::Kind::send:
        return sent(static_cast<Out&>(*completion.op), completion.status);
    case Op::Kind::read:
    case Op::Kind::write:
        return moved(static_cast<MoveOp&>(*completion.op), completion.status);
    case Op::Kind::receive:
        break;
    }
    auto& buffer = static_cast<RxBuffer&>(*completion.op);
    ++buffer.refs;
    if (completion.status.ok() && completion.data != nullptr) {
        add(Count::received);
        message(buffer, {completion.data, completion.bytes});
    }
    if (completion.released || !completion.status.ok()) buffer.released = true;
    release(buffer);
}

void Context::expire(Instant now) {
    if (closing_) {
        if (!endpoint_closed_ && (now >= close_at_ || (posted_.empty() && blocked_outs_.empty())))
            close_endpoint();
        return;
    }
    std::vector<Peer*> late;
    const auto is_late = [&](Peer* peer) {
        if (std::find(late.begin(), late.end(), peer) == late.end()) late.push_back(peer);
    };
    for (auto& [id, transfer] : transfers_)
        if (transfer.deadline <= now) is_late(transfer.peer);
    for (auto& [id, rx] : rxs_)
        if (rx->deadline <= now) is_late(rx->peer);
    for (Peer* const peer : late) lose(*peer, Status(-ETIMEDOUT), Health::network_timeout);
    for (auto& [nid, peer] : peers_) {
        note(*peer);
        if (peer->waiting.empty() && peer->sessions.state() != PeerState::asking) continue;
        for (auto at = peer->waiting.begin(); at != peer->waiting.end();) {
            Msg& msg = *at;
            ++at;
            if (msg.deadline > now) continue;
            peer->waiting.remove(msg);
            up_.finished(msg, Status(-ETIMEDOUT), Health::network_timeout);
        }
        if (peer->sessions.state() != PeerState::asking) continue;
        if (peer->waiting.empty() && peer->tell_until <= now) {
            peer->sessions.forget();  // the next message begins anew
            note(*peer);
        } else if (peer->ask_at <= now) {
            ask(*peer, now);
        }
    }
}

void Context::wake_by_alarm() {
    wake();
    alarms_.fetch_sub(1, std::memory_order_acq_rel);
}

// What nobody tells of: room for what was not taken; and, with shm, the ends of long messages.
bool Context::waits_for_endpoint() const {
    return !blocked_outs_.empty() || !blocked_moves_.empty() || !empty_.empty() ||
           (bell_ != nullptr && !posted_.empty());
}

// Deadlines are looked at every tick while there may be some: as cheap as it can be in a step.
void Context::set_alarm(Instant now) {
    const bool soon = waits_for_endpoint() || (closing_ && !endpoint_closed_);
    // One that is due fires just now, and this step may be what it has woken.
    const bool armed = alarms_.load(std::memory_order_acquire) != 0 && armed_for_ > now;
    if (armed && (!soon || armed_for_ <= now + retry)) return;
    if (!soon && (closing_ || !has_deadlines())) return;
    if (sched_.cancel(alarm_)) alarms_.fetch_sub(1, std::memory_order_acq_rel);
    alarms_.fetch_add(1, std::memory_order_relaxed);
    armed_for_ = now + (soon ? retry : tick);
    sched_.arm(cpt(), alarm_, armed_for_);
}

bool Context::has_deadlines() const {
    return !transfers_.empty() || !rxs_.empty() ||
           std::any_of(peers_.begin(), peers_.end(), [](const auto& each) {
               return !each.second->waiting.empty() ||
                      each.second->sessions.state() == PeerState::asking;
           });
}

// --- the end

// Says so to the peers, ends what waits, and closes the endpoint once the words are out.
void Context::begin_to_close(Instant now) {
    closing_ = true;
    close_at_ = now + bye_time;
    for (auto& [nid, peer] : peers_) {
        if (peer->sessions.state() == PeerState::up) say_head(*peer, Type::bye);
        while (Msg* const msg = peer->waiting.pop_front())
            up_.finished(*msg, Status(-ESHUTDOWN), Health::local_error);
    }
}

// Nothing comes or goes after this, also not into memory that is being read into.
void Context::close_endpoint() {
    {
        const std::lock_guard guard(endpoint_lock_);
        endpoint_closed_ = true;
        endpoint_->shut();
    }
    for (auto& [nid, peer] : peers_) end_all_of(*peer, Status(-ESHUTDOWN), Health::local_error);
    // Completions that were collected before are of no interest; what they point to stays.
    sched_.remove_poller(cpt(), *this, later_);
}

// The poller is gone. Waits for the answers that the core owes, and for the last step and alarm.
void Context::quiesce() {
    if (!rxs_.empty() || !idle() || alarms_.load(std::memory_order_acquire) != 0) {
        sched_.post(cpt(), later_);
        return;
    }
    cache_.reset();
    ringers_.clear();
    bell_.reset();
    endpoint_.reset();
    sched_.post(cpt(), *closed_);
}

}  // namespace ulnet::ofi
