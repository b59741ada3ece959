// The array of drivers, listed by hand: the only place that names them. A new driver is one line.
#include "tools/drivers.h"

#include "lnds/fault/fault.h"
#include "lnds/lo/lo.h"
#ifdef ULNET_WITH_OFI
#include "lnds/ofi/ofi.h"
#endif
#include "lnds/sock/sock.h"

namespace ulnet::tools {
namespace {

using Maker = std::unique_ptr<Lnd> (*)(const DriverOptions&);
constexpr Maker makers[] = {
    [](const DriverOptions&) { return make_lo_lnd(); },
    [](const DriverOptions& options) {
        return sock::make_sock_lnd(options.sock_uring ? sock::SockBackEnd::io_uring
                                                      : sock::SockBackEnd::epoll,
                                   options.faults);
    },
#ifdef ULNET_WITH_OFI
    [](const DriverOptions&) { return ofi::make_ofi_lnd(); },
#endif
};

}  // namespace

std::vector<std::unique_ptr<Lnd>> make_drivers(const DriverOptions& options) {
    std::vector<std::unique_ptr<Lnd>> drivers;
    for (const Maker make : makers) {
        auto driver = make(options);
        // The trace is next to the network: it has what faults have left.
        if (options.trace != nullptr) driver = make_trace_lnd(std::move(driver), *options.trace);
        if (options.faults != nullptr) driver = make_fault_lnd(std::move(driver), *options.faults);
        drivers.push_back(std::move(driver));
    }
    return drivers;
}

}  // namespace ulnet::tools
