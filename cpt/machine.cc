// Topology::of_machine: what hwloc knows of this machine, cut down to the CPUs this process may
// use. Start-up only.
#include <hwloc.h>
#include <sched.h>

#include <algorithm>

#include "cpt/cpt.h"

namespace ulnet {

namespace {

std::vector<u32> allowed_cpus() {
    std::vector<u32> cpus;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (u32 cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    if (cpus.empty()) cpus.push_back(0);
    return cpus;
}

// Takes the CPUs of the object out of `left`.
std::vector<u32> take_cpus(hwloc_obj_t object, std::vector<u32>& left) {
    std::vector<u32> taken;
    std::vector<u32> others;
    for (const u32 cpu : left)
        (hwloc_bitmap_isset(object->cpuset, cpu) ? taken : others).push_back(cpu);
    left = std::move(others);
    return taken;
}

void read_nodes(hwloc_topology_t hwloc, std::vector<u32> left, Topology& out) {
    const int count = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_NUMANODE);
    for (int i = 0; i < count; ++i) {
        const hwloc_obj_t node =
            hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
        if (node->os_index >= out.nodes.size()) out.nodes.resize(node->os_index + 1);
        out.nodes[node->os_index] = take_cpus(node, left);
    }
    if (out.nodes.empty()) out.nodes.resize(1);
    out.nodes[0].insert(out.nodes[0].end(), left.begin(), left.end());
}

void read_cores(hwloc_topology_t hwloc, std::vector<u32> left, Topology& out) {
    const int count = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE);
    for (int i = 0; i < count; ++i) {
        const hwloc_obj_t core =
            hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_CORE, static_cast<unsigned>(i));
        std::vector<u32> cpus = take_cpus(core, left);
        if (!cpus.empty()) out.cores.push_back(std::move(cpus));
    }
    for (const u32 cpu : left) out.cores.push_back({cpu});
    for (const auto& core : out.cores)
        out.threads_per_core = std::max(out.threads_per_core, static_cast<u32>(core.size()));
}

}  // namespace

Topology Topology::of_machine() {
    Topology topology;
    const std::vector<u32> cpus = allowed_cpus();
    hwloc_topology_t hwloc = nullptr;
    if (hwloc_topology_init(&hwloc) == 0) {
        if (hwloc_topology_load(hwloc) == 0) {
            read_nodes(hwloc, cpus, topology);
            read_cores(hwloc, cpus, topology);
        }
        hwloc_topology_destroy(hwloc);
    }
    if (topology.nodes.empty()) {
        topology.nodes.push_back(cpus);
        for (const u32 cpu : cpus) topology.cores.push_back({cpu});
    }
    return topology;
}

}  // namespace ulnet
