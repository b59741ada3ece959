// What an interface's configuration must be; the sentences are for the user. Pure.
#pragma once

#include <span>

#include "lnet/lnd.h"

namespace ulnet {

// Interfaces of a node, loopback included: what kernel peers take in a ping buffer.
constexpr u32 nis_max = 200;
constexpr u32 credits_max = 65535;
constexpr i32 peer_timeout_max_s = 86400;

Lnd* find_driver(std::span<Lnd* const>, NetType);
Error check_ni_config(const NiConfig&, std::span<Lnd* const>, CptId cpts);
// The value of a per-NI tunable given as text; `value` is set when ok.
Error check_tunable(const TunableSpec&, std::string_view text, i64& value);

}  // namespace ulnet
