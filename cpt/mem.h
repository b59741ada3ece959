// Memory that messages are sent from and received into.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cpt/base/check.h"
#include "cpt/base/types.h"

namespace ulnet {

struct Frag {
    std::byte* base;
    u32 len;
};

// What a driver knows of a Mem, such as its registration with a card. Goes when the Mem does.
class MemNote {
 public:
    explicit MemNote(const void* owner) : owner_(owner) {}
    virtual ~MemNote() = default;

 private:
    friend class MemNotes;
    const void* const owner_;
    MemNote* next_ = nullptr;
};

// The notes of a Mem. Any thread; an owner adds its one note itself, once. A copy has none.
class MemNotes {
 public:
    MemNotes() = default;
    MemNotes(const MemNotes&) {}
    MemNotes& operator=(const MemNotes&) {
        clear();
        return *this;
    }
    ~MemNotes() { clear(); }
    MemNote* find(const void* owner) const {
        MemNote* note = first_.load(std::memory_order_acquire);
        while (note != nullptr && note->owner_ != owner) note = note->next_;
        return note;
    }
    void add(std::unique_ptr<MemNote> added) {
        MemNote* const note = added.release();
        note->next_ = first_.load(std::memory_order_relaxed);
        while (!first_.compare_exchange_weak(note->next_, note, std::memory_order_release)) {
        }
    }

 private:
    void clear() {
        MemNote* note = first_.exchange(nullptr, std::memory_order_acquire);
        while (note != nullptr) delete std::exchange(note, note->next_);
    }
    std::atomic<MemNote*> first_{nullptr};
};

// Memory of the user in at most frags_max pieces. Does not own the bytes; it and they outlive
// every message on it. Immutable, so any thread may read it. Drivers that register memory do so
// once a Mem, at its first message, and undo it when the Mem goes: it must go before its bytes are
// unmapped, and no copy of it is made where many messages use the same memory.
class Mem {
 public:
    static constexpr u32 frags_max = 256;
    static constexpr u32 bytes_max = 1u << 30;

    Mem() = default;
    Mem(std::byte* base, u32 len, CptId home = 0)
        : one_{base, len}, count_(len ? 1 : 0), bytes_(len), home_(home) {}
    // At most frags_max fragments, no empty one among them.
    explicit Mem(std::span<const Frag> frags, CptId home = 0)
        : many_(frags.begin(), frags.end()), count_(static_cast<u32>(frags.size())), home_(home) {
        CHECK(frags.size() <= frags_max);
        for (const Frag& frag : frags) bytes_ += frag.len;
    }
    u32 size() const { return bytes_; }
    CptId home() const { return home_; }
    MemNotes& notes() const { return notes_; }
    std::span<const Frag> frags() const {
        return many_.empty() ? std::span<const Frag>(&one_, count_) : std::span<const Frag>(many_);
    }

 private:
    std::vector<Frag> many_;
    Frag one_{nullptr, 0};
    u32 count_ = 0;
    u32 bytes_ = 0;
    CptId home_ = 0;
    mutable MemNotes notes_;
};

// A part of a Mem; trivially copyable. What moves through the layers.
struct MemView {
    const Mem* mem = nullptr;
    u32 offset = 0;
    u32 len = 0;

    // The view from `skip` bytes on, as iovecs; returns how many were filled (0 when skip >= len).
    // When `out` is too short the rest is left out: call again with a larger skip.
    unsigned gather(u32 skip, std::span<iovec> out) const;
    // Copies from or to flat memory, starting at `at` within the view; cut at the end of the view.
    // Returns the bytes copied.
    u32 copy_out(u32 at, std::span<std::byte> to) const;
    u32 copy_in(u32 at, std::span<const std::byte> from) const;
};

// Copies min(from.len, to.len) bytes; returns that number.
u32 copy_view(const MemView& to, const MemView& from);

}  // namespace ulnet
