// A simulated world: one seed, one virtual clock, networks, and nodes that run the real core and
// drivers on them. One thread. The first thing found wrong stops the world and stays in failure().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lnet/inspect.h"
#include "lnet/lnet.h"
#include "tests/sim/message_net.h"
#include "tests/sim/sim_stream.h"

namespace ulnet::sock {
class SockLnd;
}

namespace ulnet::sim {

class World;

enum class Level : u8 { message, stream };

struct NodeSpec {
    Level level = Level::message;
    SimSchedOptions sched;
    SimOsParams os;
    NodeOptions node;
    u32 cpts = 1;
    u32 credits = 256, peer_credits = 8;
    bool ipv6 = false;
    // By the tunables' names; others have their defaults.
    std::vector<std::pair<std::string_view, i64>> tunables;
    // Wraps the driver: for mutants, faults and traces.
    std::function<std::unique_ptr<Lnd>(std::unique_ptr<Lnd>)> wrap;
};

// A place in the world with an address; incarnations of a Node come and go on it.
class SimNode {
 public:
    // One incarnation. After a crash it goes on closing as a ghost, cut off from all networks, so
    // that all of its memory is given back and close() is put to the test.
    struct Life {
        Life(World& world, const NodeSpec& spec, u64 its_number);
        ~Life();
        void close();
        const u64 number;
        CptTable table;
        SimSched sched;
        SimKernel kernel;
        std::unique_ptr<Lnd> lo, lnd;
        sock::SockLnd* sock = nullptr;  // within `lnd`, at level stream
        std::unique_ptr<Node> node;
        bool ready = false;  // its interface is up
        bool crashed = false, closing = false, closed = false;
        struct Closed final : Task {
            explicit Closed(Life& owner) : life(owner) {}
            ~Closed() = default;
            void run() override { life.closed = true; }
            Life& life;
        } closed_task{*this};
    };

    SimNode(World&, u32 index, NodeSpec);
    SimNode(const SimNode&) = delete;

    // A new incarnation; the last one has crashed or closed.
    void start();
    // Silently: as by a loss of power. Else the process dies and its kernel says so.
    void crash(bool silently);
    void close();
    bool up() const {
        return !lives_.empty() && !lives_.back()->crashed && !lives_.back()->closing;
    }
    bool ready() const { return up() && lives_.back()->ready; }
    Life& life() { return *lives_.back(); }
    Node& node() { return *life().node; }
    const Nid& nid() const { return nid_; }
    ProcessId process() const { return {nid_, pid_lustre}; }
    // Names the host in the networks.
    u32 address() const { return sock::Address(nid_).tail(); }
    u32 index() const { return index_; }
    // Destroys incarnations that have closed; true when none is left.
    bool reap();
    // Adds the node's interface, on its control strand: start() does it.
    Error add_interface() { return add_interface_of(life()); }
    // Runs on the node's control strand.
    void control(std::function<void()> fn) { node().control(std::move(fn)); }

 private:
    Error add_interface_of(Life&);
    World& world_;
    const u32 index_;
    const NodeSpec spec_;
    const Nid nid_;
    u64 next_life_ = 0;
    std::vector<std::unique_ptr<Life>> lives_;
};

class World {
 public:
    explicit World(u64 seed) : engine(seed), model(engine), messages(model), streams(model) {}
    World(const World&) = delete;

    SimNode& add_node(NodeSpec spec);
    SimNode& node(std::size_t index) { return *nodes_[index]; }
    std::size_t nodes() const { return nodes_.size(); }

    // Lets things happen until the condition holds (looked at every `look` events), `limit` has
    // passed, or something is wrong. True: the condition holds.
    bool run_until(const std::function<bool()>& condition, Duration limit, u32 look = 16);
    void run_for(Duration time);
    // Until all nodes that are up have their interface.
    bool run_until_ready(Duration limit);
    // Closes all nodes and destroys them; ghosts too. False: some would not end.
    bool close_all(Duration limit);

    void fail(const std::string& what);
    bool failed() const { return !failure_.empty(); }
    const std::string& failure() const { return failure_; }
    Instant now() const { return engine.now(); }

    // Told that a node's interface is up, and just before an incarnation crashes or closes.
    std::function<void(SimNode&)> on_ready, on_gone;

    Engine engine;
    NetModel model;
    MessageNet messages;
    StreamNet streams;

 private:
    friend class SimNode;
    std::string failure_;
    std::vector<std::unique_ptr<SimNode>> nodes_;
};

std::string to_text(Instant);  // "12.345678 s"
// The NID of a host: of its IPv4 address, or of the IPv6 address that ends with it.
Nid world_nid(u32 address, bool ipv6);

}  // namespace ulnet::sim
