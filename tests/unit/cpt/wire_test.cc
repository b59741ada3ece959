// The codec kit: sizes, offsets, the classes of fields in both orders, nesting, every truncation.
#include "cpt/base/wire.h"

#include <gtest/gtest.h>

#include <vector>

namespace ulnet {
namespace {

struct Inner {
    u16 plain;
    Be<u16> big;
    template <class F> static constexpr void fields(F&& f) {
        f("plain", &Inner::plain);
        f("big", &Inner::big);
    }
    bool operator==(const Inner&) const = default;
};

struct Outer {
    u8 tag;
    u32 plain;
    Le<u64> little;
    Inner inner;
    Opaque<u32> opaque;
    i32 negative;
    std::array<char, 3> text;
    i64 wide;
    template <class F> static constexpr void fields(F&& f) {
        f("tag", &Outer::tag);
        f("plain", &Outer::plain);
        f("little", &Outer::little);
        f("inner", &Outer::inner);
        f("opaque", &Outer::opaque);
        f("negative", &Outer::negative);
        f("text", &Outer::text);
        f("wide", &Outer::wide);
    }
    bool operator==(const Outer&) const = default;
};

static_assert(wire_size<Inner>() == 4);
static_assert(wire_size<Outer>() == 36);
static_assert(wire_offset<Outer>("tag") == 0);
static_assert(wire_offset<Outer>("plain") == 1);
static_assert(wire_offset<Outer>("inner") == 13);
static_assert(wire_offset<Outer>("wide") == 28);
static_assert(wire_offset<Outer>("none") == static_cast<std::size_t>(-1));
static_assert(wire_size<std::array<u8, 5>>() == 5 && wire_size<Le<u16>>() == 2);

const Outer example = {
    .tag = 0x11,
    .plain = 0x22334455,
    .little = {0x0102030405060708},
    .inner = {.plain = 0xa1a2, .big = {0xb1b2}},
    .opaque = {0xc1c2c3c4},
    .negative = -2,
    .text = {'a', 'b', 'c'},
    .wide = -0x0102030405060708,
};

std::vector<u8> expected_bytes(Order order) {
    std::vector<u8> bytes = {0x11};
    const auto put = [&](std::vector<u8> big, Order as) {
        if (as == Order::little) std::reverse(big.begin(), big.end());
        bytes.insert(bytes.end(), big.begin(), big.end());
    };
    put({0x22, 0x33, 0x44, 0x55}, order);
    put({1, 2, 3, 4, 5, 6, 7, 8}, Order::little);
    put({0xa1, 0xa2}, order);
    put({0xb1, 0xb2}, Order::big);
    put({0xc1, 0xc2, 0xc3, 0xc4}, native_order);
    put({0xff, 0xff, 0xff, 0xfe}, order);
    put({'a', 'b', 'c'}, Order::big);
    put({0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0xf8}, order);
    return bytes;
}

class WireOrders : public testing::TestWithParam<Order> {};
INSTANTIATE_TEST_SUITE_P(Both, WireOrders, testing::Values(Order::little, Order::big));

TEST_P(WireOrders, WritesExactBytes) {
    std::array<u8, 36> bytes{};
    Writer writer(std::as_writable_bytes(std::span(bytes)), GetParam());
    EXPECT_TRUE(writer.write(example));
    EXPECT_EQ(writer.size(), 36u);
    EXPECT_EQ(std::vector<u8>(bytes.begin(), bytes.end()), expected_bytes(GetParam()));
}

TEST_P(WireOrders, ReadsThemBack) {
    const std::vector<u8> bytes = expected_bytes(GetParam());
    Reader reader(std::as_bytes(std::span(bytes)), GetParam());
    Outer out{};
    EXPECT_TRUE(reader.read(out));
    EXPECT_EQ(out, example);
    EXPECT_EQ(reader.remaining(), 0u);
    EXPECT_EQ(reader.sender(), GetParam());
}

TEST_P(WireOrders, EveryTruncationIsRefused) {
    const std::vector<u8> bytes = expected_bytes(GetParam());
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        // A copy of exactly that length, so that ASan sees any read beyond it.
        const std::vector<u8> cut(bytes.begin(), bytes.begin() + static_cast<long>(length));
        Reader reader(std::as_bytes(std::span(cut)), GetParam());
        Outer out{};
        EXPECT_FALSE(reader.read(out));
        EXPECT_FALSE(reader.ok());
        std::vector<u8> room(length);
        Writer writer(std::as_writable_bytes(std::span(room)), GetParam());
        EXPECT_FALSE(writer.write(example));
        EXPECT_LE(writer.size(), length);
    }
}

TEST(Wire, TheOrderCanChangeAfterTheMagic) {
    const std::array<u8, 6> bytes = {0x12, 0x34, 0x56, 0x78, 0x00, 0x01};
    Reader reader(std::as_bytes(std::span(bytes)), Order::little);
    u32 magic = 0;
    ASSERT_TRUE(reader.read(magic));
    EXPECT_EQ(magic, 0x78563412u);
    reader.set_sender(other(reader.sender()));
    u16 value = 0;
    ASSERT_TRUE(reader.read(value));
    EXPECT_EQ(value, 1u);
}

TEST(Wire, ErrorsStick) {
    const std::array<u8, 4> bytes = {1, 2, 3, 4};
    Reader reader(std::as_bytes(std::span(bytes)), Order::big);
    u64 too_long = 0;
    EXPECT_FALSE(reader.read(too_long));
    u8 fits = 9;
    EXPECT_FALSE(reader.read(fits));
    EXPECT_EQ(fits, 9u);
    EXPECT_TRUE(reader.bytes(1).empty());
    EXPECT_EQ(reader.remaining(), 4u);

    Reader failed(std::as_bytes(std::span(bytes)));
    failed.fail();
    EXPECT_FALSE(failed.read(fits));

    std::array<u8, 3> room{};
    Writer writer(std::as_writable_bytes(std::span(room)), Order::big);
    EXPECT_FALSE(writer.write(u32{1}));
    EXPECT_FALSE(writer.write(u8{1}));
    EXPECT_EQ(writer.size(), 0u);
}

TEST(Wire, BytesAndZeros) {
    std::array<u8, 5> room = {9, 9, 9, 9, 9};
    Writer writer(std::as_writable_bytes(std::span(room)), Order::big);
    EXPECT_TRUE(writer.write(u8{1}));
    EXPECT_TRUE(writer.zeros(3));
    EXPECT_FALSE(writer.zeros(2));
    EXPECT_EQ(room, (std::array<u8, 5>{1, 0, 0, 0, 9}));

    Reader reader(std::as_bytes(std::span(room)));
    EXPECT_EQ(reader.bytes(2).size(), 2u);
    EXPECT_EQ(reader.remaining(), 3u);
    EXPECT_EQ(reader.bytes(3).size(), 3u);
    EXPECT_TRUE(reader.ok());
    EXPECT_EQ(reader.bytes(0).size(), 0u);
    EXPECT_TRUE(reader.ok());
    EXPECT_TRUE(reader.bytes(static_cast<std::size_t>(-1)).empty());
    EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace ulnet
