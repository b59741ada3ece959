// Hash buckets that are ordered intrusive lists. Growing is in two steps, so that the allocation
// happens without the owner's lock. Not thread-safe; the owner of the table locks.
#pragma once

#include <memory>
#include <utility>

#include "cpt/base/list.h"

namespace ulnet {

template <class T, class Tag> class HashLists {
 public:
    static constexpr u32 buckets_max = 1u << 20;
    static constexpr u32 load_max = 4;  // entries a bucket before the table should grow

    explicit HashLists(u32 buckets)  // a power of two
        : buckets_(buckets), lists_(std::make_unique<List<T, Tag>[]>(buckets)) {
        CHECK((buckets & (buckets - 1)) == 0);
    }
    List<T, Tag>& at(u64 hash) { return lists_[(hash ^ (hash >> 32)) & (buckets_ - 1)]; }
    List<T, Tag>& bucket(u32 index) { return lists_[index]; }
    u32 buckets() const { return buckets_; }
    bool crowded(std::size_t entries) const {
        return entries > std::size_t{load_max} * buckets_ && buckets_ < buckets_max;
    }
    void swap(HashLists& other) {
        std::swap(buckets_, other.buckets_);
        std::swap(lists_, other.lists_);
    }
    // Takes every entry of `from`; the order within equal hashes stays.
    template <class HashOf> void take_all(HashLists& from, HashOf hash_of) {
        for (u32 i = 0; i < from.buckets_; ++i)
            while (T* item = from.lists_[i].pop_front()) at(hash_of(*item)).push_back(*item);
    }

 private:
    u32 buckets_;
    std::unique_ptr<List<T, Tag>[]> lists_;
};

// Spreads a weak hash over all bits.
constexpr u64 mix_hash(u64 value) {
    value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93;
    return value ^ (value >> 32);
}

}  // namespace ulnet
