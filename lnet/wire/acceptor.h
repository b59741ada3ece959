// The connection request of TCP drivers: the first bytes on a new connection, telling which NID the
// connector wants. There is no positive answer: the driver's own hello follows at once.
// Used by the stream drivers on the strand of the connection. Integers in the sender's order.
#pragma once

#include <span>
#include <vector>

#include "cpt/base/wire.h"
#include "lnet/nid.h"

namespace ulnet {

constexpr u32 acceptor_magic = 0xacce7100;
constexpr u32 lnet_generic_magic = 0x45726963;
constexpr u16 acceptor_port = 988;
constexpr u32 acceptor_v1_bytes = 16;  // 8-byte NID
constexpr u32 acceptor_v2_bytes = 28;  // 20-byte NID

struct ConnRequest {
    u32 version = 1;
    Nid target;
    // The version that can carry the target: 1 when its NID has 8 bytes, else 2.
    static ConnRequest to(const Nid& target) { return {target.is_nid4() ? 1u : 2u, target}; }
    friend bool operator==(const ConnRequest&, const ConnRequest&) = default;
};

// What a listener does with the bytes it has so far.
struct ConnRequestStep {
    enum class Next : u8 {
        more,     // read at most `wanted` further bytes, then ask again
        request,  // complete: `request` took `used` bytes, what follows is the driver's
        answer,   // unknown version or generic magic: send acceptor_answer() and close
        close,    // not the protocol: close without an answer
    };
    Next next = Next::more;
    u32 wanted = acceptor_v1_bytes;
    u32 used = 0;
    ConnRequest request;
    Order order = native_order;  // of the sender
};
// Decides as early as the bytes allow, and never asks for bytes behind the request.
ConnRequestStep decode_conn_request(std::span<const std::byte> so_far);

// Version 1 can only name an 8-byte NID.
std::vector<std::byte> encode_conn_request(const ConnRequest&, Order order = native_order);
// The refusal of an unknown version: says that version 1 is spoken here.
std::vector<std::byte> acceptor_answer(Order order = native_order);

}  // namespace ulnet
