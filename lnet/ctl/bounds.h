// Bounds on what the control plane reads from outside, shared by its readers, server and client.
#pragma once

#include <cstddef>

#include "cpt/base/types.h"

namespace ulnet::ctl {

constexpr std::size_t text_bytes_max = std::size_t{16} << 20;  // of a JSON or YAML text
constexpr std::size_t depth_max = 64;                          // of nested maps and lists
constexpr std::size_t values_max = std::size_t{1} << 20;       // in one tree: about 130 MB

}  // namespace ulnet::ctl
