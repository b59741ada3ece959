// The message-level driver: carries messages between the Nodes of one process over a SimNet. For
// simulations of many nodes; it keeps the driver contract as a driver over byte streams would.
#pragma once

#include "lnds/sim/sim_net.h"

namespace ulnet {

// `net` outlives the driver and its NIs. NIs are of `type`; the driver's name is "sim".
std::unique_ptr<Lnd> make_sim_lnd(SimNet& net, NetType type = NetType::tcp);

}  // namespace ulnet
