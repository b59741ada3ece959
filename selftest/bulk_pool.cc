// The buffers of the BRW service. Allocation happens while a load grows, never in its steady state.
#include "selftest/bulk_pool.h"

#include <cstdlib>
#include <cstring>

namespace ulnet::lst {
namespace {

std::byte* allocate(u32 bytes) {
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
    if (memory) std::memset(memory, 0, bytes);
    return memory;
}

}  // namespace

BulkPool::~BulkPool() {
    trim();
    CHECK(bytes_ == 0);
}

BulkPool::Size& BulkPool::size_for(u32 bytes) {
    for (Size& size : sizes_)
        if (bytes <= size.bytes) return size;
    CHECK(false);
    return sizes_[2];
}

// Frees buffers of other sizes that are not in use, as far as it takes.
void BulkPool::make_room(const Size& wanted) {
    for (Size& size : sizes_) {
        if (&size == &wanted) continue;
        while (bytes_ + wanted.bytes > bytes_max_ && !size.free.empty()) {
            std::free(size.free.back());
            size.free.pop_back();
            bytes_ -= size.bytes;
            --size.count;
        }
    }
}

std::byte* BulkPool::get(u32 bytes, Waiter& waiter) {
    const std::lock_guard lock(mutex_);
    Size& size = size_for(bytes);
    if (!size.free.empty()) {
        std::byte* buffer = size.free.back();
        size.free.pop_back();
        return buffer;
    }
    make_room(size);
    if (size.count == 0 || bytes_ + size.bytes <= bytes_max_) {
        if (std::byte* buffer = allocate(size.bytes)) {
            ++size.count;
            bytes_ += size.bytes;
            size.free.reserve(size.count);
            return buffer;
        }
    }
    size.waiters.push_back(waiter);
    return nullptr;
}

void BulkPool::put(u32 bytes, std::byte* buffer) {
    Waiter* next = nullptr;
    {
        const std::lock_guard lock(mutex_);
        Size& size = size_for(bytes);
        next = size.waiters.pop_front();
        if (!next) {
            size.free.push_back(buffer);
            return;
        }
    }
    next->buffer = buffer;
    sched_.post(next->cpt, *next->task);
}

void BulkPool::trim() {
    const std::lock_guard lock(mutex_);
    for (Size& size : sizes_) {
        for (std::byte* buffer : size.free) {
            std::free(buffer);
            bytes_ -= size.bytes;
            --size.count;
        }
        size.free.clear();
    }
}

u64 BulkPool::bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
}

}  // namespace ulnet::lst
