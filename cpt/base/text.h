// Parsing of the numbers that people write: in configuration, command lines and lst arguments. The
// whole text must be the number: no blanks, no sign where none is meant. EINVAL = not such a
// number, ERANGE = outside the limits given.
#pragma once

#include <limits>
#include <string_view>

#include "cpt/base/result.h"
#include "cpt/base/types.h"

namespace ulnet {

// Without blanks, tabs and line ends at both ends.
std::string_view trim(std::string_view text);

// Decimal digits only.
Result<u64> parse_u64(std::string_view text, u64 least = 0,
                      u64 most = std::numeric_limits<u64>::max());
// The same with an optional '-'.
Result<i64> parse_i64(std::string_view text, i64 least = std::numeric_limits<i64>::min(),
                      i64 most = std::numeric_limits<i64>::max());
// As C writes them: 12, 0x1f, 017.
Result<u64> parse_c_number(std::string_view text, u64 least = 0,
                           u64 most = std::numeric_limits<u64>::max());

// Bytes: digits, then nothing, or K, M, G, T (powers of 1024, either case), which "B" or "iB" may
// follow: 4096, 4K, 1m, 16KiB.
Result<u64> parse_size(std::string_view text, u64 least = 0,
                       u64 most = std::numeric_limits<u64>::max());

// Digits and a unit: ns, us, ms, s, m, h, d; without one `bare` is meant: 10s, 500ms, 2m, 10.
Result<Duration> parse_duration(std::string_view text, Duration bare = std::chrono::seconds(1),
                                Duration least = Duration{}, Duration most = Duration::max());

}  // namespace ulnet
