// The dialogue of the libfabric driver: what one context sends to another in FI_MSG messages. Ours;
// offsets, rules and byte examples: docs/wire/ofi.md. All integers are little-endian. Decoders
// check every bound. Values; any thread.
#pragma once

#include <span>
#include <vector>

#include "cpt/base/result.h"
#include "cpt/base/wire.h"
#include "cpt/mem.h"
#include "lnet/wire/hdr.h"

namespace ulnet::ofi {

constexpr u32 magic = 0x69666b75;  // "ukfi"
constexpr u8 version_min = 1, version_max = 1;

enum class Type : u8 {
    hello_request = 1,
    hello_answer,
    immediate,  // an LNet message with its payload
    bulk,       // an LNet message whose payload the receiver reads, or names memory for
    done,       // the receiver has read it, or wants none
    fin,        // the answer: whether what was read was still valid
    credits,    // only returns credits
    bye,        // the sender ends the session
    ready,      // memory that the payload may be written to
    written,    // it was
};

struct HeadWire {
    Le<u32> magic;
    u8 version, type;
    Le<u16> reserved;
    Le<u32> length, credits;
    Le<u64> session;
    std::array<u8, 20> source, target;
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &HeadWire::magic);
        f("version", &HeadWire::version);
        f("type", &HeadWire::type);
        f("reserved", &HeadWire::reserved);
        f("length", &HeadWire::length);
        f("credits", &HeadWire::credits);
        f("session", &HeadWire::session);
        f("source", &HeadWire::source);
        f("target", &HeadWire::target);
    }
};
constexpr u32 head_bytes = 64;
static_assert(wire_size<HeadWire>() == head_bytes);

// What every message begins with.
struct Head {
    u8 version = version_max;
    Type type = Type::credits;
    u32 length = 0;   // of the whole message
    u32 credits = 0;  // returned to the receiver
    u64 session = 0;  // that the receiver gave the sender; 0 in a HELLO
    Nid source, target;
    friend bool operator==(const Head&, const Head&) = default;
};

struct Hello {
    u8 low = version_min, high = version_max;  // versions that the sender speaks
    u16 contexts = 1;                          // that the sender has
    u32 context = 0;                           // of those, the one that talks to the receiver
    u64 epoch = 0;                             // of the sender's NI: another one each time it opens
    u64 session = 0;                           // what the receiver names in its messages
    u64 answers = 0;                           // in an answer: the session of the request
    u32 credits = 0;                           // messages that the sender has room for
    u32 message_max = 0;                       // bytes of the longest message it takes
    friend bool operator==(const Hello&, const Hello&) = default;
};
constexpr u32 hello_bytes = head_bytes + 44;

// A piece of memory of the sender that the receiver may read or write.
struct Segment {
    u64 address = 0, key = 0;
    u32 len = 0;
    friend bool operator==(const Segment&, const Segment&) = default;
};
constexpr u32 segment_bytes = 24;
constexpr u32 immediate_bytes = head_bytes + hdr16_bytes;  // and the payload
constexpr u32 bulk_bytes = immediate_bytes + 16;           // and the segments
constexpr u32 segments_max = Mem::frags_max;
constexpr u32 message_bytes_max = bulk_bytes + segments_max * segment_bytes;

struct Bulk {
    Hdr hdr;
    u64 transfer = 0;               // the sender's name for it
    std::vector<Segment> segments;  // none: the sender writes, once it is told where
};

struct Ready {
    u64 transfer = 0;  // of the bulk message
    u64 reading = 0;   // the receiver's name for it
    std::vector<Segment> segments;
};
constexpr u32 ready_bytes = head_bytes + 24;  // and the segments

struct Done {
    u64 transfer = 0;  // of the bulk message
    u64 reading = 0;   // the receiver's name for it; 0: it expects no FIN
    i32 status = 0;    // 0 or a negative errno
    u32 bytes = 0;     // that were read
    friend bool operator==(const Done&, const Done&) = default;
};
constexpr u32 done_bytes = head_bytes + 24;

struct Fin {
    u64 reading = 0;
    i32 status = 0;
    friend bool operator==(const Fin&, const Fin&) = default;
};
constexpr u32 fin_bytes = head_bytes + 16;

// EPROTO: too short, wrong magic, type, length or NID; EPROTONOSUPPORT: a version that we do not
// speak. `length` is at most the bytes that are there.
Result<Head> decode_head(std::span<const std::byte>);
// What follows the head; the span is the whole message as decode_head() has it. EPROTO.
Result<Hello> decode_hello(std::span<const std::byte>);
Result<Hdr> decode_immediate(std::span<const std::byte>, std::span<const std::byte>& payload);
Result<Bulk> decode_bulk(std::span<const std::byte>);
Result<Done> decode_done(std::span<const std::byte>);
Result<Fin> decode_fin(std::span<const std::byte>);  // WRITTEN too
Result<Ready> decode_ready(std::span<const std::byte>);

// Write whole messages; each gives its length, which it also puts into the head. The span is long
// enough.
u32 encode(Head, const Hello&, std::span<std::byte>);
u32 encode_immediate(Head, const Hdr&, const MemView& payload, std::span<std::byte>);
u32 encode(Head, const Bulk&, std::span<std::byte>);
u32 encode(Head, const Done&, std::span<std::byte>);
u32 encode(Head, const Fin&, std::span<std::byte>);  // or WRITTEN, as the head says
u32 encode(Head, const Ready&, std::span<std::byte>);
u32 encode_head(Head, std::span<std::byte>);  // credits, bye

}  // namespace ulnet::ofi
