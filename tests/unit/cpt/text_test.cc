// Numbers as people write them.
#include "cpt/base/text.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace ulnet {
namespace {

using namespace std::chrono_literals;

template <class T> void expect(const Result<T>& result, T value) {
    ASSERT_TRUE(result.ok()) << result.status().text();
    EXPECT_EQ(*result, value);
}
template <class T> int error_of(const Result<T>& result) {
    return -result.status().code();
}

TEST(Text, Unsigned) {
    expect<u64>(parse_u64("0"), 0);
    expect<u64>(parse_u64("18446744073709551615"), 18446744073709551615u);
    EXPECT_EQ(error_of(parse_u64("18446744073709551616")), ERANGE);
    expect<u64>(parse_u64("5", 5, 7), 5);
    expect<u64>(parse_u64("7", 5, 7), 7);
    EXPECT_EQ(error_of(parse_u64("4", 5, 7)), ERANGE);
    EXPECT_EQ(error_of(parse_u64("8", 5, 7)), ERANGE);
    for (const char* text : {"", " 1", "1 ", "+1", "-1", "0x1", "1.0", "a", "1a", "\n"})
        EXPECT_EQ(error_of(parse_u64(text)), EINVAL) << text;
}

TEST(Text, Signed) {
    expect<i64>(parse_i64("-1"), -1);
    expect<i64>(parse_i64("9223372036854775807"), INT64_MAX);
    expect<i64>(parse_i64("-9223372036854775808"), INT64_MIN);
    EXPECT_EQ(error_of(parse_i64("9223372036854775808")), ERANGE);
    EXPECT_EQ(error_of(parse_i64("-2", -1, 1)), ERANGE);
    for (const char* text : {"", "-", "--1", "+1"})
        EXPECT_EQ(error_of(parse_i64(text)), EINVAL) << text;
}

TEST(Text, CNumbers) {
    expect<u64>(parse_c_number("0"), 0);
    expect<u64>(parse_c_number("0x1F"), 31);
    expect<u64>(parse_c_number("017"), 15);
    expect<u64>(parse_c_number("17"), 17);
    for (const char* text : {"", "0x", "08", "x1", "-1", "0x-1"})
        EXPECT_EQ(error_of(parse_c_number(text)), EINVAL) << text;
}

TEST(Text, Sizes) {
    expect<u64>(parse_size("4096"), 4096);
    expect<u64>(parse_size("4K"), 4096);
    expect<u64>(parse_size("4k"), 4096);
    expect<u64>(parse_size("1MB"), 1u << 20);
    expect<u64>(parse_size("16KiB"), 16384);
    expect<u64>(parse_size("2g"), u64{2} << 30);
    expect<u64>(parse_size("1T"), u64{1} << 40);
    expect<u64>(parse_size("16777215T"), u64{16777215} << 40);
    EXPECT_EQ(error_of(parse_size("16777216T")), ERANGE);
    EXPECT_EQ(error_of(parse_size("1M", 0, 1048575)), ERANGE);
    for (const char* text : {"", "K", "4 K", "4KK", "4Ki", "4B", "4P", "-4K", "1.5M"})
        EXPECT_EQ(error_of(parse_size(text)), EINVAL) << text;
}

TEST(Text, Durations) {
    expect<Duration>(parse_duration("10"), 10s);
    expect<Duration>(parse_duration("10", 1ms), 10ms);
    expect<Duration>(parse_duration("10s"), 10s);
    expect<Duration>(parse_duration("500ms"), 500ms);
    expect<Duration>(parse_duration("7us"), 7us);
    expect<Duration>(parse_duration("7ns"), 7ns);
    expect<Duration>(parse_duration("2m"), 120s);
    expect<Duration>(parse_duration("2h"), 2h);
    expect<Duration>(parse_duration("3d"), 72h);
    EXPECT_EQ(error_of(parse_duration("106752d")), ERANGE);
    EXPECT_EQ(error_of(parse_duration("18446744073709551615s")), ERANGE);
    EXPECT_EQ(error_of(parse_duration("5s", 1s, 6s)), ERANGE);
    EXPECT_EQ(error_of(parse_duration("5s", 1s, 0s, 4s)), ERANGE);
    for (const char* text : {"", "s", "1 s", "1S", "1min", "-1s", "1.5s"})
        EXPECT_EQ(error_of(parse_duration(text)), EINVAL) << text;
}

TEST(Text, Trim) {
    EXPECT_EQ(trim("  a b\t\r\n"), "a b");
    EXPECT_EQ(trim(" \n"), "");
    EXPECT_EQ(trim(""), "");
}

}  // namespace
}  // namespace ulnet
