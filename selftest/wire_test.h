// Bodies that tests are made of: the request to add one, its destination list, PING and BRW.
// Values, any thread.
#pragma once

#include "selftest/wire.h"

namespace ulnet::lst {

// What follows a TestRequest: parameters by service and features.
struct TestRequest {
    u64 rpyid = 0;
    u64 bulkid = 0;
    Sid sid;
    u64 batch_id = 0;
    u32 service = 0;
    u32 loop = 0;  // ~0 = for ever; of a server: buffers wanted
    u32 concurrency = 0;
    u8 is_client = 0;
    u8 stop_on_error = 0;
    u32 destinations = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("rpyid", &TestRequest::rpyid);
        f("bulkid", &TestRequest::bulkid);
        f("sid", &TestRequest::sid);
        f("batch_id", &TestRequest::batch_id);
        f("service", &TestRequest::service);
        f("loop", &TestRequest::loop);
        f("concurrency", &TestRequest::concurrency);
        f("is_client", &TestRequest::is_client);
        f("stop_on_error", &TestRequest::stop_on_error);
        f("ndest", &TestRequest::destinations);
    }
    friend bool operator==(const TestRequest&, const TestRequest&) = default;
};
static_assert(wire_size<TestRequest>() == 58 && wire_offset<TestRequest>("ndest") == 54);

struct PingParams {
    u32 size = 0, flags = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("ping_size", &PingParams::size);
        f("ping_flags", &PingParams::flags);
    }
    friend bool operator==(const PingParams&, const PingParams&) = default;
};
struct BrwParamsV0 {  // without BULK_LEN
    u32 opcode = 0, pages = 0, flags = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("brw_opc", &BrwParamsV0::opcode);
        f("brw_npages", &BrwParamsV0::pages);
        f("brw_flags", &BrwParamsV0::flags);
    }
    friend bool operator==(const BrwParamsV0&, const BrwParamsV0&) = default;
};
struct BrwParamsV1 {
    u16 opcode = 0, flags = 0;
    u32 length = 0, offset = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("brw_opc", &BrwParamsV1::opcode);
        f("brw_flags", &BrwParamsV1::flags);
        f("brw_length", &BrwParamsV1::length);
        f("brw_offset", &BrwParamsV1::offset);
    }
    friend bool operator==(const BrwParamsV1&, const BrwParamsV1&) = default;
};
static_assert(wire_size<BrwParamsV0>() == 12 && wire_size<BrwParamsV1>() == 12);

constexpr u32 ping_data_magic = 0xbabeface;
struct PingRequest {
    u64 rpyid = 0;
    u32 magic = ping_data_magic;
    u32 sequence = 0;
    u64 seconds = 0, nanoseconds = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("rpyid", &PingRequest::rpyid);
        f("ping_magic", &PingRequest::magic);
        f("sequence", &PingRequest::sequence);
        f("time_sec", &PingRequest::seconds);
        f("time_nsec", &PingRequest::nanoseconds);
    }
    friend bool operator==(const PingRequest&, const PingRequest&) = default;
};
static_assert(wire_size<PingRequest>() == 32);

struct PingReply {
    u32 status = 0;
    u32 magic = ping_data_magic;
    u32 sequence = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("status", &PingReply::status);
        f("ping_magic", &PingReply::magic);
        f("sequence", &PingReply::sequence);
    }
    friend bool operator==(const PingReply&, const PingReply&) = default;
};

enum class BrwOp : u32 { read = 1, write = 2 };
enum class Check : u32 { none = 1, simple = 2, full = 3, discard = 4 };
struct BrwRequest {
    u64 rpyid = 0;
    u64 bulkid = 0;
    u32 rw = 0;
    u32 length = 0;
    u32 flags = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("rpyid", &BrwRequest::rpyid);
        f("bulkid", &BrwRequest::bulkid);
        f("rw", &BrwRequest::rw);
        f("length", &BrwRequest::length);
        f("flags", &BrwRequest::flags);
    }
    friend bool operator==(const BrwRequest&, const BrwRequest&) = default;
};
static_assert(wire_size<BrwRequest>() == 28);

// One node of a destination list: 341 to a page of 4096 bytes, the last 4 of which are unused.
struct PackedId {
    u64 nid = 0;
    u32 pid = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("nid", &PackedId::nid);
        f("pid", &PackedId::pid);
    }
    friend bool operator==(const PackedId&, const PackedId&) = default;
};
static_assert(wire_size<PackedId>() == 12);
constexpr u32 wire_page_bytes = 4096;
constexpr u32 ids_per_page = wire_page_bytes / 12;
constexpr u32 destinations_max = 256 * ids_per_page;
// Bytes of the list with `count` entries, gaps at the page ends included.
constexpr u32 destination_bytes(u32 count) {
    return count == 0 ? 0
                      : (count - 1) / ids_per_page * wire_page_bytes +
                            ((count - 1) % ids_per_page + 1) * 12;
}
bool encode_destination(std::span<std::byte> list, u32 index, const PackedId&,
                        Order = native_order);
// False when the entry's bytes lie beyond the list.
bool decode_destination(std::span<const std::byte> list, u32 index, Order, PackedId& out);

}  // namespace ulnet::lst
