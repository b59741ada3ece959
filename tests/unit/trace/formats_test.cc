// Single formats: golden bytes to text, tables of offsets, hexadecimal input, every truncation.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lnds/trace/wire.h"
#include "tests/golden/golden.h"
#include "tools/wiredump_dump.h"
#include "tools/wiredump_fields.h"

namespace ulnet::tools {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::byte>;

std::string print(const std::string& format, const Bytes& bytes, bool fields = false,
                  Order order = Order::little) {
    std::string text;
    const Error error = dump_as(*find_format(format), bytes, order, {fields}, text);
    EXPECT_TRUE(error.ok()) << format << ": " << error.text;
    return text;
}

TEST(Formats, Acceptor) {
    const Bytes bytes = golden::unhex("0071ceac0100000003004d0a00000200");
    EXPECT_EQ(print("acceptor", bytes), "connection request v1 to 10.77.0.3@tcp\n");
    EXPECT_EQ(print("acceptor", bytes, true), "connection request v1 to 10.77.0.3@tcp\n"
                                              "    front.magic: 0xacce7100\n"
                                              "    front.version: 1\n"
                                              "    nid: 10.77.0.3@tcp\n");
}

TEST(Formats, Hello) {
    const Bytes bytes = golden::unhex(
        "636972450300000002004d0a0000020003004d0a0000020039300000000000000a6239c3c9eaec18"
        "00000000000000000100000000000000");
    EXPECT_EQ(print("hello", bytes),
              "HELLO v3 12345-10.77.0.2@tcp > 10.77.0.3@tcp control incarnation "
              "0x18eceac9c339620a\n");
    EXPECT_NE(print("hello", bytes, true).find("    src_nid: 10.77.0.2@tcp\n"), std::string::npos);
}

// Two structures, one after the other.
TEST(Formats, SeveralInARow) {
    const std::string one = "0071ceac0100000003004d0a00000200";
    EXPECT_EQ(print("acceptor", golden::unhex(one + one)),
              "connection request v1 to 10.77.0.3@tcp\nconnection request v1 to 10.77.0.3@tcp\n");
    std::string text;
    const Error error =
        dump_as(*find_format("acceptor"), golden::unhex(one + "00"), Order::little, {}, text);
    EXPECT_EQ(error.text, "what is at byte 16 of 17 is no acceptor");
}

// Every vector of the other encoder that is meant to be accepted prints.
TEST(Formats, ConstructedVectors) {
    const std::tuple<const char*, const char*, const char*> files[] = {
        {"constructed/hello.jsonl", "ksock_hello", "hello"},
        {"constructed/acceptor.jsonl", "", "acceptor"},
        {"constructed/ping_info.jsonl", "", "ping"},
        {"constructed/lnet_header.jsonl", "lnet_hdr_nid4", "hdr4"},
        {"constructed/lnet_header.jsonl", "lnet_hdr_nid16", "hdr16"},
        {"constructed/selftest.jsonl", "srpc_", "selftest"},
    };
    for (const auto& [file, prefix, format] : files) {
        std::size_t printed = 0;
        for (const json& record : golden::load(file)) {
            if (!record["struct"].get<std::string>().starts_with(prefix)) continue;
            const Bytes bytes = golden::unhex(record["bytes"].get<std::string>());
            std::string text;
            printed += find_format(format)->print(text, bytes, Order::little, {true}) > 0 ? 1 : 0;
            // Whatever the bytes are, and wherever they end, nothing else happens.
            for (std::size_t size = 0; size < std::min<std::size_t>(bytes.size(), 300); ++size)
                for (const Format& each : formats())
                    each.print(text, ByteSpan(bytes).first(size), Order::big, {true});
        }
        EXPECT_GT(printed, 0u) << file << " " << prefix;
    }
}

TEST(Formats, CapturedFrames) {
    std::size_t messages = 0;
    for (const char* const name : {"02-lst.jsonl", "17-ipv6.jsonl"})
        for (const json& record : golden::load(name)) {
            if (record["kind"] != "lnet") continue;
            const Bytes bytes = golden::unhex(record["bytes"].get<std::string>());
            const bool large = record["hdr"] == 120;
            const std::string text = print(large ? "frame-v4" : "frame-v3", bytes);
            const std::string type = record["type"];
            EXPECT_TRUE(text.starts_with(type + " 12345-" + record["src_nid"].get<std::string>()))
                << text;
            if (record.contains("srpc")) {
                EXPECT_NE(text.find("\n  selftest "), std::string::npos) << text;
            }
            ++messages;
        }
    EXPECT_GT(messages, 200u);
}

TEST(Formats, OffsetsAreThoseOfTheCodec) {
    std::string text;
    find_format("trace")->offsets(text);
    EXPECT_TRUE(text.starts_with("    0    1  byte   version\n")) << text;
    EXPECT_NE(text.find("   52    4  BE     payload_length\n"
                        "   56   20  bytes  dest_nid\n"),
              std::string::npos);
    text.clear();
    find_format("hello")->offsets(text);
    EXPECT_NE(text.find("   72    4  sender v4.type\n"), std::string::npos);
    text.clear();
    find_format("selftest")->offsets(text);
    EXPECT_NE(text.find("   24    8  sender MAKE_SESSION.request.rpyid\n"), std::string::npos);
    for (const Format& format : formats()) {
        std::string rows;
        format.offsets(rows);
        EXPECT_GT(rows.size(), 20u) << format.name;
    }
}

TEST(Hex, Input) {
    Bytes bytes;
    EXPECT_TRUE(read_hex("00 ff\n0x12:34,56\tAb", bytes).ok());
    EXPECT_EQ(golden::hex(bytes), "00ff123456ab");
    EXPECT_TRUE(read_hex("", bytes).ok());
    EXPECT_TRUE(bytes.empty());
    EXPECT_EQ(read_hex("00 g1", bytes).text, "character 4 is no hexadecimal digit");
    EXPECT_EQ(read_hex("001", bytes).text, "the last byte has one digit only");
}

TEST(Fields, TextsAreSafe) {
    EXPECT_EQ(quoted(std::string_view("a\x01\x1b[b\0c", 7)), "'a??[b'");
    EXPECT_EQ(number_text("src_nid", 0x000200000a4d0003, 8), "10.77.0.3@tcp");
    EXPECT_EQ(number_text("magic", 255, 4), "0xff");
    EXPECT_EQ(number_text("portal", 255, 4), "255");
}

}  // namespace
}  // namespace ulnet::tools
