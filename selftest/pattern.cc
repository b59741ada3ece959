// BRW data. The full mode touches every word of up to 1 MiB for each RPC, so its loops are plain
// 8-byte loads and stores that the compiler vectorises.
#include "selftest/pattern.h"

#include <algorithm>

namespace ulnet::lst {
namespace {

u64 in_memory(u64 word, Order order) {
    return order == native_order ? word : __builtin_bswap64(word);
}

void put(std::byte* at, u64 word) {
    std::memcpy(at, &word, word_bytes);
}

u64 get(const std::byte* at) {
    u64 word;
    std::memcpy(&word, at, word_bytes);
    return word;
}

// Calls visit(position) for the checked words of the simple mode: both ends of each fragment, a
// fragment being the part of the transfer that lies in one page.
template <class Visit> bool each_end(std::size_t length, u32 offset, Visit&& visit) {
    std::size_t start = 0;
    std::size_t room = wire_page_bytes - offset % wire_page_bytes;
    while (length - start >= word_bytes) {
        const std::size_t fragment = std::min(room, length - start);
        if (fragment >= word_bytes && !visit(start)) return false;
        if (fragment > word_bytes && !visit(start + fragment - word_bytes)) return false;
        start += fragment;
        room = wire_page_bytes;
    }
    return true;
}

void fill_words(std::span<std::byte> data, u32 offset, Check check, u64 word) {
    if (check == Check::full) {
        const std::size_t words = data.size() / word_bytes;
        for (std::size_t i = 0; i < words; ++i) put(data.data() + i * word_bytes, word);
    } else if (check == Check::simple) {
        each_end(data.size(), offset, [&](std::size_t at) {
            put(data.data() + at, word);
            return true;
        });
    }
}

}  // namespace

void fill_pattern(std::span<std::byte> data, u32 offset, Check check, Order order) {
    fill_words(data, offset, check, in_memory(pattern_word, order));
}

void poison(std::span<std::byte> data, u32 offset, Check check) {
    fill_words(data, offset, check, poison_word);
}

bool check_pattern(std::span<const std::byte> data, u32 offset, Check check, Order order) {
    const u64 word = in_memory(pattern_word, order);
    if (check == Check::simple)
        return each_end(data.size(), offset,
                        [&](std::size_t at) { return get(data.data() + at) == word; });
    if (check != Check::full) return true;
    u64 difference = 0;
    const std::size_t words = data.size() / word_bytes;
    for (std::size_t i = 0; i < words; ++i) difference |= get(data.data() + i * word_bytes) ^ word;
    return difference == 0;
}

}  // namespace ulnet::lst
