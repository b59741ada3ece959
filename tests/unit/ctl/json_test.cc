// JSON in and out: round trips, bounds, what is refused and how.
#include <gtest/gtest.h>

#include "lnet/ctl/bounds.h"
#include "lnet/ctl/value.h"

namespace ulnet::ctl {
namespace {

Value parse(std::string_view text) {
    std::string why;
    Result<Value> value = parse_json(text, why);
    EXPECT_TRUE(value.ok()) << text << ": " << why;
    return value.ok() ? *value : Value();
}
std::string refused(std::string_view text) {
    std::string why;
    EXPECT_FALSE(parse_json(text, why).ok()) << text;
    EXPECT_FALSE(why.empty());
    return why;
}

TEST(Json, RoundTripsExactText) {
    for (const char* text :
         {"null", "true", "false", "0", "-1", "9223372036854775807", "-9223372036854775808", "1.5",
          "-2.0", "1e+300", "\"\"", "\"a\\\"b\\\\c\\n\\u0001\"", "[]", "{}", "[1,[2,[]],{}]",
          "{\"b\":1,\"a\":[null,true,\"x\"],\"c\":{\"d\":{}}}", "\"\xc3\xa4\""})
        EXPECT_EQ(to_json(parse(text)), text);
}

TEST(Json, KeepsNumberKinds) {
    EXPECT_TRUE(parse("3").is_integer());
    EXPECT_EQ(parse("3.0").kind(), Value::Kind::real);
    EXPECT_EQ(to_json(Value(0.1)), "0.1");
    EXPECT_EQ(to_json(Value(1.0 / 0.0)), "null");
}

TEST(Json, BytesThatAreNotUtf8AreReplaced) {
    EXPECT_EQ(to_json(Value("a\xff"
                            "b")),
              "\"a\xef\xbf\xbd"
              "b\"");
    refused("\"a\xff\"");
}

TEST(Json, RefusesWithAPlace) {
    EXPECT_NE(refused("{\"a\": 1,\n  \"b\" 2}").find("at line 2, column"), std::string::npos);
    EXPECT_NE(refused("{\"a\": 1, \"a\": 2}").find("'a' comes twice"), std::string::npos);
    EXPECT_NE(refused("18446744073709551615").find("63 bits"), std::string::npos);
    EXPECT_NE(refused("1e999"), "");
}

TEST(Json, EveryTruncationIsRefused) {
    const std::string text = R"({"id":1,"args":{"nid":["10.0.0.1@tcp",null,true,-1.5e3]}})";
    for (std::size_t length = 0; length < text.size(); ++length)
        refused(std::string_view(text).substr(0, length));
    parse(text);
}

TEST(Json, DepthIsBounded) {
    const auto nested = [](std::size_t depth) {
        return std::string(depth, '[') + std::string(depth, ']');
    };
    parse(nested(depth_max));
    EXPECT_NE(refused(nested(depth_max + 1)).find("nested deeper"), std::string::npos);
    refused(std::string(1'000'000, '['));
}

TEST(Json, SizeAndNumberOfValuesAreBounded) {
    EXPECT_NE(refused(std::string(text_bytes_max + 1, ' ')).find("larger than"), std::string::npos);
    std::string many = "[0";
    for (std::size_t i = 0; i < values_max; ++i) many += ",0";
    EXPECT_NE(refused(many + "]").find("values"), std::string::npos);
}

}  // namespace
}  // namespace ulnet::ctl
