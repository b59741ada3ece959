// Frames of socklnd: the head of 24 bytes, the LNet header behind it, zero-copy cookies and
// checksums. Called by the receive and transmit halves of connections and by tests; pure.
#include <isa-l.h>

#include "lnds/sock/wire.h"

namespace ulnet::sock {
namespace {

constexpr u64 cookie_keepalive = 1;

u32 hdr_bytes(u32 version) {
    return version == 4 ? hdr16_bytes : hdr4_bytes;
}

}  // namespace

Result<u32> frame_bytes(Framing framing, std::span<const std::byte> have) {
    if (framing.version == 1) return hdr4_bytes;
    if (have.size() < 4) return frame_head_bytes;
    u32 type = 0;
    Reader(have, framing.order).read(type);
    if (type == static_cast<u32>(FrameType::noop)) return frame_head_bytes;
    if (type != static_cast<u32>(FrameType::lnet)) return Status(-EPROTO);
    return frame_head_bytes + hdr_bytes(framing.version);
}

Result<Frame> decode_frame(Framing framing, std::span<const std::byte> bytes) {
    const Result<u32> size = frame_bytes(framing, bytes);
    if (!size.ok()) return size.status();
    if (bytes.size() < *size) return Status(-EPROTO);
    Frame frame;
    if (framing.version != 1) {
        Reader(bytes, framing.order).read(frame.head);
        frame.lnet = frame.head.type == static_cast<u32>(FrameType::lnet);
        bytes = bytes.subspan(frame_head_bytes);
        if (!frame.lnet) return frame;
    }
    const Result<Hdr> hdr = framing.version == 4 ? decode_hdr16(bytes.first(hdr16_bytes))
                                                 : decode_hdr4(bytes.first(hdr4_bytes));
    if (!hdr.ok()) return hdr.status();
    frame.hdr = *hdr;
    return frame;
}

u32 encode_frame(Framing framing, const Frame& frame, std::span<std::byte> to) {
    u32 used = 0;
    if (framing.version != 1) {
        Writer writer(to, framing.order);
        CHECK(writer.write(frame.head));
        used = frame_head_bytes;
        if (!frame.lnet) return used;
    }
    if (framing.version == 4)
        encode_hdr16(frame.hdr, to.subspan(used).first<hdr16_bytes>());
    else
        encode_hdr4(frame.hdr, to.subspan(used).first<hdr4_bytes>());
    return used + hdr_bytes(framing.version);
}

Result<ZcAck> zc_ack_of(u32 version, const Frame& frame) {
    const u64 c0 = frame.head.cookie0;
    const u64 c1 = frame.head.cookie1;
    ZcAck ack;
    if (version == 1 || c1 == 0) return ack;
    ack = {ZcAck::Kind::one, c1, c1};
    if (frame.lnet || version == 2) return ack;
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

u32 crc_start(Framing framing, const Frame& frame) {
    if (framing.version != 2) return crc_seed;
    Frame zeroed = frame;
    zeroed.head.checksum = 0;
    std::array<std::byte, frame_bytes_max> bytes{};
    const u32 size = encode_frame(framing, zeroed, bytes);
    return crc_update(crc_seed, std::span(bytes).first(size));
}

}  // namespace ulnet::sock
