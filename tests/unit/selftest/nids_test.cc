// NID expressions of group commands.
#include "selftest/nids.h"

#include <gtest/gtest.h>

namespace ulnet::lst {
namespace {

std::vector<std::string> expand(std::string_view expression) {
    std::string why;
    const Result<std::vector<Nid>> nids = expand_nids(expression, why);
    std::vector<std::string> texts;
    if (!nids.ok()) return {"error " + std::to_string(nids.status().code())};
    for (const Nid& nid : *nids) texts.push_back(to_text(nid));
    return texts;
}

using Texts = std::vector<std::string>;

TEST(SelftestNids, expands) {
    EXPECT_EQ(expand("10.77.1.2@tcp"), Texts{"10.77.1.2@tcp"});
    EXPECT_EQ(expand("10.77.1.2"), Texts{"10.77.1.2@tcp"});  // as everywhere in LNet
    EXPECT_EQ(expand("10.77.1.[2-4]@tcp"),
              (Texts{"10.77.1.2@tcp", "10.77.1.3@tcp", "10.77.1.4@tcp"}));
    EXPECT_EQ(expand("10.77.1.[1,3,9]@o2ib1"),
              (Texts{"10.77.1.1@o2ib1", "10.77.1.3@o2ib1", "10.77.1.9@o2ib1"}));
    EXPECT_EQ(expand("1.2.3.[1-9/4]@tcp"), (Texts{"1.2.3.1@tcp", "1.2.3.5@tcp", "1.2.3.9@tcp"}));
    EXPECT_EQ(expand("1.[1-2].3.[4,6]@tcp"),
              (Texts{"1.1.3.4@tcp", "1.1.3.6@tcp", "1.2.3.4@tcp", "1.2.3.6@tcp"}));
    EXPECT_EQ(expand("1.2.3.[ 4 , 7 - 8 ]@tcp"),
              (Texts{"1.2.3.4@tcp", "1.2.3.7@tcp", "1.2.3.8@tcp"}));
}

TEST(SelftestNids, refuses) {
    for (const char* bad :
         {"", "12345-10.77.1.2@tcp", "10.77.1.[2-4@tcp", "10.77.1.[]@tcp", "10.77.1.[4-2]@tcp",
          "10.77.1.[3-3]@tcp", "10.77.1.[1-9/0]@tcp", "10.77.1.[a]@tcp", "10.77.1.[1,]@tcp",
          "10.77.1.[255-256]@tcp", "*@tcp", "<?>", "10.77.1.[-2]@tcp", "10.77.1.[1-70000]@tcp",
          "10.77.1.2@tcp,10.77.1.3@tcp", "1@lo", "[0-1]@lo"})
        EXPECT_EQ(expand(bad), Texts{"error -22"}) << bad;
    EXPECT_EQ(expand("1.[0-255].[0-255].1@tcp"), Texts{"error -7"});
    EXPECT_EQ(expand("fd00:77::2@tcp"), Texts{"error -97"});
    EXPECT_EQ(expand("0@lo"), Texts{"0@lo"});
}

TEST(SelftestNids, says_why) {
    std::string why;
    EXPECT_FALSE(expand_nids("fd00:77::2@tcp", why).ok());
    EXPECT_NE(why.find("fd00:77::2@tcp"), std::string::npos);
    EXPECT_NE(why.find("4-byte"), std::string::npos);
    EXPECT_FALSE(expand_nids("10.77.1.[4-2]@tcp", why).ok());
    EXPECT_NE(why.find("10.77.1.[4-2]@tcp"), std::string::npos);
}

}  // namespace
}  // namespace ulnet::lst
