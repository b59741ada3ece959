// A driver around a driver that sees every call in both directions. A Tap may look, and a mutant
// may change or swallow. Single-threaded, as all of the simulation.
#pragma once

#include <memory>

#include "lnet/lnd.h"

namespace ulnet::sim {

// What a tap does; the defaults pass everything on.
class TapHooks {
 public:
    virtual ~TapHooks() = default;
    // False: swallowed.
    virtual bool send(Msg&) { return true; }
    virtual bool arrived(const Hdr&, const ProcessId&) { return true; }
    virtual bool finished(Msg&, Status, Health) { return true; }
};

// `hooks` outlive the driver.
std::unique_ptr<Lnd> make_tap(std::unique_ptr<Lnd> inner, TapHooks& hooks);

}  // namespace ulnet::sim
