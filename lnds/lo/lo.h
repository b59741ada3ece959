// The loopback driver (net lo): what a node sends to itself. For composition roots; the rest of the
// folder is private.
#pragma once

#include <memory>

#include "lnet/lnd.h"

namespace ulnet {

std::unique_ptr<Lnd> make_lo_lnd();

}  // namespace ulnet
