// What socklnd puts on a TCP stream after the acceptor's request: the HELLO of versions 1 to 4 and
// the frames. Pure functions over bytes, any thread. Formats: docs/wire/socklnd.md.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "cpt/base/result.h"
#include "cpt/base/wire.h"
#include "lnet/nid.h"
#include "lnet/wire/hdr.h"

namespace ulnet::sock {

constexpr u32 hello_magic = 0x45726963;     // versions 2 to 4, in the sender's order
constexpr u32 hello_magic_v1 = 0xeebc0ded;  // always little-endian
constexpr u32 hello_ips_max = 16;
constexpr std::size_t hello_bytes_max = 80 + 4 * hello_ips_max;
constexpr u32 version_min = 1, version_max = 4;
constexpr u32 version_default = 3;  // what a peer of unknown version is spoken to in

// Type of a connection as its sender sees it.
enum class ConnType : u32 { any = 0, control = 1, bulk_in = 2, bulk_out = 3, none = 0xffffffff };
// The type that the other end has; nothing for values that no HELLO may ask for.
std::optional<ConnType> invert(u32 type);
std::string_view to_text(ConnType);

// Connections of a bulk type to a peer that suit a link; 0 = speed unknown.
u32 conns_per_peer_of(u32 speed_mbit);

struct HelloV1 {
    Le<u32> magic;
    Le<u16> major, minor;
    Le<u64> src_nid;
    Le<u32> dest_pid, src_pid, type, payload_length;
    Le<u64> incarnation;
    Le<u32> conn_type;
    std::array<u8, 28> unused{};
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &HelloV1::magic);
        f("major", &HelloV1::major);
        f("minor", &HelloV1::minor);
        f("src_nid", &HelloV1::src_nid);
        f("dest_pid", &HelloV1::dest_pid);
        f("src_pid", &HelloV1::src_pid);
        f("type", &HelloV1::type);
        f("payload_length", &HelloV1::payload_length);
        f("incarnation", &HelloV1::incarnation);
        f("conn_type", &HelloV1::conn_type);
        f("unused", &HelloV1::unused);
    }
};
static_assert(wire_size<HelloV1>() == 72 && wire_offset<HelloV1>("incarnation") == 32 &&
              wire_offset<HelloV1>("conn_type") == 40);

struct HelloV3 {
    u32 magic, version;
    u64 src_nid, dst_nid;
    u32 src_pid, dst_pid;
    u64 src_incarnation, dst_incarnation;
    u32 type, nips;
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &HelloV3::magic);
        f("version", &HelloV3::version);
        f("src_nid", &HelloV3::src_nid);
        f("dst_nid", &HelloV3::dst_nid);
        f("src_pid", &HelloV3::src_pid);
        f("dst_pid", &HelloV3::dst_pid);
        f("src_incarnation", &HelloV3::src_incarnation);
        f("dst_incarnation", &HelloV3::dst_incarnation);
        f("type", &HelloV3::type);
        f("nips", &HelloV3::nips);
    }
};
static_assert(wire_size<HelloV3>() == 56 && wire_offset<HelloV3>("src_incarnation") == 32 &&
              wire_offset<HelloV3>("type") == 48);

struct HelloV4 {
    u32 magic, version;
    std::array<u8, 20> src_nid, dst_nid;
    u32 src_pid, dst_pid;
    u64 src_incarnation, dst_incarnation;
    u32 type, nips;
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &HelloV4::magic);
        f("version", &HelloV4::version);
        f("src_nid", &HelloV4::src_nid);
        f("dst_nid", &HelloV4::dst_nid);
        f("src_pid", &HelloV4::src_pid);
        f("dst_pid", &HelloV4::dst_pid);
        f("src_incarnation", &HelloV4::src_incarnation);
        f("dst_incarnation", &HelloV4::dst_incarnation);
        f("type", &HelloV4::type);
        f("nips", &HelloV4::nips);
    }
};
static_assert(wire_size<HelloV4>() == 80 && wire_offset<HelloV4>("src_pid") == 48 &&
              wire_offset<HelloV4>("type") == 72);

// A HELLO in host form, of any version. Version 1 has no destination and no dst_incarnation.
struct Hello {
    u32 version = version_default;
    Order order = native_order;
    Nid src_nid, dst_nid;
    u32 src_pid = pid_lustre, dst_pid = 0;
    u64 src_incarnation = 0, dst_incarnation = 0;
    u32 type = 0;  // a ConnType, or whatever the peer put there
    u32 nips = 0;
    std::array<u32, hello_ips_max> ips{};
    friend bool operator==(const Hello&, const Hello&) = default;
};

// How many bytes the HELLO that begins with `have` has, as far as they tell: 8 until the version is
// there, then the fixed part, then all of it. Complete when have.size() reaches it. EPROTO: no
// HELLO; EPROTONOSUPPORT: a version that nobody knows (the passive side then answers its own).
Result<std::size_t> hello_bytes(std::span<const std::byte> have);
// The complete HELLO. Errors as above; EPROTO also for the source ANY, more than 16 addresses, an
// address of zero, and too few bytes.
Result<Hello> decode_hello(std::span<const std::byte>);
// Returns the bytes written. The NIDs must fit the version; `to` has hello_bytes_max bytes.
std::size_t encode_hello(const Hello&, std::span<std::byte> to);

enum class FrameType : u32 { noop = 0xc0, lnet = 0xc1 };

// The fixed part of a frame of versions 2 to 4, in the order of the connection's sender.
struct FrameHead {
    u32 type, checksum;
    u64 cookie0, cookie1;
    template <class F> static constexpr void fields(F&& f) {
        f("type", &FrameHead::type);
        f("checksum", &FrameHead::checksum);
        f("cookie0", &FrameHead::cookie0);
        f("cookie1", &FrameHead::cookie1);
    }
    friend bool operator==(const FrameHead&, const FrameHead&) = default;
};
constexpr u32 frame_head_bytes = 24;
constexpr u32 frame3_bytes = frame_head_bytes + hdr4_bytes;  // to the first payload byte
constexpr u32 frame_bytes_max = frame_head_bytes + hdr16_bytes;
static_assert(wire_size<FrameHead>() == frame_head_bytes);

// A frame without its payload.
struct Frame {
    FrameHead head{static_cast<u32>(FrameType::lnet), 0, 0, 0};
    bool lnet = true;  // false: a NOOP, which is only the head
    Hdr hdr;
    friend bool operator==(const Frame&, const Frame&) = default;
};

// What the cookies of a frame acknowledge: first ... last, or the two numbers, or nothing.
struct ZcAck {
    enum class Kind : u8 { none, keepalive, one, two, range };
    Kind kind = Kind::none;
    u64 first = 0, last = 0;
    friend bool operator==(const ZcAck&, const ZcAck&) = default;
};

// How a version frames on a connection whose peer sends in `order`.
struct Framing {
    u32 version = version_default;
    Order order = native_order;
};

// Bytes of the frame's header, payload not counted, as far as `have` tells; EPROTO: unknown type.
Result<u32> frame_bytes(Framing, std::span<const std::byte> have);
// The header that frame_bytes() delimits. EPROTO: type of the frame or of the message, too short.
Result<Frame> decode_frame(Framing, std::span<const std::byte>);
// Returns the bytes written; `to` has frame_bytes_max bytes.
u32 encode_frame(Framing, const Frame&, std::span<std::byte> to);
// EPROTO: a keepalive with a wrong cookie 0.
Result<ZcAck> zc_ack_of(u32 version, const Frame&);

// CRC-32 as LNet counts it (reflected, no final inversion): start with crc_seed, then go on with
// the value of the bytes before.
constexpr u32 crc_seed = 0xffffffff;
u32 crc_update(u32 crc, std::span<const std::byte>);
// Where a frame's checksum begins, given its encoded header: version 2 covers the header (with the
// field as zero) and then the payload, versions 3 and 4 only the payload.
u32 crc_start(Framing, std::span<const std::byte> header);

}  // namespace ulnet::sock
