// CptTable: how CPUs are divided into partitions. Start-up only.
#include "cpt/cpt.h"

#include <algorithm>
#include <cerrno>

#include "cpt/pattern.h"

namespace ulnet {

namespace {

using CpuList = std::vector<u32>;

// A division in the making, and the words for the user when it fails.
class Division {
 public:
    Division(const Topology& topology, u32 npartitions, std::string_view pattern, std::string& why)
        : topology_(topology), npartitions_(npartitions), pattern_(pattern), why_(why) {}
    Result<std::vector<CpuList>> make();

 private:
    Status refuse(int error, const std::string& rule) {
        why_ = "cpu_npartitions " + std::to_string(npartitions_) + ", cpu_pattern \"" +
               std::string(pattern_) + "\": " + rule;
        return Status(-error);
    }
    // Accepted in its documented meaning, though the kernel does not take it.
    void warn(const char* kernel_error, const std::string& rule) {
        why_ = "cpu_npartitions " + std::to_string(npartitions_) + ", cpu_pattern \"" +
               std::string(pattern_) + "\": " + rule + "; kernel 2.17.0 refuses this with " +
               kernel_error;
    }
    Status by_count(u32 count);
    void by_node();
    Status by_parts(const CpuPattern& pattern);
    Status add_part(const CpuPattern& pattern, const CpuPattern::Part& part);
    Status exclude(const CpuPattern& pattern);
    u32 automatic_count() const;
    u32 cpu_last() const;
    u32 node_count() const;

    const Topology& topology_;
    const u32 npartitions_;
    const std::string_view pattern_;
    std::string& why_;
    std::vector<CpuList> parts_;
};

u32 Division::automatic_count() const {
    const u32 cpus = topology_.cpus();
    if (cpus <= 4) return 1;
    u32 count = 2;
    while (cpus > 2 * topology_.threads_per_core * count) ++count;
    while (cpus % count != 0) --count;
    return count;
}

u32 Division::cpu_last() const {
    u32 last = 0;
    for (const CpuList& node : topology_.nodes)
        for (const u32 cpu : node) last = std::max(last, cpu);
    return last;
}

// Nodes that have CPUs.
u32 Division::node_count() const {
    return static_cast<u32>(std::count_if(topology_.nodes.begin(), topology_.nodes.end(),
                                          [](const CpuList& node) { return !node.empty(); }));
}

// Takes up to `wanted` CPUs of a node: the lowest one left, then the rest of its core, and so on.
void take_cores(CpuList& node, const std::vector<CpuList>& cores, std::size_t wanted,
                CpuList& out) {
    while (wanted > 0 && !node.empty()) {
        const u32 first = node.front();
        CpuList core{first};
        for (const CpuList& candidates : cores)
            if (std::find(candidates.begin(), candidates.end(), first) != candidates.end())
                core = candidates;
        std::sort(core.begin(), core.end());
        for (const u32 cpu : core) {
            const auto at = std::find(node.begin(), node.end(), cpu);
            if (at == node.end() || wanted == 0) continue;
            out.push_back(cpu);
            node.erase(at);
            --wanted;
        }
    }
}

// Equal shares, the first partitions getting one more where it does not divide; along the nodes.
Status Division::by_count(u32 count) {
    const u32 cpus = topology_.cpus();
    if (count == 0 || count > cpus)
        return refuse(EINVAL, "there are " + std::to_string(cpus) + " CPUs");
    std::vector<CpuList> left = topology_.nodes;
    for (CpuList& node : left) std::sort(node.begin(), node.end());
    std::size_t node = 0;
    for (u32 number = 0; number < count; ++number) {
        const std::size_t size = cpus / count + (number < cpus % count ? 1 : 0);
        CpuList part;
        while (part.size() < size) {
            if (left[node].empty())
                ++node;
            else
                take_cores(left[node], topology_.cores, size - part.size(), part);
        }
        parts_.push_back(std::move(part));
    }
    return ok_status;
}

void Division::by_node() {
    for (const CpuList& node : topology_.nodes)
        if (!node.empty()) parts_.push_back(node);
}

Status Division::add_part(const CpuPattern& pattern, const CpuPattern::Part& part) {
    const std::string name = "partition " + std::to_string(part.number);
    if (part.number >= parts_.size())
        return refuse(EINVAL, name + ": with " + std::to_string(parts_.size()) +
                                  " lists the numbers are 0 to " +
                                  std::to_string(parts_.size() - 1));
    if (!parts_[part.number].empty()) return refuse(EPERM, name + " is given twice");
    const u32 last = pattern.nodes ? static_cast<u32>(topology_.nodes.size()) - 1 : cpu_last();
    const Result<std::vector<u32>> numbers = parse_number_list(part.list, last);
    if (!numbers.ok())
        return refuse(ERANGE, name + ": not a list of numbers from 0 to " + std::to_string(last));
    CpuList& cpus = parts_[part.number];
    for (const u32 number : *numbers) {
        if (pattern.nodes) {
            const CpuList& node = topology_.nodes[number];
            cpus.insert(cpus.end(), node.begin(), node.end());
            continue;
        }
        const bool exists =
            std::any_of(topology_.nodes.begin(), topology_.nodes.end(), [&](const CpuList& node) {
                return std::find(node.begin(), node.end(), number) != node.end();
            });
        if (!exists)
            return refuse(EINVAL, name + ": CPU " + std::to_string(number) + " does not exist");
        cpus.push_back(number);
    }
    if (cpus.empty()) return refuse(ENODEV, name + " has no CPU");
    return ok_status;
}

Status Division::by_parts(const CpuPattern& pattern) {
    const u32 lists = static_cast<u32>(pattern.parts.size());
    if (lists > topology_.cpus())
        return refuse(EINVAL, std::to_string(lists) + " partitions on " +
                                  std::to_string(topology_.cpus()) + " CPUs");
    parts_.resize(lists);
    for (const CpuPattern::Part& part : pattern.parts)
        if (const Status status = add_part(pattern, part); !status.ok()) return status;
    CpuList all;
    for (const CpuList& part : parts_) all.insert(all.end(), part.begin(), part.end());
    std::sort(all.begin(), all.end());
    const auto twice = std::adjacent_find(all.begin(), all.end());
    if (twice != all.end())
        return refuse(EINVAL, "CPU " + std::to_string(*twice) + " is in two partitions");
    const u32 expected = npartitions_ != 0 ? npartitions_ : pattern.nodes ? node_count() : lists;
    if (expected != lists)
        warn("EINVAL",
             "taken as " + std::to_string(lists) + " partitions, not " + std::to_string(expected));
    return ok_status;
}

Status Division::exclude(const CpuPattern& pattern) {
    const bool cores = pattern.exclude == CpuPattern::Exclude::cores;
    std::size_t largest = 1;
    for (const CpuList& part : parts_) largest = std::max(largest, part.size());
    const u32 last = cores ? static_cast<u32>(largest) - 1 : cpu_last();
    const Result<std::vector<u32>> numbers = parse_number_list(pattern.exclude_list, last);
    if (!numbers.ok())
        return refuse(ERANGE, "the list to exclude has numbers from 0 to " + std::to_string(last));
    if (cores && !pattern.nodes && numbers->back() > 0)
        warn("ERANGE", "C without N names more than the first CPU of each partition");
    const auto excluded = [&](u32 number) {
        return std::binary_search(numbers->begin(), numbers->end(), number);
    };
    for (CpuList& part : parts_) {
        std::sort(part.begin(), part.end());
        CpuList kept;
        for (u32 place = 0; place < part.size(); ++place)
            if (!excluded(cores ? place : part[place])) kept.push_back(part[place]);
        if (kept.empty()) return refuse(ENODEV, "a partition would have no CPU left");
        part = std::move(kept);
    }
    return ok_status;
}

Result<std::vector<CpuList>> Division::make() {
    Status status;
    if (pattern_.empty()) {
        status = by_count(npartitions_ != 0 ? npartitions_ : automatic_count());
    } else {
        const Result<CpuPattern> pattern = parse_cpu_pattern(pattern_, why_);
        if (!pattern.ok()) return pattern.status();
        if (!pattern->parts.empty()) {
            status = by_parts(*pattern);
        } else {
            // Exclusion without N and without a number starts from all CPUs in one partition.
            if (npartitions_ == 0 && pattern->nodes)
                by_node();
            else
                status = by_count(npartitions_ != 0 ? npartitions_ : 1);
            if (status.ok() && pattern->exclude != CpuPattern::Exclude::nothing)
                status = exclude(*pattern);
        }
    }
    if (!status.ok()) return status;
    for (CpuList& part : parts_) std::sort(part.begin(), part.end());
    return std::move(parts_);
}

}  // namespace

u32 Topology::cpus() const {
    std::size_t count = 0;
    for (const CpuList& node : nodes) count += node.size();
    return static_cast<u32>(count);
}

Result<CptTable> CptTable::make(const Topology& topology, u32 npartitions, std::string_view pattern,
                                std::string& why) {
    why.clear();
    Result<std::vector<CpuList>> parts = Division(topology, npartitions, pattern, why).make();
    if (!parts.ok()) return parts.status();
    CptTable table;
    for (CpuList& cpus : *parts) {
        Cpt cpt{.cpus = std::move(cpus), .node = 0};
        for (u32 node = 0; node < topology.nodes.size(); ++node) {
            const CpuList& members = topology.nodes[node];
            if (std::find(members.begin(), members.end(), cpt.cpus.front()) != members.end())
                cpt.node = node;
        }
        table.cpts_.push_back(std::move(cpt));
    }
    return table;
}

CptTable CptTable::single(u32 cpus) {
    CHECK(cpus > 0);
    CptTable table;
    Cpt cpt{.cpus = {}, .node = 0};
    for (u32 cpu = 0; cpu < cpus; ++cpu) cpt.cpus.push_back(cpu);
    table.cpts_.push_back(std::move(cpt));
    return table;
}

std::string CptTable::text() const {
    std::string lines;
    for (u32 number = 0; number < size(); ++number) {
        lines += std::to_string(number) + "\t:";
        for (const u32 cpu : cpts_[number].cpus) lines += " " + std::to_string(cpu);
        lines += "\n";
    }
    return lines;
}

}  // namespace ulnet
