// HELLO and frames: captured and constructed bytes in both directions, every truncation, every
// split, what is refused; the small tables beside them.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cpt/base/prng.h"
#include "lnds/sock/proto.h"
#include "lnds/sock/wire.h"
#include "tests/golden/golden.h"

namespace ulnet::sock {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::byte>;

Order order_of(const json& record) {
    return record["order"] == "be" ? Order::big : Order::little;
}

// A copy of exactly this size, so that a sanitizer sees any byte read beyond it.
Bytes cut(std::span<const std::byte> bytes, std::size_t size) {
    return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

Nid nid_of(const json& value) {
    if (value.is_number()) return Nid::from_nid4(golden::number(value));
    std::array<u8, 20> raw{};
    const Bytes bytes = golden::unhex(value.get<std::string>());
    std::copy_n(reinterpret_cast<const u8*>(bytes.data()), std::min(bytes.size(), raw.size()),
                raw.begin());
    return Nid::from_raw(raw);
}

// --- HELLO

Hello expected_hello(const json& record) {
    const json& fields = record["fields"];
    Hello hello;
    const bool v1 = record["struct"] == "ksock_hello_v1";
    hello.version = v1 ? 1 : fields["version"].get<u32>();
    hello.order = order_of(record);
    hello.src_nid = nid_of(fields["src_nid"]);
    hello.src_pid = fields["src_pid"];
    if (v1) {
        hello.dst_pid = fields["dest_pid"];
        hello.src_incarnation = fields["incarnation"];
        hello.type = fields["conn_type"];
    } else {
        hello.dst_nid = nid_of(fields["dst_nid"]);
        hello.dst_pid = fields["dst_pid"];
        hello.src_incarnation = fields["src_incarnation"];
        hello.dst_incarnation = fields["dst_incarnation"];
        hello.type = fields["ctype"];
    }
    if (fields.contains("ips")) {
        hello.nips = static_cast<u32>(fields["ips"].size());
        for (u32 i = 0; i < hello.nips; ++i) hello.ips[i] = fields["ips"][i];
    }
    return hello;
}

void expect_reencoded(const Hello& hello, const Bytes& bytes) {
    std::array<std::byte, hello_bytes_max> again{};
    const std::size_t size = encode_hello(hello, again);
    EXPECT_EQ(golden::hex(std::span(again).first(size)), golden::hex(bytes));
}

// Every shorter form is incomplete and undecodable, and what it asks for grows to the whole.
void expect_truncations_refused(const Bytes& bytes) {
    std::size_t before = 0;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const Bytes part = cut(bytes, size);
        const Result<std::size_t> need = hello_bytes(part);
        ASSERT_TRUE(need.ok()) << size;
        EXPECT_GT(*need, size);
        EXPECT_GE(*need, before);
        EXPECT_LE(*need, bytes.size());
        EXPECT_EQ(decode_hello(part).status(), Status(-EPROTO)) << size;
        before = *need;
    }
    EXPECT_EQ(*hello_bytes(bytes), bytes.size());
}

void check_refused_hello(const json& record, const Bytes& bytes) {
    const std::string expect = golden::text(record, "expect");
    const Result<std::size_t> need = hello_bytes(bytes);
    if (expect == "incomplete") {
        ASSERT_TRUE(need.ok());
        EXPECT_GT(*need, bytes.size());
        EXPECT_FALSE(decode_hello(bytes).ok());
    } else if (expect == "EPROTO_passive") {
        const Result<Hello> hello = decode_hello(bytes);
        ASSERT_TRUE(hello.ok());
        EXPECT_FALSE(invert(hello->type).has_value());
    } else if (expect == "answer_own_version_type_none") {
        EXPECT_EQ(need.status(), Status(-EPROTONOSUPPORT));
        EXPECT_EQ(decode_hello(bytes).status(), Status(-EPROTONOSUPPORT));
    } else {
        EXPECT_EQ(expect, "EPROTO");
        EXPECT_EQ(decode_hello(bytes).status(), Status(-EPROTO));
    }
}

void check_hello(const json& record) {
    const Bytes bytes = golden::unhex(record["bytes"].get<std::string>());
    if (record.value("error", false)) {
        check_refused_hello(record, bytes);
        return;
    }
    const Result<Hello> hello = decode_hello(bytes);
    ASSERT_TRUE(hello.ok());
    EXPECT_EQ(*hello, expected_hello(record));
    expect_reencoded(*hello, bytes);
    expect_truncations_refused(bytes);
    const bool none = hello->type == static_cast<u32>(ConnType::none);
    EXPECT_NE(invert(hello->type).has_value(), none);
    if (golden::text(record, "expect").starts_with("refused")) {
        EXPECT_TRUE(none);
    }
}

TEST(Hello, ConstructedVectors) {
    const auto count = golden::for_each(
        "constructed/hello.jsonl", "struct",
        {{"ksock_hello_v1", check_hello},
         {"ksock_hello_v2v3", check_hello},
         {"ksock_hello_v4", check_hello},
         {"conn_type_inversion",
          [](const json& record) {
              const auto type = invert(record["fields"]["type"].get<u32>());
              EXPECT_EQ(type.has_value(), !record.value("error", false));
              if (type) {
                  EXPECT_EQ(static_cast<u32>(*type), record["fields"]["inverted"].get<u32>());
              }
          }},
         {"conns_per_peer", [](const json& record) {
              EXPECT_EQ(conns_per_peer_of(record["fields"]["speed_mbit"].get<u32>()),
                        record["fields"]["conns_per_peer"].get<u32>());
          }}});
    EXPECT_EQ(count, 159u);
}

TEST(Hello, Captures) {
    for (const char* file :
         {"01-lnet-ping-discovery.jsonl", "02-lst.jsonl", "14-host-process-ping.jsonl",
          "17-ipv6.jsonl", "21-lst-details.jsonl"}) {
        for (const json& record : golden::load(file)) {
            if (record["kind"] != "hello") continue;
            SCOPED_TRACE(std::string(file) + " record " + record["n"].dump());
            const Bytes bytes = golden::unhex(record["bytes"].get<std::string>());
            const Result<Hello> hello = decode_hello(bytes);
            ASSERT_TRUE(hello.ok());
            EXPECT_EQ(hello->version, record["version"].get<u32>());
            EXPECT_EQ(to_text(hello->src_nid), record["src_nid"]);
            EXPECT_EQ(to_text(hello->dst_nid), record["dst_nid"]);
            EXPECT_EQ(hello->src_pid, record["src_pid"].get<u32>());
            EXPECT_EQ(hello->dst_pid, record["dst_pid"].get<u32>());
            EXPECT_EQ(hello->src_incarnation, golden::number(record["src_incarnation"]));
            EXPECT_EQ(static_cast<i32>(hello->type), record["ctype"].get<i32>());
            expect_reencoded(*hello, bytes);
            expect_truncations_refused(bytes);
        }
    }
}

TEST(Hello, RandomRoundTrips) {
    Prng prng(7);
    for (int i = 0; i < 2000; ++i) {
        Hello hello;
        hello.version = static_cast<u32>(1 + prng.below(4));
        hello.order = hello.version > 1 && prng.below(2) ? Order::big : Order::little;
        hello.src_nid = Nid::ipv4(Net::of(NetType::tcp, static_cast<u16>(prng.below(9))),
                                  static_cast<u32>(prng.next()));
        if (hello.version > 1)
            hello.dst_nid = Nid::ipv4(Net::of(NetType::tcp, 0), static_cast<u32>(prng.next()));
        if (hello.version > 1) hello.dst_incarnation = prng.next();
        hello.src_pid = static_cast<u32>(prng.next());
        hello.dst_pid = static_cast<u32>(prng.next());
        hello.src_incarnation = prng.next();
        hello.type = static_cast<u32>(prng.next());
        hello.nips = static_cast<u32>(prng.below(hello_ips_max + 1));
        for (u32 ip = 0; ip < hello.nips; ++ip) hello.ips[ip] = static_cast<u32>(prng.next() | 1);
        std::array<std::byte, hello_bytes_max> bytes{};
        const std::size_t size = encode_hello(hello, bytes);
        const Result<Hello> again = decode_hello(std::span(bytes).first(size));
        ASSERT_TRUE(again.ok());
        EXPECT_EQ(*again, hello);
    }
}

// --- frames

std::string cookie_hex(const Opaque<u64>& cookie) {
    return golden::hex(std::as_bytes(std::span(&cookie.value, 1)));
}

void check_lnet_fields(const Hdr& hdr, const json& lnet, bool swapped) {
    EXPECT_EQ(hdr.dest_nid, nid_of(lnet["dest_nid"]));
    EXPECT_EQ(hdr.src_nid, nid_of(lnet["src_nid"]));
    EXPECT_EQ(hdr.dest_pid, lnet["dest_pid"].get<u32>());
    EXPECT_EQ(hdr.src_pid, lnet["src_pid"].get<u32>());
    EXPECT_EQ(static_cast<u32>(hdr.type), lnet["type"].get<u32>());
    EXPECT_EQ(hdr.payload_length, lnet["payload_length"].get<u32>());
    const auto check = [&](const char* key, u64 value) {
        if (lnet.contains(key)) {
            EXPECT_EQ(value, lnet[key].get<u64>()) << key;
        }
    };
    check("match_bits", hdr.match_bits);
    check("hdr_data", swapped ? __builtin_bswap64(hdr.hdr_data) : hdr.hdr_data);
    check("ptl_index", hdr.portal);
    check("offset", hdr.offset);
    check("src_offset", hdr.offset);
    check("sink_length", hdr.sink_length);
    check("mlength", hdr.mlength);
    for (const char* prefix : {"ack_wmd", "return_wmd", "dst_wmd"}) {
        const std::string key = prefix;
        if (!lnet.contains(key + "_interface_cookie")) continue;
        EXPECT_EQ(cookie_hex(hdr.handle.interface_cookie), lnet[key + "_interface_cookie"]);
        EXPECT_EQ(cookie_hex(hdr.handle.object_cookie), lnet[key + "_object_cookie"]);
    }
}

// The numbers that an acknowledgement names; for tests, which know that it names few.
std::vector<u64> numbers(const ZcAck& ack) {
    switch (ack.kind) {
    case ZcAck::Kind::none:
    case ZcAck::Kind::keepalive:
        return {};
    case ZcAck::Kind::one:
        return {ack.first};
    case ZcAck::Kind::two:
        return {ack.first, ack.last};
    case ZcAck::Kind::range:
        break;
    }
    std::vector<u64> all;
    for (u64 number = ack.first;; ++number) {
        all.push_back(number);
        if (number == ack.last) return all;
    }
}

bool all_outstanding(const ZcAck& ack, const json& record) {
    if (!record.contains("outstanding")) return true;
    const auto list = record["outstanding"].get<std::vector<u64>>();
    const auto named = numbers(ack);
    return std::all_of(named.begin(), named.end(), [&](u64 number) {
        return std::find(list.begin(), list.end(), number) != list.end();
    });
}

// As a receiver does it: header, acknowledgements, checksum. Returns why it refuses, or "".
std::string receive(Framing framing, std::span<const std::byte> bytes, const json& record,
                    Frame& frame, u32& header) {
    const Result<u32> size = frame_bytes(framing, bytes);
    if (!size.ok()) return "EPROTO";
    header = *size;
    const Result<Frame> decoded = decode_frame(framing, bytes.first(header));
    if (!decoded.ok()) return "EPROTO";
    frame = *decoded;
    const Result<ZcAck> ack = zc_ack_of(framing.version, frame);
    if (!ack.ok() || !all_outstanding(*ack, record)) return "EPROTO";
    const auto payload = bytes.subspan(header);
    if (frame.head.checksum != 0 && (framing.version == 2 || !payload.empty()) &&
        crc_update(crc_start(framing, bytes.first(header)), payload) != frame.head.checksum)
        return "checksum";
    return "";
}

void expect_every_split_same(Framing framing, const Bytes& bytes, u32 header) {
    for (u32 size = 0; size < header; ++size) {
        const Bytes part = cut(bytes, size);
        const Result<u32> need = frame_bytes(framing, part);
        ASSERT_TRUE(need.ok()) << size;
        EXPECT_GT(*need, size) << "complete too early";
        EXPECT_LE(*need, header);
        EXPECT_FALSE(decode_frame(framing, part).ok()) << size;
    }
}

void check_frame(const json& record) {
    const json& fields = record["fields"];
    const Bytes bytes = golden::unhex(record["bytes"].get<std::string>());
    const Framing framing{fields["version"].get<u32>(), order_of(record)};
    Frame frame;
    u32 header = 0;
    const std::string refused = receive(framing, bytes, record, frame, header);
    if (record.value("error", false)) {
        EXPECT_EQ(refused, golden::text(record, "expect"));
        return;
    }
    ASSERT_EQ(refused, "");
    if (framing.version > 1) {
        EXPECT_EQ(frame.head.type, fields["type"].get<u32>());
        EXPECT_EQ(frame.head.checksum, fields["csum"].get<u32>());
        EXPECT_EQ(frame.head.cookie0, fields["zc_cookie0"].get<u64>());
        EXPECT_EQ(frame.head.cookie1, fields["zc_cookie1"].get<u64>());
    }
    EXPECT_EQ(frame.lnet, fields.contains("lnet"));
    if (frame.lnet)
        check_lnet_fields(frame.hdr, fields["lnet"],
                          framing.version > 1 && framing.order != native_order);
    const ZcAck ack = *zc_ack_of(framing.version, frame);
    if (record.contains("zc_acks"))
        EXPECT_EQ(numbers(ack), record["zc_acks"].get<std::vector<u64>>());
    else
        EXPECT_EQ(ack.kind, ZcAck::Kind::none);
    EXPECT_EQ(ack.kind == ZcAck::Kind::keepalive, record.value("keepalive", false));
    if (record.contains("zc_request")) {
        EXPECT_EQ(frame.head.cookie0, record["zc_request"].get<u64>());
    }
    if (fields.contains("payload")) {
        EXPECT_EQ(golden::hex(std::span(bytes).subspan(header)), fields["payload"]);
    }

    std::array<std::byte, frame_bytes_max> again{};
    const u32 size = encode_frame(framing, frame, again);
    ASSERT_EQ(size, header);
    EXPECT_EQ(golden::hex(std::span(again).first(size)),
              golden::hex(std::span(bytes).first(header)));
    expect_every_split_same(framing, bytes, header);
}

void check_stream(const json& record) {
    const Bytes bytes = golden::unhex(record["bytes"].get<std::string>());
    const Framing framing{record["fields"]["version"].get<u32>(), order_of(record)};
    std::vector<std::string> names;
    std::string payload;
    for (std::size_t at = 0; at < bytes.size();) {
        const auto rest = std::span(bytes).subspan(at);
        const Result<Frame> frame = decode_frame(framing, rest);
        ASSERT_TRUE(frame.ok());
        at += *frame_bytes(framing, rest);
        if (frame->lnet) {
            names.push_back("put_" + std::to_string(frame->hdr.payload_length));
            payload += golden::hex(std::span(bytes).subspan(at, frame->hdr.payload_length));
            at += frame->hdr.payload_length;
            continue;
        }
        const ZcAck ack = *zc_ack_of(framing.version, *frame);
        names.push_back(ack.kind == ZcAck::Kind::keepalive
                            ? "keepalive"
                            : "noop_ack_" + std::to_string(ack.first));
    }
    EXPECT_EQ(names, record["fields"]["frames"].get<std::vector<std::string>>());
    EXPECT_EQ(payload, record["fields"]["payload"]);
}

TEST(Frame, ConstructedVectors) {
    const auto count = golden::for_each("constructed/socklnd_frame.jsonl", "struct",
                                        {{"ksock_frame_v1", check_frame},
                                         {"ksock_frame_v2", check_frame},
                                         {"ksock_frame_v3", check_frame},
                                         {"ksock_frame_v4", check_frame},
                                         {"ksock_stream_v3", check_stream},
                                         {"ksock_stream_v4", check_stream}});
    EXPECT_EQ(count, 175u);
}

TEST(Frame, Captures) {
    std::size_t frames = 0;
    for (const char* file :
         {"01-lnet-ping-discovery.jsonl", "02-lst.jsonl", "14-host-process-ping.jsonl",
          "17-ipv6.jsonl", "21-lst-details.jsonl"}) {
        for (const json& record : golden::load(file)) {
            const std::string kind = record["kind"];
            if (kind != "lnet" && kind != "noop") continue;
            SCOPED_TRACE(std::string(file) + " record " + record["n"].dump());
            const Bytes bytes = golden::unhex(record["bytes"].get<std::string>());
            const u32 header = kind == "noop" ? frame_head_bytes : record["hdr"].get<u32>();
            const Framing framing{header == frame_bytes_max ? 4u : 3u, Order::little};
            const Result<u32> size = frame_bytes(framing, bytes);
            ASSERT_TRUE(size.ok());
            ASSERT_EQ(*size, header);
            const Result<Frame> frame = decode_frame(framing, bytes);
            ASSERT_TRUE(frame.ok());
            EXPECT_EQ(frame->lnet, kind == "lnet");
            EXPECT_TRUE(zc_ack_of(framing.version, *frame).ok());
            if (frame->lnet) {
                EXPECT_EQ(frame->hdr.payload_length, record["length"].get<u32>());
            }
            std::array<std::byte, frame_bytes_max> again{};
            EXPECT_EQ(encode_frame(framing, *frame, again), header);
            EXPECT_EQ(golden::hex(std::span(again).first(header)),
                      golden::hex(std::span(bytes).first(header)));
            ++frames;
        }
    }
    EXPECT_GT(frames, 400u);
}

// The joined bytes of a captured connection, fed in pieces of every size, give the same frames.
TEST(Frame, CapturedStreamInPieces) {
    Bytes stream;
    std::vector<u32> lengths;
    for (const json& record : golden::load("01-lnet-ping-discovery.jsonl")) {
        if (record["kind"] != "lnet" || record["conn"] != 1 || record["dir"] != "i2r") continue;
        const Bytes bytes = golden::unhex(record["bytes"].get<std::string>());
        stream.insert(stream.end(), bytes.begin(), bytes.end());
        lengths.push_back(record["length"]);
    }
    ASSERT_GT(lengths.size(), 4u);
    for (std::size_t piece = 1; piece <= 200; ++piece) {
        std::vector<u32> seen;
        Bytes have;
        std::size_t skip = 0;
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            const std::size_t end = std::min(stream.size(), at + piece);
            have.insert(have.end(), stream.begin() + static_cast<std::ptrdiff_t>(at),
                        stream.begin() + static_cast<std::ptrdiff_t>(end));
            for (;;) {
                const std::size_t drop = std::min(skip, have.size());
                have.erase(have.begin(), have.begin() + static_cast<std::ptrdiff_t>(drop));
                skip -= drop;
                const Result<u32> need = frame_bytes({}, have);
                ASSERT_TRUE(need.ok());
                if (skip > 0 || have.size() < *need) break;
                const Result<Frame> frame = decode_frame({}, have);
                ASSERT_TRUE(frame.ok());
                have.erase(have.begin(), have.begin() + *need);
                skip = frame->hdr.payload_length;
                seen.push_back(frame->hdr.payload_length);
            }
        }
        EXPECT_EQ(seen, lengths) << piece;
        EXPECT_EQ(skip + have.size(), 0u);
    }
}

TEST(Checksum, GoesOnWhereItStopped) {
    const std::string text = "123456789";
    const auto bytes = std::as_bytes(std::span(text));
    // The check value of CRC-32 is 0xcbf43926 with the final inversion, which LNet leaves out.
    EXPECT_EQ(crc_update(crc_seed, bytes), ~0xcbf43926u);
    for (std::size_t at = 0; at <= bytes.size(); ++at)
        EXPECT_EQ(crc_update(crc_update(crc_seed, bytes.first(at)), bytes.subspan(at)),
                  ~0xcbf43926u);
    EXPECT_EQ(crc_update(crc_seed, {}), crc_seed);
}

TEST(Match, TableOfVersions) {
    constexpr u64 small = 1023, large = 1024, limit = 1024;
    constexpr Match no = Match::no, may = Match::may, yes = Match::yes;
    struct Row {
        ConnType type;
        Match small_old, large_old, small_new, large_new;
        Match noop_old, noop_apart, noop_among;
    };
    const Row rows[] = {
        {ConnType::any, yes, yes, no, no, yes, no, no},
        {ConnType::control, yes, may, yes, may, yes, no, yes},
        {ConnType::bulk_in, may, may, no, no, may, yes, may},
        {ConnType::bulk_out, may, yes, may, yes, may, no, may},
    };
    for (u32 version = version_min; version <= version_max; ++version) {
        const Proto& proto = proto_of(version);
        const bool old = version < 3;
        EXPECT_EQ(proto.version, version);
        for (const Row& row : rows) {
            SCOPED_TRACE(std::to_string(version) + std::string(to_text(row.type)));
            EXPECT_EQ(proto.match_lnet(row.type, small, limit),
                      old ? row.small_old : row.small_new);
            EXPECT_EQ(proto.match_lnet(row.type, large, limit),
                      old ? row.large_old : row.large_new);
            EXPECT_EQ(proto.match_noop(row.type, true, limit), old ? row.noop_old : row.noop_apart);
            EXPECT_EQ(proto.match_noop(row.type, false, limit),
                      old ? row.noop_old : row.noop_among);
        }
    }
}

}  // namespace
}  // namespace ulnet::sock
