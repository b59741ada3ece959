// Shared ownership inside the driver: whoever may still call an object holds a reference, and the
// last one to let go has it destroyed by a task, once its strands rest. Any thread.
#pragma once

#include <atomic>

#include "cpt/base/check.h"
#include "cpt/sched.h"

namespace ulnet::sock {

class RefCounted {
 public:
    RefCounted(const RefCounted&) = delete;
    void ref() {
        const u32 before = refs_.fetch_add(1, std::memory_order_relaxed);
        DCHECK(before > 0);
        static_cast<void>(before);
    }
    // The object may be gone afterwards.
    void unref() {
        if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) last_ref();
    }
    u32 refs() const { return refs_.load(std::memory_order_acquire); }

 protected:
    explicit RefCounted(u32 refs = 1) : refs_(refs) {}
    ~RefCounted() = default;
    virtual void last_ref() = 0;

 private:
    std::atomic<u32> refs_;
};

// Lets go of a reference at the end of a block.
template <class T> class Ref {
 public:
    Ref() = default;
    // Takes over a reference that the caller holds.
    explicit Ref(T* held) : at_(held) {}
    static Ref of(T& object) {
        object.ref();
        return Ref(&object);
    }
    Ref(Ref&& other) noexcept : at_(other.release()) {}
    Ref& operator=(Ref&& other) noexcept {
        if (this != &other) {
            reset();
            at_ = other.release();
        }
        return *this;
    }
    ~Ref() { reset(); }
    void reset() {
        if (T* const was = release()) was->unref();
    }
    T* release() {
        T* const was = at_;
        at_ = nullptr;
        return was;
    }
    T* operator->() const { return at_; }
    T& operator*() const { return *at_; }
    T* get() const { return at_; }
    explicit operator bool() const { return at_ != nullptr; }

 private:
    T* at_ = nullptr;
};

// A strand that runs a member function of its owner.
template <class Owner, bool (Owner::*Step)(Budget&)> class StrandOf final : public Strand {
 public:
    StrandOf(Sched& sched, CptId cpt, Owner& owner) : Strand(sched, cpt), owner_(owner) {}

 private:
    bool step(Budget& budget) override { return (owner_.*Step)(budget); }
    Owner& owner_;
};

// A task that runs a member function of its owner.
template <class Owner, void (Owner::*Run)()> class TaskOf final : public Task {
 public:
    explicit TaskOf(Owner& owner) : owner_(owner) {}
    void run() override { (owner_.*Run)(); }

 private:
    Owner& owner_;
};

}  // namespace ulnet::sock
