// A message on its way through the core and a driver.
#pragma once

#include "cpt/base/list.h"
#include "cpt/mem.h"
#include "lnet/wire/hdr.h"

namespace ulnet {

// How an operation on a message ended, for health (order of the protocol book, 0 ... 10).
enum class Health : u8 {
    ok,
    local_interrupt,
    local_dropped,
    local_aborted,
    local_no_route,
    local_error,
    local_timeout,
    remote_error,
    remote_dropped,
    remote_timeout,
    network_timeout,
};

// What a driver uses to find its own receive state again; opaque to the core.
struct RxToken {
    void* driver = nullptr;
    u64 id = 0;
};

// The part of a message that drivers see. Made and owned by the core; between send() (or a
// receive() that names it) and finished() the driver may use the list hook and the scratch words
// and reads the rest.
struct Msg : ListHook<Msg> {
    Hdr hdr;
    MemView payload;     // what is sent (hdr.payload_length bytes), or where received bytes go
    ProcessId next_hop;  // send: the peer NI the driver must reach
    RxToken answers;     // send, a REPLY: the GET that came with RdmaGet::possible; else none
    Instant deadline = instant_never;
    CptId cpt = 0;        // where the core wants finished() to be worth most (locality only)
    u64 scratch[4] = {};  // the driver's
};

}  // namespace ulnet
