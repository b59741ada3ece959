// The cpu_pattern language, taken apart; internal to CptTable::make.
//
//   0[0-3] 1[4-7]      partition 0 has CPUs 0-3, partition 1 has 4-7
//   N                  one partition a NUMA node
//   N 0[0,1] 1[2,3]    partition 0 has the CPUs of nodes 0 and 1
//   N X[0,4]           one partition a node, without CPUs 0 and 4; without N: by count
//   N C[0]             one partition a node, each without its first CPU
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpt/base/result.h"
#include "cpt/base/types.h"

namespace ulnet {

struct CpuPattern {
    enum class Exclude : u8 { nothing, cpus, cores };
    struct Part {
        u32 number;
        std::string_view list;  // between the brackets
    };
    bool nodes = false;  // N: numbers in lists are NUMA nodes
    Exclude exclude = Exclude::nothing;
    std::string_view exclude_list;
    std::vector<Part> parts;
};

// Syntax only; the views point into `text`. EINVAL, and `why` says where.
Result<CpuPattern> parse_cpu_pattern(std::string_view text, std::string& why);

// The numbers of a list "0-6/2,8,0x10" or "*", none above `last`; ascending, each once. ERANGE.
Result<std::vector<u32>> parse_number_list(std::string_view list, u32 last);

}  // namespace ulnet
