// The one header of this folder for composition roots: makes the driver for TCP networks.
#pragma once

#include <memory>

#include "lnet/lnd.h"

namespace ulnet::sock {

std::unique_ptr<Lnd> make_sock_lnd();

}  // namespace ulnet::sock
