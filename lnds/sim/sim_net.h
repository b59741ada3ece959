// The network that the message-level driver talks to; the simulator implements it. Whole messages
// travel; one thread runs all of a simulation, so that nothing here is locked.
#pragma once

#include <vector>

#include "lnet/lnd.h"

namespace ulnet {

// A message between two NIs. The net makes and reuses them.
struct SimFrame : ListHook<SimFrame> {
    Hdr hdr;
    ProcessId from;                  // the sending NI
    Nid to;                          // the NI it goes to
    std::vector<std::byte> payload;  // hdr.payload_length bytes
    Msg* msg = nullptr;              // the sender's; opaque to the net
};

// One NI, as the net sees it. The net calls from outside the node's workers.
class SimPort {
 public:
    // The frame is the port's until it gives it back with SimNet::free().
    virtual void arrived(SimFrame&) = 0;
    // The local end of the frame's message: it has left, or it never will. Once for each
    // transmit().
    virtual void sent(Msg&, Status, Health) = 0;
    // The way to this peer broke: what has not been read from it may be lost.
    virtual void peer_lost(const Nid&) = 0;

 protected:
    ~SimPort() = default;
};

class SimNet {
 public:
    virtual ~SimNet() = default;
    // EADDRINUSE: the NID is taken.
    virtual Status attach(const Nid&, Sched&, SimPort&) = 0;
    // Nothing is called on the port from here on; its messages must have been sent().
    virtual void detach(SimPort&) = 0;
    virtual SimFrame& make() = 0;
    virtual void free(SimFrame&) = 0;
    // The frame is the net's from here on. Messages from one port to one NID arrive in order.
    virtual void transmit(SimPort& from, SimFrame&) = 0;
    // Breaks the way between the port and the NID (ANY: all NIDs): what is in flight is lost, what
    // has not left is told by sent(), and the other side hears of it by peer_lost().
    virtual void cut(SimPort& from, const Nid& to) = 0;
};

}  // namespace ulnet
