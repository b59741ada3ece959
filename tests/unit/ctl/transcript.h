// Output of the kernel's tools from tests/golden/transcripts, for comparing byte for byte.
#pragma once

#include <string>
#include <string_view>

namespace ulnet::test {

struct Transcript {
    std::string output;  // stdout and stderr as the terminal showed them
    int exit_code = -1;
};

// What `command` printed the nth time it comes in `file`. A missing one fails the test.
Transcript transcript(std::string_view file, std::string_view command, int nth = 1);
// The whole file.
std::string transcript_file(std::string_view file);

}  // namespace ulnet::test
