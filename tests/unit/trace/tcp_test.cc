// Reassembly: order, repetition, gaps and link layers.
#include <gtest/gtest.h>

#include "cpt/base/prng.h"
#include "tests/unit/trace/captures.h"
#include "tools/wiredump_tcp.h"

namespace ulnet::tools {
namespace {

using namespace trace_test;

struct Sink final : TcpSink {
    void opened(const TcpFlow&) override { text += "["; }
    void bytes(const TcpFlow& flow, u64, std::span<const std::byte> data) override {
        last = flow;
        for (const std::byte byte : data) text += static_cast<char>(byte);
    }
    void gap(const TcpFlow&, u64 count) override { text += "<" + std::to_string(count) + ">"; }
    std::string text;
    TcpFlow last;
};

Bytes bytes_of(std::string_view text) {
    const auto* const from = reinterpret_cast<const std::byte*>(text.data());
    return {from, from + text.size()};
}

struct Tcp : testing::Test {
    void segment(u32 number, std::string_view data, std::size_t cut = ~std::size_t{0}) {
        Bytes packet = ipv4_of({.number = number, .data = bytes_of(data)});
        packet.resize(std::min(packet.size(), cut));
        EXPECT_TRUE(streams.packet(101, 0, packet));
    }
    void syn(u32 number) { streams.packet(101, 0, ipv4_of({.number = number, .syn = true})); }
    Sink sink;
    TcpStreams streams{sink};
};

TEST_F(Tcp, InOrderRepeatedAndOverlapping) {
    syn(99);
    segment(100, "abc");
    segment(100, "abc");
    segment(101, "bcde");
    segment(105, "fg");
    EXPECT_EQ(sink.text, "[abcdefg");
    EXPECT_EQ(sock::to_text(sink.last.from), "10.0.0.1:1023");
    EXPECT_EQ(sock::to_text(sink.last.to), "10.0.0.2:988");
}

TEST_F(Tcp, EarlySegmentsWait) {
    segment(100, "a");
    segment(103, "d");
    segment(102, "cde");
    EXPECT_EQ(sink.text, "a");
    segment(101, "b");
    EXPECT_EQ(sink.text, "abcde");
}

TEST_F(Tcp, GapsAreToldAtTheEnd) {
    segment(100, "a");
    segment(103, "d");
    streams.end();
    EXPECT_EQ(sink.text, "a<2>d");
}

TEST_F(Tcp, CutPacketsLeaveGaps) {
    segment(100, "abcdef", 20 + 20 + 2);
    segment(106, "gh");
    EXPECT_EQ(sink.text, "ab<4>gh");
}

TEST_F(Tcp, NumbersWrap) {
    syn(0xfffffffd);
    segment(0xfffffffe, "ab");
    segment(0, "cd");
    segment(0xfffffffe, "ab");
    EXPECT_EQ(sink.text, "[abcd");
}

TEST_F(Tcp, SynBeginsAnew) {
    syn(1);
    segment(2, "a");
    syn(5000);
    segment(5001, "b");
    EXPECT_EQ(sink.text, "[a[b");
}

TEST_F(Tcp, BytesBeforeTheFirstAreNone) {
    segment(100, "b");
    segment(99, "ab");
    segment(90, "x");
    EXPECT_EQ(sink.text, "b");
}

TEST_F(Tcp, RandomOrderComesOutInOrder) {
    Prng prng(5);
    std::string all;
    for (int i = 0; i < 5000; ++i) all += static_cast<char>('a' + i % 26);
    syn(999);
    std::vector<std::size_t> left;
    for (std::size_t at = 0; at < all.size(); at += 10) left.push_back(at);
    while (!left.empty()) {
        const std::size_t pick = prng.below(std::min<std::size_t>(left.size(), 20));
        segment(static_cast<u32>(1000 + left[pick]), std::string_view(all).substr(left[pick], 10));
        if (prng.below(3) > 0) left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    EXPECT_EQ(sink.text, "[" + all);
}

TEST_F(Tcp, LinkLayers) {
    const Bytes ip = ipv4_of({.number = 1, .data = bytes_of("x")});
    const Bytes six = ipv6_of({.number = 1, .data = bytes_of("y")});
    EXPECT_TRUE(streams.packet(1, 0, ethernet_of(ip)));
    EXPECT_TRUE(streams.packet(1, 0, ethernet_of(six, true)));
    EXPECT_EQ(sock::to_text(sink.last.from), "[fd00::1]:1023");
    EXPECT_TRUE(streams.packet(101, 0, ip));
    EXPECT_TRUE(streams.packet(113, 0, Builder().zeros(16).add(six).bytes()));
    EXPECT_TRUE(streams.packet(276, 0, Builder().zeros(20).add(ip).bytes()));
    EXPECT_TRUE(streams.packet(0, 0, Builder().zeros(4).add(ip).bytes()));
    EXPECT_EQ(sink.text, "xy");
    EXPECT_FALSE(streams.packet(99, 0, ip));
    Bytes fragment = ip;
    fragment[6] = std::byte{0x20};
    EXPECT_FALSE(streams.packet(101, 0, fragment));
    Bytes udp = ip;
    udp[9] = std::byte{17};
    EXPECT_FALSE(streams.packet(101, 0, udp));
    for (const Bytes& packet : {ip, six})
        for (std::size_t size = 0; size < packet.size() - 1; ++size) {
            Bytes part(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(size));
            streams.packet(101, 0, part);
        }
}

}  // namespace
}  // namespace ulnet::tools
