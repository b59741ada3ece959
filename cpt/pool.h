// Memory made in advance. BufPool: a fixed number of equal buffers for payload, with head room for
// headers. ObjectPool: small objects of one type, such as messages. Neither blocks.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "cpt/base/check.h"
#include "cpt/base/result.h"
#include "cpt/sched.h"

namespace ulnet {

class BufPool;

struct BufBlock {
    std::atomic<u32> refs{0};
    BufPool* home = nullptr;
    std::byte* start = nullptr;
};

// A counted reference to a block and a window of its bytes. A handle is used by one thread at a
// time; handles of one block may be anywhere. The last one sends the block home to its pool.
class Buf {
 public:
    Buf() = default;
    Buf(const Buf& other);
    Buf(Buf&& other) noexcept { swap(other); }
    Buf& operator=(Buf other) noexcept {
        swap(other);
        return *this;
    }
    ~Buf();
    explicit operator bool() const { return block_ != nullptr; }
    std::byte* data() const { return block_->start + at_; }
    u32 size() const { return len_; }
    std::span<std::byte> bytes() const { return {data(), len_}; }
    // Bytes free in front of the window, and behind it.
    u32 head_room() const { return at_; }
    u32 tail_room() const;
    // Moves the start of the window back into the head room; returns the bytes gained.
    std::span<std::byte> prepend(u32 count);
    // Moves the start of the window forward.
    void skip(u32 count);
    // Sets the length of the window, at most size() + tail_room().
    void resize(u32 len);
    // True when no other handle has this block.
    bool unique() const;
    // The CPT of the pool.
    CptId cpt() const;

 private:
    friend class BufPool;
    Buf(BufBlock* block, u32 at) : block_(block), at_(at) {}
    void swap(Buf& other) noexcept {
        std::swap(block_, other.block_);
        std::swap(at_, other.at_);
        std::swap(len_, other.len_);
    }
    BufBlock* block_ = nullptr;
    u32 at_ = 0;
    u32 len_ = 0;
};

struct BufPoolOptions {
    u32 count;      // buffers
    u32 bytes;      // of each, without the head room
    u32 head_room;  // in front of the window of a fresh buffer
};

// Fixed and touched in advance: built on a worker of its CPT, so that the memory is near it.
class BufPool {
 public:
    // ENOMEM when the memory cannot be had.
    static Result<std::unique_ptr<BufPool>> make(CptId cpt, const BufPoolOptions&);
    // All buffers must be back.
    ~BufPool();
    BufPool(const BufPool&) = delete;
    BufPool& operator=(const BufPool&) = delete;
    // A buffer with an empty window behind the head room; an empty handle when none is left. Any
    // thread.
    Buf get();
    u32 count() const { return options_.count; }
    u32 free() const { return free_count_.load(std::memory_order_relaxed); }
    // The fewest ever free.
    u32 low() const { return low_.load(std::memory_order_relaxed); }
    u32 buffer_bytes() const { return options_.head_room + options_.bytes; }
    CptId cpt() const { return cpt_; }

 private:
    friend class Buf;
    struct FreeList;
    BufPool(CptId cpt, const BufPoolOptions&, std::byte* memory, std::size_t memory_bytes);
    void put_back(BufBlock& block);

    const CptId cpt_;
    const BufPoolOptions options_;
    std::byte* const memory_;
    const std::size_t memory_bytes_;
    std::unique_ptr<BufBlock[]> blocks_;
    std::unique_ptr<FreeList> free_list_;
    std::atomic<u32> free_count_;
    std::atomic<u32> low_;
};

// The untyped part of ObjectPool: pieces of one size from slabs, with a cache for each worker, so
// that most calls touch nothing shared.
class SlabPool {
 public:
    static constexpr u32 cache_max = 64;  // free pieces a worker keeps
    static constexpr u32 slab_pieces = 64;

    SlabPool(const Sched&, std::size_t piece_bytes, std::size_t piece_align, u32 most);
    // All pieces must be back.
    ~SlabPool();
    SlabPool(const SlabPool&) = delete;
    SlabPool& operator=(const SlabPool&) = delete;
    // nullptr when `most` pieces exist and none is free in reach. Any thread.
    void* take();
    void give(void* piece);
    // Pieces in use: exact when nobody takes or gives.
    u64 in_use() const;

 private:
    struct Piece {
        Piece* next;
    };
    // The threads outside the Sched share the last one: it stays empty, they use shared_.
    struct alignas(64) Cache {
        Piece* top = nullptr;
        u32 count = 0;
        std::atomic<i64> taken{0};  // minus given
    };
    void refill(Cache& cache);
    void spill(Cache& cache);
    Piece* take_shared_locked();
    bool grow_locked();
    static void count(Cache& cache, i64 change);

    const Sched& sched_;
    const std::size_t piece_bytes_;
    const std::size_t align_;
    const u32 most_;
    const u32 cache_limit_;  // smaller for small pools: caches must not hide what others need
    std::unique_ptr<Cache[]> caches_;
    std::mutex lock_;  // guards what follows
    Piece* shared_ = nullptr;
    u32 made_ = 0;
    std::vector<void*> slabs_;
};

template <class T> class ObjectPool {
 public:
    // At most `most` objects at a time; with several workers up to cache_max each of these may be
    // free but out of the others' reach.
    ObjectPool(const Sched& sched, u32 most) : slabs_(sched, sizeof(T), alignof(T), most) {}
    // nullptr when the bound is reached.
    template <class... Args> T* make(Args&&... args) {
        void* place = slabs_.take();
        return place == nullptr ? nullptr : new (place) T(std::forward<Args>(args)...);
    }
    void free(T& object) {
        object.~T();
        slabs_.give(&object);
    }
    u64 in_use() const { return slabs_.in_use(); }

 private:
    SlabPool slabs_;
};

}  // namespace ulnet
