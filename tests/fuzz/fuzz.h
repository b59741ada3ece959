// The frame of a fuzz target: it defines fuzz_one() and states what must hold with CHECK, for every
// input. Not only crashes count: what decodes must encode and decode to the same again.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "cpt/base/check.h"

namespace ulnet {

// The input is a copy of exactly its size, so that any byte read behind it is found.
void fuzz_one(std::span<const std::byte> input);

inline std::string_view as_text(std::span<const std::byte> input) {
    return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace ulnet
