// Codec of the ping buffer; see ping.h. Runs on the control strand and discovery, not per message.
#include "lnet/wire/ping.h"

#include <algorithm>
#include <cerrno>

#include "lnet/wire/fields.h"

namespace ulnet {
namespace {

using namespace ping_fields;

constexpr Status malformed{-EPROTO};

constexpr u32 swapped(u32 value) {
    return value << 24 | (value & 0xff00) << 8 | (value >> 8 & 0xff00) | value >> 24;
}

constexpr u8 nid_size_max = Nid::bytes_max - 8;
// A large NID travels with its real length, filled up to a multiple of four.
constexpr std::size_t nid_bytes(u8 nid_size) {
    return std::size_t{nid_size} + 8;
}
constexpr std::size_t padded(std::size_t bytes) {
    return (bytes + 3) & ~std::size_t{3};
}

constexpr u32 entries4_end(u32 nnis) {
    return front_bytes + entry_bytes * nnis;
}

// Magic tells the order of all integers; false when it is none of the two.
bool read_front(Reader& reader, Front& front) {
    reader.read(front);
    if (front.magic == ping_magic) return reader.ok();
    if (front.magic != swapped(ping_magic)) return false;
    reader.set_sender(other(reader.sender()));
    front.features = swapped(front.features);
    front.pid = swapped(front.pid);
    front.nnis = swapped(front.nnis);
    return reader.ok();
}

// The nid4 entries behind 0@lo, as far as they are there.
void read_entries4(Reader& reader, u32 nnis, PingInfo& info) {
    for (u32 i = 1; i < nnis && reader.remaining() >= entry_bytes; ++i) {
        Entry4 entry;
        reader.read(entry);
        info.nis.push_back({Nid::from_nid4(entry.nid), entry.status});
    }
}

// The large entries; `reader` ends where they do. EPROTO when the last one is cut although the
// buffer is complete.
Status read_large(Reader reader, PingInfo& info) {
    while (reader.remaining() > 0) {
        u32 status = 0;
        std::array<u8, Nid::bytes_max> raw{};
        reader.read(status);
        reader.read(raw[0]);
        const auto rest = reader.bytes(padded(nid_bytes(raw[0])) - 1);
        if (!reader.ok()) return info.truncated ? ok_status : malformed;
        if (raw[0] > nid_size_max) continue;
        std::memcpy(raw.data() + 1, rest.data(), nid_bytes(raw[0]) - 1);
        const Nid nid = Nid::from_raw(raw);
        info.nis.push_back({nid.any() ? Nid() : nid, status});
    }
    return ok_status;
}

}  // namespace

Nid PingInfo::primary() const {
    const bool large = (features & ping_primary_large) != 0;
    const auto found = std::ranges::find_if(
        nis, [large](const Entry& entry) { return entry.nid.is_nid4() != large; });
    return found == nis.end() ? Nid() : found->nid;
}

Result<PingInfo> decode_ping(std::span<const std::byte> bytes, u32 nis_max) {
    Reader reader(bytes);
    Front front;
    Entry4 lo;
    if (!read_front(reader, front)) return malformed;
    if ((front.features & ping_ni_status) == 0) return malformed;
    if (front.nnis < 1 || front.nnis > nis_max) return Status(-ERANGE);
    if (!reader.read(lo) || lo.nid != nid_lo().nid4()) return malformed;

    PingInfo info;
    info.features = front.features;
    info.pid = front.pid;
    info.sequence = lo.status;
    info.bytes = entries4_end(front.nnis);
    if ((front.features & ping_large_addr) != 0) {
        const u32 entries4 = info.bytes;
        info.bytes = lo.msg_size & ~u32{3};
        if (info.bytes < entries4) return malformed;
    }
    info.truncated = bytes.size() < info.bytes;
    read_entries4(reader, front.nnis, info);
    const std::size_t begin = entries4_end(front.nnis);
    const std::size_t end = std::min<std::size_t>(bytes.size(), info.bytes);
    if (end > begin) {
        const Status status =
            read_large(Reader(bytes.subspan(begin, end - begin), reader.sender()), info);
        if (!status.ok()) return status;
    }
    if (info.nis.size() >= nis_max) return Status(-ERANGE);
    return info;
}

std::vector<std::byte> encode_ping(const PingInfo& info, Order order) {
    CHECK(info.nis.size() < ping_nis_max);
    const auto is_large = [](const PingInfo::Entry& entry) { return !entry.nid.is_nid4(); };
    u32 nnis = 1;
    std::size_t large_bytes = 0;
    for (const PingInfo::Entry& entry : info.nis) {
        if (is_large(entry)) {
            large_bytes += 4 + padded(nid_bytes(entry.nid.raw()[0]));
        } else {
            ++nnis;
        }
    }
    const std::size_t total = entries4_end(nnis) + large_bytes;
    u32 features = info.features & ~u32{ping_large_addr | ping_metadata};
    if (large_bytes > 0) features |= ping_large_addr;

    std::vector<std::byte> bytes(total);
    Writer writer(bytes, order);
    writer.write(Front{ping_magic, features, info.pid, nnis});
    writer.write(
        Entry4{nid_lo().nid4(), info.sequence, large_bytes > 0 ? static_cast<u32>(total) : 0});
    for (const PingInfo::Entry& entry : info.nis) {
        if (!is_large(entry)) writer.write(Entry4{entry.nid.nid4(), entry.status, 0});
    }
    for (const PingInfo::Entry& entry : info.nis) {
        if (!is_large(entry)) continue;
        CHECK(entry.nid.valid());
        const std::size_t used = nid_bytes(entry.nid.raw()[0]);
        writer.write(entry.status);
        for (std::size_t i = 0; i < used; ++i) writer.write(entry.nid.raw()[i]);
        writer.zeros(padded(used) - used);
    }
    CHECK(writer.ok() && writer.size() == total);
    return bytes;
}

}  // namespace ulnet
