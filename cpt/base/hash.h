// Mixing of 64-bit words into a hash; not for secrets.
#pragma once

#include "cpt/base/types.h"

namespace ulnet {

// Every bit of the result depends on every bit of both; the order of calls matters.
constexpr u64 hash_mix(u64 hash, u64 word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93;
    return hash ^ (hash >> 32);
}

}  // namespace ulnet
