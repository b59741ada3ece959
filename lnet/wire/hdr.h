// The LNet message header: 72 bytes with 8-byte NIDs, 96 bytes with large ones (socklnd v4).
// Little-endian but for handles and hdr_data, which are opaque, and large NIDs (network order).
#pragma once

#include <span>

#include "cpt/base/result.h"
#include "cpt/base/wire.h"
#include "lnet/nid.h"

namespace ulnet {

enum class MsgType : u32 { ack = 0, put = 1, get = 2, reply = 3, hello = 4 };

// A handle as it travels: echoed byte for byte by the peer, read only by its maker.
struct WireHandle {
    Opaque<u64> interface_cookie{~u64{0}};
    Opaque<u64> object_cookie{~u64{0}};
    bool none() const { return interface_cookie == ~u64{0} && object_cookie == ~u64{0}; }
    template <class F> static constexpr void fields(F&& f) {
        f("interface_cookie", &WireHandle::interface_cookie);
        f("object_cookie", &WireHandle::object_cookie);
    }
    friend bool operator==(const WireHandle&, const WireHandle&) = default;
};

// Every field any type needs, in host form. Only those of `type` travel; decode leaves the others
// at their defaults.
struct Hdr {
    Nid dest_nid, src_nid;
    u32 dest_pid = pid_lustre, src_pid = pid_lustre;
    MsgType type = MsgType::ack;
    u32 payload_length = 0;
    WireHandle handle;    // PUT: where the ACK goes (none = not wanted); GET: where the REPLY goes;
                          // REPLY, ACK: the destination
    u64 match_bits = 0;   // PUT, GET, ACK
    u64 hdr_data = 0;     // PUT
    u32 portal = 0;       // PUT, GET
    u32 offset = 0;       // PUT, GET
    u32 sink_length = 0;  // GET
    u32 mlength = 0;      // ACK
    u64 incarnation = 0;  // HELLO
    u32 conn_type = 0;    // HELLO
    friend bool operator==(const Hdr&, const Hdr&) = default;
};

constexpr u32 hdr4_bytes = 72;
constexpr u32 hdr16_bytes = 96;

// EPROTO: too short, an unknown type, or a NID longer than 20 bytes that is not ANY. The caller
// checks lengths against its own rules.
Result<Hdr> decode_hdr4(std::span<const std::byte>);
Result<Hdr> decode_hdr16(std::span<const std::byte>);
// Write exactly 72 (96) bytes; unused ones are zero. encode_hdr4 needs NIDs that are nid4.
void encode_hdr4(const Hdr&, std::span<std::byte, hdr4_bytes>);
void encode_hdr16(const Hdr&, std::span<std::byte, hdr16_bytes>);

}  // namespace ulnet
