// The common message counters as they travel in a STAT reply of the self test: 60 bytes, in the
// sender's order. A value; any thread.
#pragma once

#include "cpt/base/wire.h"

namespace ulnet {

struct WireCounters {
    u32 msgs_alloc = 0, msgs_max = 0, errors = 0;
    u32 send_count = 0, recv_count = 0, route_count = 0, drop_count = 0;
    u64 send_length = 0, recv_length = 0, route_length = 0, drop_length = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("msgs_alloc", &WireCounters::msgs_alloc);
        f("msgs_max", &WireCounters::msgs_max);
        f("errors", &WireCounters::errors);
        f("send_count", &WireCounters::send_count);
        f("recv_count", &WireCounters::recv_count);
        f("route_count", &WireCounters::route_count);
        f("drop_count", &WireCounters::drop_count);
        f("send_length", &WireCounters::send_length);
        f("recv_length", &WireCounters::recv_length);
        f("route_length", &WireCounters::route_length);
        f("drop_length", &WireCounters::drop_length);
    }
    friend bool operator==(const WireCounters&, const WireCounters&) = default;
};
static_assert(wire_size<WireCounters>() == 60 && wire_offset<WireCounters>("send_length") == 28);
static_assert(wire_offset<WireCounters>("drop_length") == 52);

}  // namespace ulnet
