// The control strand: configuration and inspection, one piece of work after the other.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "cpt/sched.h"

namespace ulnet {

class Control final : public Strand {
 public:
    explicit Control(Sched& sched) : Strand(sched, 0) {}
    ~Control();
    // Any thread.
    void queue(std::function<void()> fn);
    // Nothing is queued, running or about to be queued.
    bool quiet() const;

 private:
    struct Item : ulnet::ListHook<Item> {
        std::function<void()> fn;
    };
    bool step(Budget&) override;
    std::atomic<u32> callers_{0};  // threads within queue(): they still touch the strand
    mutable std::mutex lock_;      // guards queue_
    List<Item, Item> queue_;
};

}  // namespace ulnet
