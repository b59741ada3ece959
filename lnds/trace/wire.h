// The formats of a trace file: the blocks of pcap-ng that we write, and what stands before the LNet
// header in each packet. Used by TraceFile and by tools/wiredump. Values; any thread.
// Offsets and meanings: docs/wire/trace.md.
#pragma once

#include "cpt/base/wire.h"
#include "lnet/nid.h"

namespace ulnet::trace {

// --- pcap-ng; integers in the order of the machine that writes, which the section header tells

constexpr u32 section_block = 0x0a0d0d0a, section_magic = 0x1a2b3c4d;
constexpr u32 interface_block = 1, statistics_block = 5, packet_block = 6;
constexpr u16 link_type = 147;  // DLT_USER0: private to whoever uses it
enum Option : u16 {
    end_of_options = 0,
    section_application = 4,
    interface_name = 2,
    interface_resolution = 9,
    packet_flags = 2,
    statistics_received = 4,
    statistics_dropped = 5,
};
constexpr u8 nanoseconds = 9;  // interface_resolution: 10^-9
constexpr u32 flag_inbound = 1, flag_outbound = 2;

struct BlockHead {
    u32 type, total_length;
    template <class F> static constexpr void fields(F&& f) {
        f("type", &BlockHead::type);
        f("total_length", &BlockHead::total_length);
    }
};
struct SectionBody {
    u32 magic;
    u16 major, minor;
    u64 section_length;
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &SectionBody::magic);
        f("major", &SectionBody::major);
        f("minor", &SectionBody::minor);
        f("section_length", &SectionBody::section_length);
    }
};
struct InterfaceBody {
    u16 link_type, reserved;
    u32 snap_length;
    template <class F> static constexpr void fields(F&& f) {
        f("link_type", &InterfaceBody::link_type);
        f("reserved", &InterfaceBody::reserved);
        f("snap_length", &InterfaceBody::snap_length);
    }
};
struct StatisticsBody {
    u32 interface, time_high, time_low;
    template <class F> static constexpr void fields(F&& f) {
        f("interface", &StatisticsBody::interface);
        f("time_high", &StatisticsBody::time_high);
        f("time_low", &StatisticsBody::time_low);
    }
};
struct PacketBody {
    u32 interface, time_high, time_low, captured, original;
    template <class F> static constexpr void fields(F&& f) {
        f("interface", &PacketBody::interface);
        f("time_high", &PacketBody::time_high);
        f("time_low", &PacketBody::time_low);
        f("captured", &PacketBody::captured);
        f("original", &PacketBody::original);
    }
};
struct OptionHead {
    u16 code, length;
    template <class F> static constexpr void fields(F&& f) {
        f("code", &OptionHead::code);
        f("length", &OptionHead::length);
    }
};
constexpr std::size_t padded(std::size_t bytes) {
    return (bytes + 3) & ~std::size_t{3};
}
static_assert(wire_size<BlockHead>() == 8 && wire_size<SectionBody>() == 16);
static_assert(wire_size<PacketBody>() == 20 && wire_offset<PacketBody>("captured") == 12);

// --- our packets

constexpr u8 record_version = 1;
enum class Direction : u8 { none = 0, out = 1, in = 2 };
enum class Kind : u8 {
    message = 1,     // out: given to the driver, with payload; in: a header has arrived
    finished = 2,    // how it ended; in: with the payload that was received
    discarded = 3,   // in: the core does not want the payload
    parked = 4,      // in: the core cannot decide yet
    peer_event = 5,  // detail: a PeerEvent; no LNet header
    ni_event = 6,    // detail: an NiEvent; no LNet header
};

struct RecordHead {
    u8 version = record_version;
    u8 direction = 0, kind = 0;
    u8 detail = 0;      // finished: Health
    Be<i32> status{0};  // finished: 0 or a negative errno
    std::array<u8, Nid::bytes_max> ni_nid{}, peer_nid{};
    Be<u32> peer_pid{0};
    Be<u32> payload_length{0};  // of the message; how much follows the header is the file's to say
    template <class F> static constexpr void fields(F&& f) {
        f("version", &RecordHead::version);
        f("direction", &RecordHead::direction);
        f("kind", &RecordHead::kind);
        f("detail", &RecordHead::detail);
        f("status", &RecordHead::status);
        f("ni_nid", &RecordHead::ni_nid);
        f("peer_nid", &RecordHead::peer_nid);
        f("peer_pid", &RecordHead::peer_pid);
        f("payload_length", &RecordHead::payload_length);
    }
};
constexpr u32 record_head_bytes = 56;
static_assert(wire_size<RecordHead>() == record_head_bytes);
static_assert(wire_offset<RecordHead>("ni_nid") == 8 && wire_offset<RecordHead>("peer_nid") == 28);
static_assert(wire_offset<RecordHead>("payload_length") == 52);

}  // namespace ulnet::trace
