// The network interfaces of this machine and their addresses, for naming an NI by either. Asked on
// the control strand at configuration time; tests give their own list.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpt/base/types.h"

namespace ulnet::ctl {

struct InterfaceAddress {
    std::string interface;
    std::vector<u8> address;  // 4 bytes (IPv4) or 16 (IPv6), network order
    bool up = false;
    bool loopback = false;
};

// Every address of every interface, IPv4 first for each; empty when the system does not tell.
std::vector<InterfaceAddress> interface_addresses();

// The entry that has this address; all of 127.0.0.0/8 belongs to the loopback. Null = none.
const InterfaceAddress* find_address(std::span<const InterfaceAddress>,
                                     std::span<const u8> address);
// The first IPv4 address of an interface; null = it has none. `known` tells whether it exists.
const InterfaceAddress* first_ipv4(std::span<const InterfaceAddress>, std::string_view interface,
                                   bool& known);

}  // namespace ulnet::ctl
