// The data of BRW tests: a 64-bit pattern at places that the check mode names, counted in pages of
// 4096 bytes. Pure functions over flat memory; any thread.
#pragma once

#include <span>

#include "selftest/wire_test.h"

namespace ulnet::lst {

constexpr u64 pattern_word = 0xeeb0eeb1eeb2eeb3;
constexpr u64 poison_word = 0xbeefbeefbeefbeef;
constexpr u32 word_bytes = 8;

// `offset` = where the transfer starts within its first page. Length and offset are multiples of 8.
// `order` = that of the node that fills.
void fill_pattern(std::span<std::byte> data, u32 offset, Check, Order);
// Puts the poison wherever check_pattern() looks, so that stale data cannot pass.
void poison(std::span<std::byte> data, u32 offset, Check);
// True when each checked word is the pattern in the filler's order.
bool check_pattern(std::span<const std::byte> data, u32 offset, Check, Order);

}  // namespace ulnet::lst
