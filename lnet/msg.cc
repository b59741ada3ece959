// Messages: their states, their pool, their end. Any worker.
#include <cerrno>

#include "lnet/node_impl.h"

namespace ulnet {
namespace {

constexpr u32 bit(MsgState state) {
    return 1u << static_cast<u32>(state);
}

// Where a message may go from each state, in the order of MsgState.
constexpr std::array<u32, msg_states> legal_moves = {
    bit(MsgState::routing) | bit(MsgState::matching),
    bit(MsgState::wait_peer_credit) | bit(MsgState::sending) | bit(MsgState::finishing) |
        bit(MsgState::free),
    bit(MsgState::wait_ni_credit) | bit(MsgState::finishing),
    bit(MsgState::sending) | bit(MsgState::finishing),
    bit(MsgState::finishing),
    bit(MsgState::receiving) | bit(MsgState::wait_buffer) | bit(MsgState::routing) |
        bit(MsgState::finishing) | bit(MsgState::free),
    bit(MsgState::receiving) | bit(MsgState::free),
    bit(MsgState::finishing),
    bit(MsgState::free),
};

}  // namespace

void CoreMsg::set_state(MsgState next) {
    CHECK((legal_moves[static_cast<std::size_t>(state)] & bit(next)) != 0);
    state = next;
}

void CoreMsg::run() {
    NodeImpl& node_of_msg = *node;
    const Pin pin(node_of_msg.topology);
    if (state == MsgState::wait_peer_credit)
        node_of_msg.after_peer_credit(*this);
    else
        node_of_msg.to_driver(*this);
}

void CoreMsg::reset() {
    hdr = Hdr{};
    payload = MemView{};
    next_hop = ProcessId{};
    answers = RxToken{};
    deadline = instant_never;
    for (u64& word : scratch) word = 0;
    event = Event{};
    sends = wants_response = by_rdma = cancel_asked = false;
    ni = nullptr;
    ni_queue = 0;
    peer = nullptr;
    md = nullptr;
    cancelled.store(0, std::memory_order_relaxed);
    token = RxToken{};
    sender_gone.store(false, std::memory_order_relaxed);
    sent_at = Instant{};
    peer_hash = 0;
    DCHECK(!waits_for_peer && !waits_for_ni && !has_peer_credit && !has_ni_credit);
}

MsgPool::~MsgPool() {
    while (free_.pop_front() != nullptr) {
    }
    while (chunks_) chunks_ = std::move(chunks_->next);  // one by one: the chain may be long
}

CoreMsg* MsgPool::take() {
    for (;;) {
        {
            const std::lock_guard guard(lock_);
            if (in_use_ >= messages_max_) return nullptr;
            if (CoreMsg* msg = free_.pop_front()) {
                in_use_max_ = std::max(in_use_max_, ++in_use_);
                return msg;
            }
        }
        std::unique_ptr<Chunk> chunk(new (std::nothrow) Chunk);
        if (chunk == nullptr) return nullptr;
        const std::lock_guard guard(lock_);
        for (CoreMsg& msg : chunk->messages) {
            msg.node = &node_;
            msg.home = this;
            msg.cpt = cpt_;
            msg.msg = &msg;
            free_.push_back(msg);
        }
        chunk->next = std::move(chunks_);
        chunks_ = std::move(chunk);
        messages_ += chunk_messages;
    }
}

void MsgPool::give(CoreMsg& msg) {
    const std::lock_guard guard(lock_);
    free_.push_front(msg);
    --in_use_;
}

MsgPool::Use MsgPool::use() const {
    const std::lock_guard guard(lock_);
    return {in_use_, in_use_max_};
}

void MsgPool::reset_max() {
    const std::lock_guard guard(lock_);
    in_use_max_ = in_use_;
}

CoreMsg* NodeImpl::new_msg(CptId cpt) {
    CoreMsg* const msg = msg_pools[cpt]->take();
    if (msg == nullptr) return nullptr;
    msg->reset();
    msg->cpt = cpt;
    msg->refs.store(1, std::memory_order_relaxed);
    return msg;
}

void NodeImpl::unref(CoreMsg& msg) {
    if (msg.refs.fetch_sub(1) != 1) return;
    msg.set_state(MsgState::free);
    if (msg.peer != nullptr) peers.release(*msg.peer);
    if (msg.ni != nullptr) msg.ni->release(msg.ni_queue);
    msg.home->give(msg);
}

}  // namespace ulnet
