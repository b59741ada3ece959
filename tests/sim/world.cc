// World and SimNode: see the header.
#include "tests/sim/world.h"

#include <algorithm>
#include <array>

#include "lnds/lo/lo.h"
#include "lnds/sim/sim_lnd.h"
#include "lnds/sock/lnd.h"

namespace ulnet::sim {

namespace {

constexpr Net world_net = Net::of(NetType::tcp, 0);
constexpr u32 first_address = 10u << 24 | 1;

CptTable make_table(u32 cpts, u32 workers) {
    if (cpts == 1) return CptTable::single(workers);
    Topology machine;
    machine.nodes.resize(1);
    for (u32 cpu = 0; cpu < cpts * workers; ++cpu) {
        machine.nodes[0].push_back(cpu);
        machine.cores.push_back({cpu});
    }
    std::string why;
    Result<CptTable> table = CptTable::make(machine, cpts, "", why);
    CHECK(table.ok());
    return std::move(*table);
}

NiConfig make_config(const Lnd& lnd, const NodeSpec& spec, const Nid& nid) {
    NiConfig config;
    config.net = world_net;
    config.nid = nid;
    config.credits = spec.credits;
    config.peer_credits = spec.peer_credits;
    for (const TunableSpec& tunable : lnd.tunables()) {
        i64 value = tunable.def;
        for (const auto& [name, wanted] : spec.tunables)
            if (name == tunable.name) value = wanted;
        config.tunables.push_back(value);
    }
    return config;
}

}  // namespace

std::string to_text(Instant at) {
    const auto us = at.time_since_epoch().count() / 1000;
    std::string fraction = std::to_string(us % 1'000'000);
    fraction.insert(0, 6 - fraction.size(), '0');
    return std::to_string(us / 1'000'000) + "." + fraction + " s";
}

Nid world_nid(u32 address, bool ipv6) {
    if (!ipv6) return Nid::ipv4(world_net, address);
    std::array<u8, 16> bytes{0xfd};
    std::ranges::copy(sock::Address(address).bytes(), bytes.end() - 4);
    return Nid::ipv6(world_net, bytes);
}

SimNode::Life::Life(World& world, const NodeSpec& spec, u64 its_number)
    : number(its_number), table(make_table(spec.cpts, spec.sched.workers_per_cpt)),
      sched(world.engine, table, spec.sched), kernel(world.streams, sched, spec.os) {
    lo = make_lo_lnd();
    if (spec.level == Level::stream) {
        auto made = std::make_unique<sock::SockLnd>(
            [this](Sched&) -> Result<std::unique_ptr<sock::StreamOs>> {
                return std::unique_ptr<sock::StreamOs>(std::make_unique<SimStreamOs>(kernel));
            });
        sock = made.get();
        lnd = std::move(made);
    } else {
        lnd = make_sim_lnd(world.messages);
    }
    if (spec.wrap) lnd = spec.wrap(std::move(lnd));
    const std::array<Lnd*, 2> lnds{lo.get(), lnd.get()};
    node = std::make_unique<Node>(sched, lnds, spec.node);
}

SimNode::Life::~Life() {
    CHECK(closed);
    node.reset();
    lnd.reset();
    lo.reset();
}

void SimNode::Life::close() {
    if (closing) return;
    closing = true;
    sched.resume();
    node->close(closed_task);
}

SimNode::SimNode(World& world, u32 index, NodeSpec spec)
    : world_(world), index_(index), spec_(std::move(spec)),
      nid_(world_nid(first_address + index, spec_.ipv6)) {}

void SimNode::start() {
    CHECK(!up());
    world_.streams.set_up(address(), true);
    world_.engine.trace(Trace::node, index_, 1, next_life_);
    lives_.push_back(std::make_unique<Life>(world_, spec_, ++next_life_));
    Life& life = *lives_.back();
    life.node->control([this, &life] {
        if (life.closing) return;
        const Error error = add_interface_of(life);
        life.ready = error.ok();
        if (!error.ok() && !life.crashed)
            world_.fail("node " + std::to_string(index_) + " has no interface: " + error.text);
        if (life.ready && world_.on_ready) world_.on_ready(*this);
    });
}

Error SimNode::add_interface_of(Life& life) {
    return life.node->add_ni(make_config(*life.lnd, spec_, nid_));
}

void SimNode::crash(bool silently) {
    CHECK(up());
    world_.engine.trace(Trace::node, index_, 2, silently);
    if (world_.on_gone) world_.on_gone(*this);
    Life& last = life();
    last.crashed = true;
    world_.messages.unplug(address());
    last.kernel.cut(silently);
    world_.streams.set_up(address(), !silently);
    last.close();
}

void SimNode::close() {
    if (!up()) return;
    if (world_.on_gone) world_.on_gone(*this);
    life().close();
}

bool SimNode::reap() {
    std::erase_if(lives_, [](const std::unique_ptr<Life>& life) {
        // Its last task has run to its end.
        return life->closed && life->sched.idle();
    });
    return lives_.empty();
}

SimNode& World::add_node(NodeSpec spec) {
    nodes_.push_back(
        std::make_unique<SimNode>(*this, static_cast<u32>(nodes_.size()), std::move(spec)));
    return *nodes_.back();
}

void World::fail(const std::string& what) {
    if (failed()) return;
    failure_ = "at " + to_text(now()) + ": " + what;
}

bool World::run_until(const std::function<bool()>& condition, Duration limit, u32 look) {
    const Instant end = now() + limit;
    for (;;) {
        if (failed()) return false;
        if (condition()) return true;
        for (u32 i = 0; i < look; ++i)
            if (!engine.step(end)) return !failed() && condition();
    }
}

void World::run_for(Duration time) {
    const Instant end = now() + time;
    while (!failed() && engine.step(end)) {
    }
}

bool World::run_until_ready(Duration limit) {
    return run_until(
        [this] {
            return std::all_of(nodes_.begin(), nodes_.end(),
                               [](const auto& node) { return !node->up() || node->ready(); });
        },
        limit);
}

bool World::close_all(Duration limit) {
    for (const auto& node : nodes_) node->close();
    return run_until(
        [this] {
            bool all = true;
            for (const auto& node : nodes_) all = node->reap() && all;
            return all;
        },
        limit);
}

}  // namespace ulnet::sim
