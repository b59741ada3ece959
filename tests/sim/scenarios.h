// What a seed runs: a scenario draws its nodes, network, workload and faults from the seed, runs
// them to rest and lets the checkers look.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "tests/sim/chaos.h"
#include "tests/sim/traffic.h"

namespace ulnet::sim {

struct Plan {
    Level level = Level::message;
    u32 nodes = 4;
    NodeSpec node;
    NetParams net;
    StreamParams streams;
    // What a node's socket driver has of its own; further nodes begin again with the first.
    struct Own {
        u32 protocol = 3, conns_per_peer = 1;
        bool typed_conns = true, enable_csum = false;
    };
    std::array<Own, 8> own{};
    TrafficParams traffic;
    ChaosParams chaos;
    bool loss() const {
        return net.loss_per_million > 0 || chaos.kinds != 0 || streams.accept_error_percent > 0 ||
               streams.connect_error_percent > 0;
    }
};

struct Outcome {
    std::string failure;  // empty: passed
    u64 hash = 0;
    u64 events = 0, messages = 0, bytes = 0, operations = 0, succeeded = 0, faults = 0;
    Duration virtual_time{};
};

struct Scenario {
    std::string_view name, help;
    // Draws the plan of a seed.
    void (*draw)(Prng&, Plan&);
};
std::span<const Scenario> scenarios();
const Scenario* find_scenario(std::string_view name);

// The plan of a seed; `nodes` 0 = as drawn.
Plan make_plan(const Scenario&, u64 seed, u32 nodes);
std::string to_text(const Plan&);
// `trace`: what happens is written there as text.
Outcome run(u64 seed, const Plan&, std::FILE* trace = nullptr);

}  // namespace ulnet::sim
