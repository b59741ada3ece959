// Which destinations each client of a test gets, from the sizes of the two groups and
// `--distribute dist:span`. Pure.
#pragma once

#include <vector>

#include "cpt/base/result.h"
#include "cpt/base/types.h"

namespace ulnet::lst {

struct Placement {
    u32 server_loop = 0;                    // buffers each server is asked to have
    std::vector<std::vector<u32>> clients;  // for client i the indices of its destinations
};
// EINVAL: dist beyond the sources or span beyond the destinations, or one of them 0.
Result<Placement> place(u32 sources, u32 destinations, u32 dist, u32 span, u32 concurrency);

}  // namespace ulnet::lst
