// NID lists: every vector, canonical text, expansion, bounds, random agreement of the three.
#include "lnet/nidrange.h"

#include <cerrno>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/golden/golden.h"
#include "tests/unit/wire/random_nid.h"

namespace ulnet {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

NidList list_of(std::string_view text) {
    NidList list;
    const Error error = NidList::parse(text, list);
    EXPECT_TRUE(error.ok()) << text << ": " << error.text;
    return list;
}

std::string refusal(std::string_view text) {
    NidList list = list_of("*@tcp");
    const Error error = NidList::parse(text, list);
    EXPECT_FALSE(error.ok()) << text;
    EXPECT_EQ(list.text(), "*@tcp") << "a refused text must leave the list alone";
    return error.text;
}

std::vector<std::string> expanded(std::string_view text) {
    std::vector<Nid> nids;
    const Error error = list_of(text).expand(nids);
    EXPECT_TRUE(error.ok()) << error.text;
    std::vector<std::string> texts;
    for (const Nid& nid : nids) texts.push_back(to_text(nid));
    return texts;
}

void check_vector(const json& record) {
    const json& fields = record["fields"];
    const std::string text = fields["expr"];
    NidList list;
    const Error error = NidList::parse(text, list);
    if (record.value("error", false)) {
        EXPECT_FALSE(error.ok()) << text << " gives " << list.text();
        EXPECT_EQ(error.status.code(), -EINVAL);
        EXPECT_FALSE(error.text.empty());
        return;
    }
    ASSERT_TRUE(error.ok()) << error.text;
    const NidList again = list_of(list.text());
    EXPECT_EQ(again.text(), list.text());
    for (const json& member : fields["members"]) {
        const Nid nid = *parse_nid(std::string(member));
        EXPECT_TRUE(list.matches(nid)) << member;
        EXPECT_TRUE(again.matches(nid)) << member << " in " << list.text();
    }
    for (const json& other : fields["nonmembers"]) {
        EXPECT_FALSE(list.matches(*parse_nid(std::string(other)))) << other;
    }
    if (fields.contains("canonical")) {
        EXPECT_EQ(list.text(), golden::text(fields, "canonical"));
    }
}

TEST(NidList, ConstructedVectors) {
    EXPECT_EQ(golden::for_each("constructed/nidlist.jsonl", "struct", {{"nidlist", check_vector}}),
              117u);
}

TEST(NidList, CanonicalText) {
    const std::pair<const char*, const char*> cases[] = {
        {"*.*.*.*@tcp", "*.*.*.*@tcp"},
        {"[0-255].0.[*].[0-255/1]@tcp", "*.0.*.*@tcp"},
        {"1.2.3.[7-7]@tcp", "1.2.3.7@tcp"},
        {"[*]@gni", "*@gni"},
        {"[0-0xffffffff]@gni", "*@gni"},
        {"1.2.3.[ 1 , 3 - 5 / 2 ]@tcp", "1.2.3.[1,3-5/2]@tcp"},
        {"  1.2.3.4@tcp\t\n 5.6.7.8@tcp  ", "1.2.3.4@tcp 5.6.7.8@tcp"},
        {"1.1.1.1@tcp 2@gni 3.3.3.3@tcp", "1.1.1.1@tcp 3.3.3.3@tcp 2@gni"},
        {"1.1.1.1@tcp 2@gni *@tcp", "*@tcp 2@gni"},
        {"192.168.77.5/16@tcp", "192.168.0.0/16@tcp"},  // host bits go
        {"2001:db8::5:1/112@tcp", "2001:db8::5:0/112@tcp"},
        {"::ffff:1.2.3.4@tcp", "::ffff:1.2.3.4@tcp"},
        {"1.2.3.4@tcp010", "1.2.3.4@tcp8"},
    };
    for (const auto& [text, canonical] : cases) {
        EXPECT_EQ(list_of(text).text(), canonical) << text;
        EXPECT_EQ(list_of(canonical).text(), canonical) << text;
    }
}

TEST(NidList, RefusalsNameThePartAndTheRule) {
    EXPECT_THAT(
        refusal("10.0.0.1@tcp 1.2.3.256@tcp"),
        testing::AllOf(HasSubstr("1.2.3.256@tcp"), HasSubstr("\"256\""), HasSubstr("0 to 255")));
    EXPECT_THAT(refusal("1.2.3.4"), HasSubstr("@tcp"));
    EXPECT_THAT(refusal("*"), HasSubstr("network"));
    EXPECT_THAT(refusal(""), HasSubstr("at least one"));
    EXPECT_THAT(refusal(" \t "), HasSubstr("at least one"));
    EXPECT_THAT(refusal("1.2.3.[9-1]@tcp"), HasSubstr("greater"));
    EXPECT_THAT(refusal("1.2.3.[1-9/0]@tcp"), HasSubstr("1 to 255"));
    EXPECT_THAT(refusal("1.2.3@tcp"), HasSubstr("four numbers"));
    EXPECT_THAT(refusal("1.2.3.4.@tcp"), HasSubstr("four numbers"));
    EXPECT_THAT(refusal("1.2.3.4@quadrics"), HasSubstr("not a network"));
    EXPECT_THAT(refusal("1.2.3.4@tcp65536"), HasSubstr("65535"));
    EXPECT_THAT(refusal("1.2.3.4/24@gni"), HasSubstr("no such addresses"));
    EXPECT_THAT(refusal("::1@gip"), HasSubstr("no such addresses"));
    EXPECT_THAT(refusal("1.2.3.4/33@tcp"), HasSubstr("1 to 32"));
    EXPECT_THAT(refusal("01.2.3.4/24@tcp"), HasSubstr("not an IPv4 address"));
}

TEST(NidList, MoreRefusals) {
    for (const char* text : {"[1-2@gni",
                             "1-2]@gni",
                             "[[1]]@gni",
                             "[1][2]@gni",
                             "[1 2]@gni",
                             "1.2.3.[1-2.5]@tcp",
                             "[1-4294967296]@gni",
                             "[1-9/4294967296]@gni",
                             "1.2.3.4@lo",
                             "1@lo0",
                             "1.2.3.+4@tcp",
                             "1.2.3.4@tcp,2",
                             "[]@gni",
                             "[-]@gni",
                             "[1-]@gni",
                             "[1-2/]@gni",
                             "[*-5]@gni",
                             "[1-*]@gni",
                             "*@",
                             "*@*",
                             "*.*@tcp",
                             "1.2.3.4/24/8@tcp",
                             "2001:db8::/@tcp",
                             "/24@tcp",
                             ":@tcp",
                             "<?>",
                             "1.2.3.[1-@tcp 5.6.7.8@tcp"}) {
        refusal(text);
    }
}

TEST(NidList, TextHasABound) {
    std::string text;
    while (text.size() <= NidList::text_bytes_max) text += "10.0.0.1@tcp ";
    NidList list;
    EXPECT_EQ(NidList::parse(text, list).status.code(), -E2BIG);
    text.resize(text.size() - 2 * std::string_view("10.0.0.1@tcp ").size());
    EXPECT_TRUE(NidList::parse(text, list).ok());
}

TEST(NidList, AnyIsNoMember) {
    EXPECT_FALSE(list_of("*@tcp *@lo").matches(Nid()));
    EXPECT_FALSE(NidList().matches(nid_lo()));
    EXPECT_TRUE(NidList().empty());
}

TEST(NidList, Expansion) {
    EXPECT_THAT(expanded("10.0.0.[1-5/2]@tcp"),
                ElementsAre("10.0.0.1@tcp", "10.0.0.3@tcp", "10.0.0.5@tcp"));
    EXPECT_THAT(expanded("10.0.[1,2].[8-9]@tcp1"),
                ElementsAre("10.0.1.8@tcp1", "10.0.1.9@tcp1", "10.0.2.8@tcp1", "10.0.2.9@tcp1"));
    // In the order of the text, each once.
    EXPECT_THAT(expanded("10.0.0.[5,1-2,1]@tcp 10.0.0.2@tcp 7@gni"),
                ElementsAre("10.0.0.5@tcp", "10.0.0.1@tcp", "10.0.0.2@tcp", "7@gni"));
    EXPECT_THAT(expanded("10.0.0.254/31@o2ib"), ElementsAre("10.0.0.254@o2ib", "10.0.0.255@o2ib"));
    EXPECT_THAT(expanded("2001:db8::fe/127@tcp fd00::1@tcp"),
                ElementsAre("2001:db8::fe@tcp", "2001:db8::ff@tcp", "fd00::1@tcp"));
    EXPECT_THAT(expanded("*@lo"), ElementsAre("0@lo"));
    EXPECT_THAT(expanded("[0-3]@lo"), ElementsAre("0@lo"));
    EXPECT_TRUE(expanded("5@lo").empty());
    EXPECT_THAT(expanded("[4294967294-4294967295]@kfi"),
                ElementsAre("4294967294@kfi", "4294967295@kfi"));
}

TEST(NidList, ExpansionHasABound) {
    EXPECT_EQ(expanded("10.0.*.*@tcp").size(), 65536u);
    EXPECT_EQ(expanded("10.0.0.0/16@tcp").size(), 65536u);
    EXPECT_EQ(expanded("2001:db8::/112@tcp").size(), 65536u);
    for (const char* text :
         {"10.0.*.*@tcp 10.1.0.1@tcp", "*@tcp", "*.*.*.*@tcp", "*@gni", "10.0.0.0/15@tcp",
          "2001:db8::/64@tcp", "2001:db8::/1@tcp", "[0-65536]@gni"}) {
        std::vector<Nid> nids = {nid_lo()};
        const Error error = list_of(text).expand(nids);
        EXPECT_EQ(error.status.code(), -E2BIG) << text;
        EXPECT_THAT(error.text, HasSubstr("65536")) << text;
        EXPECT_EQ(nids.size(), 1u) << "a refused expansion must leave the result alone";
    }
    std::vector<Nid> nids;
    EXPECT_TRUE(list_of("10.0.0.[1-4]@tcp").expand(nids, 4).ok());
    EXPECT_FALSE(list_of("10.0.0.[1-5]@tcp").expand(nids, 4).ok());
    EXPECT_EQ(nids.size(), 4u);
}

std::string random_component(Prng& prng, u64 max) {
    switch (prng.below(4)) {
    case 0:
        return std::to_string(prng.below(max + 1));
    case 1:
        return "*";
    default: {
        std::string text = "[";
        for (u64 left = 1 + prng.below(3); left > 0; --left) {
            const u64 low = prng.below(max + 1);
            text += std::to_string(low) + '-' + std::to_string(low + prng.below(max + 1 - low));
            if (prng.below(2) == 0) text += '/' + std::to_string(1 + prng.below(9));
            text += left > 1 ? "," : "]";
        }
        return text;
    }
    }
}

// Text, members and expansion of random lists agree.
TEST(NidList, RandomLists) {
    Prng prng(31);
    for (int round = 0; round < 300; ++round) {
        std::string text = "10.77." + random_component(prng, 3) + '.' +
                           random_component(prng, 255) + "@tcp " + random_component(prng, 700) +
                           "@gni1";
        if (prng.below(3) == 0) {
            text += " 10.77.1.0/" + std::to_string(1 + prng.below(32)) + "@tcp";
        }
        const NidList list = list_of(text);
        const NidList again = list_of(list.text());
        ASSERT_EQ(again.text(), list.text());
        std::vector<Nid> nids;
        const bool finite = list.expand(nids).ok();
        const std::set<Nid> named(nids.begin(), nids.end());
        ASSERT_EQ(named.size(), nids.size());
        for (const Nid& nid : nids) {
            ASSERT_TRUE(list.matches(nid) && again.matches(nid)) << text << ' ' << to_text(nid);
        }
        for (int i = 0; i < 500; ++i) {
            const Nid nid =
                prng.below(2) == 0
                    ? Nid::ipv4(Net::of(NetType::gni, 1), static_cast<u32>(prng.below(800)))
                    : Nid::ipv4(Net::of(NetType::tcp, 0),
                                0x0a4d0000 + static_cast<u32>(prng.below(1024)));
            ASSERT_EQ(list.matches(nid), again.matches(nid)) << text << ' ' << to_text(nid);
            if (finite) {
                ASSERT_EQ(list.matches(nid), named.contains(nid)) << text;
            }
        }
    }
}

}  // namespace
}  // namespace ulnet
