// CptTable against the constructed vectors, and what they leave open.
#include "cpt/cpt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cpt/pattern.h"

namespace ulnet {
namespace {

Topology two_nodes() {
    Topology topology;
    topology.nodes = {{0, 1, 2, 3}, {4, 5, 6, 7}};
    for (u32 cpu = 0; cpu < 8; ++cpu) topology.cores.push_back({cpu});
    return topology;
}

int errno_of(const std::string& name) {
    const std::map<std::string, int> names = {
        {"EINVAL", EINVAL}, {"ERANGE", ERANGE}, {"EPERM", EPERM}, {"ENODEV", ENODEV}};
    return names.at(name);
}

void check_vector(const nlohmann::json& vector) {
    const auto& fields = vector.at("fields");
    Topology topology;
    topology.nodes = fields.at("nodes").get<std::vector<std::vector<u32>>>();
    topology.cores = fields.at("cores").get<std::vector<std::vector<u32>>>();
    topology.threads_per_core = fields.at("threads_per_core").get<u32>();
    // Below zero is automatic, as zero.
    const u32 count = static_cast<u32>(std::max(fields.at("cpu_npartitions").get<int>(), 0));
    const std::string pattern = fields.at("cpu_pattern").get<std::string>();
    std::string why;
    const auto table = CptTable::make(topology, count, pattern, why);
    if (vector.value("error", false)) {
        ASSERT_FALSE(table.ok());
        EXPECT_EQ(table.status().code(), -errno_of(vector.at("expect").get<std::string>())) << why;
        EXPECT_NE(why.find("cpu_pattern \"" + pattern + "\""), std::string::npos) << why;
        return;
    }
    ASSERT_TRUE(table.ok()) << why;
    const auto expected = fields.at("table").get<std::vector<std::vector<u32>>>();
    ASSERT_EQ(table->size(), expected.size());
    for (CptId cpt = 0; cpt < expected.size(); ++cpt)
        EXPECT_EQ((*table)[cpt].cpus, expected[cpt]) << cpt;
    EXPECT_EQ(table->text(), fields.at("print").get<std::string>());
    // Documented, but refused by that kernel: taken, with a warning that names its error.
    if (vector.contains("kernel_2_17_0")) {
        const std::string error = vector.at("kernel_2_17_0").get<std::string>();
        EXPECT_NE(why.find("kernel 2.17.0 refuses this with " + error), std::string::npos) << why;
    } else {
        EXPECT_EQ(why, "");
    }
}

TEST(CptTable, ConstructedVectors) {
    std::ifstream file(std::string(GOLDEN_DIR) + "/constructed/cpt.jsonl");
    ASSERT_TRUE(file.is_open());
    std::string line;
    u32 count = 0;
    while (std::getline(file, line)) {
        const auto vector = nlohmann::json::parse(line);
        SCOPED_TRACE(vector.at("name").get<std::string>());
        check_vector(vector);
        ++count;
    }
    EXPECT_EQ(count, 100u);
}

TEST(CptTable, ExclusionAloneMakesOnePartition) {
    std::string why;
    auto table = CptTable::make(two_nodes(), 0, "X[0-1]", why);
    ASSERT_TRUE(table.ok()) << why;
    EXPECT_EQ(table->text(), "0\t: 2 3 4 5 6 7\n");
    table = CptTable::make(two_nodes(), 0, "C[0]", why);
    ASSERT_TRUE(table.ok()) << why;
    EXPECT_EQ(table->text(), "0\t: 1 2 3 4 5 6 7\n");
}

TEST(CptTable, NodesOfPartitions) {
    std::string why;
    const auto table = CptTable::make(two_nodes(), 0, "N 0[1] 1[0]", why);
    ASSERT_TRUE(table.ok());
    EXPECT_EQ((*table)[0].node, 1u);
    EXPECT_EQ((*table)[1].node, 0u);
}

TEST(CptTable, MissingCpusAreRefusedByName) {
    Topology topology;
    topology.nodes = {{0, 1}, {5, 7}};
    topology.cores = {{0}, {1}, {5}, {7}};
    std::string why;
    const auto table = CptTable::make(topology, 0, "0[0-1] 1[5-7]", why);
    ASSERT_FALSE(table.ok());
    EXPECT_EQ(table.status().code(), -EINVAL);
    EXPECT_NE(why.find("CPU 6 does not exist"), std::string::npos) << why;
    EXPECT_TRUE(CptTable::make(topology, 2, "", why).ok());
}

TEST(CptTable, EveryCutOfAPatternIsDecided) {
    const std::string pattern = "N 0[0 - 1/1] 1[0x1]";
    for (std::size_t length = 0; length <= pattern.size(); ++length) {
        std::string why;
        const auto table = CptTable::make(two_nodes(), 0, pattern.substr(0, length), why);
        EXPECT_TRUE(table.ok() || !why.empty());
    }
}

TEST(CptTable, EveryCountDividesAllCpus) {
    for (u32 count = 1; count <= 8; ++count) {
        std::string why;
        const auto table = CptTable::make(two_nodes(), count, "", why);
        ASSERT_TRUE(table.ok());
        std::vector<u32> all;
        for (CptId cpt = 0; cpt < table->size(); ++cpt)
            all.insert(all.end(), (*table)[cpt].cpus.begin(), (*table)[cpt].cpus.end());
        std::sort(all.begin(), all.end());
        std::vector<u32> expected(8);
        std::iota(expected.begin(), expected.end(), 0);
        EXPECT_EQ(all, expected);
    }
}

TEST(CptTable, HugeNumbersNeitherOverflowNorHang) {
    std::string why;
    for (const char* pattern : {"4294967295[0]", "0[0-4294967295]", "0[0/4294967295]", "0[0-7/0]",
                                "99999999999[0]", "0[0-99999999999]"})
        EXPECT_FALSE(CptTable::make(two_nodes(), 0, pattern, why).ok()) << pattern;
    EXPECT_FALSE(CptTable::make(two_nodes(), 4294967295, "", why).ok());
}

TEST(CptTable, Single) {
    const CptTable table = CptTable::single(3);
    EXPECT_EQ(table.text(), "0\t: 0 1 2\n");
}

TEST(NumberList, Members) {
    const auto list = [](const char* text, u32 last) {
        const auto numbers = parse_number_list(text, last);
        return numbers.ok() ? *numbers : std::vector<u32>{99};
    };
    EXPECT_EQ(list("3,1,1-2", 7), (std::vector<u32>{1, 2, 3}));
    EXPECT_EQ(list("*/3", 7), (std::vector<u32>{0, 3, 6}));
    EXPECT_EQ(list("010", 8), (std::vector<u32>{8}));
    EXPECT_EQ(list("", 7), (std::vector<u32>{99}));
    EXPECT_EQ(list("1-", 7), (std::vector<u32>{99}));
}

TEST(Topology, OfThisMachine) {
    const Topology topology = Topology::of_machine();
    EXPECT_GT(topology.cpus(), 0u);
    EXPECT_GE(topology.threads_per_core, 1u);
    std::size_t in_cores = 0;
    for (const auto& core : topology.cores) in_cores += core.size();
    EXPECT_EQ(in_cores, topology.cpus());
    std::string why;
    EXPECT_TRUE(CptTable::make(topology, 0, "N", why).ok()) << why;
}

}  // namespace
}  // namespace ulnet
