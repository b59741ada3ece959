// A small seeded generator (splitmix64 seeding xoshiro256**; both in the public domain, by
// S. Vigna). Not for secrets. Each worker has its own; a simulation seeds them all.
#pragma once

#include <bit>

#include "cpt/base/types.h"

namespace ulnet {

class Prng {
 public:
    explicit Prng(u64 seed) {
        for (u64& word : state_) {
            seed += 0x9e3779b97f4a7c15;
            u64 mixed = seed;
            mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
            mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
            word = mixed ^ (mixed >> 31);
        }
    }
    u64 next() {
        const u64 result = std::rotl(state_[1] * 5, 7) * 9;
        const u64 shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = std::rotl(state_[3], 45);
        return result;
    }
    // Uniform enough in 0 ... bound-1; bound > 0.
    u64 below(u64 bound) { return next() % bound; }

 private:
    u64 state_[4];
};

}  // namespace ulnet
