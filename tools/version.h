// The version that the programs tell.
#pragma once

#include <string_view>

#ifndef ULNET_VERSION  // meson tells it
#define ULNET_VERSION "unknown"
#endif

namespace ulnet::tools {
constexpr std::string_view version = ULNET_VERSION;
}
