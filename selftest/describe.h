// Self test things as values of the control plane.
#pragma once

#include <string>

#include "cpt/counters.h"
#include "lnet/ctl/value.h"
#include "selftest/wire_session.h"

namespace ulnet::lst {

std::string sid_text(const Sid&);  // "70181@10.77.1.3@tcp"
// Sets `framework`, `rpc` and `lnet`.
void add_counters(ctl::Value& to, const StatReply&);
ctl::Value latency_value(const Histogram&);

}  // namespace ulnet::lst
