// The configuration as the data path sees it: immutable, replaced as a whole by the control strand.
#pragma once

#include <vector>

#include "lnet/nid.h"

namespace ulnet {

class Ni;

struct NetTopology {
    std::vector<Ni*> nis;  // in the order of configuration, loopback first
    bool closing = false;  // the Node ends: nothing new begins

    Ni* find(const Nid& nid) const;
    Ni* loopback() const;
    bool has_net(Net net) const;
};

// The way of a message out of this node.
struct Way {
    Ni* ni = nullptr;
    Nid next_hop;   // of the peer NI that the driver must reach
    Status status;  // why there is none
};
// Source NID given or ANY (lnet-wire 10.2, the cases without routes and multi-rail).
Way select_way(const NetTopology&, const Nid& from, const Nid& to);

}  // namespace ulnet
