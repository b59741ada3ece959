// Reads the interfaces of the machine. Control strand, at configuration time only.
#include "lnet/ctl/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace ulnet::ctl {

std::vector<InterfaceAddress> interface_addresses() {
    std::vector<InterfaceAddress> found;
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return found;
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
        InterfaceAddress entry;
        entry.interface = at->ifa_name;
        entry.up = (at->ifa_flags & IFF_UP) != 0;
        entry.loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
        if (at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET) {
            sockaddr_in in;
            std::memcpy(&in, at->ifa_addr, sizeof(in));
            const auto* bytes = reinterpret_cast<const u8*>(&in.sin_addr);
            entry.address.assign(bytes, bytes + 4);
        } else if (at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET6) {
            sockaddr_in6 in;
            std::memcpy(&in, at->ifa_addr, sizeof(in));
            entry.address.assign(in.sin6_addr.s6_addr, in.sin6_addr.s6_addr + 16);
        }
        found.push_back(std::move(entry));  // without an address: the interface exists at least
    }
    ::freeifaddrs(list);
    return found;
}

const InterfaceAddress* find_address(std::span<const InterfaceAddress> all,
                                     std::span<const u8> address) {
    const bool loopback = address.size() == 4 && address[0] == 127;
    for (const InterfaceAddress& entry : all) {
        if (entry.address.empty()) continue;
        if (std::equal(address.begin(), address.end(), entry.address.begin(), entry.address.end()))
            return &entry;
    }
    if (!loopback) return nullptr;
    for (const InterfaceAddress& entry : all)
        if (entry.loopback) return &entry;
    return nullptr;
}

const InterfaceAddress* first_ipv4(std::span<const InterfaceAddress> all,
                                   std::string_view interface, bool& known) {
    known = false;
    for (const InterfaceAddress& entry : all) {
        if (entry.interface != interface) continue;
        known = true;
        if (entry.address.size() == 4) return &entry;
    }
    return nullptr;
}

}  // namespace ulnet::ctl
