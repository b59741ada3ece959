// One request to many nodes in parallel: what most commands of the console are made of. Control
// strand, but for the ends of the RPCs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "selftest/rpc.h"

namespace ulnet::lst {

constexpr u32 transaction_parallel_max = 1024;
constexpr u32 transaction_limit_min_s = 3, transaction_limit_max_s = 30;
// Below this a limit that runs out interrupts the RPCs, and says nothing about the nodes.
constexpr u32 transaction_verdict_min_s = 6;

enum class NodeState : u8 { active, busy, down, unknown };
const char* to_text(NodeState);

// A node as the console knows it.
struct ConsoleNode {
    Nid nid;
    NodeState state = NodeState::unknown;
    u32 groups = 0;     // that hold it
    u32 timeout_s = 0;  // of its session, from its MKSN reply
    Instant contacted{};
    int error = 0;  // errno of what made it other than ACTIVE; 0 = nothing yet
};

// What came of one node.
struct NodeResult {
    ConsoleNode* node = nullptr;
    Status rpc;         // of the RPC
    u32 framework = 0;  // errno of the answer
    Header header;      // of the answer, valid when rpc is ok
    Message message{};  // the answer, valid when rpc is ok
    bool good() const { return rpc.ok() && framework == 0; }
};

// The positive errno of a node that failed; 0 when it did not.
inline int errno_of(const NodeResult& result) {
    return result.rpc.ok() ? static_cast<int>(result.framework) : -result.rpc.code();
}

class Transaction {
 public:
    struct Spec {
        Sid sid;
        Service service = Service::debug;
        u32 features = features_known;
        u32 limit_s = transaction_limit_max_s;
        bool bulk = false;  // `fill` makes a destination list that the nodes fetch
    };
    // Encodes the request to the index-th node; `list` becomes the bulk data.
    using Fill = std::function<void(u32 index, const Header&, u64 rpyid, u64 bulkid,
                                    Message& request, std::vector<std::byte>& list)>;
    using Done = std::function<void()>;

    Transaction(Context&, const Spec&, const std::vector<ConsoleNode*>&, Fill, Done);
    ~Transaction();
    // `done` comes once, later, on the control strand, and may destroy the transaction.
    void start();
    // Ends all RPCs early with this status.
    void abort(Status);
    std::vector<NodeResult>& results() { return results_; }

 private:
    class Item;
    void start_more();
    void finished(Item&);
    void judge(NodeResult&, const Item&);

    Context& context_;
    const Spec spec_;
    const Fill fill_;
    Done done_;
    std::vector<NodeResult> results_;
    std::vector<std::unique_ptr<Item>> items_;
    u32 next_ = 0, in_flight_ = 0;
    Instant deadline_{};
    Status aborted_;
};

}  // namespace ulnet::lst
