// Captures to text: conversations of kernel nodes wrapped into packets, in both file formats and
// orders, with repeated, early and missing packets; and bytes that make no sense.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "cpt/base/prng.h"
#include "tests/golden/golden.h"
#include "tests/unit/trace/captures.h"
#include "tests/unit/trace/files.h"
#include "tools/wiredump_capture.h"
#include "tools/wiredump_dump.h"

namespace ulnet::tools {
namespace {

using namespace trace_test;
using nlohmann::json;

std::string dump(const Bytes& file, Error* error = nullptr, const TalkOptions& options = {}) {
    std::string text;
    const Error end = dump_capture(file, options, [&](std::string_view part) { text += part; });
    if (error != nullptr)
        *error = end;
    else
        EXPECT_TRUE(end.ok()) << end.text;
    return text;
}

// "10.77.0.2:1023", "[fd00::1]:1023": the last number and the port.
void read_end(const std::string& text, u8& host, u16& port) {
    const std::size_t colon = text.rfind(':');
    port = static_cast<u16>(std::stoul(text.substr(colon + 1)));
    const std::string address = text.substr(0, text.find(']'));
    const std::size_t before = text[0] == '[' ? address.rfind(':') : address.rfind('.', colon);
    host = static_cast<u8>(std::stoul(address.substr(before + 1)));
}

// The messages of a golden capture as segments of at most `size` bytes.
std::vector<Packet> packets_of(const std::string& name, std::size_t size, bool ipv6) {
    std::vector<Packet> packets;
    std::map<std::string, u32> numbers;
    for (const json& record : golden::load(name)) {
        const std::string kind = record["kind"];
        if (kind != "connreq" && kind != "hello" && kind != "lnet" && kind != "noop") continue;
        const Bytes bytes = golden::unhex(record["bytes"].get<std::string>());
        Segment segment;
        read_end(record["src"], segment.from, segment.from_port);
        read_end(record["dst"], segment.to, segment.to_port);
        u32& number = numbers[record["src"].get<std::string>() + record["dst"].get<std::string>()];
        for (std::size_t at = 0; at < bytes.size(); at += size) {
            const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
            segment.data.assign(
                from, from + static_cast<std::ptrdiff_t>(std::min(size, bytes.size() - at)));
            segment.number = number;
            number += static_cast<u32>(segment.data.size());
            const auto time = static_cast<u64>(record["t"].get<double>() * 1e6);
            packets.push_back({time, ipv6 ? ipv6_of(segment) : ipv4_of(segment)});
        }
    }
    return packets;
}

std::vector<Packet> in_ethernet(std::vector<Packet> packets) {
    for (Packet& packet : packets) packet.bytes = ethernet_of(packet.bytes);
    return packets;
}

std::string transcript(const std::string& name) {
    const Bytes bytes = contents(std::string(ULNET_GOLDEN_DIR) + "/transcripts/" + name);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Capture, Conversation01AsItWasRead) {
    const auto packets = in_ethernet(packets_of("01-lnet-ping-discovery.jsonl", 1448, false));
    EXPECT_EQ(dump(pcap_of(1, packets)), transcript("wiredump-01.txt"));
    EXPECT_EQ(dump(pcap_of(1, packets), nullptr, {{.fields = true}}),
              transcript("wiredump-01-fields.txt"));
}

TEST(Capture, Conversation17OverIpv6) {
    const auto packets = in_ethernet(packets_of("17-ipv6.jsonl", 1448, true));
    EXPECT_EQ(dump(pcap_of(1, packets)), transcript("wiredump-17.txt"));
}

// Begins within a connection, and its frames come in small pieces.
TEST(Capture, SelftestOf02) {
    const std::string text = dump(pcap_of(101, packets_of("02-lst.jsonl", 1448, false)));
    EXPECT_NE(text.find("selftest MAKE_SESSION request"), std::string::npos);
    EXPECT_NE(text.find("selftest BRW reply status 0"), std::string::npos);
    EXPECT_NE(text.find("selftest STAT request"), std::string::npos);
}

TEST(Capture, SameTextFromAnyFileOfAnySegments) {
    const auto whole = packets_of("01-lnet-ping-discovery.jsonl", 1448, false);
    const std::string text = dump(pcap_of(101, whole));
    EXPECT_EQ(dump(pcap_of(101, whole, true)), text);
    EXPECT_EQ(dump(pcapng_of(101, whole)), text);
    EXPECT_EQ(dump(pcapng_of(101, whole, true)), text);
    for (const std::size_t size : {1u, 7u, 97u})
        EXPECT_EQ(dump(pcap_of(101, packets_of("01-lnet-ping-discovery.jsonl", size, false))),
                  text);
}

TEST(Capture, RepeatedAndEarlyPackets) {
    auto packets = packets_of("01-lnet-ping-discovery.jsonl", 40, false);
    const std::string text = dump(pcap_of(101, packets));
    Prng prng(3);
    std::vector<Packet> mixed;
    for (const Packet& packet : packets) {
        mixed.push_back(packet);
        if (prng.below(3) == 0) mixed.push_back(packet);
    }
    EXPECT_EQ(dump(pcap_of(101, mixed)), text);
}

TEST(Capture, MissingBytesAreNamed) {
    auto packets = packets_of("01-lnet-ping-discovery.jsonl", 1448, false);
    packets[4].cut = 60;
    const std::string text = dump(pcap_of(101, packets));
    EXPECT_NE(text.find("bytes are missing; the rest of this direction is not printed"),
              std::string::npos);
}

TEST(Capture, OtherTrafficIsCounted) {
    const Bytes arp = Builder().zeros(12).be16(0x0806).zeros(28).bytes();
    const Bytes web = ethernet_of(ipv4_of({.to_port = 80, .data = golden::unhex("474554202f")}));
    const std::string text = dump(pcap_of(1, {{0, arp}, {0, web}}));
    EXPECT_NE(text.find("10.0.0.1:1023 > 10.0.0.2:80 it is not socklnd"), std::string::npos)
        << text;
    EXPECT_NE(text.find("1 packets of another kind\n"), std::string::npos) << text;
}

TEST(Capture, FilesThatAreNone) {
    Error error;
    EXPECT_EQ(dump({}, &error), "");
    EXPECT_EQ(error.text, "it is neither a pcap nor a pcap-ng file");
    dump(golden::unhex("00112233445566778899"), &error);
    EXPECT_EQ(error.text, "it is neither a pcap nor a pcap-ng file");
}

// Every beginning of a file is read as far as it goes, and says where it ends.
TEST(Capture, EveryTruncation) {
    const auto packets = packets_of("01-lnet-ping-discovery.jsonl", 1448, false);
    for (const Bytes& file : {pcap_of(101, packets), pcapng_of(101, packets)}) {
        std::size_t good = 0;
        for (std::size_t size = 0; size < file.size(); ++size) {
            Error error;
            const Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
            dump(part, &error, {{.fields = size % 16 == 0}});
            good += error.ok() ? 1 : 0;
        }
        EXPECT_LE(good, packets.size() + 4);  // where a packet or block ends
    }
}

TEST(Capture, EveryFlippedByte) {
    const auto packets = packets_of("01-lnet-ping-discovery.jsonl", 1448, false);
    Prng prng(11);
    for (const Bytes& file : {pcap_of(101, packets), pcapng_of(101, packets)})
        for (std::size_t at = 0; at < file.size(); ++at) {
            Bytes bad = file;
            bad[at] ^= static_cast<std::byte>(1 + prng.below(255));
            Error error;
            dump(bad, &error, {{.fields = at % 16 == 0}});
        }
}

}  // namespace
}  // namespace ulnet::tools
