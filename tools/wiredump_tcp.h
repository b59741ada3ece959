// From captured packets to the byte streams of TCP: link layer, IPv4 and IPv6, and per direction
// the bytes in order, without those that came twice. Good for captures that are mostly in order;
// what is missing is told as a gap. One thread.
#pragma once

#include <array>
#include <map>
#include <span>
#include <vector>

#include "cpt/base/types.h"
#include "lnds/sock/address.h"

namespace ulnet::tools {

struct TcpFlow {  // one direction of a connection
    sock::Endpoint from, to;
};

class TcpSink {
 public:
    virtual void opened(const TcpFlow&) = 0;  // a SYN was seen: what came before is over
    virtual void bytes(const TcpFlow&, u64 time_ns, std::span<const std::byte>) = 0;
    virtual void gap(const TcpFlow&, u64 count) = 0;  // so many bytes were not captured

 protected:
    ~TcpSink() = default;
};

class TcpStreams {
 public:
    static constexpr std::size_t flows_max = 65536;
    static constexpr std::size_t waiting_max = 4u << 20;  // bytes of one flow that are too early

    explicit TcpStreams(TcpSink& sink) : sink_(sink) {}
    // False: no TCP, or a link type that is not known.
    bool packet(u32 link_type, u64 time_ns, std::span<const std::byte>);
    // The capture is over: what waits for missing bytes is told.
    void end();

 private:
    struct Segment {
        u64 time_ns;
        std::vector<std::byte> bytes;
        u64 missing;  // cut off by the capture, behind the bytes
    };
    struct Flow {
        TcpFlow ends;
        bool known = false;
        u64 next = 0;  // place of the byte that comes next; its lower 32 bits are the number
        std::map<u64, Segment> waiting;
        std::size_t waiting_bytes = 0;
    };
    using Key = std::array<u8, 4 + 2 * 17>;  // ports, then length and bytes of both addresses

    bool ip(u64 time_ns, std::span<const std::byte>);
    bool tcp(const sock::Address& from, const sock::Address& to, u64 time_ns,
             std::span<const std::byte>, std::size_t length);
    void take(Flow&, u64 at, Segment);
    void deliver(Flow&, u64 at, Segment&);
    void drain(Flow&, bool all);

    TcpSink& sink_;
    std::map<Key, Flow> flows_;
};

}  // namespace ulnet::tools
