// The ping target and the push target on portal 0 (lnet-wire 6.1, 7.3), and pings of our own.
#pragma once

#include <atomic>
#include <vector>

#include "lnet/lnet.h"

namespace ulnet {

class PingTarget {
 public:
    // Peers that can push at the same moment without waiting on the lazy portal.
    static constexpr u32 push_buffers = 4;
    // Room for 64 interfaces at first; grows when a peer has more.
    static constexpr u32 push_bytes_first = 16 + 16 * 65;
    static constexpr u32 push_bytes_max = 16 + 16 * ping_nis_max + 24 * ping_nis_max;

    explicit PingTarget(NodeImpl& node) : node_(node) {}
    // Control strand, or before the Node is shared: posts the targets.
    void start();
    // Control strand: the interfaces have changed; a new buffer with the next sequence number
    // takes the place of the old one.
    void rebuild();
    u32 sequence() const { return sequence_; }
    u64 buffers() const { return buffers_.load(); }

 private:
    // Bytes that an MD lends to the network; deleted at its last event.
    struct Buffer;
    static void on_get(const Event&);
    static void on_push(const Event&);
    bool post(std::unique_ptr<Buffer> buffer, MdSpec spec, Place place, u64* cookie);
    void post_push_buffer();
    PingInfo describe() const;

    NodeImpl& node_;
    std::atomic<u64> buffers_{0};
    // Control strand.
    u32 sequence_ = 0;
    u32 push_bytes_ = push_bytes_first;
    u64 md_cookie_ = 0;  // of the ping buffer on offer
};

// Node::ping.
void start_ping(NodeImpl& node, const ProcessId& to, const Nid& from, Duration timeout,
                Node::PingDone done);

}  // namespace ulnet
