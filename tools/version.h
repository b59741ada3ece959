// The version that the programs tell.
#pragma once

#include <string_view>

namespace ulnet::tools {
constexpr std::string_view version = ULNET_VERSION;
}
