// Streams with faults: a StreamOs around any other one that applies the rules of streams
// (lnet/fault_rule.h). A stream that no rule hits is the inner one itself.
#pragma once

#include <memory>

#include "lnds/sock/stream.h"
#include "lnet/fault_rule.h"

namespace ulnet::sock {

// `rules` outlive it.
std::unique_ptr<StreamOs> make_fault_os(std::unique_ptr<StreamOs> inner, Sched&, FaultRules& rules);

}  // namespace ulnet::sock
