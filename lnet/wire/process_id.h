// Process ids as they travel in lists (bulk of the self test): 12 bytes each, in the sender's
// order, 8-byte NIDs only. Pure; any thread.
#pragma once

#include <span>
#include <vector>

#include "cpt/base/result.h"
#include "cpt/base/wire.h"
#include "lnet/nid.h"

namespace ulnet {

struct PackedProcessId {
    u64 nid = 0;
    u32 pid = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("nid", &PackedProcessId::nid);
        f("pid", &PackedProcessId::pid);
    }
    friend bool operator==(const PackedProcessId&, const PackedProcessId&) = default;
};
static_assert(wire_size<PackedProcessId>() == 12 && wire_offset<PackedProcessId>("pid") == 8);

// EPROTO: not a whole number of entries.
Result<std::vector<ProcessId>> decode_process_ids(std::span<const std::byte>, Order sender);
// The NIDs must fit the 8-byte form.
std::vector<std::byte> encode_process_ids(std::span<const ProcessId>, Order order = native_order);

}  // namespace ulnet
