// Memory descriptors and match entries as the core keeps them, and the tables their handles name.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>

#include "lnet/core_msg.h"

namespace ulnet {

class MatchTable;
class Portal;
struct MdImpl;

struct FloatHome;
struct OnTracked;  // hook: MDs that wait for a response, in the order of their deadlines
struct OnFree;     // hook: free slots
struct OnBucket;   // hook: MEs of a match table

// Guards MDs: a match table those attached there, one of a CPT's md homes the free-floating ones.
// An MD has the same home from bind or attach until it is free again.
struct MdHome {
    explicit MdHome(CptId cpt_of_home) : cpt(cpt_of_home) {}
    MdHome(const MdHome&) = delete;
    const CptId cpt;
    std::mutex lock;
};

// A home of free-floating MDs: also knows those that wait for an ACK or REPLY. The timer is armed
// while there are any.
struct FloatHome final : MdHome, Timer {
    FloatHome(NodeImpl& node_of_home, CptId cpt_of_home)
        : MdHome(cpt_of_home), node(node_of_home) {}
    ~FloatHome() = default;
    void fire() override;
    NodeImpl& node;
    List<MdImpl, OnTracked> tracked;  // guarded by `lock`
    bool armed = false;               // guarded by `lock`
};

// What a handle names: kind, CPT, slot and generation in 64 bits. A generation is used once, so a
// cookie never comes back within a Node (a slot whose generations are used up stays empty).
struct Cookie {
    static constexpr u32 kind_bits = 2, cpt_bits = 8, slot_bits = 20, generation_bits = 34;
    static constexpr u64 kind_md = 1, kind_me = 2;
    static constexpr u64 generation_max = (u64{1} << generation_bits) - 2;
    static constexpr u64 make(u64 kind, CptId cpt, u32 slot, u64 generation) {
        return kind | u64{cpt} << kind_bits | u64{slot} << (kind_bits + cpt_bits) |
               generation << (kind_bits + cpt_bits + slot_bits);
    }
    static constexpr u64 kind(u64 cookie) { return cookie & 3; }
    static constexpr CptId cpt(u64 cookie) {
        return static_cast<CptId>(cookie >> kind_bits & ((1u << cpt_bits) - 1));
    }
    static constexpr u32 slot(u64 cookie) {
        return static_cast<u32>(cookie >> (kind_bits + cpt_bits) & ((1u << slot_bits) - 1));
    }
};

// The part of an MD or ME that the tables need.
struct SlotBase {
    // Nonzero while the handle is good. Written under the home's lock, but may be read before it.
    std::atomic<u64> cookie{0};
    std::atomic<MdHome*> home{nullptr};
    u32 slot = 0;
    std::atomic<u64> generation{0};
    CptId slot_cpt = 0;
};

struct MeImpl final : SlotBase, ListHook<OnFree>, ListHook<OnBucket> {
    // Guarded by the home's lock.
    Nid nid;      // as given
    Nid primary;  // primary NID of its peer when the ME was attached
    u32 pid = pid_any;
    u64 bits = 0, ignore = 0;
    u64 hash = 0;
    bool with_md = false;
    MdImpl* md = nullptr;
    MatchTable* table = nullptr;
    Portal* portal = nullptr;
};

struct MdImpl final : SlotBase, ListHook<OnFree>, ListHook<OnTracked>, Task {
    NodeImpl* node = nullptr;
    // Fixed while the cookie is good or a message is under way.
    MdOptions options;
    const Mem* mem = nullptr;
    u32 length = 0, max_size = 0;
    EventFn handler = nullptr;
    void* user = nullptr;
    // Guarded by the home's lock.
    u32 threshold = 0;
    u32 offset = 0;                     // running offset
    u32 busy = 0;                       // messages under way on it
    u32 responses_due = 0;              // that have a deadline
    u32 acks_due = 0, replies_due = 0;  // an answer that nobody asked for is dropped
    FloatHome* floats = nullptr;  // its home when it is free-floating, else it is attached to an ME
    bool aborted = false;         // unlinked while busy
    bool cancelling = false;      // its messages are being cancelled: the slot stays
    bool told_last = false;       // the event with `unlinked` has been told
    bool delivering = false;      // a worker tells events, or is about to
    bool tracked = false;
    Status why;  // of the unlink
    Instant response_deadline{};
    MeImpl* me = nullptr;
    List<CoreMsg, OnMd> messages;
    List<EventNode, OnEvents> events;
    EventNode unlink_event;

    bool exhausted() const {
        return threshold == 0 || (max_size > 0 && u64{offset} + max_size > length);
    }
    u32& due(bool reply) { return reply ? replies_due : acks_due; }
    void count_operation() {
        if (threshold != threshold_infinite) --threshold;
    }
    // Tells the events that wait.
    void run() override;
};

// Slots of T: at stable addresses until the Node goes, so that a stale handle can be looked at.
// Chunk i holds first_chunk << i slots.
template <class T> class SlotTable {
 public:
    static constexpr u32 first_chunk = 8;
    static constexpr u32 chunks_max = 17;
    static_assert(u64{first_chunk} * ((1u << chunks_max) - 1) <= 1u << Cookie::slot_bits);

    SlotTable(CptId cpt, u64 kind) : cpt_(cpt), kind_(kind) {}
    ~SlotTable() {
        while (free_.pop_front() != nullptr) {
        }
    }
    SlotTable(const SlotTable&) = delete;

    // The slot of that number, in use or not; null when there never was one.
    T* at(u32 slot) const {
        const u32 chunk = chunk_of(slot);
        if (chunk >= chunks_max) return nullptr;
        T* const items = found_[chunk].load(std::memory_order_acquire);
        return items ? &items[slot - start_of(chunk)] : nullptr;
    }
    // A free slot with a new generation; its cookie is not good until the caller stores it. Null
    // when all slots are in use or memory is short.
    T* take() {
        for (;;) {
            u32 chunk;
            {
                const std::lock_guard guard(lock_);
                if (T* item = free_.pop_front()) {
                    ++in_use_;
                    item->generation.store(item->generation.load() + 1);
                    return item;
                }
                chunk = chunks_;
            }
            if (chunk == chunks_max || !grow(chunk)) return nullptr;
        }
    }
    void give(T& item) {
        const std::lock_guard guard(lock_);
        --in_use_;
        if (item.generation.load() < Cookie::generation_max) free_.push_back(item);
    }
    u64 cookie_of(const T& item) const {
        return Cookie::make(kind_, cpt_, item.slot, item.generation.load());
    }
    u64 in_use() const {
        const std::lock_guard guard(lock_);
        return in_use_;
    }
    // All slots have numbers below this.
    u32 slots() const {
        const std::lock_guard guard(lock_);
        return start_of(chunks_);
    }

 private:
    static u32 chunk_of(u32 slot) {
        return static_cast<u32>(std::bit_width(slot / first_chunk + 1)) - 1;
    }
    static u32 start_of(u32 chunk) { return first_chunk * ((1u << chunk) - 1); }
    // Makes the chunk, unless another worker was faster.
    // False: no memory.
    bool grow(u32 chunk) {
        std::unique_ptr<T[]> items(new (std::nothrow) T[std::size_t{first_chunk} << chunk]);
        if (items == nullptr) return false;
        const std::lock_guard guard(lock_);
        if (chunk != chunks_) return true;
        for (u32 i = 0; i < first_chunk << chunk; ++i) {
            items[i].slot = start_of(chunk) + i;
            items[i].slot_cpt = cpt_;
            free_.push_back(items[i]);
        }
        found_[chunk].store(items.get(), std::memory_order_release);
        owned_[chunk] = std::move(items);
        ++chunks_;
        return true;
    }
    const CptId cpt_;
    const u64 kind_;
    std::array<std::atomic<T*>, chunks_max> found_{};
    mutable std::mutex lock_;  // guards the rest
    std::array<std::unique_ptr<T[]>, chunks_max> owned_;
    u32 chunks_ = 0;
    List<T, OnFree> free_;  // first in, first out, so that generations wear evenly
    u64 in_use_ = 0;
};

}  // namespace ulnet
