// The ping buffer: captured and constructed bytes in both orders, truncations, limits, round trips.
#include "lnet/wire/ping.h"

#include <cerrno>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/golden/golden.h"
#include "tests/unit/wire/random_nid.h"

namespace ulnet {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::byte>;

Order order_of(const json& record) {
    return golden::text(record, "order") == "be" ? Order::big : Order::little;
}

Bytes cut(std::span<const std::byte> bytes, std::size_t size) {
    return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

// Every shorter buffer is refused (no entry 0) or truncated with a part of the entries.
void check_truncations(std::span<const std::byte> bytes, const PingInfo& whole) {
    for (std::size_t size = 0; size < whole.bytes; ++size) {
        const Result<PingInfo> info = decode_ping(cut(bytes, size));
        if (size < 32) {
            ASSERT_EQ(info.status().code(), -EPROTO) << size;
            continue;
        }
        ASSERT_TRUE(info.ok()) << size;
        ASSERT_TRUE(info->truncated);
        ASSERT_EQ(info->bytes, whole.bytes);
        ASSERT_EQ(info->sequence, whole.sequence);
        ASSERT_LE(info->nis.size(), whole.nis.size());
        ASSERT_TRUE(std::equal(info->nis.begin(), info->nis.end(), whole.nis.begin())) << size;
    }
}

// The entries that a vector lists, without 0@lo.
std::vector<PingInfo::Entry> entries_of(const json& fields) {
    std::vector<PingInfo::Entry> entries;
    for (const json& entry : fields["entries"]) {
        entries.push_back({Nid::from_nid4(golden::number(entry["nid"])),
                           static_cast<u32>(golden::number(entry["status"]))});
    }
    entries.erase(entries.begin());
    for (const json& entry : fields["large"]) {
        std::array<u8, 20> raw{};
        const Bytes bytes = golden::unhex(golden::text(entry, "nid"));
        std::memcpy(raw.data(), bytes.data(), std::min(bytes.size(), raw.size()));
        entries.push_back({Nid::from_raw(raw), static_cast<u32>(golden::number(entry["status"]))});
    }
    return entries;
}

void check_refused(const json& record, const Bytes& bytes) {
    const std::string expect = golden::text(record, "expect");
    const json& fields = record["fields"];
    if (expect == "truncated" && fields.contains("full_size")) {
        const Result<PingInfo> info = decode_ping(bytes);
        ASSERT_TRUE(info.ok());
        EXPECT_TRUE(info->truncated);
        EXPECT_EQ(info->bytes, golden::number(fields["full_size"]));
        return;
    }
    // The vectors were made for the limit of 2.17.0.
    const int code = expect == "ERANGE" ? -ERANGE : -EPROTO;
    EXPECT_EQ(decode_ping(bytes, 200).status().code(), code);
}

// What of the bytes our encoder makes again: all up to the size, except for what the decoder drops.
bool reproducible(const json& record) {
    const std::string name = golden::text(record, "name");
    for (const char* dropped :
         {"large_size0_nid", "metadata_", "feature_bit7", "feature_all", "feature_unknown_bits",
          "msg_size_low_bits", "large_too_long_skipped"}) {
        if (name.starts_with(dropped)) return false;
    }
    return true;
}

void check_ping(const json& record) {
    const Bytes bytes = golden::unhex(golden::text(record, "bytes"));
    if (record.value("error", false)) return check_refused(record, bytes);
    const json& fields = record["fields"];
    const Result<PingInfo> info = decode_ping(bytes);
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->features, golden::number(fields["features"]));
    EXPECT_EQ(info->pid, golden::number(fields["pid"]));
    EXPECT_EQ(info->sequence, golden::number(fields["sequence"]));
    EXPECT_EQ(info->bytes, golden::number(fields["size"]));
    EXPECT_FALSE(info->truncated);
    EXPECT_EQ(info->nis, entries_of(fields));
    check_truncations(bytes, *info);

    const Bytes encoded = encode_ping(*info, order_of(record));
    if (reproducible(record)) {
        EXPECT_EQ(golden::hex(encoded), golden::hex(cut(bytes, info->bytes)));
    }
    const Result<PingInfo> again = decode_ping(encoded);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->sequence, info->sequence);
    EXPECT_EQ(again->nis.size(), info->nis.size());
    EXPECT_EQ(again->features & ping_metadata, 0u);
}

TEST(Ping, ConstructedVectors) {
    EXPECT_EQ(
        golden::for_each("constructed/ping_info.jsonl", "struct", {{"lnet_ping_info", check_ping}}),
        118u);
}

void check_captured(const json& record, std::size_t& checked) {
    if (!record.contains("ping_seq")) return;
    ++checked;
    const Bytes frame = golden::unhex(golden::text(record, "bytes"));
    const Bytes bytes(frame.begin() + static_cast<std::ptrdiff_t>(golden::number(record["hdr"])),
                      frame.end());
    const Result<PingInfo> info = decode_ping(bytes);
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->features, golden::number(record["ping_features"]));
    EXPECT_EQ(info->pid, golden::number(record["ping_pid"]));
    EXPECT_EQ(info->sequence, golden::number(record["ping_seq"]));
    std::vector<std::string> nids = {"0@lo"};
    for (const PingInfo::Entry& entry : info->nis) {
        nids.push_back(to_text(entry.nid));
        EXPECT_EQ(entry.status, ni_status_up);
    }
    EXPECT_EQ(nids, record["ping_nids"].get<std::vector<std::string>>());
    EXPECT_EQ(to_text(info->primary()), nids.at(1));
    ASSERT_LE(info->bytes, bytes.size());
    EXPECT_EQ(golden::hex(encode_ping(*info, Order::little)), golden::hex(cut(bytes, info->bytes)));
    check_truncations(bytes, *info);
}

TEST(Ping, CapturedBuffers) {
    std::size_t checked = 0;
    for (const char* file :
         {"01-lnet-ping-discovery.jsonl", "02-lst.jsonl", "14-host-process-ping.jsonl",
          "17-ipv6.jsonl", "21-lst-details.jsonl"}) {
        for (const json& record : golden::load(file)) {
            SCOPED_TRACE(std::string(file) + " n=" + record.value("n", json()).dump());
            check_captured(record, checked);
        }
    }
    EXPECT_EQ(checked, 8u + 1u + 9u + 9u);
}

TEST(Ping, Primary) {
    const Nid four = *parse_nid("10.0.0.1@tcp");
    const Nid six = *parse_nid("2001:db8::1@tcp");
    PingInfo info;
    EXPECT_TRUE(info.primary().any());
    info.nis = {{four, ni_status_up}, {six, ni_status_up}};
    EXPECT_EQ(info.primary(), four);
    info.features = ping_primary_large;
    EXPECT_EQ(info.primary(), six);
    info.nis.pop_back();
    EXPECT_TRUE(info.primary().any());
}

PingInfo random_info(Prng& prng) {
    PingInfo info;
    info.features = ping_ni_status | (static_cast<u32>(prng.next()) & 0xffffff5f);
    info.pid = static_cast<u32>(prng.next());
    info.sequence = static_cast<u32>(prng.next());
    for (u64 left = prng.below(20); left > 0; --left) {
        info.nis.push_back({random_nid4(prng), static_cast<u32>(prng.next())});
    }
    info.bytes = static_cast<u32>(32 + 16 * info.nis.size());
    for (u64 left = prng.below(3) * prng.below(10); left > 0; --left) {
        info.nis.push_back({random_nid16(prng), static_cast<u32>(prng.next())});
        info.bytes += 24;
        info.features |= ping_large_addr;
    }
    return info;
}

TEST(Ping, RandomRoundTrips) {
    Prng prng(12);
    for (int i = 0; i < 3000; ++i) {
        const PingInfo info = random_info(prng);
        const Order order = prng.below(2) == 0 ? Order::little : Order::big;
        Bytes bytes = encode_ping(info, order);
        ASSERT_EQ(bytes.size(), info.bytes);
        const Result<PingInfo> again = decode_ping(bytes);
        ASSERT_TRUE(again.ok());
        ASSERT_EQ(*again, info);
        bytes.resize(bytes.size() + prng.below(300));  // zeros behind it do not count
        ASSERT_EQ(*decode_ping(bytes), info);
        if (i % 100 == 0) check_truncations(bytes, info);
    }
}

TEST(Ping, FeaturesFollowTheEntries) {
    PingInfo info;
    info.features = 0xffffffff;
    const u32 features = decode_ping(encode_ping(info))->features;
    EXPECT_EQ(features, 0xffffffff & ~u32{ping_large_addr | ping_metadata});
}

TEST(Ping, NumberOfEntries) {
    PingInfo info;
    info.features = ping_ni_status;
    info.nis.resize(199, {nid_lo(), ni_status_up});
    EXPECT_TRUE(decode_ping(encode_ping(info), 200).ok());
    info.nis.push_back({*parse_nid("10.0.0.1@tcp"), ni_status_up});
    EXPECT_EQ(decode_ping(encode_ping(info), 200).status().code(), -ERANGE);
    // Large entries count too.
    info.nis.back().nid = *parse_nid("2001:db8::1@tcp");
    EXPECT_EQ(decode_ping(encode_ping(info), 200).status().code(), -ERANGE);
    EXPECT_TRUE(decode_ping(encode_ping(info)).ok());
    // More entries announced than came: truncated, up to the limit.
    Bytes bytes = encode_ping(PingInfo{.features = ping_ni_status}, Order::little);
    bytes[13] = std::byte{0x10};
    bytes[12] = std::byte{0x00};
    ASSERT_TRUE(decode_ping(bytes).ok());
    EXPECT_TRUE(decode_ping(bytes)->truncated);
    bytes[12] = std::byte{0x01};
    EXPECT_EQ(decode_ping(bytes).status().code(), -ERANGE);
}

// Sizes that contradict each other are refused, not guessed at.
TEST(Ping, SizesOfLargeEntries) {
    PingInfo info;
    info.features = ping_ni_status;
    info.nis = {{*parse_nid("10.0.0.1@tcp"), ni_status_up},
                {*parse_nid("2001:db8::1@tcp"), ni_status_up}};
    Bytes good = encode_ping(info, Order::little);
    ASSERT_EQ(good.size(), 72u);
    for (std::size_t size = 0; size < 72; size += 4) {
        Bytes bytes = good;
        bytes[28] = static_cast<std::byte>(size);  // msg_size
        const Result<PingInfo> decoded = decode_ping(bytes);
        if (size == 48) {
            EXPECT_EQ(decoded->nis.size(), 1u);  // no large entry at all
        } else {
            EXPECT_EQ(decoded.status().code(), -EPROTO) << size;
        }
    }
    Bytes bytes = good;
    bytes[52] = std::byte{16};  // a NID of 24 bytes, which the buffer does not hold
    EXPECT_EQ(decode_ping(bytes).status().code(), -EPROTO);
}

}  // namespace
}  // namespace ulnet
