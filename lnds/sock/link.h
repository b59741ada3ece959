// What the system says of a network interface. Any thread; at the opening of an NI.
#pragma once

#include <string>

#include "cpt/base/types.h"

namespace ulnet::sock {

// Speed in Mbit/s; 0 = unknown, as for loopback. Asked of a socket, so that the interface is that
// of the process's own network namespace; /sys shows those of whoever mounted it.
u32 link_speed(const std::string& interface);

}  // namespace ulnet::sock
