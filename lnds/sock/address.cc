// Addresses as text, for logs and `show`.
#include "lnds/sock/address.h"

#include <arpa/inet.h>

namespace ulnet::sock {

std::string to_text(const Endpoint& at) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = at.address.ipv6() ? AF_INET6 : AF_INET;
    // It fits: the only way to fail.
    static_cast<void>(::inet_ntop(family, at.address.bytes().data(), text.data(), text.size()));
    const std::string address = text.data();
    return (at.address.ipv6() ? "[" + address + "]:" : address + ":") + std::to_string(at.port);
}

}  // namespace ulnet::sock
