// The drivers that this build has. For programs that make a Node.
#pragma once

#include <memory>
#include <vector>

#include "lnet/lnd.h"

namespace ulnet::tools {

// What a program may choose of them.
struct DriverOptions {
    bool sock_uring = false;  // sockets told by io_uring instead of epoll
};

// One of each, the loopback's first. The Node does not own them: they outlive it.
std::vector<std::unique_ptr<Lnd>> make_drivers(const DriverOptions& = {});

}  // namespace ulnet::tools
