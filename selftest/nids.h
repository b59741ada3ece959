// NID expressions of group commands: `10.77.1.[2-4]@tcp`, `10.[1,3].0.[1-9/2]@o2ib1`. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "lnet/nid.h"

namespace ulnet::lst {

constexpr std::size_t nids_max = 4096;  // that one expression may stand for

// All NIDs of the expression, in order, the last bracket running fastest. EINVAL, EAFNOSUPPORT (a
// 16-byte address), E2BIG; `why` is the sentence for the user.
Result<std::vector<Nid>> expand_nids(std::string_view expression, std::string& why);

}  // namespace ulnet::lst
