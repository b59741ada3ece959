// The input of the state machine fuzzer, read front to back as a program. What is not there reads
// as zero, so that every input is one.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "cpt/base/types.h"

namespace ulnet::fuzz {

class Program {
 public:
    explicit Program(std::span<const std::byte> input) : left_(input) {}

    bool over() const { return left_.empty(); }
    u8 byte() { return whole<u8>(); }
    u16 word() { return whole<u16>(); }
    bool flag() { return (byte() & 1) != 0; }
    u32 below(u32 end) { return byte() % end; }
    std::span<const std::byte> bytes(std::size_t most) {
        const auto taken = left_.first(std::min(most, left_.size()));
        left_ = left_.subspan(taken.size());
        return taken;
    }
    // Small ones in one byte; the limits of the protocol; any other in three or nine bytes.
    u64 number() {
        static constexpr std::array<u64, 14> special{
            1u << 20,   (1u << 20) + 1, 0x7fffffff,   0x80000000,        0xfffffff0,
            0xffffffff, u64{1} << 32,   u64{1} << 63, ~u64{0},           4096,
            4097,       65536,          ~u64{0} >> 1, 0x8000000000000001};
        const u8 first = byte();
        if (first < 224) return first;
        if (first < 224 + special.size()) return special[first - 224];
        return first & 1 ? whole<u64>() : whole<u16>();
    }
    u32 number32() { return static_cast<u32>(number()); }

 private:
    template <class T> T whole() {
        T value{};
        const auto taken = bytes(sizeof value);
        std::ranges::copy(taken, std::as_writable_bytes(std::span(&value, 1)).begin());
        return value;
    }
    std::span<const std::byte> left_;
};

}  // namespace ulnet::fuzz
