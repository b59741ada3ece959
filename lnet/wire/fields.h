// The field lists behind decoded values: header, ping buffer and connection request as they lie on
// the wire. For the codecs of this folder, and for tools that print layouts. Values; any thread.
#pragma once

#include "cpt/base/wire.h"
#include "lnet/wire/acceptor.h"
#include "lnet/wire/hdr.h"

namespace ulnet::hdr_fields {

using NidBytes = std::array<u8, Nid::bytes_max>;

// What comes before the union, by size of the NIDs.
struct Front4 {
    Le<u64> dest_nid, src_nid;
    Le<u32> dest_pid, src_pid, type, payload_length;
    template <class F> static constexpr void fields(F&& f) {
        f("dest_nid", &Front4::dest_nid);
        f("src_nid", &Front4::src_nid);
        f("dest_pid", &Front4::dest_pid);
        f("src_pid", &Front4::src_pid);
        f("type", &Front4::type);
        f("payload_length", &Front4::payload_length);
    }
};
struct Front16 {
    NidBytes dest_nid, src_nid;
    Le<u32> dest_pid, src_pid, type, payload_length;
    template <class F> static constexpr void fields(F&& f) {
        f("dest_nid", &Front16::dest_nid);
        f("src_nid", &Front16::src_nid);
        f("dest_pid", &Front16::dest_pid);
        f("src_pid", &Front16::src_pid);
        f("type", &Front16::type);
        f("payload_length", &Front16::payload_length);
    }
};

// The union: 40 bytes, those behind the type's own fields are zero.
constexpr std::size_t union_bytes = 40;
struct Put {
    WireHandle ack;
    Le<u64> match_bits;
    Opaque<u64> hdr_data;
    Le<u32> portal, offset;
    template <class F> static constexpr void fields(F&& f) {
        f("ack", &Put::ack);
        f("match_bits", &Put::match_bits);
        f("hdr_data", &Put::hdr_data);
        f("portal", &Put::portal);
        f("offset", &Put::offset);
    }
};
struct Get {
    WireHandle reply;
    Le<u64> match_bits;
    Le<u32> portal, offset, sink_length;
    template <class F> static constexpr void fields(F&& f) {
        f("reply", &Get::reply);
        f("match_bits", &Get::match_bits);
        f("portal", &Get::portal);
        f("offset", &Get::offset);
        f("sink_length", &Get::sink_length);
    }
};
struct Ack {
    WireHandle destination;
    Le<u64> match_bits;
    Le<u32> mlength;
    template <class F> static constexpr void fields(F&& f) {
        f("destination", &Ack::destination);
        f("match_bits", &Ack::match_bits);
        f("mlength", &Ack::mlength);
    }
};
struct Hello {
    Le<u64> incarnation;
    Le<u32> conn_type;
    template <class F> static constexpr void fields(F&& f) {
        f("incarnation", &Hello::incarnation);
        f("conn_type", &Hello::conn_type);
    }
};

static_assert(wire_size<Front4>() == 32 && wire_size<Front4>() + union_bytes == hdr4_bytes);
static_assert(wire_size<Front16>() == 56 && wire_size<Front16>() + union_bytes == hdr16_bytes);
static_assert(wire_offset<Front4>("type") == 24 && wire_offset<Front4>("payload_length") == 28);
static_assert(wire_offset<Front16>("dest_pid") == 40 && wire_offset<Front16>("type") == 48);
static_assert(wire_size<WireHandle>() == 16);
static_assert(wire_size<Put>() == union_bytes && wire_offset<Put>("match_bits") == 16);
static_assert(wire_offset<Put>("hdr_data") == 24 && wire_offset<Put>("portal") == 32);
static_assert(wire_size<Get>() == 36 && wire_offset<Get>("portal") == 24);
static_assert(wire_offset<Get>("sink_length") == 32);
static_assert(wire_size<Ack>() == 28 && wire_offset<Ack>("mlength") == 24);
static_assert(wire_size<Hello>() == 12 && wire_offset<Hello>("conn_type") == 8);

}  // namespace ulnet::hdr_fields

namespace ulnet::ping_fields {

struct Front {
    u32 magic, features, pid, nnis;
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &Front::magic);
        f("features", &Front::features);
        f("pid", &Front::pid);
        f("nnis", &Front::nnis);
    }
};
// Entry 0 is 0@lo: its status is the sequence number and msg_size the size of all entries.
struct Entry4 {
    u64 nid;
    u32 status, msg_size;
    template <class F> static constexpr void fields(F&& f) {
        f("nid", &Entry4::nid);
        f("status", &Entry4::status);
        f("msg_size", &Entry4::msg_size);
    }
};
constexpr u32 front_bytes = 16;
constexpr u32 entry_bytes = 16;
static_assert(wire_size<Front>() == front_bytes && wire_offset<Front>("nnis") == 12);
static_assert(wire_size<Entry4>() == entry_bytes && wire_offset<Entry4>("msg_size") == 12);

}  // namespace ulnet::ping_fields

namespace ulnet::acceptor_fields {

struct Front {
    u32 magic, version;
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &Front::magic);
        f("version", &Front::version);
    }
};
struct RequestV1 {
    Front front;
    u64 nid;
    template <class F> static constexpr void fields(F&& f) {
        f("front", &RequestV1::front);
        f("nid", &RequestV1::nid);
    }
};
struct RequestV2 {
    Front front;
    std::array<u8, Nid::bytes_max> nid;
    template <class F> static constexpr void fields(F&& f) {
        f("front", &RequestV2::front);
        f("nid", &RequestV2::nid);
    }
};
static_assert(wire_size<RequestV1>() == acceptor_v1_bytes && wire_offset<RequestV1>("nid") == 8);
static_assert(wire_size<RequestV2>() == acceptor_v2_bytes && wire_offset<RequestV2>("nid") == 8);

}  // namespace ulnet::acceptor_fields
