// What a plain YAML scalar means; shared by the reader and the writer, so that what the writer
// leaves unquoted reads back as the same value.
#pragma once

#include <string>
#include <string_view>

#include "lnet/ctl/value.h"

namespace ulnet::ctl {

// YAML 1.2 core rules: null, true/false, integers (also 0x, 0o), reals; everything else is text,
// also a number that does not fit.
Value resolve_plain(std::string_view text);

// Always in double quotes, with escapes.
std::string quote_yaml(std::string_view text);

}  // namespace ulnet::ctl
