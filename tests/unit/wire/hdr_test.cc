// The LNet header: captured and constructed bytes in both directions, truncations, round trips.
#include "lnet/wire/hdr.h"

#include <bit>
#include <cerrno>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/golden/golden.h"
#include "tests/unit/wire/random_nid.h"

namespace ulnet {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::byte>;

constexpr std::size_t frame_bytes = 24;  // of socklnd, before each LNet header

Bytes encode(const Hdr& hdr, std::size_t size) {
    Bytes bytes(size, std::byte{0x5a});  // unused bytes must become zero
    if (size == hdr4_bytes) {
        encode_hdr4(hdr, std::span<std::byte, hdr4_bytes>(bytes.data(), size));
    } else {
        encode_hdr16(hdr, std::span<std::byte, hdr16_bytes>(bytes.data(), size));
    }
    return bytes;
}

Result<Hdr> decode(std::span<const std::byte> bytes, std::size_t size) {
    return size == hdr4_bytes ? decode_hdr4(bytes) : decode_hdr16(bytes);
}

void expect_all_truncations_refused(std::span<const std::byte> bytes) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        // A copy of exactly this size, so that a sanitizer sees any byte read beyond it.
        const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_EQ(decode(cut, bytes.size()).status().code(), -EPROTO) << size;
    }
}

std::string cookie_hex(const Opaque<u64>& cookie) {
    return golden::hex(std::as_bytes(std::span(&cookie.value, 1)));
}
std::string handle_hex(const WireHandle& handle) {
    return cookie_hex(handle.interface_cookie) + cookie_hex(handle.object_cookie);
}

// A vector's NID: a number (8 bytes) or the hex of 20 bytes.
std::string nid_text(const json& value) {
    if (value.is_number()) return to_text(Nid::from_nid4(golden::number(value)));
    std::array<u8, 20> raw{};
    const Bytes bytes = golden::unhex(value.get<std::string>());
    std::memcpy(raw.data(), bytes.data(), std::min(raw.size(), bytes.size()));
    return to_text(Nid::from_raw(raw));
}

// The decoded header under the names that constructed vectors use; NIDs as text.
json as_fields(const Hdr& hdr, bool swapped) {
    json fields = {{"dest_nid", to_text(hdr.dest_nid)},
                   {"src_nid", to_text(hdr.src_nid)},
                   {"dest_pid", hdr.dest_pid},
                   {"src_pid", hdr.src_pid},
                   {"type", static_cast<u32>(hdr.type)},
                   {"payload_length", hdr.payload_length},
                   {"match_bits", hdr.match_bits},
                   {"hdr_data", swapped ? __builtin_bswap64(hdr.hdr_data) : hdr.hdr_data},
                   {"ptl_index", hdr.portal},
                   {"offset", hdr.offset},
                   {"src_offset", hdr.offset},
                   {"sink_length", hdr.sink_length},
                   {"mlength", hdr.mlength},
                   {"incarnation", hdr.incarnation},
                   {"conn_type", hdr.conn_type}};
    for (const std::string wmd : {"ack_wmd", "return_wmd", "dst_wmd"}) {
        fields[wmd + "_interface_cookie"] = cookie_hex(hdr.handle.interface_cookie);
        fields[wmd + "_object_cookie"] = cookie_hex(hdr.handle.object_cookie);
    }
    return fields;
}

void check_header(const json& record) {
    const std::size_t size =
        golden::text(record, "struct").starts_with("lnet_hdr_nid16") ? hdr16_bytes : hdr4_bytes;
    const Bytes bytes = golden::unhex(golden::text(record, "bytes"));
    const Result<Hdr> hdr = decode(bytes, size);
    const json& fields = record["fields"];
    const bool unknown_type = fields.contains("type") && golden::number(fields["type"]) > 4;
    if (golden::text(record, "expect") == "incomplete" || unknown_type) {
        EXPECT_EQ(hdr.status().code(), -EPROTO);
        return;
    }
    // The other refusals are the core's: it needs the fields to refuse and to drop.
    ASSERT_TRUE(hdr.ok());
    const bool swapped =
        golden::text(record, "order") != (native_order == Order::little ? "le" : "be");
    const json decoded = as_fields(*hdr, swapped);
    for (const auto& [name, value] : fields.items()) {
        const json expected = name.ends_with("_nid") ? json(nid_text(value)) : value;
        EXPECT_EQ(decoded.value(name, json()), expected) << name;
    }
    EXPECT_EQ(golden::hex(encode(*hdr, size)), golden::hex(bytes));
    expect_all_truncations_refused(bytes);
}

TEST(Hdr, ConstructedVectors) {
    golden::Handlers handlers = {
        {"lnet_process_id_packed", golden::elsewhere},  // process_id_test.cc
        {"lnet_counters_common", golden::elsewhere},
        {"process_id_text", golden::elsewhere},
    };
    for (const char* type : {"ack", "put", "get", "reply", "hello"}) {
        handlers[std::string("lnet_hdr_nid4_") + type] = check_header;
        handlers[std::string("lnet_hdr_nid16_") + type] = check_header;
    }
    EXPECT_EQ(golden::for_each("constructed/lnet_header.jsonl", "struct", handlers), 86u);
}

// Fields by the names that captures use.
void check_captured(const json& record) {
    const Bytes frame = golden::unhex(golden::text(record, "bytes"));
    const std::size_t end = golden::number(record["hdr"]);
    ASSERT_TRUE(end == frame_bytes + hdr4_bytes || end == frame_bytes + hdr16_bytes);
    ASSERT_LE(end, frame.size());
    const std::size_t size = end - frame_bytes;
    const std::span<const std::byte> bytes = std::span(frame).subspan(frame_bytes, size);
    const Result<Hdr> hdr = decode(bytes, size);
    ASSERT_TRUE(hdr.ok());

    const std::string type = golden::text(record, "type");
    const std::map<std::string, MsgType> types = {{"ACK", MsgType::ack},
                                                  {"PUT", MsgType::put},
                                                  {"GET", MsgType::get},
                                                  {"REPLY", MsgType::reply}};
    ASSERT_TRUE(types.contains(type)) << type;
    EXPECT_EQ(hdr->type, types.at(type));
    EXPECT_EQ(to_text(hdr->src_nid), golden::text(record, "src_nid"));
    EXPECT_EQ(to_text(hdr->dest_nid), golden::text(record, "dst_nid"));
    EXPECT_EQ(hdr->src_pid, golden::number(record["src_pid"]));
    EXPECT_EQ(hdr->dest_pid, golden::number(record["dst_pid"]));
    EXPECT_EQ(hdr->payload_length, golden::number(record["length"]));
    if (record.contains("wmd")) {
        EXPECT_EQ(handle_hex(hdr->handle), golden::text(record, "wmd"));
    }
    if (record.contains("ack_req")) {
        EXPECT_EQ(!hdr->handle.none(), record["ack_req"].get<bool>());
    }
    if (type != "REPLY") {
        EXPECT_EQ(hdr->match_bits, golden::number(record["match_bits"]));
    }
    if (type == "PUT" || type == "GET") {
        EXPECT_EQ(hdr->portal, golden::number(record["portal"]));
        EXPECT_EQ(hdr->offset, golden::number(record["offset"]));
    }
    if (type == "PUT") {
        EXPECT_EQ(hdr->hdr_data, golden::number(record["hdr_data"]));
    }
    if (type == "GET") {
        EXPECT_EQ(hdr->sink_length, golden::number(record["sink_length"]));
    }
    if (type == "ACK") {
        EXPECT_EQ(hdr->mlength, golden::number(record["mlength"]));
    }
    EXPECT_EQ(golden::hex(encode(*hdr, size)), golden::hex(bytes));
    expect_all_truncations_refused(bytes);
}

TEST(Hdr, CapturedHeaders) {
    golden::Handlers handlers = {{"lnet", check_captured}};
    for (const char* kind : {"file", "step", "conn", "connreq", "hello", "noop", "close", "dropped",
                             "stream", "end"}) {
        handlers[kind] = golden::elsewhere;
    }
    const std::pair<const char*, std::size_t> files[] = {{"01-lnet-ping-discovery.jsonl", 16},
                                                         {"02-lst.jsonl", 216},
                                                         {"14-host-process-ping.jsonl", 9},
                                                         {"17-ipv6.jsonl", 18},
                                                         {"21-lst-details.jsonl", 294}};
    for (const auto& [file, headers] : files) {
        EXPECT_EQ(golden::for_each(file, "kind", handlers), headers) << file;
    }
}

Hdr random_hdr(Prng& prng, bool large) {
    Hdr hdr;
    hdr.dest_nid = large ? random_nid(prng) : random_nid4(prng);
    hdr.src_nid = large ? random_nid(prng) : random_nid4(prng);
    if (prng.below(8) == 0) hdr.dest_nid = Nid();
    const auto word = [&] { return static_cast<u32>(prng.next()); };
    hdr.dest_pid = word();
    hdr.src_pid = word();
    hdr.type = static_cast<MsgType>(prng.below(5));
    hdr.payload_length = word();
    const bool put = hdr.type == MsgType::put;
    const bool get = hdr.type == MsgType::get;
    if (hdr.type == MsgType::hello) {
        hdr.incarnation = prng.next();
        hdr.conn_type = word();
        return hdr;
    }
    hdr.handle = {{prng.next()}, {prng.next()}};
    if (hdr.type != MsgType::reply) hdr.match_bits = prng.next();
    if (put) hdr.hdr_data = prng.next();
    if (put || get) hdr.portal = word();
    if (put || get) hdr.offset = word();
    if (get) hdr.sink_length = word();
    if (hdr.type == MsgType::ack) hdr.mlength = word();
    return hdr;
}

TEST(Hdr, RandomRoundTrips) {
    Prng prng(4);
    for (int i = 0; i < 20000; ++i) {
        const bool large = prng.below(2) == 0;
        const std::size_t size = large ? hdr16_bytes : hdr4_bytes;
        const Hdr hdr = random_hdr(prng, large);
        const Result<Hdr> again = decode(encode(hdr, size), size);
        ASSERT_TRUE(again.ok());
        ASSERT_EQ(*again, hdr);
    }
}

TEST(Hdr, BytesBehindTheHeaderDoNotCount) {
    Prng prng(5);
    const Hdr hdr = random_hdr(prng, false);
    Bytes bytes = encode(hdr, hdr4_bytes);
    bytes.resize(bytes.size() + 100, std::byte{0xff});
    EXPECT_EQ(*decode_hdr4(bytes), hdr);
}

TEST(Hdr, NidLongerThanOursIsRefused) {
    Prng prng(6);
    Hdr hdr = random_hdr(prng, true);
    hdr.src_nid = *parse_nid("2001:db8::1@tcp");
    Bytes bytes = encode(hdr, hdr16_bytes);
    bytes[20] = std::byte{13};
    EXPECT_EQ(decode_hdr16(bytes).status().code(), -EPROTO);
    bytes[21] = std::byte{0xff};  // ANY, whatever the rest says
    ASSERT_TRUE(decode_hdr16(bytes).ok());
    EXPECT_TRUE(decode_hdr16(bytes)->src_nid.any());
}

TEST(Hdr, NoAckWanted) {
    EXPECT_TRUE(WireHandle().none());
    EXPECT_FALSE((WireHandle{{1}, {~u64{0}}}).none());
    EXPECT_FALSE((WireHandle{{~u64{0}}, {1}}).none());
}

}  // namespace
}  // namespace ulnet
