// FaultLnd: a driver that does to the messages of another one what fault rules say. For composition
// roots.
#pragma once

#include <memory>

#include "lnet/fault_rule.h"
#include "lnet/lnd.h"

namespace ulnet {

// `rules` outlive the driver; several drivers may share them. Rules of streams are only shown: who
// makes the streams applies them.
std::unique_ptr<Lnd> make_fault_lnd(std::unique_ptr<Lnd> inner, FaultRules& rules);

}  // namespace ulnet
