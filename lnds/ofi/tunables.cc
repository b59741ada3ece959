// The table of tunables. Read by the core's control plane and at the opening of an NI; any thread.
#include "lnds/ofi/tunables.h"

#include <cerrno>

namespace ulnet::ofi {
namespace {

constexpr std::string_view provider_words[] = {"tcp;ofi_rxm", "shm", "net", "verbs;ofi_rxm"};

constexpr TunableSpec table[] = {
    {"provider", 0, 0, 3, provider_words, "", false,
     "the libfabric provider; all nodes of a net have the same"},
    {"service",
     5988,
     1,
     65279,
     {},
     "",
     false,
     "port of the NI's first context where its address does not name one; further ones follow"},
    {"immediate_max",
     3936,
     0,
     4096,
     {},
     "bytes",
     true,
     "payload up to this travels within the message; more is read by its receiver"},
    {"timeout",
     50,
     1,
     3600,
     {},
     "s",
     true,
     "how long a transfer that has begun may take before the peer counts as lost"},
    {"hello_interval",
     500,
     10,
     60000,
     {},
     "ms",
     true,
     "how often a peer that has not answered yet is asked again"},
    {"poll_us",
     20,
     0,
     1000000,
     {},
     "us",
     true,
     "how long a worker polls after the last message before it sleeps"},
    {"rx_buffers", 8, 2, 256, {}, "", false, "buffers of 256 KiB for messages, each context"},
};
static_assert(std::size(table) == tunable_count);

}  // namespace

std::span<const TunableSpec> tunable_specs() {
    return table;
}

Tunables::Tunables(std::span<const i64> values) {
    for (std::size_t i = 0; i < tunable_count; ++i)
        values_[i].store(i < values.size() ? values[i] : table[i].def, std::memory_order_relaxed);
}

Status Tunables::set(std::size_t index, i64 value) {
    if (index >= tunable_count) return Status(-EINVAL);
    if (value < table[index].low || value > table[index].high) return Status(-EINVAL);
    if (!table[index].per_ni) return Status(-EPERM);
    values_[index].store(value, std::memory_order_relaxed);
    return ok_status;
}

}  // namespace ulnet::ofi
