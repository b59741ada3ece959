// Validation by the tables: what is allowed, what is refused and the sentence for it.
#include "lnet/ctl/schema.h"

#include <gtest/gtest.h>

#include <set>

namespace ulnet::ctl {
namespace {

const Verb& verb_of(std::string_view object, std::string_view verb) {
    return *find_verb(*find_object(object), verb);
}
Value yaml(std::string_view text) {
    std::string why;
    Result<Value> value = parse_yaml(text, why);
    EXPECT_TRUE(value.ok()) << why;
    return value.ok() ? *value : Value();
}

TEST(Schema, TablesAreSound) {
    for (const Object& object : objects()) {
        for (const Verb& verb : object.verbs) {
            SCOPED_TRACE(std::string(object.name) + " " + std::string(verb.name));
            EXPECT_FALSE(verb.help.empty());
            std::set<std::string_view> names, options;
            std::set<char> letters;
            std::set<std::pair<std::string_view, std::string_view>> keys;
            for (const Field& field : verb.fields) {
                EXPECT_TRUE(names.insert(field.name).second) << field.name;
                EXPECT_LE(field.low, field.high) << field.name;
                if (!field.option.empty()) {
                    EXPECT_TRUE(options.insert(field.option).second) << field.option;
                    EXPECT_FALSE(field.help.empty()) << field.option;
                    EXPECT_NE(field.option, "help");
                }
                EXPECT_TRUE(field.letter == 0 || letters.insert(field.letter).second);
                EXPECT_NE(field.letter, 'h');
                EXPECT_TRUE(field.key.empty() || keys.insert({field.group, field.key}).second)
                    << field.key;
            }
            EXPECT_TRUE(verb.rest.empty() || find_field(verb, verb.rest) != nullptr);
        }
    }
    EXPECT_EQ(find_object("nothing"), nullptr);
}

TEST(Schema, GoodArgumentsGetTheirTypes) {
    Value out;
    const Value args = yaml("{net: tcp1, if: 'eth0,eth1[0,1]', peer_credits: '16', credits: 512,"
                            " cpt: '[0]', conns_per_peer: '4', tunable: null}");
    Value given = Value::map();
    for (const auto& [key, value] : args.members())
        if (!value.is_null()) given.set(key, value);
    given.set("tunables", Value::list({Value("tos=5"), Value("mode=on")}));
    const Error error = validate(verb_of("net", "add"), given, out);
    ASSERT_TRUE(error.ok()) << error.text;
    EXPECT_EQ(to_json(out), R"({"net":"tcp1","if":["eth0","eth1[0,1]"],"peer_credits":16,)"
                            R"("credits":512,"cpt":"[0]","tunables":{"conns_per_peer":"4",)"
                            R"("tos":"5","mode":"on"}})");
}

struct Refused {
    const char* object;
    const char* verb;
    const char* args;
    int code;
    const char* text;
};

TEST(Schema, RefusalsNameKeyValueAndWhatIsAllowed) {
    const Refused cases[] = {
        {"net", "add", "{peer_credits: x}", EINVAL,
         "line 1, column 16: peer_credits: 'x' is not allowed; allowed: a number, 1 ... 65535"},
        {"net", "add", "{peer_credits: 0}", ERANGE,
         "line 1, column 16: peer_credits: '0' is not allowed; allowed: 1 ... 65535"},
        {"net", "add", "{peer_credits: '70000'}", ERANGE,
         "line 1, column 16: peer_credits: '70000' is not allowed; allowed: 1 ... 65535"},
        {"net", "add", "{peer_timeout: -2}", ERANGE,
         "line 1, column 16: peer_timeout: '-2' is not allowed; allowed: -1 ... 1000000 s"},
        {"net", "add", "{peer_credits: 8.5}", EINVAL,
         "line 1, column 16: peer_credits: '8.5' is not allowed; allowed: a number, 1 ... 65535"},
        {"net", "add", "{peer_credits: ''}", EINVAL,
         "line 1, column 16: peer_credits: '' is not allowed; allowed: a number, 1 ... 65535"},
        {"net", "add", "{net: bogus}", ENOENT,
         "line 1, column 7: cannot parse net: 'bogus' is not allowed; allowed: the name of a "
         "network, for example tcp or tcp1"},
        {"net", "add", "{if: []}", EINVAL,
         "line 1, column 6: if: a list is not allowed; allowed: interfaces, for example eth0 or "
         "eth0[0,1]"},
        {"net", "add", "{if: [1]}", EINVAL,
         "line 1, column 7: if: '1' is not allowed; allowed: interfaces, for example eth0 or "
         "eth0[0,1]"},
        {"net", "add", "{tunables: novalue}", EINVAL,
         "line 1, column 12: tunables: 'novalue' is not allowed; allowed: NAME=VALUE, NAME being "
         "a tunable of the driver"},
        {"net", "add", "{conns_per_peer: 1, tunables: {conns_per_peer: 2}}", EINVAL,
         "conns_per_peer: given twice; allowed: once"},
        {"net", "add", "{skip_mr_route_setup: 2}", EINVAL,
         "line 1, column 23: skip_mr_route_setup: '2' is not allowed; allowed: true, false"},
        {"net", "show", "{bogus: 1}", EINVAL,
         "line 1, column 2: unknown key 'bogus'; allowed: net, verbose"},
        {"net", "show", "{verbose: 6}", ERANGE,
         "line 1, column 11: verbose: '6' is not allowed; allowed: 0 ... 5"},
        {"net", "show", "[]", EINVAL,
         "line 1, column 1: arguments: a list is not allowed; allowed: a map"},
        {"net", "set", "{nid: garbage}", EINVAL,
         "line 1, column 7: nid: 'garbage' is not allowed; allowed: a NID, for example "
         "192.168.10.1@tcp"},
        {"stats", "show", "{x: 1}", EINVAL, "line 1, column 2: unknown key 'x'; allowed: none"},
        {"ping", "run", "{timeout: 0}", ERANGE,
         "line 1, column 11: timeout: '0' is not allowed; allowed: 1 ... 1000 s"},
    };
    for (const Refused& c : cases) {
        Value out;
        const Error error = validate(verb_of(c.object, c.verb), yaml(c.args), out);
        EXPECT_EQ(error.status.code(), -c.code) << c.args;
        EXPECT_EQ(error.text, c.text);
    }
}

TEST(Schema, LongValuesAreCutInErrors) {
    Value out;
    const Error error =
        validate(verb_of("net", "set"), Value::map({{"nid", Value(std::string(1000, 'x'))}}), out);
    EXPECT_LT(error.text.size(), 200u);
}

TEST(Schema, FlattenFollowsGroups) {
    Value out;
    const Error error = flatten(verb_of("net", "add"),
                                yaml("nid: 10.0.0.1@tcp\nstatus: up\nstatistics: {x: 1}\n"
                                     "interfaces:\n  0: eth0\ntunables:\n  credits: 5\n"
                                     "lnd tunables:\n  tos: 3\nCPT: '[0]'\n"),
                                out);
    ASSERT_TRUE(error.ok()) << error.text;
    EXPECT_EQ(to_json(out), R"({"nid":"10.0.0.1@tcp","if":{"0":"eth0"},"credits":5,)"
                            R"("tunables":{"tos":3},"cpt":"[0]"})");
}

TEST(Schema, FlattenRefuses) {
    const struct {
        const char* text;
        const char* says;
    } cases[] = {
        {"nid: x\nbogus: 1\n", "line 2, column 1: unknown key 'bogus'; allowed: net type, "},
        {"tunables:\n  bogus: 1\n",
         "line 2, column 3: unknown key 'bogus'; allowed: peer_timeout, peer_credits, "
         "peer_buffer_credits, credits"},
        {"tunables: 5\n", "line 1, column 11: tunables: '5' is not allowed; allowed: a map"},
        {"- 1\n", "line 1, column 1: add: a list is not allowed; allowed: a map"},
    };
    for (const auto& c : cases) {
        Value out;
        const Error error = flatten(verb_of("net", "add"), yaml(c.text), out);
        EXPECT_TRUE(error.text.starts_with(c.says)) << error.text;
    }
}

TEST(Schema, Cpts) {
    const auto cpts = [](const Value& value, u32 count) {
        std::vector<u32> out;
        return parse_cpts(value, count, out).ok() ? out : std::vector<u32>{};
    };
    using List = std::vector<u32>;
    EXPECT_EQ(cpts("[0]", 1), List{0});
    EXPECT_EQ(cpts("[0-2,5]", 6), (List{0, 1, 2, 5}));
    EXPECT_EQ(cpts("3,1,1-2", 4), (List{1, 2, 3}));
    EXPECT_EQ(cpts(Value::list({Value(1), Value(0)}), 2), (List{0, 1}));
    EXPECT_EQ(cpts(2, 4), List{2});
    for (const char* bad : {"", "[]", "[", "[1", "4", "[0-4]", "2-1", "0,", ",0", "a", "-1", "0--1",
                            "0-", "99999999999", "0 1"})
        EXPECT_TRUE(cpts(bad, 4).empty()) << bad;
    std::vector<u32> out;
    const Error error = parse_cpts("[9]", 2, out);
    EXPECT_EQ(error.status.code(), -ERANGE);
    EXPECT_EQ(error.text, "cpt: '[9]' is not allowed; allowed: partitions 0 ... 1 of this node, "
                          "for example [0] or [0-1,3]");
}

}  // namespace
}  // namespace ulnet::ctl
