// Trace: plain stores by the owner of a ring; a reader checks afterwards that it was not overtaken.
#include "cpt/trace.h"

#include <algorithm>
#include <array>
#include <bit>

#include "cpt/base/hash.h"

namespace ulnet {

Trace::Trace(const Sched& sched, u32 records, Hashing hashing)
    : sched_(sched), records_(records), hashing_(hashing),
      rings_(std::make_unique<Ring[]>(sched.slots())) {
    CHECK(std::has_single_bit(records));
    for (u32 slot = 0; slot < sched.slots(); ++slot)
        rings_[slot].cells = std::make_unique<Cell[]>(records);
}

void Trace::add(u32 kind, u32 a, u64 b, u64 c) {
    const u64 time_ns = static_cast<u64>(sched_.now().time_since_epoch().count());
    const TraceRecord record{.time_ns = time_ns, .kind = kind, .a = a, .b = b, .c = c};
    const u32 slot = sched_.this_slot();
    if (slot + 1 == sched_.slots()) {
        std::lock_guard guard(outside_);
        write(rings_[slot], record);
    } else {
        write(rings_[slot], record);
    }
}

void Trace::write(Ring& ring, const TraceRecord& record) {
    const auto words = std::bit_cast<std::array<u64, 4>>(record);
    const u64 number = ring.ended.load(std::memory_order_relaxed);
    ring.begun.store(number + 1, std::memory_order_relaxed);
    Cell& cell = ring.cells[number & (records_ - 1)];
    // Release: a reader that sees one of these words also sees that the writing had begun.
    for (std::size_t i = 0; i < words.size(); ++i)
        cell.words[i].store(words[i], std::memory_order_release);
    ring.ended.store(number + 1, std::memory_order_release);
    if (hashing_ == Hashing::yes)
        for (const u64 word : words) ring.hash = hash_mix(ring.hash, word);
}

void Trace::read(u32 slot, std::vector<Entry>& out) const {
    const Ring& ring = rings_[slot];
    const u64 end = ring.ended.load(std::memory_order_acquire);
    const u64 first = end > records_ ? end - records_ : 0;
    std::vector<TraceRecord> copies;
    for (u64 number = first; number < end; ++number) {
        std::array<u64, 4> words;
        const Cell& cell = ring.cells[number & (records_ - 1)];
        for (std::size_t i = 0; i < words.size(); ++i)
            words[i] = cell.words[i].load(std::memory_order_acquire);
        copies.push_back(std::bit_cast<TraceRecord>(words));
    }
    const u64 begun = ring.begun.load(std::memory_order_relaxed);
    const u64 intact = begun > records_ ? begun - records_ : 0;
    for (u64 number = std::max(first, intact); number < end; ++number)
        out.push_back({slot, copies[number - first]});
}

std::vector<Trace::Entry> Trace::entries() const {
    std::vector<Entry> all;
    for (u32 slot = 0; slot < sched_.slots(); ++slot) read(slot, all);
    std::stable_sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
        return a.record.time_ns < b.record.time_ns;
    });
    return all;
}

std::string Trace::text(std::string_view (*name_of_kind)(u32)) const {
    std::string lines;
    for (const Entry& entry : entries()) {
        const TraceRecord& record = entry.record;
        lines += std::to_string(record.time_ns) + " " + std::to_string(entry.slot) + " ";
        lines += name_of_kind(record.kind);
        lines += " " + std::to_string(record.a) + " " + std::to_string(record.b) + " " +
                 std::to_string(record.c) + "\n";
    }
    return lines;
}

u64 Trace::hash() const {
    if (hashing_ == Hashing::no) return 0;
    u64 hash = 0;
    for (u32 slot = 0; slot < sched_.slots(); ++slot) hash = hash_mix(hash, rings_[slot].hash);
    return hash;
}

}  // namespace ulnet
