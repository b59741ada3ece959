// The engine of a simulation: virtual time, the events that will happen, timers, and the trace
// hash. Everything of a World goes through one Engine, on one thread.
#pragma once

#include <cstdio>
#include <vector>

#include "cpt/base/prng.h"
#include "cpt/wheel.h"

namespace ulnet {
class SimSched;
}

namespace ulnet::sim {

class Engine;

// Something that happens at an instant. The owner keeps it until it has happened or was withdrawn.
class Happening {
 public:
    virtual void happen() = 0;
    bool scheduled() const { return place_ != nowhere; }

 protected:
    Happening() = default;
    Happening(const Happening&) = delete;
    ~Happening() { CHECK(place_ == nowhere); }

 private:
    friend class Engine;
    static constexpr u32 nowhere = 0xffffffff;
    u32 place_ = nowhere;  // in the engine's heap
};

// An event that runs a member function of its owner.
template <class Owner, void (Owner::*Happen)()> class EventOf final : public Happening {
 public:
    explicit EventOf(Owner& owner) : owner_(owner) {}
    void happen() override { (owner_.*Happen)(); }

 private:
    Owner& owner_;
};

// What the trace hash tells apart.
enum class Trace : u8 {
    task,
    timer,
    message,
    bytes,
    connection,
    reset,
    fault,
    node,
    operation,
    event,
};

class Engine {
 public:
    explicit Engine(u64 seed);
    ~Engine();
    Engine(const Engine&) = delete;

    Instant now() const { return now_; }
    // Events of one instant happen in the order of these calls. Scheduling a scheduled event moves
    // it. O(log n).
    void schedule(Happening&, Instant at);
    // O(1): the place in the heap stays behind, empty, until its time or until most places are.
    void withdraw(Happening&);
    bool empty() const { return events_ == 0 && wheel_.size() == 0; }
    // Goes on to the next instant at which something happens, up to `limit`, and lets one thing
    // happen. False: nothing until then, and now() is `limit`.
    bool step(Instant limit);

    // For SimSched.
    void arm(Timer&, Instant deadline);
    bool cancel(Timer&);
    u32 enter(SimSched&);
    void leave(u32 index);

    void trace(Trace kind, u64 a, u64 b = 0, u64 c = 0);
    u64 hash() const { return hash_; }
    // Writes what is traced to this file as text; null: not.
    void print_to(std::FILE* file) { print_ = file; }
    u64 happened() const { return happened_; }

    // One stream of randomness a concern, so that a draw in one does not change the others.
    Prng network, scheduling, workload, faults;

 private:
    static constexpr u32 arity = 4;
    struct Place {
        i64 at;
        u64 order;
        Happening* event;  // null: withdrawn
        bool before(const Place& other) const {
            return at != other.at ? at < other.at : order < other.order;
        }
    };
    void put(std::size_t index, const Place& place);
    void sift_up(std::size_t index, const Place& place);
    void sift_down(std::size_t index, const Place& place);
    void pop_front();
    void drop_withdrawn();
    void expire();

    Instant now_{};
    std::vector<Place> heap_;
    std::size_t events_ = 0;  // places that are not withdrawn
    u64 order_ = 0;
    TimerWheel wheel_;
    Instant next_timer_ = instant_never;  // no timer expires before
    bool next_timer_known_ = true;
    std::vector<SimSched*> scheds_;
    std::FILE* print_ = nullptr;
    u64 hash_ = 0x9e3779b97f4a7c15;
    u64 happened_ = 0;
};

// Draws. `percent` chances out of 100; `between` includes both ends.
inline bool chance(Prng& prng, u32 percent) {
    return percent > 0 && prng.below(100) < percent;
}
inline u64 between(Prng& prng, u64 low, u64 high) {
    return low + prng.below(high - low + 1);
}
inline Duration between(Prng& prng, Duration low, Duration high) {
    return low + Duration(static_cast<i64>(prng.below(static_cast<u64>((high - low).count()) + 1)));
}

}  // namespace ulnet::sim
