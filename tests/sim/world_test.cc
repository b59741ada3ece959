// Worlds with nodes: equal seeds give equal traces, faults are survived, and a driver that is
// broken on purpose is caught by the checkers.
#include <gtest/gtest.h>

#include "tests/sim/scenarios.h"
#include "tests/sim/tap.h"

namespace ulnet::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

Plan small_plan(Level level) {
    Plan plan;
    plan.level = level;
    plan.nodes = 3;
    plan.node.node.transaction_timeout_s = 10;
    plan.traffic.operations = 150;
    return plan;
}

TEST(World, TheSameSeedGivesTheSameTrace) {
    for (const char* name : {"swarm", "message", "restarts"}) {
        const Scenario& scenario = *find_scenario(name);
        const Outcome one = run(3, make_plan(scenario, 3, 0));
        const Outcome again = run(3, make_plan(scenario, 3, 0));
        const Outcome other = run(4, make_plan(scenario, 4, 0));
        EXPECT_EQ(one.hash, again.hash) << name;
        EXPECT_EQ(one.events, again.events) << name;
        EXPECT_NE(one.hash, other.hash) << name;
    }
}

TEST(World, MessagesBetweenNodesWithoutFaults) {
    const Outcome outcome = run(1, small_plan(Level::message));
    EXPECT_EQ(outcome.failure, "");
    EXPECT_EQ(outcome.succeeded, 150u);
    EXPECT_GT(outcome.messages, 100u);
}

TEST(World, NodesThatCrashComeBack) {
    Plan plan = small_plan(Level::message);
    plan.chaos.add(Fault::crash);
    plan.chaos.add(Fault::power_loss);
    plan.traffic.gap_max = microseconds(3000);
    const Outcome outcome = run(2, plan);
    EXPECT_EQ(outcome.failure, "");
    EXPECT_GT(outcome.faults, 0u);
}

// All nodes dial each other at the same moment: who loses the race waits for the winner's
// connection.
TEST(World, CrossingConnectsFailNoMessage) {
    for (u64 seed = 1; seed <= 30; ++seed) {
        Plan plan = small_plan(Level::stream);
        plan.nodes = 6;
        plan.net.latency_max = microseconds(1000);
        EXPECT_EQ(run(seed, plan).failure, "") << seed;
    }
}

// What was written to a connection that only we still know must not keep it for the kernel's
// quarter of an hour.
TEST(World, HalfOpenConnectionsAreFoundOut) {
    for (u64 seed = 1; seed <= 10; ++seed) {
        Plan plan = small_plan(Level::stream);
        plan.chaos.add(Fault::half_open);
        plan.traffic.gap_max = microseconds(2000);
        EXPECT_EQ(run(seed, plan).failure, "") << seed;
    }
}

// Tunables change while connections are open.
TEST(World, RetunedWhileItWorks) {
    for (u64 seed = 1; seed <= 10; ++seed) {
        Plan plan = small_plan(Level::stream);
        plan.chaos.add(Fault::retune);
        plan.traffic.gap_max = microseconds(2000);
        const Outcome outcome = run(seed, plan);
        EXPECT_EQ(outcome.failure, "") << seed;
        // No message may be lost for it.
        EXPECT_EQ(outcome.succeeded, outcome.operations) << seed;
    }
}

// Mutants. Each does its harm once.
struct Mutant : TapHooks {
    u32 left = 20;  // calls before the harm
    bool now() { return left > 0 && --left == 0; }
};

struct DropsFinished final : Mutant {
    MsgType type = MsgType::put;
    bool finished(Msg& msg, Status, Health) override { return msg.hdr.type != type || !now(); }
};
struct DropsArrived final : Mutant {
    bool arrived(const Hdr& hdr, const ProcessId&) override {
        return hdr.type != MsgType::put || !now();
    }
};
struct FlipsAByte final : Mutant {
    bool send(Msg& msg) override {
        // Later bytes of the payload: the sum of all operations is what a wire may do to them.
        if (msg.hdr.type == MsgType::ack || msg.hdr.payload_length < 8 || !now()) return true;
        std::byte* const at = msg.payload.mem->frags()[0].base + msg.payload.offset + 5;
        *at ^= std::byte{0x10};
        return true;
    }
};
struct RenamesAMessage final : Mutant {
    bool send(Msg& msg) override {
        if (msg.hdr.type == MsgType::put && now()) msg.hdr.match_bits = 1;
        return true;
    }
};

std::string failure_with(Mutant& mutant) {
    Plan plan = small_plan(Level::message);
    plan.node.wrap = [&mutant](std::unique_ptr<Lnd> inner) {
        return make_tap(std::move(inner), mutant);
    };
    plan.traffic.liveness = seconds(60);
    return run(1, plan).failure;
}

TEST(Mutants, ASendThatIsNeverFinishedIsFound) {
    DropsFinished mutant;
    EXPECT_NE(failure_with(mutant).find("not"), std::string::npos);
}

TEST(Mutants, AMessageThatIsNeverGivenBackLeavesTheCreditsShort) {
    DropsFinished mutant;
    mutant.type = MsgType::ack;
    mutant.left = 2;
    const std::string failure = failure_with(mutant);
    EXPECT_TRUE(failure.find("at rest") != std::string::npos ||
                failure.find("has not ended") != std::string::npos)
        << failure;
}

TEST(Mutants, ALostMessageIsFound) {
    DropsArrived mutant;
    EXPECT_NE(failure_with(mutant), "");
}

TEST(Mutants, AFlippedByteIsFound) {
    FlipsAByte mutant;
    EXPECT_NE(failure_with(mutant).find("is wrong"), std::string::npos);
}

TEST(Mutants, AMessageUnderAnotherNameIsFound) {
    RenamesAMessage mutant;
    EXPECT_NE(failure_with(mutant), "");
}

TEST(Checkers, PatternsAreTheSameFromEveryOffset) {
    std::vector<std::byte> all(300), part(100);
    fill_pattern(all, 9, 0);
    for (std::size_t offset = 0; offset < 40; ++offset) {
        fill_pattern(part, 9, offset);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<long>(offset)));
        EXPECT_EQ(check_pattern(part, 9, offset), part.size());
        part[offset] ^= std::byte{1};
        EXPECT_EQ(check_pattern(part, 9, offset), offset);
    }
}

TEST(Checkers, OrderIsPerSenderAndByOffset) {
    OrderRecord record;
    record.add(10, 1, 5);
    record.add(0, 1, 4);
    record.add(5, 2, 1);
    EXPECT_EQ(record.check(), "");
    record.add(20, 1, 3);
    EXPECT_NE(record.check(), "");
}

// One busy peer, one strand a peer: virtual workers must not make work overlap, and with many peers
// the work must spread over them (design E.4 asks for the same of the drivers).
TEST(World, WorkOfManyPeersSpreadsOverTheWorkers) {
    Duration times[2];
    for (u32 i = 0; i < 2; ++i) {
        World world(1);
        Checkers checkers(world);
        TrafficParams params;
        params.operations = 2000;
        params.outstanding_max = 256;
        params.gap_max = Duration(100);
        params.bytes_max = 512;
        Traffic traffic(world, checkers, params);
        world.on_ready = [&](SimNode& node) { traffic.node_up(node); };
        world.on_gone = [&](SimNode& node) { traffic.node_gone(node); };
        NodeSpec spec;
        spec.sched.workers_per_cpt = i == 0 ? 1 : 4;
        spec.sched.task_cost = microseconds(5);
        spec.peer_credits = 64;
        for (u32 n = 0; n < 8; ++n) world.add_node(spec).start();
        ASSERT_TRUE(world.run_until_ready(seconds(10)));
        traffic.begin_round();
        const Instant begin = world.now();
        ASSERT_TRUE(world.run_until([&] { return checkers.ended() == params.operations; },
                                    seconds(100), 1));
        times[i] = world.now() - begin;
        ASSERT_TRUE(world.run_until([&] { return traffic.round_over(); }, seconds(100)));
        world.run_for(seconds(2));
        ASSERT_TRUE(world.close_all(seconds(100))) << world.failure();
    }
    EXPECT_LT(times[1] * 2, times[0]);
}

}  // namespace
}  // namespace ulnet::sim
