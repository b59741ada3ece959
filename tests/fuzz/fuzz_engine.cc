// Fuzz target: the socket driver and the core as a state machine. The input is a program that an
// adversary plays against a whole node (engine/game.h says what it can do and what must hold).
#include "cpt/base/log.h"
#include "tests/fuzz/engine/game.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(engine)(std::span<const std::byte> input) {
    fuzz::Game(input).play();
}

}  // namespace ulnet
