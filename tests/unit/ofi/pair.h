// Two nodes of network type kfi in one process, over any provider.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include "lnds/ofi/ofi.h"
#include "lnds/ofi/tunables.h"
#include "tests/unit/sock/harness.h"

namespace ulnet::ofi {

using sock::Core;
using sock::eventually;
using sock::MsgPtr;
using sock::TestNode;
constexpr Net kfi = Net::of(NetType::kfi, 0);

inline Nid nid_at(u32 number) {
    return Nid::ipv4(kfi, number);
}

struct World {
    explicit World(Provider of, u32 cpts = 1) : provider(of), sched(sock::make_sched(cpts, 2)) {}
    // With addresses of nodes 1 to 4.
    NiConfig config(u32 number, std::map<Tunable, i64> settings = {}) const;
    std::unique_ptr<TestNode> node(u32 number, std::map<Tunable, i64> settings = {},
                                   Core::OnArrived on_arrived = {}) {
        return std::make_unique<TestNode>(*sched, config(number, std::move(settings)),
                                          make_ofi_lnd(), std::move(on_arrived));
    }
    const Provider provider;
    const u16 port = sock::free_port();
    std::unique_ptr<ThreadSched> sched;
};

inline NiConfig World::config(u32 number, std::map<Tunable, i64> settings) const {
    NiConfig made;
    made.net = kfi;
    made.nid = nid_at(number);
    for (const TunableSpec& spec : tunable_specs()) made.tunables.push_back(spec.def);
    made.tunables[static_cast<std::size_t>(Tunable::provider)] = static_cast<i64>(provider);
    settings.try_emplace(Tunable::hello_interval, 20);
    for (const auto& [which, value] : settings)
        made.tunables[static_cast<std::size_t>(which)] = value;
    for (u32 each = 1; each <= 4; ++each)
        made.addresses.emplace_back(
            nid_at(each), provider == Provider::shm
                              ? "ulnet-test-" + std::to_string(::getpid()) + "-" +
                                    std::to_string(port) + "-" + std::to_string(each)
                              : "127.0.0." + std::to_string(each) + ":" + std::to_string(port));
    return made;
}

inline MsgPtr put(u32 from, u32 to, u64 id, u32 len, u32 fragments = 1) {
    return sock::put(nid_at(from), nid_at(to), id, len, fragments);
}

}  // namespace ulnet::ofi
