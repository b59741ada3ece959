// Lists of NIDs as people write them: "12345-10.0.0.[1-5,9]@tcp,10.0.1.1@tcp".
#pragma once

#include <string_view>
#include <vector>

#include "lnet/nid.h"

namespace ulnet::ctl {

constexpr std::size_t nid_list_max = 1024;

// Appends what the expression names, each with pid_lustre or the pid before it. Brackets hold
// numbers, ranges a-b (a <= b) and strides a-b/s, and several of them multiply. False: `why` says
// what is wrong, nothing sensible was appended.
bool expand_nids(std::string_view expression, std::vector<ProcessId>& out, std::string& why);

}  // namespace ulnet::ctl
