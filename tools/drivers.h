// The drivers that this build has. For programs that make a Node.
#pragma once

#include <memory>
#include <vector>

#include "lnds/trace/trace.h"
#include "lnet/fault_rule.h"
#include "lnet/lnd.h"

namespace ulnet::tools {

// What a program may choose of them. What is pointed to outlives the drivers.
struct DriverOptions {
    bool sock_uring = false;       // sockets told by io_uring instead of epoll
    FaultRules* faults = nullptr;  // null: drivers without faults
    TraceFile* trace = nullptr;    // null: nothing is recorded
};

// One of each, the loopback's first. The Node does not own them: they outlive it.
std::vector<std::unique_ptr<Lnd>> make_drivers(const DriverOptions& = {});

}  // namespace ulnet::tools
