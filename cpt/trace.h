// The trace: a ring of small records for each worker, always on. It answers "what happened last"
// after the fact, and its hash is the identity of a simulated run.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cpt/sched.h"

namespace ulnet {

struct TraceRecord {
    u64 time_ns;  // of the Sched
    u32 kind;     // meaning of a, b, c: the owner of the trace knows
    u32 a;
    u64 b;
    u64 c;
};
static_assert(sizeof(TraceRecord) == 32);

class Trace {
 public:
    enum class Hashing : u8 { no, yes };
    // `records` for each slot of the Sched: a power of two.
    Trace(const Sched&, u32 records, Hashing);
    // Any thread; threads outside the Sched share a ring and take turns.
    void add(u32 kind, u32 a, u64 b, u64 c);

    struct Entry {
        u32 slot;
        TraceRecord record;
    };
    // What the rings hold, by time. Records overwritten during the reading are left out.
    std::vector<Entry> entries() const;
    // One line a record: time, slot, name of the kind, a, b, c.
    std::string text(std::string_view (*name_of_kind)(u32)) const;
    // Of all records ever added, each ring in its order; 0 without hashing. Not while others add.
    u64 hash() const;

 private:
    struct Cell {
        std::atomic<u64> words[4];
    };
    struct alignas(64) Ring {
        std::unique_ptr<Cell[]> cells;
        std::atomic<u64> begun{0};  // records whose writing has begun
        std::atomic<u64> ended{0};  // records complete
        u64 hash = 0;
    };
    void write(Ring& ring, const TraceRecord& record);
    void read(u32 slot, std::vector<Entry>& out) const;

    const Sched& sched_;
    const u32 records_;
    const Hashing hashing_;
    std::unique_ptr<Ring[]> rings_;
    std::mutex outside_;  // guards the writing of the last ring
};

}  // namespace ulnet
