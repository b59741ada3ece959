// The libfabric driver: network type kfi. What lnetd needs of it. docs/wire/ofi.md has its
// dialogue.
#pragma once

#include <memory>

#include "lnet/lnd.h"

namespace ulnet::ofi {

// libfabric itself does nothing before the first NI is opened. One NI of provider shm at a time:
// libfabric 1.17 keeps pointers into the memory of other shm endpoints of its process and follows
// them when these are closed.
std::unique_ptr<Lnd> make_ofi_lnd();

}  // namespace ulnet::ofi
