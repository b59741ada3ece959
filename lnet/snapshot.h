// A value that many workers read without a lock while one strand replaces it as a whole. Also the
// core's guard: whoever works on a Node holds a Pin, and memory goes only when no older Pin is
// left.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "cpt/sched.h"

namespace ulnet {

// Readers count themselves in and out on their worker's own cache line, in one of two phases. The
// writer publishes, waits until the phase that is not current is empty, turns the phase, and waits
// for the other to empty: every reader that could hold the old value has then left. All operations
// on the counts are sequentially consistent, because a reader's count and its read of the pointer
// must not change places against the writer's store and its read of the counts.
template <class T> class Published {
    struct alignas(64) Slot {
        std::array<std::atomic<u32>, 2> readers{};
    };

 public:
    class Pin {
     public:
        explicit Pin(const Published& published) {
            const u32 phase = published.phase_.load();
            count_ = &published.slots_[published.sched_.this_slot()].readers[phase];
            count_->fetch_add(1);
            value_ = published.current_.load();
        }
        Pin(const Pin&) = delete;
        Pin& operator=(const Pin&) = delete;
        ~Pin() { count_->fetch_sub(1); }
        const T* operator->() const { return value_; }
        const T& operator*() const { return *value_; }

     private:
        std::atomic<u32>* count_;
        const T* value_;
    };

    Published(const Sched& sched, std::unique_ptr<const T> first)
        : sched_(sched), slots_(std::make_unique<Slot[]>(sched.slots())), owned_(std::move(first)) {
        current_.store(owned_.get());
    }
    // The latest value, for the writer itself.
    const T& latest() const { return *owned_; }
    // Writer only. The old value lives on until settle() says so.
    void publish(std::unique_ptr<const T> next) {
        waiting_.push_back(std::exchange(owned_, std::move(next)));
        current_.store(owned_.get());
        ++published_;
    }
    // Writer only. Moves on as far as it can; settled() tells how far.
    void settle() {
        if (step_ == Step::idle && !waiting_.empty()) {
            leaving_ = std::move(waiting_);
            waiting_.clear();
            settling_ = published_;
            step_ = Step::other_phase;
        }
        if (step_ == Step::other_phase && empty(phase_.load() ^ 1)) {
            phase_.store(phase_.load() ^ 1);
            step_ = Step::old_phase;
        }
        if (step_ == Step::old_phase && empty(phase_.load() ^ 1)) {
            leaving_.clear();
            settled_ = settling_;
            step_ = Step::idle;
        }
    }
    // How many values were published; and up to which of them no reader holds an older one.
    u64 published() const { return published_; }
    u64 settled() const { return settled_; }

 private:
    enum class Step : u8 { idle, other_phase, old_phase };
    bool empty(u32 phase) const {
        for (u32 slot = 0; slot < sched_.slots(); ++slot)
            if (slots_[slot].readers[phase].load() != 0) return false;
        return true;
    }

    const Sched& sched_;
    const std::unique_ptr<Slot[]> slots_;
    std::atomic<const T*> current_{nullptr};
    std::atomic<u32> phase_{0};
    // The rest is the writer's.
    std::unique_ptr<const T> owned_;
    std::vector<std::unique_ptr<const T>> waiting_, leaving_;
    u64 published_ = 0, settling_ = 0, settled_ = 0;
    Step step_ = Step::idle;
};

}  // namespace ulnet
