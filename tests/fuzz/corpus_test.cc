// Every input below corpus/NAME goes through target NAME: in all build types, without libFuzzer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace ulnet {
namespace {

const std::filesystem::path corpus = ULNET_CORPUS_DIR;

const FuzzTarget* find(const std::string& name) {
    for (const FuzzTarget* target = FuzzTarget::first; target != nullptr; target = target->next)
        if (target->name == name) return target;
    return nullptr;
}

void run(const FuzzTarget& target, const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    target.one(std::as_bytes(std::span(bytes)));
}

// A target that fails ends the program, so say first what it was given.
TEST(Corpus, EveryInputRuns) {
    unsigned inputs = 0;
    for (const auto& folder : std::filesystem::directory_iterator(corpus)) {
        const FuzzTarget* const target = find(folder.path().filename());
        ASSERT_NE(target, nullptr) << folder.path() << " belongs to no target";
        for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
            SCOPED_TRACE(file.path());
            run(*target, file.path());
            ++inputs;
        }
    }
    EXPECT_GT(inputs, 0u);
}

TEST(Corpus, NoTargetMindsAnEmptyInput) {
    for (const FuzzTarget* target = FuzzTarget::first; target != nullptr; target = target->next)
        target->one({});
}

}  // namespace
}  // namespace ulnet
