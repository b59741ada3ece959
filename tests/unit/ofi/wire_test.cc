// The messages of the libfabric driver: bytes as docs/wire/ofi.md has them, every truncation, and
// what decoders refuse.
#include <gtest/gtest.h>

#include "lnds/ofi/wire.h"

namespace ulnet::ofi {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view hex) {
    Bytes bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2) {
        while (i < hex.size() && (hex[i] == ' ' || hex[i] == '\n')) ++i;
        if (i + 1 >= hex.size()) break;
        bytes.push_back(
            static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    }
    return bytes;
}

Nid nid(u32 number) {
    return Nid::ipv4(Net::of(NetType::kfi, 0), number);
}

Head head(Type type) {
    return {.type = type,
            .credits = 3,
            .session = 0x1122334455667788,
            .source = nid(17),
            .target = nid(18)};
}

constexpr std::string_view nids = "00100000000000110000000000000000000000000010000000000012"
                                  "000000000000000000000000";
const std::string hello_hex = "756b6669010100006c000000000000000000000000000000" +
                              std::string(nids) +
                              "01010200010000000d0c0b0a0000000088776655443322110000000000000000"
                              "08000000b018000000000000";
std::string session_hex(std::string_view type, std::string_view length) {
    return "756b666901" + std::string(type) + "0000" + std::string(length) +
           "00000003000000"
           "8877665544332211" +
           std::string(nids);
}
const std::string hdr_hex = "0010000000000012000000000000000000000000"
                            "0010000000000011000000000000000000000000"
                            "393000003930000001000000";
const std::string put_hex = "ffffffffffffffffffffffffffffffff"
                            "050000000000000000000000000000001400000000000000";
const std::string bulk_hex = session_hex("04", "e0") + hdr_hex + "00200000" + put_hex +
                             "07000000000000000200000000000000"
                             "001000000000000009000000000000000010000000000000"
                             "00000000000000000a000000000000000010000000000000";
const std::string immediate_hex =
    session_hex("03", "a4") + hdr_hex + "04000000" + put_hex + "01020304";
const std::string done_hex =
    session_hex("05", "58") + "070000000000000021000000000000000000000000200000";
const std::string fin_hex = session_hex("06", "50") + "21000000000000008cffffff00000000";

Hdr hdr(u32 length) {
    Hdr made;
    made.type = MsgType::put;
    made.src_nid = nid(17);
    made.dest_nid = nid(18);
    made.payload_length = length;
    made.match_bits = 5;
    made.portal = 20;
    return made;
}

const Hello hello{.contexts = 2,
                  .context = 1,
                  .epoch = 0x0a0b0c0d,
                  .session = 0x1122334455667788,
                  .credits = 8,
                  .message_max = 6320};
const Done said{.transfer = 7, .reading = 33, .status = 0, .bytes = 8192};
const Fin fin{.reading = 33, .status = -116};
const std::vector<Segment> segments{{0x1000, 9, 4096}, {0, 10, 4096}};

Bytes encoded(const std::function<u32(std::span<std::byte>)>& encode) {
    Bytes bytes(message_bytes_max);
    bytes.resize(encode(bytes));
    return bytes;
}

TEST(OfiWire, BytesAsDocumented) {
    Head request = head(Type::hello_request);
    request.session = request.credits = 0;
    EXPECT_EQ(encoded([&](auto to) { return encode(request, hello, to); }), bytes_of(hello_hex));
    std::array<std::byte, 4> payload{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    const Mem mem(payload.data(), 4);
    EXPECT_EQ(encoded([&](auto to) {
                  return encode_immediate(head(Type::immediate), hdr(4), {&mem, 0, 4}, to);
              }),
              bytes_of(immediate_hex));
    EXPECT_EQ(encoded([&](auto to) {
                  return encode(head(Type::bulk), Bulk{hdr(8192), 7, segments}, to);
              }),
              bytes_of(bulk_hex));
    EXPECT_EQ(encoded([&](auto to) { return encode(head(Type::done), said, to); }),
              bytes_of(done_hex));
    EXPECT_EQ(encoded([&](auto to) { return encode(head(Type::fin), fin, to); }),
              bytes_of(fin_hex));
}

TEST(OfiWire, ThereAndBack) {
    const Bytes bytes = bytes_of(bulk_hex);
    const Result<Head> decoded = decode_head(bytes);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->session, 0x1122334455667788u);
    EXPECT_EQ(decoded->credits, 3u);
    EXPECT_EQ(decoded->source, nid(17));
    EXPECT_EQ(decoded->target, nid(18));
    const Result<Bulk> bulk = decode_bulk(bytes);
    ASSERT_TRUE(bulk.ok());
    EXPECT_EQ(bulk->hdr, hdr(8192));
    EXPECT_EQ(bulk->segments, segments);
    EXPECT_EQ(*decode_hello(bytes_of(hello_hex)), hello);
    EXPECT_EQ(*decode_done(bytes_of(done_hex)), said);
    EXPECT_EQ(*decode_fin(bytes_of(fin_hex)), fin);
    std::span<const std::byte> payload;
    const Bytes immediate = bytes_of(immediate_hex);
    EXPECT_EQ(*decode_immediate(immediate, payload), hdr(4));
    EXPECT_EQ(payload.size(), 4u);
}

TEST(OfiWire, EveryTruncationIsRefused) {
    for (const std::string& hex : {hello_hex, immediate_hex, bulk_hex, done_hex, fin_hex}) {
        const Bytes whole = bytes_of(hex);
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            EXPECT_FALSE(decode_head(cut).ok()) << size;
            std::span<const std::byte> payload;
            if (hex == hello_hex) {
                EXPECT_FALSE(decode_hello(cut).ok()) << size;
            }
            if (hex == immediate_hex) {
                EXPECT_FALSE(decode_immediate(cut, payload).ok()) << size;
            }
            if (hex == bulk_hex) {
                EXPECT_FALSE(decode_bulk(cut).ok()) << size;
            }
            if (hex == done_hex) {
                EXPECT_FALSE(decode_done(cut).ok()) << size;
            }
            if (hex == fin_hex) {
                EXPECT_FALSE(decode_fin(cut).ok()) << size;
            }
        }
    }
}

TEST(OfiWire, WrongFieldsAreRefused) {
    const auto changed = [](const std::string& hex, std::size_t at, u8 value) {
        Bytes bytes = bytes_of(hex);
        bytes[at] = static_cast<std::byte>(value);
        return bytes;
    };
    EXPECT_FALSE(decode_head(changed(done_hex, 0, 0)).ok());  // magic
    EXPECT_EQ(decode_head(changed(done_hex, 4, 2)).status(), Status(-EPROTONOSUPPORT));
    EXPECT_FALSE(decode_head(changed(done_hex, 5, 0)).ok());  // type
    EXPECT_FALSE(decode_head(changed(done_hex, 5, 11)).ok());
    EXPECT_FALSE(decode_head(changed(done_hex, 8, 0x59)).ok());  // longer than it is
    EXPECT_FALSE(decode_head(changed(done_hex, 8, 63)).ok());
    EXPECT_FALSE(decode_head(changed(done_hex, 24, 13)).ok());    // a NID of 21 bytes
    EXPECT_FALSE(decode_hello(changed(hello_hex, 64, 2)).ok());   // low above high
    EXPECT_FALSE(decode_hello(changed(hello_hex, 66, 1)).ok());   // context 1 of 1
    EXPECT_FALSE(decode_hello(changed(hello_hex, 96, 0)).ok());   // no credits
    EXPECT_FALSE(decode_hello(changed(hello_hex, 101, 0)).ok());  // message_max of 176
    EXPECT_FALSE(decode_bulk(changed(bulk_hex, 168, 0)).ok());
    EXPECT_FALSE(decode_bulk(changed(bulk_hex, 168, 3)).ok());  // segments
    EXPECT_FALSE(decode_bulk(changed(bulk_hex, 169, 2)).ok());
    EXPECT_FALSE(decode_bulk(changed(bulk_hex, 193, 0)).ok());  // an empty one
    EXPECT_FALSE(decode_bulk(changed(bulk_hex, 192, 1)).ok());  // sum and length differ
    EXPECT_FALSE(decode_done(changed(done_hex, 80, 1)).ok());   // a positive errno
}

}  // namespace
}  // namespace ulnet::ofi
