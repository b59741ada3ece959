// Where a NID's contexts are, in the words of a provider: by the configuration of the NI, else by a
// rule. Any thread.
#pragma once

#include <map>
#include <string>

#include "lnds/ofi/endpoint.h"
#include "lnet/lnd.h"

namespace ulnet::ofi {

// Without an entry in `addresses` of the NI: the NID's number is an IPv4 address, the port is the
// tunable `service`; with shm the name is "ulnet-" and the NID. Context k has the port plus k, or
// the name with ".k" behind it.
class AddressBook {
 public:
    AddressBook(const NiConfig&, Provider, u32 service);
    // "IPv4:PORT", or a name (shm).
    std::string find(const Nid&, u32 context) const;

 private:
    const Provider provider_;
    const u32 service_;
    std::map<Nid, std::string> given_;
};

// An entry of `addresses`. The error says what is allowed.
Error check_address(Provider, std::string_view);

}  // namespace ulnet::ofi
