// The table of protocol versions.
#include "lnds/sock/proto.h"

namespace ulnet::sock {
namespace {

Result<Hdr> decode_small(std::span<const std::byte> bytes) {
    return decode_hdr4(bytes.first(hdr4_bytes));
}

Result<Hdr> decode_large(std::span<const std::byte> bytes) {
    return decode_hdr16(bytes.first(hdr16_bytes));
}

void encode_small(const Hdr& hdr, std::span<std::byte> to) {
    encode_hdr4(hdr, to.first<hdr4_bytes>());
}

void encode_large(const Hdr& hdr, std::span<std::byte> to) {
    encode_hdr16(hdr, to.first<hdr16_bytes>());
}

// CONTROL and BULK_OUT share the frames by size.
Match match_size(ConnType type, u64 bytes, u64 min_bulk) {
    const bool bulk = bytes >= min_bulk;
    return bulk == (type == ConnType::bulk_out) ? Match::yes : Match::may;
}

// Versions 1 and 2: every connection carries everything.
Match match_old(ConnType type, u64 bytes, u64 min_bulk) {
    switch (type) {
    case ConnType::any:
        return Match::yes;
    case ConnType::bulk_in:
        return Match::may;
    case ConnType::control:
    case ConnType::bulk_out:
        return match_size(type, bytes, min_bulk);
    case ConnType::none:
        break;
    }
    return Match::no;
}

// Versions 3 and 4 keep BULK_IN for NOOPs and, as the kernel does, do not send on ANY.
Match match_new(ConnType type, u64 bytes, u64 min_bulk) {
    switch (type) {
    case ConnType::control:
    case ConnType::bulk_out:
        return match_size(type, bytes, min_bulk);
    case ConnType::any:
    case ConnType::bulk_in:
    case ConnType::none:
        break;
    }
    return Match::no;
}

Match noop_old(ConnType type, bool, u64 min_bulk) {
    return match_old(type, frame_head_bytes, min_bulk);
}

Match noop_new(ConnType type, bool apart, u64 min_bulk) {
    if (type == ConnType::bulk_in) return apart ? Match::yes : Match::may;
    return apart ? Match::no : match_new(type, frame_head_bytes, min_bulk);
}

constexpr Proto table[] = {
    {1, 0, hdr4_bytes, decode_small, encode_small, false, false, false, match_old, noop_old},
    {2, frame_head_bytes, hdr4_bytes, decode_small, encode_small, true, false, false, match_old,
     noop_old},
    {3, frame_head_bytes, hdr4_bytes, decode_small, encode_small, false, true, true, match_new,
     noop_new},
    {4, frame_head_bytes, hdr16_bytes, decode_large, encode_large, false, true, true, match_new,
     noop_new},
};
static_assert(std::size(table) == version_max);

}  // namespace

const Proto& proto_of(u32 version) {
    CHECK(version >= version_min);
    CHECK(version <= version_max);
    return table[version - 1];
}

}  // namespace ulnet::sock
