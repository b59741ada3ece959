// CPU partitions: which CPUs and NUMA node form a CPT. Built from the machine (hwloc) or from a
// description; LNet's cpu_pattern and cpu_npartitions decide the cut. Immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpt/base/result.h"
#include "cpt/base/types.h"

namespace ulnet {

// The CPUs of a machine as partitioning sees them.
struct Topology {
    std::vector<std::vector<u32>> nodes;  // CPU numbers of each NUMA node
    std::vector<std::vector<u32>> cores;  // CPU numbers sharing a core
    u32 threads_per_core = 1;
    // This machine, restricted to the CPUs the process may run on (hwloc). Cannot fail: a machine
    // that hwloc cannot read is one node with the allowed CPUs.
    static Topology of_machine();
    u32 cpus() const;
};

class CptTable {
 public:
    struct Cpt {
        std::vector<u32> cpus;
        u32 node;  // NUMA node of the first CPU
    };
    // npartitions 0 = automatic; an empty pattern = by count. Errors as the kernel gives them
    // (ERANGE, EPERM, ENODEV, EINVAL); `why` then names the parameter, the value and the rule.
    static Result<CptTable> make(const Topology&, u32 npartitions, std::string_view pattern,
                                 std::string& why);
    // One partition with these CPUs: for tests.
    static CptTable single(u32 cpus);

    u32 size() const { return static_cast<u32>(cpts_.size()); }
    const Cpt& operator[](CptId id) const { return cpts_[id]; }
    // One line a partition: "0\t: 0 1 2 3\n".
    std::string text() const;

 private:
    std::vector<Cpt> cpts_;
};

}  // namespace ulnet
