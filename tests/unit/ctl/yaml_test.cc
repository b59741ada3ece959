// YAML in and out: types of scalars, positions, refusals, the styles of the kernel's tool.
#include <gtest/gtest.h>

#include "cpt/base/prng.h"
#include "lnet/ctl/bounds.h"
#include "lnet/ctl/yaml_scalar.h"
#include "transcript.h"

namespace ulnet::ctl {
namespace {

Value parse(std::string_view text) {
    std::string why;
    Result<Value> value = parse_yaml(text, why);
    EXPECT_TRUE(value.ok()) << text << ": " << why;
    return value.ok() ? *value : Value();
}
std::string refused(std::string_view text) {
    std::string why;
    EXPECT_FALSE(parse_yaml(text, why).ok()) << text;
    return why;
}
constexpr YamlStyle styles[] = {YamlStyle::netlink6, YamlStyle::netlink2, YamlStyle::classic};

TEST(Yaml, PlainScalarsAreTyped) {
    struct Case {
        const char* text;
        Value value;
    };
    const Case cases[] = {
        {"~", {}},
        {"null", {}},
        {"", {}},
        {"true", true},
        {"True", true},
        {"FALSE", false},
        {"yes", "yes"},
        {"0", 0},
        {"-17", -17},
        {"+5", 5},
        {"+-5", "+-5"},
        {"--5", "--5"},
        {"007", 7},
        {"0x1F", 31},
        {"0x", "0x"},
        {"0x-1", "0x-1"},
        {"0o17", 15},
        {"0o8", "0o8"},
        {"9223372036854775807", i64{9223372036854775807}},
        {"9223372036854775808", "9223372036854775808"},
        {"1.5", 1.5},
        {"-.5", -.5},
        {"1.", 1.0},
        {"1e3", 1e3},
        {"1e", "1e"},
        {".", "."},
        {"1.2.3", "1.2.3"},
        {"1e999", "1e999"},
        {"inf", "inf"},
        {"nan", "nan"},
        {"10.0.0.1@tcp", "10.0.0.1@tcp"},
        {"-", "-"},
        {"+", "+"},
    };
    for (const Case& c : cases) EXPECT_EQ(resolve_plain(c.text), c.value) << c.text;
}

TEST(Yaml, QuotedScalarsAreText) {
    EXPECT_EQ(parse("'5'"), Value("5"));
    EXPECT_EQ(parse("\"true\""), Value("true"));
    EXPECT_EQ(parse("! \"x: y\""), Value("x: y"));
    EXPECT_EQ(parse("|\n  two\n  lines\n"), Value("two\nlines\n"));
}

TEST(Yaml, KeepsPositions) {
    const Value value = parse("net:\n  - net type: tcp\n    local NI(s): [1, x]\n");
    EXPECT_EQ(value["net"].key_line, 1u);
    EXPECT_EQ(value["net"].line, 2u);
    EXPECT_EQ(value["net"].column, 3u);
    const Value& block = value["net"].items()[0];
    EXPECT_EQ(block["net type"].line, 2u);
    EXPECT_EQ(block["net type"].column, 15u);
    EXPECT_EQ(block["net type"].key_column, 5u);
    EXPECT_EQ(block["local NI(s)"].items()[1].line, 3u);
    EXPECT_EQ(block["local NI(s)"].items()[1].column, 22u);
}

TEST(Yaml, RefusesWithAPlace) {
    EXPECT_EQ(refused("a: 1\nb: 2\na: 3\n"), "the key 'a' comes twice at line 3, column 1");
    EXPECT_EQ(refused("a: &x 1\n"), "anchors (&name) are not supported at line 1, column 4");
    EXPECT_EQ(refused("a: *x\n"), "aliases (*name) are not supported at line 1, column 4");
    EXPECT_EQ(refused("a: 1\n---\nb: 1\n"), "more than one document at line 2, column 1");
    EXPECT_EQ(refused("? [a]\n: 1\n"), "a key must be a plain word, not a map or list at line 1, "
                                       "column 3");
    EXPECT_NE(refused("net: [\n").find("at line 2, column 1"), std::string::npos);
    EXPECT_NE(refused("a:\n\t- b\n").find("at line 2"), std::string::npos);
}

TEST(Yaml, DepthAndSizeAreBounded) {
    const auto nested = [](std::size_t depth) {
        return std::string(depth, '[') + std::string(depth, ']');
    };
    parse(nested(depth_max));
    EXPECT_NE(refused(nested(depth_max + 1)).find("nested deeper"), std::string::npos);
    EXPECT_NE(refused(std::string(text_bytes_max + 1, ' ')).find("larger than"), std::string::npos);
}

TEST(Yaml, EmptyTextsAreNull) {
    EXPECT_TRUE(parse("").is_null());
    EXPECT_TRUE(parse("# only a comment\n").is_null());
    EXPECT_TRUE(parse("---\n...\n").is_null());
}

TEST(Yaml, TextIsQuotedWhenItMust) {
    const auto scalar = [](const char* text) { return to_yaml(Value(text), YamlStyle::netlink6); };
    EXPECT_EQ(scalar("10.0.0.1@tcp"), "10.0.0.1@tcp\n");
    EXPECT_EQ(scalar("<?>"), "<?>\n");
    EXPECT_EQ(scalar("[0,1]"), "\"[0,1]\"\n");
    EXPECT_EQ(scalar("5"), "\"5\"\n");
    EXPECT_EQ(scalar("no: way"), "\"no: way\"\n");
    EXPECT_EQ(scalar("two\nlines\t\x01"), "\"two\\nlines\\t\\x01\"\n");
    EXPECT_EQ(scalar(""), "\"\"\n");
    EXPECT_EQ(scalar("*@tcp"), "\"*@tcp\"\n");
    EXPECT_EQ(scalar("a \"b\" \\"), "a \"b\" \\\n");
}

TEST(Yaml, StylesOfNestedTrees) {
    Value tree = Value::map();
    Value& ni = tree.set("routing", Value::list()).push(Value::map());
    ni.set("cpt[0]", Value::map()).set("tiny", Value::map({{"npages", Value(0)}}));
    ni.set("on", true);
    ni.set("list", Value::list({Value(1), Value::list({Value("x")}), Value::map(), Value()}));
    EXPECT_EQ(to_yaml(tree, YamlStyle::classic), "routing:\n"
                                                 "    - cpt[0]:\n"
                                                 "          tiny:\n"
                                                 "              npages: 0\n"
                                                 "      on: True\n"
                                                 "      list:\n"
                                                 "          - 1\n"
                                                 "          - - x\n"
                                                 "          - {}\n"
                                                 "          -\n");
    EXPECT_EQ(to_yaml(tree, YamlStyle::netlink6), "routing:\n"
                                                  "-     cpt[0]:\n"
                                                  "            tiny:\n"
                                                  "                  npages: 0\n"
                                                  "      on: true\n"
                                                  "      list:\n"
                                                  "      - 1\n"
                                                  "      -     - x\n"
                                                  "      - {}\n"
                                                  "      -\n");
    for (const YamlStyle style : styles) EXPECT_EQ(parse(to_yaml(tree, style)), tree);
}

// What the kernel's tool printed reads and prints back byte for byte.
TEST(Yaml, KernelOutputRoundTrips) {
    struct Case {
        const char* command;
        YamlStyle style;
    };
    for (const Case& c :
         {Case{"lnetctl net show", YamlStyle::netlink6},
          Case{"lnetctl net show -v 1", YamlStyle::netlink6},
          Case{"lnetctl peer show -v 1", YamlStyle::netlink6},
          Case{"lnetctl peer list", YamlStyle::netlink6},
          Case{"lnetctl stats show", YamlStyle::classic},
          Case{"lnetctl ping --source 10.77.0.3@tcp 10.77.0.2@tcp", YamlStyle::netlink2}}) {
        const std::string text = test::transcript("lnetctl.txt", c.command).output;
        EXPECT_EQ(to_yaml(parse(text), c.style), text) << c.command;
    }
}

// Trees of random shape with texts that tempt the writer.
Value random_tree(Prng& prng, unsigned depth) {
    static const char* const texts[] = {
        "",    "a",   "- x",  "? y", ": z",   "#c",   "x #c", "a: b", "a:", "~",    "1",    "1.5",
        "0x1", "yes", "true", "'q'", "\"q\"", " s",   "s ",   "\n",   "[",  "{}",   "a,b",  "!t",
        "&a",  "*a",  "---",  "...", "%d",    "@",    "`",    "|",    ">",  "\x7f", "é",    "::1",
        "-1",  "-x",  "a\tb", "=",   "<<",    "\xff", "0",    "?",    "-",  "\\n",  "null", "x:y"};
    const auto text = [&] { return std::string(texts[prng.below(std::size(texts))]); };
    switch (prng.below(depth == 0 ? 5 : 8)) {
    case 0:
        return {};
    case 1:
        return prng.below(2) == 0;
    case 2:
        return static_cast<i64>(prng.next());
    case 3:
        return static_cast<double>(static_cast<i64>(prng.next())) / 1024;
    case 4: {
        std::string made = text() + text();
        if (made.find('\xff') != std::string::npos) made = "x";  // is replaced, not kept
        return made;
    }
    case 5: {
        Value list = Value::list();
        for (u64 n = prng.below(4); n > 0; --n) list.push(random_tree(prng, depth - 1));
        return list;
    }
    default: {
        Value map = Value::map();
        for (u64 n = prng.below(4); n > 0; --n) {
            const std::string key = text();
            if (key != "\xff") map.set(key, random_tree(prng, depth - 1));
        }
        return map;
    }
    }
}

TEST(Yaml, RandomTreesRoundTrip) {
    Prng prng(1);
    for (int i = 0; i < 3000; ++i) {
        const Value tree = random_tree(prng, 4);
        for (const YamlStyle style : styles) {
            std::string why;
            const std::string text = to_yaml(tree, style);
            const Result<Value> back = parse_yaml(text, why);
            ASSERT_TRUE(back.ok()) << why << "\n" << text;
            ASSERT_EQ(*back, tree) << text << to_json(tree);
        }
        std::string why;
        const Result<Value> back = parse_json(to_json(tree), why);
        ASSERT_TRUE(back.ok()) << why;
        ASSERT_EQ(*back, tree);
    }
}

}  // namespace
}  // namespace ulnet::ctl
