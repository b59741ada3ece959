// Moving payload between memory here and segments of memory there, piece by piece: what is next,
// and how far it has come. Pure; one thread at a time.
#pragma once

#include <algorithm>
#include <array>

#include "lnds/ofi/wire.h"

namespace ulnet::ofi {

struct Move {
    static constexpr std::size_t pieces_most = 4;  // more than any endpoint takes at a time
    u32 len = 0;                                   // bytes in all
    u32 asked = 0;                                 // given to the endpoint
    u32 under_way = 0;                             // operations
    std::size_t segment = 0;
    u32 segment_at = 0;

    bool all_asked() const { return asked == len; }
    struct Next {
        std::array<iovec, pieces_most> pieces;
        unsigned count = 0;
        u32 bytes = 0;
        u64 address = 0, key = 0;
    };
    // The next part: of one segment there, a few pieces here.
    Next next(const MemView& here, const std::vector<Segment>& there, unsigned pieces_max) const {
        Next next;
        const Segment& at = there[segment];
        const unsigned count = here.gather(
            asked, std::span(next.pieces).first(std::min<std::size_t>(pieces_most, pieces_max)));
        const u32 most = std::min(at.len - segment_at, len - asked);
        for (; next.count < count && next.bytes < most; ++next.count) {
            std::size_t& size = next.pieces[next.count].iov_len;
            size = std::min<std::size_t>(size, most - next.bytes);
            next.bytes += static_cast<u32>(size);
        }
        next.address = at.address + segment_at;
        next.key = at.key;
        return next;
    }
    void took(const Next& next, const std::vector<Segment>& there) {
        ++under_way;
        asked += next.bytes;
        segment_at += next.bytes;
        if (segment_at < there[segment].len) return;
        ++segment;
        segment_at = 0;
    }
};

}  // namespace ulnet::ofi
