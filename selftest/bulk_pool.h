// Data buffers of the BRW service: three sizes, each made on demand within a bound of bytes and
// then reused. A request that finds none waits its turn. Any thread.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "cpt/sched.h"

namespace ulnet::lst {

class BulkPool {
 public:
    // Whoever waits for a buffer: `task` is posted to `cpt` once `buffer` is set.
    struct Waiter : ListHook<Waiter> {
        Task* task = nullptr;
        CptId cpt = 0;
        std::byte* buffer = nullptr;
    };

    // Each size may always have one buffer, whatever bytes_max says. Buffers of another size that
    // are not in use give way.
    BulkPool(Sched& sched, u64 bytes_max) : sched_(sched), bytes_max_(bytes_max) {}
    ~BulkPool();
    // A buffer of at least `bytes` (at most 1 MiB), or null: then the waiter will get one.
    std::byte* get(u32 bytes, Waiter&);
    void put(u32 bytes, std::byte* buffer);
    // What a request for so many bytes takes.
    static u64 size_of(u32 bytes) {
        return bytes <= 4096 ? 4096 : bytes <= 65536 ? 65536 : 1u << 20;
    }
    // Frees what is not in use.
    void trim();
    u64 bytes() const;

 private:
    struct Size {
        explicit Size(u32 each) : bytes(each) {}
        const u32 bytes;
        u64 count = 0;                 // made
        std::vector<std::byte*> free;  // room for all that were made
        List<Waiter> waiters;
    };
    Size& size_for(u32 bytes);
    void make_room(const Size& wanted);

    Sched& sched_;
    const u64 bytes_max_;
    mutable std::mutex mutex_;  // guards the rest
    Size sizes_[3]{Size(4096), Size(65536), Size(1u << 20)};
    u64 bytes_ = 0;
};

}  // namespace ulnet::lst
