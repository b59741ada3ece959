// The libfabric driver: network type kfi. What lnetd needs of it. docs/wire/ofi.md has its
// dialogue.
#pragma once

#include <memory>

#include "lnet/lnd.h"

namespace ulnet::ofi {

// libfabric itself does nothing before the first NI is opened.
std::unique_ptr<Lnd> make_ofi_lnd();

}  // namespace ulnet::ofi
