// NIDs: every text and conversion vector, text round trips, order, hash.
#include "lnet/nid.h"

#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cpt/base/wire.h"
#include "tests/golden/golden.h"
#include "tests/unit/wire/random_nid.h"

namespace ulnet {
namespace {

using nlohmann::json;

std::string raw_hex(const Nid& nid) {
    return golden::hex(std::as_bytes(std::span(nid.raw())));
}

Nid from_hex(const std::string& digits) {
    const auto bytes = golden::unhex(digits);
    std::array<u8, 20> raw{};
    EXPECT_EQ(bytes.size(), raw.size());
    std::memcpy(raw.data(), bytes.data(), std::min(bytes.size(), raw.size()));
    return Nid::from_raw(raw);
}

std::string u64_hex(u64 value, Order order) {
    std::array<std::byte, 8> bytes;
    wire_detail::store(bytes.data(), value, order);
    return golden::hex(bytes);
}

void check_nid_text(const json& record) {
    const json& fields = record["fields"];
    const std::string text = fields["text"];
    const Result<Nid> nid = parse_nid(text);
    if (record.value("error", false)) {
        EXPECT_FALSE(nid.ok()) << text << " gives " << to_text(*nid);
        return;
    }
    ASSERT_TRUE(nid.ok()) << text;
    EXPECT_EQ(raw_hex(*nid), golden::text(fields, "nid20"));
    EXPECT_EQ(nid->is_nid4(), !fields.value("nid4_error", false));
    EXPECT_EQ(nid->any(), fields.value("any", false));
    EXPECT_TRUE(nid->valid());
    // What the documents leave open prints as the text itself (ADR 0002).
    const std::string canonical = fields.value("canonical", text);
    EXPECT_EQ(to_text(*nid), canonical);
    if (!nid->any()) {
        EXPECT_EQ(static_cast<u32>(nid->net().type()), golden::number(fields["type"]));
        EXPECT_EQ(nid->net().number(), golden::number(fields["num"]));
    }
    if (nid->is_nid4()) {
        EXPECT_EQ(nid->nid4(), golden::number(fields["nid4"]));
        EXPECT_EQ(Nid::from_nid4(nid->nid4()), *nid);
    }
    if (fields.contains("nid4_le")) {
        EXPECT_EQ(u64_hex(nid->nid4(), Order::little), golden::text(fields, "nid4_le"));
        EXPECT_EQ(u64_hex(nid->nid4(), Order::big), golden::text(fields, "nid4_be"));
    }
    EXPECT_EQ(raw_hex(*nid), golden::text(record, "bytes"));
    const Result<Nid> again = parse_nid(to_text(*nid));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *nid);
    EXPECT_EQ(again->hash(), nid->hash());
}

void check_anynid_text(const json& record) {
    const json& fields = record["fields"];
    const Result<Nid> nid = parse_any_nid(std::string(fields["text"]));
    ASSERT_TRUE(nid.ok());
    EXPECT_EQ(raw_hex(*nid), golden::text(fields, "nid20"));
    EXPECT_EQ(nid->nid4(), golden::number(fields["nid4"]));
    EXPECT_EQ(nid->any(), fields.value("any", false));
}

void check_net_text(const json& record) {
    const json& fields = record["fields"];
    const std::string text = fields["text"];
    const Result<Net> net = parse_net(text);
    if (record.value("error", false)) {
        EXPECT_FALSE(net.ok()) << text;
        return;
    }
    ASSERT_TRUE(net.ok()) << text;
    EXPECT_EQ(net->id, golden::number(fields["net"]));
    EXPECT_EQ(static_cast<u32>(net->type()), golden::number(fields["type"]));
    EXPECT_EQ(net->number(), golden::number(fields["num"]));
    EXPECT_EQ(to_text(*net), golden::text(fields, "canonical"));
}

void check_order(const json& record) {
    const json& fields = record["fields"];
    const Result<Nid> a = parse_nid(std::string(fields["a"]));
    const Result<Nid> b = parse_nid(std::string(fields["b"]));
    ASSERT_TRUE(a.ok() && b.ok());
    const int expected = fields["compare"];
    EXPECT_EQ(*a < *b, expected < 0);
    EXPECT_EQ(*a > *b, expected > 0);
    EXPECT_EQ(*a == *b, expected == 0);
    EXPECT_EQ(raw_hex(*a) + raw_hex(*b), golden::text(record, "bytes"));
}

TEST(Nid, ConstructedVectors) {
    const golden::Handlers handlers = {
        {"nid_text", check_nid_text},
        {"anynid_text", check_anynid_text},
        {"net_text", check_net_text},
        {"nid_order", check_order},
        {"nid_print",
         [](const json& record) {
             const json& fields = record["fields"];
             EXPECT_EQ(to_text(from_hex(fields["nid20"])), golden::text(fields, "canonical"));
         }},
        {"net_print",
         [](const json& record) {
             const json& fields = record["fields"];
             const Net net{static_cast<u32>(golden::number(fields["net"]))};
             EXPECT_EQ(to_text(net), golden::text(fields, "canonical"));
         }},
        {"nid20_to_nid4",
         [](const json& record) {
             const json& fields = record["fields"];
             EXPECT_EQ(from_hex(fields["nid20"]).nid4(), golden::number(fields["nid4"]));
         }},
        {"nid4_to_nid20",
         [](const json& record) {
             const json& fields = record["fields"];
             const Nid nid = Nid::from_nid4(golden::number(fields["nid4"]));
             EXPECT_EQ(raw_hex(nid), golden::text(fields, "nid20"));
         }},
    };
    EXPECT_EQ(golden::for_each("constructed/nid_text.jsonl", "struct", handlers), 150u);
}

TEST(Nid, DecidedOpenCases) {
    for (const char* refused : {"1.2.3.4@tcp65536",
                                "1.2.3.4@tcp4294967297",
                                "01.2.3.4@tcp",
                                "1.2.3.04@tcp",
                                "1.2.3.00@tcp",
                                "007@gni",
                                "1.2.3.4@tcp01",
                                "1.2.3.4@tcp00",
                                "@lo",
                                "+1@gni",
                                " 1@gni",
                                "1.2.3.4 @tcp",
                                "1.2.3.4@ tcp",
                                "1.2.3.4@tcp ",
                                "<?>@tcp",
                                "<?> ",
                                "lo",
                                "tcp",
                                "a0b0c0d@<17:3>",
                                "2001:db8::1@gip",
                                "1.2.3.4%eth0@tcp",
                                "::ffff:01.2.3.4@tcp"}) {
        EXPECT_FALSE(parse_nid(refused).ok()) << refused;
        EXPECT_FALSE(parse_any_nid(refused).ok()) << refused;
    }
    EXPECT_FALSE(parse_nid(std::string_view("1.2.3.4\0@tcp", 12)).ok());
    EXPECT_FALSE(parse_nid(std::string_view("::1\0@tcp", 8)).ok());
    EXPECT_FALSE(parse_net("tcp65536").ok());
    EXPECT_FALSE(parse_net("tcp0x1").ok());
}

TEST(Nid, LongestText) {
    const std::string longest = std::string(60, 'x') + "@lo";
    EXPECT_TRUE(parse_nid(longest).ok());
    EXPECT_FALSE(parse_nid("x" + longest).ok());
}

TEST(Nid, AnyHasOneForm) {
    const Nid any;
    EXPECT_TRUE(any.any() && any.is_nid4() && any.valid());
    EXPECT_EQ(any.net(), net_any);
    EXPECT_EQ(any.nid4(), ~u64{0});
    EXPECT_EQ(Nid::from_nid4(0x00ff'1234'0102'0304), any);
    EXPECT_EQ(Nid::ipv4(net_any, 0x01020304), any);
    EXPECT_EQ(Nid::ipv6(net_any, {}), any);
    EXPECT_EQ(to_text(any), "<?>");
}

TEST(Nid, LoopbackAndSizes) {
    EXPECT_TRUE(nid_lo().is_lo());
    EXPECT_EQ(to_text(nid_lo()), "0@lo");
    EXPECT_EQ(nid_lo().address().size(), 4u);
    const Nid six = *parse_nid("2001:db8::1@tcp");
    EXPECT_EQ(six.address().size(), 16u);
    EXPECT_EQ(six.address()[15], 1);
    EXPECT_FALSE(six.is_lo());
    std::array<u8, 20> raw = six.raw();
    raw[0] = 13;
    EXPECT_FALSE(Nid::from_raw(raw).valid());
    EXPECT_EQ(Nid::from_raw(raw).address().size(), 16u);
}

TEST(Nid, TextOfAddressesWithoutAUsualForm) {
    std::array<u8, 20> raw{};
    raw[0] = 4;  // eight bytes of address
    raw[1] = static_cast<u8>(NetType::tcp);
    raw[4] = 0x0a;
    raw[11] = 0x0b;
    EXPECT_EQ(to_text(Nid::from_raw(raw)), "a000000:b@tcp");
    raw[0] = 12;
    raw[1] = static_cast<u8>(NetType::gni);
    EXPECT_EQ(to_text(Nid::from_raw(raw)), "a000000:b:0:0@gni");
    EXPECT_EQ(to_text(net_any), "<255:65535>");
}

TEST(Nid, Ipv6Text) {
    const std::pair<const char*, const char*> cases[] = {
        {"0:0:0:0:0:0:0:0", "::"},
        {"1:0:0:0:0:0:0:0", "1::"},
        {"1:0:0:2:0:0:0:3", "1:0:0:2::3"},       // the longer run is cut
        {"1:0:0:2:3:0:0:4", "1::2:3:0:0:4"},     // the first of two equal ones
        {"1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"},  // a single zero is not cut
        {"::102:304", "::102:304"},              // not dotted unless mapped
        {"::FFFF:102:304", "::ffff:1.2.3.4"},
        {"::fffe:102:304", "::fffe:102:304"},
    };
    for (const auto& [text, printed] : cases) {
        const Result<Nid> nid = parse_nid(std::string(text) + "@tcp2");
        ASSERT_TRUE(nid.ok()) << text;
        EXPECT_EQ(to_text(*nid), std::string(printed) + "@tcp2");
    }
}

TEST(Nid, RandomRoundTrips) {
    Prng prng(20240601);
    for (int i = 0; i < 20000; ++i) {
        const Nid nid = random_nid(prng);
        const Result<Nid> again = parse_nid(to_text(nid));
        ASSERT_TRUE(again.ok()) << to_text(nid);
        ASSERT_EQ(*again, nid) << to_text(nid);
        if (nid.is_nid4()) {
            ASSERT_EQ(Nid::from_nid4(nid.nid4()), nid);
        }
        ASSERT_EQ(*parse_net(to_text(nid.net())), nid.net());
    }
}

// Single-byte changes of good texts: whatever still parses prints and parses to the same again.
TEST(Nid, ChangedTexts) {
    Prng prng(7);
    constexpr std::string_view alphabet = "0129.:@abcfgiklotpx<?>* -[]/%\t";
    for (int i = 0; i < 50000; ++i) {
        std::string text = to_text(random_nid(prng));
        text[prng.below(text.size())] = alphabet[prng.below(alphabet.size())];
        const Result<Nid> nid = parse_nid(text);
        if (!nid.ok()) continue;
        const Result<Nid> again = parse_nid(to_text(*nid));
        ASSERT_TRUE(again.ok()) << text;
        ASSERT_EQ(*again, *nid) << text;
    }
}

TEST(Nid, HashSpreads) {
    std::set<u64> low_bits;
    for (u32 i = 0; i < 1024; ++i) {
        const Nid nid = Nid::ipv4(Net::of(NetType::tcp, 0), 0x0a000000 + i);
        low_bits.insert(nid.hash() & 1023);
    }
    // 1024 balls in 1024 bins fill about 647; a poor hash fills a fraction of that.
    EXPECT_GT(low_bits.size(), 500u);
}

}  // namespace
}  // namespace ulnet
