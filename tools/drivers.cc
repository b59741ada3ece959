// The array of drivers, listed by hand: the only place that names them. A new driver is one line.
#include "tools/drivers.h"

#include "lnds/lo/lo.h"
#include "lnds/sock/sock.h"

namespace ulnet::tools {
namespace {

using Maker = std::unique_ptr<Lnd> (*)();
constexpr Maker makers[] = {
    make_lo_lnd,
    sock::make_sock_lnd,
};

}  // namespace

std::vector<std::unique_ptr<Lnd>> make_drivers() {
    std::vector<std::unique_ptr<Lnd>> drivers;
    for (const Maker make : makers) drivers.push_back(make());
    return drivers;
}

}  // namespace ulnet::tools
