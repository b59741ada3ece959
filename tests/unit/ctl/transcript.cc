// Reads tests/golden/transcripts. On the test's thread.
#include "transcript.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ulnet::test {

std::string transcript_file(std::string_view file) {
    std::ifstream in(std::string(ULNET_GOLDEN_DIR) + "/transcripts/" + std::string(file));
    EXPECT_TRUE(in.good()) << file;
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
}

Transcript transcript(std::string_view file, std::string_view command, int nth) {
    std::istringstream lines(transcript_file(file));
    std::string line;
    const std::string plain = "$ " + std::string(command);
    const std::string timed = " sh: " + std::string(command);
    while (std::getline(lines, line)) {
        if (line != plain && !(line.starts_with("## ") && line.ends_with(timed))) continue;
        if (--nth > 0) continue;
        Transcript found;
        while (std::getline(lines, line) && !line.starts_with("rc=")) found.output += line + "\n";
        found.exit_code = std::atoi(line.c_str() + 3);
        return found;
    }
    ADD_FAILURE() << file << " has no command '" << command << "'";
    return {};
}

}  // namespace ulnet::test
