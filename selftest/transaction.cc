// Transactions of the console.
#include "selftest/transaction.h"

#include <algorithm>

namespace ulnet::lst {

const char* to_text(NodeState state) {
    switch (state) {
    case NodeState::active:
        return "Active";
    case NodeState::busy:
        return "Busy";
    case NodeState::down:
        return "Down";
    case NodeState::unknown:
        break;
    }
    return "Unknown";
}

// The RPC to one node; made when its turn comes, gone when it is done.
class Transaction::Item final : public RpcOwner {
 public:
    Item(Transaction& of, u32 at)
        : index(at), rpc(of.context_, *this, of.context_.next_cpt()), transaction_(of) {}
    void rpc_done(ClientRpc&) override {
        transaction_.context_.control([this] { transaction_.finished(*this); });
    }
    const u32 index;
    ClientRpc rpc;
    std::vector<std::byte> list;
    Mem list_mem;
    bool limited = false;  // the limit of the command comes before the RPC's own time-out

 private:
    Transaction& transaction_;
};

Transaction::Transaction(Context& context, const Spec& spec, const std::vector<ConsoleNode*>& nodes,
                         Fill fill, Done done)
    : context_(context), spec_(spec), fill_(std::move(fill)), done_(std::move(done)),
      results_(nodes.size()), items_(nodes.size()) {
    for (std::size_t i = 0; i < nodes.size(); ++i) results_[i].node = nodes[i];
}

Transaction::~Transaction() {
    CHECK(in_flight_ == 0);
}

void Transaction::start() {
    const u32 limit = std::clamp(spec_.limit_s, transaction_limit_min_s, transaction_limit_max_s);
    deadline_ = context_.sched.now() + std::chrono::seconds(limit);
    start_more();
    // Without a node, or without time for one, nothing will call back.
    if (in_flight_ == 0)
        context_.control([this] {
            const Done done = std::move(done_);
            done();
        });
}

void Transaction::start_more() {
    while (next_ < results_.size() && in_flight_ < transaction_parallel_max) {
        const u32 index = next_++;
        const Duration left = deadline_ - context_.sched.now();
        if (!aborted_.ok() || left <= Duration{}) {
            results_[index].rpc = aborted_.ok() ? Status(-ETIMEDOUT) : aborted_;
            continue;
        }
        items_[index] = std::make_unique<Item>(*this, index);
        Item& item = *items_[index];
        const u64 rpyid = context_.next_id();
        const u64 bulkid = spec_.bulk ? context_.next_id() : 0;
        Header header;
        header.type = static_cast<u32>(request_type(spec_.service));
        header.features = spec_.features;
        fill_(index, header, rpyid, bulkid, item.rpc.request, item.list);
        item.list_mem = Mem(item.list.data(), static_cast<u32>(item.list.size()));
        const Duration own = context_.rpc_timeout();
        item.limited = own == Duration{} || left < own;
        ++in_flight_;
        context_.hold();
        item.rpc.start({.to = {results_[index].node->nid, pid_lustre},
                        .service = spec_.service,
                        .bulk = spec_.bulk ? Bulk::source : Bulk::none,
                        .bulk_mem = &item.list_mem,
                        .rpyid = rpyid,
                        .bulkid = bulkid,
                        .timeout = item.limited ? left : own});
    }
}

void Transaction::finished(Item& item) {
    NodeResult& result = results_[item.index];
    result.rpc = item.rpc.status();
    judge(result, item);
    Context& context = context_;
    items_[item.index].reset();
    --in_flight_;
    start_more();
    if (in_flight_ == 0) {
        const Done done = std::move(done_);
        done();  // may destroy this
    }
    context.release();
}

// The node's state follows from the session its answer names.
void Transaction::judge(NodeResult& result, const Item& item) {
    ConsoleNode& node = *result.node;
    SidReply body;
    if (result.rpc.ok() && decode_message(item.rpc.reply(), result.header, body)) {
        result.message = item.rpc.reply();
        result.framework = body.status;
        node.contacted = context_.sched.now();
        node.state = body.sid == spec_.sid     ? NodeState::active
                     : body.sid == sid_invalid ? NodeState::unknown
                                               : NodeState::busy;
        node.error = node.state == NodeState::active ? 0
                     : body.status != 0              ? static_cast<int>(body.status)
                     : node.state == NodeState::busy ? EBUSY
                                                     : ESRCH;
        return;
    }
    const bool limit = item.limited && result.rpc.code() == -ETIMEDOUT &&
                       std::max(spec_.limit_s, transaction_limit_min_s) < transaction_verdict_min_s;
    if (limit || result.rpc.code() == -EINTR) return;
    node.state = NodeState::down;
    node.error = -result.rpc.code();
}

void Transaction::abort(Status why) {
    aborted_ = why;
    for (const auto& item : items_)
        if (item) item->rpc.abort(why);
}

}  // namespace ulnet::lst
