// The driver's door to the log; any thread.
#include "lnds/sock/log.h"

#include <spdlog/spdlog.h>

namespace ulnet::sock {

void log_line(const std::string& text) { spdlog::warn("socklnd {}", text); }

}  // namespace ulnet::sock
