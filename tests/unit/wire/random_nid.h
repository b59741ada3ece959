// Random NIDs for round trips; seeded, so that a failure repeats.
#pragma once

#include <array>

#include "cpt/base/prng.h"
#include "lnet/nid.h"

namespace ulnet {

inline Net random_ip_net(Prng& prng) {
    constexpr std::array<NetType, 3> types = {NetType::tcp, NetType::o2ib, NetType::efa};
    return Net::of(types[prng.below(types.size())], static_cast<u16>(prng.below(3) * 32767));
}

inline Nid random_nid4(Prng& prng) {
    constexpr std::array<NetType, 8> types = {NetType::tcp, NetType::o2ib, NetType::gni,
                                              NetType::gip, NetType::ptlf, NetType::kfi,
                                              NetType::efa, NetType::bxi3f};
    const Net net = Net::of(types[prng.below(types.size())], static_cast<u16>(prng.next()));
    return Nid::ipv4(net, static_cast<u32>(prng.next()));
}

// Sparse addresses, so that runs of zeros occur.
inline Nid random_nid16(Prng& prng) {
    std::array<u8, 16> address{};
    for (u8& byte : address) byte = prng.below(3) == 0 ? static_cast<u8>(prng.next()) : u8{0};
    return Nid::ipv6(random_ip_net(prng), address);
}

inline Nid random_nid(Prng& prng) {
    return prng.below(2) == 0 ? random_nid4(prng) : random_nid16(prng);
}

}  // namespace ulnet
