// Frames of socklnd: the head of 24 bytes, the LNet header behind it, zero-copy cookies and
// checksums. Called by the receive and transmit halves of connections and by tests; pure.
#include <isa-l.h>

#include "lnds/sock/proto.h"

namespace ulnet::sock {
namespace {

constexpr u64 cookie_keepalive = 1;

}  // namespace

Result<u32> frame_bytes(Framing framing, std::span<const std::byte> have) {
    const Proto& proto = proto_of(framing.version);
    if (!proto.noops()) return proto.header_bytes();
    if (have.size() < 4) return proto.head_bytes;
    u32 type = 0;
    Reader(have, framing.order).read(type);
    if (type == static_cast<u32>(FrameType::noop)) return proto.head_bytes;
    if (type != static_cast<u32>(FrameType::lnet)) return Status(-EPROTO);
    return proto.header_bytes();
}

Result<Frame> decode_frame(Framing framing, std::span<const std::byte> bytes) {
    const Proto& proto = proto_of(framing.version);
    const Result<u32> size = frame_bytes(framing, bytes);
    if (!size.ok()) return size.status();
    if (bytes.size() < *size) return Status(-EPROTO);
    Frame frame;
    if (proto.noops()) {
        Reader(bytes, framing.order).read(frame.head);
        frame.lnet = frame.head.type == static_cast<u32>(FrameType::lnet);
        if (!frame.lnet) return frame;
    }
    const Result<Hdr> hdr = proto.decode_hdr(bytes.subspan(proto.head_bytes));
    if (!hdr.ok()) return hdr.status();
    frame.hdr = *hdr;
    return frame;
}

u32 encode_frame(Framing framing, const Frame& frame, std::span<std::byte> to) {
    const Proto& proto = proto_of(framing.version);
    if (proto.noops()) {
        Writer writer(to, framing.order);
        CHECK(writer.write(frame.head));
        if (!frame.lnet) return proto.head_bytes;
    }
    CHECK(frame.lnet);
    proto.encode_hdr(frame.hdr, to.subspan(proto.head_bytes));
    return proto.header_bytes();
}

Result<ZcAck> zc_ack_of(u32 version, const Frame& frame) {
    const u64 c0 = frame.head.cookie0;
    const u64 c1 = frame.head.cookie1;
    ZcAck ack;
    const Proto& proto = proto_of(version);
    if (!proto.noops() || c1 == 0) return ack;
    ack = {ZcAck::Kind::one, c1, c1};
    if (frame.lnet || !proto.ack_runs) return ack;
    if (c1 == cookie_keepalive) {
        if (c0 > 1) return Status(-EPROTO);
        ack.kind = ZcAck::Kind::keepalive;
    } else if (c0 > c1) {
        ack = {ZcAck::Kind::two, c0, c1};
    } else if (c0 != 0 && c0 < c1) {
        ack = {ZcAck::Kind::range, c0, c1};
    }
    return ack;
}

u32 crc_update(u32 crc, std::span<const std::byte> bytes) {
    // ISA-L inverts on the way in and out, as gzip wants it; LNet does not.
    return ~crc32_gzip_refl(~crc, reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
}

u32 crc_start(Framing framing, std::span<const std::byte> header) {
    if (!proto_of(framing.version).checksums) return crc_seed;
    constexpr std::size_t at = wire_offset<FrameHead>("checksum");
    constexpr std::array<std::byte, sizeof(FrameHead::checksum)> zero{};
    u32 crc = crc_update(crc_seed, header.first(at));
    crc = crc_update(crc, zero);
    return crc_update(crc, header.subspan(at + zero.size()));
}

}  // namespace ulnet::sock
