// What the simulated networks have in common: hosts by the last four bytes of their addresses, how
// long things take between them, and who cannot reach whom. Links are in sets and maps: never hosts
// times hosts.
#pragma once

#include <map>
#include <set>

#include "tests/sim/engine.h"

namespace ulnet::sim {

struct NetParams {
    Duration latency_min = std::chrono::microseconds(5);
    Duration latency_max = std::chrono::microseconds(50);
    u32 tail_percent = 0;  // messages that take up to tail_max
    Duration tail_max = std::chrono::milliseconds(20);
    u64 bytes_per_us = 12'500;  // 100 Gb/s
    u32 loss_per_million = 0;   // message level: lost; streams: reset
};

class NetModel {
 public:
    explicit NetModel(Engine& engine) : engine_(engine) {}

    NetParams params;

    // One way.
    void block(u32 from, u32 to) { blocked_.insert(key(from, to)); }
    void heal(u32 from, u32 to) { blocked_.erase(key(from, to)); }
    void heal_all() {
        blocked_.clear();
        slow_.clear();
        slow_readers_.clear();
    }
    bool blocked(u32 from, u32 to) const {
        return !blocked_.empty() && blocked_.contains(key(from, to));
    }
    // The host's interface is this many times slower.
    void slow(u32 host, u32 times) { slow_[host] = times; }

    // Programs on the host take at most so many bytes a millisecond of each stream; 0 = any.
    void slow_reader(u32 host, u64 bytes_per_ms) {
        if (bytes_per_ms > 0)
            slow_readers_[host] = bytes_per_ms;
        else
            slow_readers_.erase(host);
    }
    u64 reads_at_most(u32 host) const {
        const auto found = slow_readers_.find(host);
        return found != slow_readers_.end() ? found->second : 0;
    }

    // How long one message or segment travels.
    Duration latency() {
        if (chance(engine_.network, params.tail_percent))
            return between(engine_.network, params.latency_max, params.tail_max);
        return between(engine_.network, params.latency_min, params.latency_max);
    }
    // How long the host's interface is busy with so many bytes.
    Duration transmission(u32 host, u64 bytes) const {
        u64 ns = bytes * 1000 / params.bytes_per_us + 1;
        if (!slow_.empty()) {
            const auto found = slow_.find(host);
            if (found != slow_.end()) ns = ns * found->second + 1000 * found->second;
        }
        return Duration(static_cast<i64>(ns));
    }
    bool lost() {
        return params.loss_per_million > 0 &&
               engine_.network.below(1'000'000) < params.loss_per_million;
    }
    // Until a sender tries again what did not get through: doubles with each attempt.
    Duration retry_after(u32 attempt) {
        static constexpr Duration first = std::chrono::milliseconds(200);
        static constexpr u32 doublings_max = 4;
        return first * (1 << std::min(attempt, doublings_max)) +
               between(engine_.network, Duration{}, first);
    }
    Engine& engine() { return engine_; }

 private:
    static u64 key(u32 from, u32 to) { return u64{from} << 32 | to; }
    Engine& engine_;
    std::set<u64> blocked_;
    std::map<u32, u32> slow_;
    std::map<u32, u64> slow_readers_;
};

}  // namespace ulnet::sim
