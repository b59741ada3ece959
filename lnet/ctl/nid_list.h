// Lists of NIDs as people write them for ping: "12345-10.0.0.[1-5,9]@tcp,10.0.1.1@tcp".
#pragma once

#include <string_view>
#include <vector>

#include "lnet/nid.h"

namespace ulnet::ctl {

constexpr std::size_t nid_list_max = 1024;

// Appends what the expression names, each with pid_lustre or the pid written before it. The error
// says what is wrong and what is allowed; `out` then holds nothing to rely on.
Error expand_nids(std::string_view expression, std::vector<ProcessId>& out);

}  // namespace ulnet::ctl
