// SimNi and SimPeer: see the header.
#include "lnds/sim/sim_ni.h"

#include <cerrno>

#include "cpt/cpt.h"

namespace ulnet::sim {

namespace {

// scratch words of a sent message while the driver has it.
enum Scratch : u32 { scratch_status, scratch_health };

}  // namespace

SimPeer::SimPeer(SimNi& ni, Sched& sched, CptId cpt, const ProcessId& id)
    : Strand(sched, cpt), ni_(ni), id_(id) {}

void SimPeer::arrived(SimFrame& frame) {
    queue_.push_back(frame);
    wake();
}

void SimPeer::receive(u64 id, Msg* into, u32 len) {
    CHECK(id == token_);
    CHECK(state_ == State::announced || state_ == State::waiting);
    state_ = State::assigned;
    parked_ = false;
    into_ = into;
    len_ = len;
    wake();
}

void SimPeer::park(u64 id) {
    CHECK(id == token_);
    CHECK(state_ == State::announced);
    CHECK(!parked_);
    parked_ = true;
}

void SimPeer::lose() {
    while (SimFrame* frame = queue_.pop_front()) ni_.net().free(*frame);
    if (current_ != nullptr) lost_ = true;
}

bool SimPeer::step(Budget& budget) {
    for (;;) {
        if (state_ == State::assigned) place();
        if (state_ != State::ready || queue_.empty()) break;
        if (!budget.left()) return true;
        budget.take(1, queue_.front().payload.size());
        if (!announce()) break;
    }
    ni_.progressed();
    return false;
}

// Tells the core of the next message. False: the core refused it.
bool SimPeer::announce() {
    current_ = queue_.pop_front();
    lost_ = false;
    parked_ = false;
    state_ = State::announced;
    ++token_;
    const Status status = ni_.up().arrived(current_->hdr, id_, RxToken{this, token_}, RdmaGet{});
    if (!status.ok()) {
        CHECK(state_ == State::announced);
        CHECK(!parked_);
        state_ = State::ready;
        ni_.net().free(*std::exchange(current_, nullptr));
        ni_.protocol_error(*this);
        return false;
    }
    if (state_ == State::announced) state_ = State::waiting;
    return true;
}

// The core has said where the payload goes.
void SimPeer::place() {
    Msg* const into = std::exchange(into_, nullptr);
    SimFrame& frame = *std::exchange(current_, nullptr);
    const bool lost = lost_ || ni_.closing();
    state_ = State::ready;
    if (into != nullptr && !lost) {
        CHECK(len_ <= frame.payload.size());
        into->payload.copy_in(0, std::span(frame.payload).first(len_));
        ni_.count_received(len_);
    }
    ni_.net().free(frame);
    if (into == nullptr) return;
    if (lost) {
        ni_.up().finished(*into, Status(ni_.closing() ? -ESHUTDOWN : -ECONNRESET),
                          Health::remote_error);
    } else {
        ni_.up().finished(*into, ok_status, Health::ok);
    }
}

SimNi::SimNi(const NiConfig& config, LndUp& up, Sched& sched, SimNet& net)
    : config_(config), up_(up), sched_(sched), net_(net),
      finisher_(*this, sched, config.cpts.empty() ? 0 : config.cpts.front()) {}

SimNi::~SimNi() {
    // Never opened, or closed.
    CHECK(in_flight_ == 0);
    CHECK(closed_ || peers_.empty());
}

CptId SimNi::cpt_of(const Nid& nid) const {
    if (config_.cpts.empty()) return static_cast<CptId>(nid.hash() % sched_.cpts().size());
    return config_.cpts[nid.hash() % config_.cpts.size()];
}

SimPeer& SimNi::peer(const ProcessId& id) {
    auto& slot = peers_[id];
    if (!slot) slot = std::make_unique<SimPeer>(*this, sched_, cpt_of(id.nid), id);
    return *slot;
}

void SimNi::send(Msg& msg) {
    ++in_flight_;
    if (closing()) {
        end(msg, Status(-ESHUTDOWN), Health::local_error);
        return;
    }
    SimFrame& frame = net_.make();
    frame.hdr = msg.hdr;
    frame.from = {config_.nid, msg.hdr.src_pid};
    frame.to = msg.next_hop.nid;
    frame.msg = &msg;
    frame.payload.resize(msg.hdr.payload_length);
    CHECK(msg.payload.copy_out(0, frame.payload) == msg.hdr.payload_length);
    bytes_sent_ += msg.hdr.payload_length;
    net_.transmit(*this, frame);
}

void SimNi::receive(RxToken token, Msg* into, u32 len) {
    static_cast<SimPeer*>(token.driver)->receive(token.id, into, len);
}

Status SimNi::park(RxToken token) {
    static_cast<SimPeer*>(token.driver)->park(token.id);
    return ok_status;
}

void SimNi::drop_peer(const Nid& nid) {
    net_.cut(*this, nid);
    peer_lost(nid);
}

void SimNi::describe(ctl::Value& out) const {
    out = ctl::Value::map();
    out.set("sent", sent_);
    out.set("failed", failed_);
    out.set("received", received_);
    out.set("bytes sent", bytes_sent_);
    out.set("bytes received", bytes_received_);
    out.set("in flight", in_flight_);
    out.set("peers", static_cast<u64>(peers_.size()));
}

Status SimNi::tune(std::size_t, i64) {
    return Status(-EPERM);
}

void SimNi::close(Task& done) {
    CHECK(close_done_ == nullptr);
    close_done_ = &done;
    net_.cut(*this, Nid{});
    for (const auto& [id, peer] : peers_) peer->lose();
    progressed();
}

void SimNi::arrived(SimFrame& frame) {
    if (closing()) {
        net_.free(frame);
        return;
    }
    peer(frame.from).arrived(frame);
}

void SimNi::sent(Msg& msg, Status status, Health health) {
    end(msg, status, health);
}

void SimNi::peer_lost(const Nid& nid) {
    for (const auto& [id, peer] : peers_)
        if (id.nid == nid) peer->lose();
}

void SimNi::protocol_error(SimPeer& peer) {
    net_.cut(*this, peer.id().nid);
    peer.lose();
}

void SimNi::count_received(u32 bytes) {
    ++received_;
    bytes_received_ += bytes;
}

void SimNi::end(Msg& msg, Status status, Health health) {
    msg.scratch[scratch_status] = static_cast<u64>(-status.code());
    msg.scratch[scratch_health] = static_cast<u64>(health);
    finisher_.ended.push_back(msg);
    finisher_.wake();
}

bool SimNi::Finisher::step(Budget& budget) {
    while (Msg* msg = ended.pop_front()) {
        const Status status(-static_cast<int>(msg->scratch[scratch_status]));
        const auto health = static_cast<Health>(msg->scratch[scratch_health]);
        --ni.in_flight_;
        ++(status.ok() ? ni.sent_ : ni.failed_);
        ni.up_.finished(*msg, status, health);
        if (!budget.take(1, 0)) break;
    }
    ni.progressed();
    return !ended.empty();
}

// Something has ended: perhaps the NI can close now.
void SimNi::progressed() {
    if (!closing() || closed_ || closer_.posted) return;
    closer_.posted = true;
    sched_.post(finisher_.cpt(), closer_);
}

void SimNi::try_close() {
    closer_.posted = false;
    if (in_flight_ > 0) return;
    bool resting = finisher_.idle();
    for (const auto& [id, peer] : peers_) {
        if (!peer->quiet() && peer->idle()) return;  // its next step comes back to here
        resting = resting && peer->idle();
    }
    if (!resting) return progressed();
    closed_ = true;
    net_.detach(*this);
    sched_.post(finisher_.cpt(), *close_done_);
}

}  // namespace ulnet::sim
