// The scenarios and their common course.
#include "tests/sim/scenarios.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tests/sim/tap.h"

namespace ulnet::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

void draw_sched(Prng& prng, Plan& plan) {
    plan.node.cpts = static_cast<u32>(between(prng, 1, 3));
    plan.node.sched.workers_per_cpt = static_cast<u32>(between(prng, 1, 4));
    static constexpr std::array<u32, 4> windows{1, 2, 8, 64};
    plan.node.sched.window = windows[prng.below(windows.size())];
    plan.node.sched.task_cost = Duration(static_cast<i64>(between(prng, 50, 2000)));
    plan.node.sched.wake_up_max = microseconds(static_cast<i64>(between(prng, 0, 20)));
    plan.node.sched.hand_off_percent = static_cast<u32>(prng.below(101));
}

void draw_common(Prng& prng, Plan& plan) {
    draw_sched(prng, plan);
    plan.nodes = static_cast<u32>(between(prng, 2, 6));
    plan.node.peer_credits = static_cast<u32>(between(prng, 1, 16));
    plan.node.credits =
        plan.node.peer_credits + static_cast<u32>(chance(prng, 50) ? prng.below(16) : 256);
    plan.node.node.transaction_timeout_s = static_cast<u32>(between(prng, 10, 60));
    plan.net.latency_max = microseconds(static_cast<i64>(between(prng, 5, 1000)));
    plan.net.tail_percent = chance(prng, 30) ? 2 : 0;
    plan.net.bytes_per_us = between(prng, 100, 12'500);
    plan.traffic.operations = 400;
    plan.traffic.outstanding_max = static_cast<u32>(between(prng, 1, 64));
    plan.traffic.slow_post_percent = chance(prng, 50) ? 50 : 0;
    plan.traffic.refused_percent = chance(prng, 25) ? 1 : 0;
    plan.traffic.cancelled_percent = chance(prng, 25) ? 5 : 0;
    plan.traffic.huge_percent = chance(prng, 25) ? 2 : 0;
}

void draw_message(Prng& prng, Plan& plan) {
    draw_common(prng, plan);
    plan.level = Level::message;
    plan.traffic.check_order = true;
}

// All nodes alike, or each as it likes.
void draw_own(Prng& prng, Plan& plan) {
    const bool versions = chance(prng, 50), types = chance(prng, 25), counts = chance(prng, 25);
    Plan::Own first;
    first.protocol = chance(prng, 50) ? 3 : static_cast<u32>(between(prng, 1, 4));
    first.conns_per_peer = static_cast<u32>(between(prng, 1, 3));
    first.typed_conns = chance(prng, 80);
    first.enable_csum = chance(prng, 50);
    for (Plan::Own& own : plan.own) {
        own = first;
        if (versions) own.protocol = static_cast<u32>(between(prng, 1, 4));
        if (versions) own.enable_csum = chance(prng, 50);
        if (types) own.typed_conns = chance(prng, 50);
        if (counts) own.conns_per_peer = static_cast<u32>(between(prng, 1, 3));
    }
    plan.node.ipv6 = chance(prng, 25);  // then all speak version 4
    // One connection of a type: order holds among the messages that go by CONTROL.
    plan.traffic.check_order = first.conns_per_peer == 1 && first.typed_conns && !types && !counts;
    plan.traffic.order_bytes_max = 900;
}

void draw_stream(Prng& prng, Plan& plan) {
    draw_common(prng, plan);
    plan.level = Level::stream;
    static constexpr std::array<Split, 4> splits{Split::whole, Split::random, Split::random,
                                                 Split::bytes};
    plan.streams.split = splits[prng.below(splits.size())];
    plan.streams.tx_buffer = static_cast<u32>(between(prng, 2048, 256 * 1024));
    plan.streams.rx_buffer = static_cast<u32>(between(prng, 512, 256 * 1024));
    plan.streams.partial_write_percent = chance(prng, 50) ? static_cast<u32>(prng.below(50)) : 0;
    plan.streams.spurious_percent = chance(prng, 50) ? 10 : 0;
    plan.node.os.bytes_per_us = between(prng, 50, 8000);
    draw_own(prng, plan);
    if (plan.streams.split == Split::bytes) plan.traffic.operations = 200;
}

u32 draw_faults(Prng& prng, bool streams) {
    ChaosParams chaos;
    const u32 percent = static_cast<u32>(between(prng, 10, 60));
    for (u8 i = 0; i < static_cast<u8>(Fault::count_); ++i)
        if (chance(prng, percent)) chaos.add(static_cast<Fault>(i));
    if (!streams)
        for (const Fault fault :
             {Fault::half_open, Fault::retune, Fault::slow_reader, Fault::no_connections})
            chaos.kinds &= ~(1u << static_cast<u32>(fault));
    return chaos.kinds;
}

void add_faults(Prng& prng, Plan& plan) {
    plan.chaos.kinds = draw_faults(prng, plan.level == Level::stream);
    plan.chaos.gap_max = milliseconds(static_cast<i64>(between(prng, 2, 200)));
    plan.net.loss_per_million = chance(prng, 25) ? 2000 : 0;
    plan.traffic.gap_max = microseconds(static_cast<i64>(between(prng, 10, 5000)));
    plan.traffic.check_order = false;
    if (plan.level == Level::stream && chance(prng, 25)) plan.streams.accept_error_percent = 5;
    if (plan.level == Level::stream && chance(prng, 25)) plan.streams.connect_error_percent = 10;
}

// Pools small enough to be emptied.
void draw_shortage(Prng& prng, Plan& plan) {
    if (!plan.chaos.has(Fault::no_messages)) return;
    plan.node.node.messages_max = static_cast<u32>(between(prng, 32, 512));
    plan.traffic.messages_lack = true;
    plan.traffic.outstanding_max = std::min(plan.traffic.outstanding_max, 8u);
}

void draw_swarm(Prng& prng, Plan& plan) {
    if (chance(prng, 30)) {
        draw_message(prng, plan);
    } else {
        draw_stream(prng, plan);
    }
    if (chance(prng, 80)) add_faults(prng, plan);
    draw_shortage(prng, plan);
}

void with_faults(Prng& prng, Plan& plan, std::initializer_list<Fault> faults) {
    for (const Fault fault : faults) plan.chaos.add(fault);
    plan.chaos.gap_max = milliseconds(static_cast<i64>(between(prng, 2, 100)));
    plan.traffic.gap_max = microseconds(static_cast<i64>(between(prng, 100, 3000)));
    plan.traffic.check_order = false;
}

void draw_restarts(Prng& prng, Plan& plan) {
    chance(prng, 30) ? draw_message(prng, plan) : draw_stream(prng, plan);
    with_faults(prng, plan, {Fault::crash, Fault::power_loss});
}

void draw_partitions(Prng& prng, Plan& plan) {
    chance(prng, 30) ? draw_message(prng, plan) : draw_stream(prng, plan);
    with_faults(prng, plan, {Fault::partition, Fault::one_way});
}

void draw_resets(Prng& prng, Plan& plan) {
    draw_stream(prng, plan);
    with_faults(prng, plan, {Fault::reset, Fault::half_open});
}

void draw_pauses(Prng& prng, Plan& plan) {
    draw_stream(prng, plan);
    with_faults(prng, plan, {Fault::pause, Fault::long_pause, Fault::slow, Fault::clock_jump});
}

void draw_slow_readers(Prng& prng, Plan& plan) {
    draw_stream(prng, plan);
    with_faults(prng, plan, {Fault::slow_reader});
}

void draw_shortages(Prng& prng, Plan& plan) {
    draw_stream(prng, plan);
    with_faults(prng, plan, {Fault::no_messages, Fault::no_connections, Fault::reset});
    plan.streams.accept_error_percent = plan.streams.connect_error_percent = 10;
    draw_shortage(prng, plan);
}

// All nodes dial each other in the same moment, again and again, whatever version each begins with.
void draw_crossing(Prng& prng, Plan& plan) {
    draw_stream(prng, plan);
    with_faults(prng, plan, {Fault::reset});
    for (Plan::Own& own : plan.own) own.protocol = static_cast<u32>(between(prng, 1, 4));
    plan.node.ipv6 = false;
    plan.nodes = static_cast<u32>(between(prng, 2, 4));
    plan.net.latency_min = microseconds(200);
    plan.net.latency_max = microseconds(2000);
    plan.traffic.gap_max = microseconds(50);
    plan.traffic.outstanding_max = 64;
    plan.chaos.gap_max = milliseconds(5);
}

void draw_scale(Prng& prng, Plan& plan) {
    draw_message(prng, plan);
    plan.nodes = 300;
    plan.node.cpts = 1;
    plan.node.sched.workers_per_cpt = 2;
    plan.traffic.operations = 20'000;
    plan.traffic.outstanding_max = 2000;
    plan.traffic.gap_max = microseconds(2);
    plan.traffic.bytes_max = 512;
    plan.traffic.refused_percent = plan.traffic.cancelled_percent = 0;
    plan.traffic.huge_percent = 0;
}

constexpr std::array<Scenario, 11> all{{
    {"swarm", "any level, any mix of faults (the default)", draw_swarm},
    {"message", "message level, no faults, order checked", draw_message},
    {"stream", "the socket driver over byte streams, no faults", draw_stream},
    {"restarts", "nodes crash and come back", draw_restarts},
    {"partitions", "nodes cannot reach each other for a while", draw_partitions},
    {"resets", "connections break or fall silent", draw_resets},
    {"pauses", "nodes stop, are slow, their clocks jump", draw_pauses},
    {"slow_readers", "streams are read slowly, down to 1 byte/ms", draw_slow_readers},
    {"shortages", "messages, connections and descriptors run out", draw_shortages},
    {"crossing", "nodes of all versions dial each other at once", draw_crossing},
    {"scale", "300 nodes at message level", draw_scale},
}};

// One run, step by step; the first step that fails ends it.
class Course {
 public:
    Course(World& world, const Plan& plan)
        : world_(world), plan_(plan), checkers_(world), traffic_(world, checkers_, plan.traffic),
          chaos_(world, plan.chaos) {}

    void run() {
        begin();
        if (world_.failed()) return;
        traffic_.begin_round();
        chaos_.begin();
        // Dense faults leave a careful workload no way to its end: that is asked for without them.
        const auto over = [this] { return traffic_.round_over(); };
        const bool ended = world_.run_until(over, faults_limit);
        chaos_.stop();
        if (!ended && !world_.failed()) round("that met faults");
        if (world_.failed()) return;
        world_.run_for(seconds(2));  // puts without an ACK are on their way
        if (world_.failed()) return;
        if (plan_.loss()) {
            world_.model.params.loss_per_million = 0;
            world_.streams.params.accept_error_percent = 0;
            world_.streams.params.connect_error_percent = 0;
            recover();
        } else {
            checkers_.check_success(traffic_.round_id());
        }
        if (!world_.failed()) rest();
    }
    const Checkers& checkers() const { return checkers_; }
    u64 faults() const { return chaos_.faults(); }

 private:
    static constexpr Duration faults_limit = seconds(2000), round_limit = seconds(4000);
    static constexpr Duration settle = seconds(130);

    void begin() {
        world_.on_ready = [this](SimNode& node) { traffic_.node_up(node); };
        world_.on_gone = [this](SimNode& node) { traffic_.node_gone(node); };
        NodeSpec spec = plan_.node;
        spec.level = plan_.level;
        if (plan_.traffic.check_order)
            spec.wrap = [this](std::unique_ptr<Lnd> inner) {
                if (plan_.node.wrap) inner = plan_.node.wrap(std::move(inner));
                return make_tap(std::move(inner), order_tap_);
            };
        for (u32 i = 0; i < plan_.nodes; ++i) world_.add_node(with_own(spec, i)).start();
        if (!world_.run_until_ready(seconds(10))) world_.fail("the nodes do not come up");
    }
    NodeSpec with_own(NodeSpec spec, u32 node) const {
        const Plan::Own& own = plan_.own[node % plan_.own.size()];
        spec.tunables.insert(spec.tunables.end(), {{"protocol", own.protocol},
                                                   {"conns_per_peer", own.conns_per_peer},
                                                   {"typed_conns", own.typed_conns ? 1 : 0},
                                                   {"enable_csum", own.enable_csum ? 1 : 0}});
        return spec;
    }
    void round(const std::string& which) {
        if (world_.run_until([this] { return traffic_.round_over(); }, round_limit)) return;
        world_.fail("the round " + which + " does not end");
    }
    // Faults are over: connections that broke unseen are found out, then everything works.
    void recover() {
        if (!world_.run_until_ready(seconds(200))) world_.fail("nodes do not come back");
        world_.run_for(settle);
        if (world_.failed()) return;
        traffic_.begin_round();
        round("after faults");
        world_.run_for(settle);
        if (world_.failed()) return;
        traffic_.begin_round();
        round("without faults");
        world_.run_for(seconds(2));
        if (!world_.failed()) checkers_.check_success(traffic_.round_id());
    }
    // At rest nothing is in use; then everything closes.
    void rest() {
        world_.run_for(seconds(5));
        if (!world_.failed()) checkers_.check_both_ends();
        for (std::size_t i = 0; i < world_.nodes() && !world_.failed(); ++i) {
            SimNode& node = world_.node(i);
            bool looked = false;
            node.control([&] {
                checkers_.audit(node.node(), "node " + std::to_string(i));
                looked = true;
            });
            checkers_.audit_connections(node);
            if (!world_.run_until([&] { return looked; }, seconds(1)))
                world_.fail("the control strand of node " + std::to_string(i) + " does not run");
        }
        if (world_.failed()) return;
        if (!world_.close_all(seconds(600))) world_.fail("the nodes do not close");
        if (world_.failed()) return;
        if (world_.messages.frames_out() > 0) world_.fail("messages are left in the network");
        if (world_.streams.connections() > 0) world_.fail("connections are left in the network");
    }

    struct OrderTap final : TapHooks {
        explicit OrderTap(Checkers& its_checkers) : checkers(its_checkers) {}
        bool send(Msg& msg) override {
            if (msg.hdr.type == MsgType::put) checkers.sent(msg.hdr.match_bits);
            return true;
        }
        Checkers& checkers;
    };

    World& world_;
    const Plan plan_;
    Checkers checkers_;
    OrderTap order_tap_{checkers_};
    Traffic traffic_;
    Chaos chaos_;
};

}  // namespace

std::span<const Scenario> scenarios() {
    return all;
}

const Scenario* find_scenario(std::string_view name) {
    for (const Scenario& scenario : all)
        if (scenario.name == name) return &scenario;
    return nullptr;
}

Plan make_plan(const Scenario& scenario, u64 seed, u32 nodes) {
    Plan plan;
    Prng prng(seed * 0x9e3779b97f4a7c15 + 77);
    scenario.draw(prng, plan);
    if (nodes > 0) plan.nodes = nodes;
    return plan;
}

namespace {

// Version, C = with checksums, connections of a type, U = untyped; of each node.
std::string drivers_text(const Plan& plan) {
    std::string text = plan.node.ipv6 ? " over IPv6" : "";
    for (u32 i = 0; i < std::min<std::size_t>(plan.nodes, plan.own.size()); ++i) {
        const Plan::Own& own = plan.own[i];
        text += " v" + std::to_string(plan.node.ipv6 ? 4 : own.protocol) +
                (own.enable_csum ? "C" : "") + "x" + std::to_string(own.conns_per_peer) +
                (own.typed_conns ? "" : "U");
    }
    return text;
}

}  // namespace

std::string to_text(const Plan& plan) {
    return std::to_string(plan.nodes) + " nodes, " +
           (plan.level == Level::stream ? "streams" + drivers_text(plan) : "messages") + ", " +
           std::to_string(plan.node.cpts) + " CPTs of " +
           std::to_string(plan.node.sched.workers_per_cpt) +
           " workers, faults: " + plan.chaos.text();
}

Outcome run(u64 seed, const Plan& plan, std::FILE* trace) {
    auto world = std::make_unique<World>(seed);
    world->engine.print_to(trace);
    world->model.params = plan.net;
    world->streams.params = plan.streams;
    auto course = std::make_unique<Course>(*world, plan);
    course->run();
    Outcome outcome;
    outcome.failure = world->failure();
    outcome.hash = world->engine.hash();
    outcome.events = world->engine.happened();
    outcome.messages = world->messages.delivered();
    outcome.bytes = world->streams.bytes_arrived();
    outcome.operations = course->checkers().started();
    outcome.succeeded = course->checkers().succeeded();
    outcome.faults = course->faults();
    outcome.virtual_time = world->now().time_since_epoch();
    if (world->failed()) {
        // It stopped in the middle of things: nothing in it can be taken down in an orderly way. It
        // is kept until the process ends, where a leak checker sees that it is known.
        static auto& kept = *new std::vector<std::pair<Course*, World*>>;
        kept.emplace_back(course.release(), world.release());
    }
    return outcome;
}

}  // namespace ulnet::sim
