// Texts of the messages of the self test, for wiredump. Pure functions.
#pragma once

#include <span>
#include <string>

#include "selftest/wire.h"

namespace ulnet::tools {

// A line, and below it the fields; false: it is no such message.
bool print_selftest(std::string& out, std::span<const std::byte>, bool fields);
void selftest_offsets(std::string& out);

}  // namespace ulnet::tools
