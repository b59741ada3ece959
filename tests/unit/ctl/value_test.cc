// Value: kinds, defaults, order of members.
#include "lnet/ctl/value.h"

#include <gtest/gtest.h>

namespace ulnet::ctl {
namespace {

TEST(Value, MapKeepsOrderAndReplaces) {
    Value map = Value::map();
    map.set("b", 1);
    map.set("a", "x");
    map.set("b", 2);
    ASSERT_EQ(map.size(), 2u);
    EXPECT_EQ(map.members()[0].first, "b");
    EXPECT_EQ(map["b"].as_int(), 2);
    EXPECT_EQ(map["a"].as_text(), "x");
    EXPECT_TRUE(map["c"].is_null());
    EXPECT_TRUE(map["c"]["d"].is_null());
    EXPECT_TRUE(map.has("a"));
    EXPECT_FALSE(map.has("c"));
}

TEST(Value, NullBecomesWhatIsPutIntoIt) {
    Value map, list;
    map.set("k", Value::list()).push(true);
    list.push(1.5);
    EXPECT_TRUE(map.is_map());
    EXPECT_TRUE(map["k"].items()[0].as_bool());
    EXPECT_EQ(list.items()[0].as_real(), 1.5);
}

TEST(Value, OtherKindsGiveTheDefault) {
    EXPECT_EQ(Value("7").as_int(3), 3);
    EXPECT_EQ(Value(true).as_int(3), 1);
    EXPECT_EQ(Value(2).as_real(), 2.0);
    EXPECT_EQ(Value(2.5).as_int(9), 9);
    EXPECT_FALSE(Value("true").as_bool());
    EXPECT_EQ(Value(3).as_text(), "");
}

TEST(Value, EqualityIgnoresPositions) {
    Value a = Value::map({{"k", Value(1)}}), b = a;
    b.line = 7;
    b.key_column = 2;
    EXPECT_EQ(a, b);
    b.set("k", 2);
    EXPECT_NE(a, b);
}

}  // namespace
}  // namespace ulnet::ctl
