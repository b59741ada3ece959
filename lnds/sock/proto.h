// What the versions of the protocol do differently after the HELLO: one row of a table each. A
// connection has the row of its version; whoever needs a difference asks the row. Pure, any thread.
#pragma once

#include "lnds/sock/wire.h"

namespace ulnet::sock {

// How well a connection suits a frame.
enum class Match : u8 { no, may, yes };

struct Proto {
    u32 version;
    u32 head_bytes;  // in front of the LNet header; version 1 has no such head, so no NOOPs either
    u32 hdr_bytes;   // of the LNet header
    Result<Hdr> (*decode_hdr)(std::span<const std::byte>);
    void (*encode_hdr)(const Hdr&, std::span<std::byte>);
    bool checksums;   // sent when enabled, and they cover the header, also that of a NOOP
    bool ack_runs;    // one NOOP may acknowledge two numbers or a range
    bool keepalives;  // NOOPs with cookie 1
    // `bytes` counts the whole frame. An LNet message.
    Match (*match_lnet)(ConnType, u64 bytes, u64 min_bulk);
    // A NOOP of ours; apart: it must not wait behind messages.
    Match (*match_noop)(ConnType, bool apart, u64 min_bulk);

    bool noops() const { return head_bytes > 0; }
    u32 header_bytes() const { return head_bytes + hdr_bytes; }
    // Only version 4 has NIDs longer than 8 bytes.
    bool carries(const Nid& nid) const { return nid.is_nid4() || hdr_bytes == hdr16_bytes; }
};

// Of versions version_min to version_max.
const Proto& proto_of(u32 version);

}  // namespace ulnet::sock
