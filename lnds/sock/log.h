// One line in the log of the process; cold paths only.
#pragma once

#include <string>

namespace ulnet::sock {

void log_line(const std::string& text);

}  // namespace ulnet::sock
