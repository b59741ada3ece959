// The ping buffer (lnet_ping_info): what a node tells of its interfaces, in ping replies and
// pushes. Integers in the owner's order (magic 0x70696e67 tells), large NIDs in network order.
#pragma once

#include <span>
#include <vector>

#include "cpt/base/result.h"
#include "cpt/base/wire.h"
#include "lnet/nid.h"

namespace ulnet {

constexpr u32 ping_magic = 0x70696e67;
constexpr u32 ping_bytes_min = 272;   // least sink a requester offers
constexpr u32 ping_bytes_max = 3960;  // most that `lnetctl ping` offers
constexpr u32 ping_nis_max = 4096;
enum PingFeature : u32 {
    ping_base = 0x01,
    ping_ni_status = 0x02,
    ping_rte_disabled = 0x04,
    ping_multi_rail = 0x08,
    ping_discovery = 0x10,
    ping_large_addr = 0x20,
    ping_primary_large = 0x40,
    ping_metadata = 0x80,
};
constexpr u32 ni_status_up = 0x15aac0de;
constexpr u32 ni_status_down = 0xdeadface;

struct PingInfo {
    struct Entry {
        Nid nid;
        u32 status;
        friend bool operator==(const Entry&, const Entry&) = default;
    };
    u32 features = 0;
    u32 pid = pid_lustre;
    u32 sequence = 0;        // carried as the status of entry 0 (0@lo)
    std::vector<Entry> nis;  // without 0@lo: the nid4 entries, then the large ones
    u32 bytes = 0;           // size the sender says it has; more than received = truncated
    bool truncated = false;  // entries beyond the received bytes are missing
    // First large entry if PRIMARY_LARGE, else the first nid4 entry; ANY when there is none.
    Nid primary() const;
    friend bool operator==(const PingInfo&, const PingInfo&) = default;
};

// EPROTO (magic, NI_STATUS missing, entry 0 not 0@lo, sizes), ERANGE (no entry, or more than
// `nis_max`). Entries whose NID is longer than ours and the metadata of drivers are skipped.
Result<PingInfo> decode_ping(std::span<const std::byte>, u32 nis_max = ping_nis_max);
// Sets LARGE_ADDR and msg_size by what `nis` holds and clears METADATA; `bytes` and `truncated` do
// not count. nid4 entries go before large ones. `order` is that of the integers.
std::vector<std::byte> encode_ping(const PingInfo&, Order order = native_order);

}  // namespace ulnet
