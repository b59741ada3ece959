// The one header of this folder for composition roots: makes the driver for TCP networks.
#pragma once

#include <memory>

#include "lnet/fault_rule.h"
#include "lnet/lnd.h"

namespace ulnet::sock {

// What tells of ready sockets; all NIs of a driver share it.
enum class SockBackEnd : u8 { epoll, io_uring };

// With `faults`, which outlive it, the rules of streams apply to its connections.
std::unique_ptr<Lnd> make_sock_lnd(SockBackEnd = SockBackEnd::epoll, FaultRules* faults = nullptr);

}  // namespace ulnet::sock
