// Faults over time: each kind that a run has drawn strikes now and then, and heals by itself or at
// stop(). Swarm testing: which kinds, how often and how long differs from seed to seed.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/sim/world.h"

namespace ulnet::sim {

enum class Fault : u8 {
    pause,
    long_pause,
    crash,
    power_loss,
    partition,
    one_way,
    reset,
    half_open,
    clock_jump,
    slow,
    retune,
    slow_reader,
    no_messages,
    no_connections,
    count_,
};

struct ChaosParams {
    u32 kinds = 0;  // bits by Fault
    Duration gap_max = std::chrono::milliseconds(50);
    bool has(Fault fault) const { return (kinds >> static_cast<u32>(fault) & 1) != 0; }
    void add(Fault fault) { kinds |= 1u << static_cast<u32>(fault); }
    std::string text() const;
};

class Chaos {
 public:
    Chaos(World&, const ChaosParams&);
    ~Chaos();
    Chaos(const Chaos&) = delete;
    void begin();
    // No more faults; everything heals and all nodes run again.
    void stop();
    u64 faults() const { return faults_; }

 private:
    struct Healing final : Happening {
        explicit Healing(std::function<void()> fn) : heal(std::move(fn)) {}
        ~Healing() = default;
        void happen() override { std::exchange(heal, nullptr)(); }
        std::function<void()> heal;
    };
    void strike();
    void apply(Fault);
    void retune(SimNode&);
    void read_slowly(u32 host);
    void take_messages(SimNode&);
    void take_connections(SimNode&);
    void later(Duration least, Duration most, std::function<void()> heal);
    SimNode& any_node();

    World& world_;
    Prng& prng_;
    const ChaosParams params_;
    std::vector<Fault> kinds_;
    std::vector<std::unique_ptr<Healing>> healings_;
    u64 faults_ = 0;
    EventOf<Chaos, &Chaos::strike> strike_{*this};
};

}  // namespace ulnet::sim
