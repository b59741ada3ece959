// Engine: a heap of events with four children a place, and one timer wheel for all nodes.
#include "tests/sim/engine.h"

#include <algorithm>
#include <array>

#include "tests/sim/sim_sched.h"

namespace ulnet::sim {

namespace {

u64 mix(u64 value) {
    value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93;
    return value ^ (value >> 29);
}

}  // namespace

Engine::Engine(u64 seed)
    : network(seed * 4 + 0), scheduling(seed * 4 + 1), workload(seed * 4 + 2), faults(seed * 4 + 3),
      wheel_(Instant{}) {}

Engine::~Engine() {
    CHECK(events_ == 0);
    CHECK(wheel_.size() == 0);
}

void Engine::put(std::size_t index, const Place& place) {
    heap_[index] = place;
    if (place.event != nullptr) place.event->place_ = static_cast<u32>(index);
}

void Engine::sift_up(std::size_t index, const Place& place) {
    while (index > 0) {
        const std::size_t parent = (index - 1) / arity;
        if (!place.before(heap_[parent])) break;
        put(index, heap_[parent]);
        index = parent;
    }
    put(index, place);
}

void Engine::sift_down(std::size_t index, const Place& place) {
    for (;;) {
        const std::size_t first = index * arity + 1;
        if (first >= heap_.size()) break;
        std::size_t least = first;
        const std::size_t end = std::min(first + arity, heap_.size());
        for (std::size_t child = first + 1; child < end; ++child)
            if (heap_[child].before(heap_[least])) least = child;
        if (!heap_[least].before(place)) break;
        put(index, heap_[least]);
        index = least;
    }
    put(index, place);
}

void Engine::pop_front() {
    const Place last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(0, last);
}

void Engine::drop_withdrawn() {
    std::erase_if(heap_, [](const Place& place) { return place.event == nullptr; });
    // Sorted is a heap, too.
    std::sort(heap_.begin(), heap_.end(),
              [](const Place& a, const Place& b) { return a.before(b); });
    for (std::size_t i = 0; i < heap_.size(); ++i) put(i, heap_[i]);
}

void Engine::schedule(Happening& event, Instant at) {
    if (event.scheduled()) withdraw(event);
    const Place place{std::max(at, now_).time_since_epoch().count(), ++order_, &event};
    heap_.push_back(place);
    sift_up(heap_.size() - 1, place);
    ++events_;
}

void Engine::withdraw(Happening& event) {
    if (!event.scheduled()) return;
    heap_[event.place_].event = nullptr;
    event.place_ = Happening::nowhere;
    --events_;
    static constexpr std::size_t worth_it = 1024;
    if (heap_.size() > worth_it && events_ < heap_.size() / 4) drop_withdrawn();
}

bool Engine::step(Instant limit) {
    while (!heap_.empty() && heap_.front().event == nullptr) pop_front();
    if (!next_timer_known_) {
        next_timer_ = wheel_.next_deadline();
        next_timer_known_ = true;
    }
    const Instant next = heap_.empty() ? instant_never : Instant(Duration(heap_.front().at));
    if (std::min(next, next_timer_) > limit) {
        now_ = std::max(now_, limit);
        return false;
    }
    ++happened_;
    if (next_timer_ <= next) {
        now_ = std::max(now_, next_timer_);
        expire();
        return true;
    }
    now_ = next;
    Happening& event = *heap_.front().event;
    event.place_ = Happening::nowhere;
    --events_;
    pop_front();
    event.happen();
    return true;
}

void Engine::expire() {
    while (Timer* timer = wheel_.expire(now_)) {
        const u32 sched = SimSched::sched_of(*timer);
        CHECK(sched < scheds_.size());
        CHECK(scheds_[sched] != nullptr);
        scheds_[sched]->expired(*timer);
    }
    next_timer_known_ = false;
}

void Engine::arm(Timer& timer, Instant deadline) {
    wheel_.arm(timer, deadline);
    if (deadline < next_timer_) next_timer_known_ = false;
}

bool Engine::cancel(Timer& timer) {
    return wheel_.cancel(timer);
}

u32 Engine::enter(SimSched& sched) {
    const auto free = std::find(scheds_.begin(), scheds_.end(), nullptr);
    if (free != scheds_.end()) {
        *free = &sched;
        return static_cast<u32>(free - scheds_.begin());
    }
    scheds_.push_back(&sched);
    return static_cast<u32>(scheds_.size() - 1);
}

void Engine::leave(u32 index) {
    scheds_[index] = nullptr;
}

void Engine::trace(Trace kind, u64 a, u64 b, u64 c) {
    if (print_ != nullptr && kind != Trace::task && kind != Trace::timer) {
        static constexpr std::array names{"task",  "timer", "message", "bytes",     "connection",
                                          "reset", "fault", "node",    "operation", "event"};
        std::fprintf(print_, "%.9f %s %llu %llu %llu\n",
                     std::chrono::duration<double>(now_.time_since_epoch()).count(),
                     names[static_cast<std::size_t>(kind)], static_cast<unsigned long long>(a),
                     static_cast<unsigned long long>(b), static_cast<unsigned long long>(c));
    }
    u64 value = hash_ ^ static_cast<u64>(now_.time_since_epoch().count()) * 0x9e3779b97f4a7c15;
    value = mix(value + static_cast<u64>(kind) + a * 0xff51afd7ed558ccd);
    hash_ = mix(value + b * 0xc4ceb9fe1a85ec53 + c * 0x2545f4914f6cdd1d);
}

}  // namespace ulnet::sim
