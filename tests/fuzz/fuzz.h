// The frame of a fuzz target: FUZZ_TARGET(name)(std::span<const std::byte> input) { ... } states
// what must hold with CHECK, for every input. Not only crashes count: what decodes must encode and
// decode to the same again.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "cpt/base/check.h"

namespace ulnet {

// The targets that a program has linked: one for libFuzzer, all of them for unit_fuzz.
struct FuzzTarget {
    using One = void (*)(std::span<const std::byte>);
    FuzzTarget(std::string_view its_name, One its_one);
    const std::string_view name;
    // The input is a copy of exactly its size, so that any byte read behind it is found.
    const One one;
    const FuzzTarget* const next;
    static const FuzzTarget* first;
};

#define FUZZ_TARGET(name)                                                                          \
    static void fuzz_##name(std::span<const std::byte>);                                           \
    static const FuzzTarget target_##name(#name, fuzz_##name);                                     \
    static void fuzz_##name

inline std::string_view as_text(std::span<const std::byte> input) {
    return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace ulnet
