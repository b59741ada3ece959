// The arithmetic of add_test.
#include "selftest/placement.h"

namespace ulnet::lst {

static u32 ceil_div(u32 a, u32 b) {
    return (a + b - 1) / b;
}

Result<Placement> place(u32 sources, u32 destinations, u32 dist, u32 span, u32 concurrency) {
    if (dist == 0 || span == 0 || dist > sources || span > destinations) return Status(-EINVAL);
    Placement out;
    const u32 rounds = ceil_div(ceil_div(sources, dist), ceil_div(destinations, span));
    out.server_loop = rounds * dist * concurrency;
    for (u32 client = 0; client < sources; ++client) {
        const u64 start = u64{client / dist} * span % destinations;
        std::vector<u32> mine;
        for (u32 i = 0; i < span; ++i) mine.push_back(static_cast<u32>((start + i) % destinations));
        out.clients.push_back(std::move(mine));
    }
    return out;
}

}  // namespace ulnet::lst
