// The messages of LNet self test: always 160 bytes, a header of 24 and a body by type, integers in
// the sender's order (the magic tells). Used by both ends of every RPC; values, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cpt/base/result.h"
#include "cpt/base/wire.h"
#include "lnet/lnet.h"

namespace ulnet::lst {

constexpr PortalId portal_test = 50;       // requests of test services
constexpr PortalId portal_framework = 51;  // requests of framework services
constexpr PortalId portal_reply = 52;      // replies and bulk data
constexpr std::size_t message_bytes = 160;
constexpr u32 message_magic = 0xeeb0f00d;
constexpr u32 message_version = 1;
constexpr u32 feature_bulk_len = 1;
constexpr u32 features_known = feature_bulk_len;
constexpr std::size_t name_bytes = 32;  // with the NUL at the end

enum class Service : u32 {
    debug = 0,
    make_session = 1,
    remove_session = 2,
    batch = 3,
    test = 4,
    stat = 5,
    join = 6,
    brw = 11,
    ping = 12,
};
constexpr PortalId portal_of(Service service) {
    return static_cast<u32>(service) < 10 ? portal_framework : portal_test;
}

// Request types; the reply's is one more.
enum class Type : u32 {
    make_session = 0,
    remove_session = 2,
    batch = 4,
    stat = 6,
    test = 8,
    debug = 10,
    brw = 12,
    ping = 14,
    join = 16,
};
constexpr Type request_type(Service service) {
    switch (service) {
    case Service::debug:
        return Type::debug;
    case Service::make_session:
        return Type::make_session;
    case Service::remove_session:
        return Type::remove_session;
    case Service::batch:
        return Type::batch;
    case Service::test:
        return Type::test;
    case Service::stat:
        return Type::stat;
    case Service::join:
        return Type::join;
    case Service::brw:
        return Type::brw;
    case Service::ping:
        break;
    }
    return Type::ping;
}
constexpr u32 reply_type(Type type) {
    return static_cast<u32>(type) + 1;
}

struct Header {
    u32 magic = message_magic;
    u32 version = message_version;
    u32 type = 0;
    u32 reserved1 = 0, reserved2 = 0;
    u32 features = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &Header::magic);
        f("version", &Header::version);
        f("type", &Header::type);
        f("reserved1", &Header::reserved1);
        f("reserved2", &Header::reserved2);
        f("features", &Header::features);
    }
    friend bool operator==(const Header&, const Header&) = default;
};
static_assert(wire_size<Header>() == 24 && wire_offset<Header>("features") == 20);

// Session id: who made the session, and when (milliseconds of its clock).
struct Sid {
    u64 nid = ~u64{0};
    i64 stamp = -1;
    bool any() const { return nid == ~u64{0}; }
    template <class F> static constexpr void fields(F&& f) {
        f("nid", &Sid::nid);
        f("stamp", &Sid::stamp);
    }
    friend bool operator==(const Sid&, const Sid&) = default;
};
constexpr Sid sid_invalid{};

using NameBytes = std::array<char, name_bytes>;
// Up to the first NUL, at most 31 characters.
std::string name_text(const NameBytes&);
NameBytes name_from(std::string_view);

struct MakeSessionRequest {
    u64 rpyid = 0;
    Sid sid;
    u32 force = 0;
    NameBytes name{};
    template <class F> static constexpr void fields(F&& f) {
        f("rpyid", &MakeSessionRequest::rpyid);
        f("sid", &MakeSessionRequest::sid);
        f("force", &MakeSessionRequest::force);
        f("name", &MakeSessionRequest::name);
    }
    friend bool operator==(const MakeSessionRequest&, const MakeSessionRequest&) = default;
};
static_assert(wire_size<MakeSessionRequest>() == 60);

struct MakeSessionReply {  // also of JOIN
    u32 status = 0;
    Sid sid;
    u32 timeout_s = 0;
    NameBytes name{};
    template <class F> static constexpr void fields(F&& f) {
        f("status", &MakeSessionReply::status);
        f("sid", &MakeSessionReply::sid);
        f("timeout", &MakeSessionReply::timeout_s);
        f("name", &MakeSessionReply::name);
    }
    friend bool operator==(const MakeSessionReply&, const MakeSessionReply&) = default;
};
static_assert(wire_size<MakeSessionReply>() == 56 && wire_offset<MakeSessionReply>("name") == 24);

struct RemoveSessionRequest {
    u64 rpyid = 0;
    Sid sid;
    template <class F> static constexpr void fields(F&& f) {
        f("rpyid", &RemoveSessionRequest::rpyid);
        f("sid", &RemoveSessionRequest::sid);
    }
    friend bool operator==(const RemoveSessionRequest&, const RemoveSessionRequest&) = default;
};
static_assert(wire_size<RemoveSessionRequest>() == 24);

// Replies of RMSN and TEST; the beginning of all framework replies.
struct SidReply {
    u32 status = 0;
    Sid sid;
    template <class F> static constexpr void fields(F&& f) {
        f("status", &SidReply::status);
        f("sid", &SidReply::sid);
    }
    friend bool operator==(const SidReply&, const SidReply&) = default;
};
static_assert(wire_size<SidReply>() == 20);

struct JoinRequest {
    u64 rpyid = 0;
    Sid sid;
    NameBytes group{};
    template <class F> static constexpr void fields(F&& f) {
        f("rpyid", &JoinRequest::rpyid);
        f("sid", &JoinRequest::sid);
        f("group", &JoinRequest::group);
    }
    friend bool operator==(const JoinRequest&, const JoinRequest&) = default;
};
static_assert(wire_size<JoinRequest>() == 56);

struct DebugRequest {
    u64 rpyid = 0;
    Sid sid;
    u32 flags = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("rpyid", &DebugRequest::rpyid);
        f("sid", &DebugRequest::sid);
        f("flags", &DebugRequest::flags);
    }
    friend bool operator==(const DebugRequest&, const DebugRequest&) = default;
};
static_assert(wire_size<DebugRequest>() == 28);

struct DebugReply {
    u32 status = 0;
    Sid sid;
    u32 timeout_s = 0;
    u32 batches = 0;
    NameBytes name{};
    template <class F> static constexpr void fields(F&& f) {
        f("status", &DebugReply::status);
        f("sid", &DebugReply::sid);
        f("timeout", &DebugReply::timeout_s);
        f("batches", &DebugReply::batches);
        f("name", &DebugReply::name);
    }
    friend bool operator==(const DebugReply&, const DebugReply&) = default;
};
static_assert(wire_size<DebugReply>() == 60 && wire_offset<DebugReply>("name") == 28);

enum class BatchOp : u32 { run = 1, stop = 2, query = 3 };
struct BatchRequest {
    u64 rpyid = 0;
    Sid sid;
    u64 batch_id = 0;
    u32 opcode = 0;
    u32 test_index = 0;  // 0 = the whole batch
    u32 argument = 0;    // STOP: force; RUN: a time-out nobody uses
    template <class F> static constexpr void fields(F&& f) {
        f("rpyid", &BatchRequest::rpyid);
        f("sid", &BatchRequest::sid);
        f("batch_id", &BatchRequest::batch_id);
        f("opcode", &BatchRequest::opcode);
        f("test_index", &BatchRequest::test_index);
        f("argument", &BatchRequest::argument);
    }
    friend bool operator==(const BatchRequest&, const BatchRequest&) = default;
};
static_assert(wire_size<BatchRequest>() == 44 && wire_offset<BatchRequest>("opcode") == 32);

struct BatchReply {
    u32 status = 0;
    Sid sid;
    u32 active = 0;
    u32 time = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("status", &BatchReply::status);
        f("sid", &BatchReply::sid);
        f("active", &BatchReply::active);
        f("time", &BatchReply::time);
    }
    friend bool operator==(const BatchReply&, const BatchReply&) = default;
};
static_assert(wire_size<BatchReply>() == 28);

struct StatRequest {
    u64 rpyid = 0;
    Sid sid;
    u32 stat_type = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("rpyid", &StatRequest::rpyid);
        f("sid", &StatRequest::sid);
        f("stat_type", &StatRequest::stat_type);
    }
    friend bool operator==(const StatRequest&, const StatRequest&) = default;
};
static_assert(wire_size<StatRequest>() == 28);

struct FrameworkCounters {
    u32 running_ms = 0, active_batches = 0, zombie_sessions = 0, brw_errors = 0, ping_errors = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("fw_running_ms", &FrameworkCounters::running_ms);
        f("fw_active_batches", &FrameworkCounters::active_batches);
        f("fw_zombies", &FrameworkCounters::zombie_sessions);
        f("fw_brw_errors", &FrameworkCounters::brw_errors);
        f("fw_ping_errors", &FrameworkCounters::ping_errors);
    }
    friend bool operator==(const FrameworkCounters&, const FrameworkCounters&) = default;
};

struct RpcCounters {
    u32 errors = 0, sent = 0, rcvd = 0, dropped = 0, expired = 0;
    u64 bulk_get = 0, bulk_put = 0;  // bytes this node moved as the server of a bulk
    template <class F> static constexpr void fields(F&& f) {
        f("rpc_errors", &RpcCounters::errors);
        f("rpc_sent", &RpcCounters::sent);
        f("rpc_rcvd", &RpcCounters::rcvd);
        f("rpc_dropped", &RpcCounters::dropped);
        f("rpc_expired", &RpcCounters::expired);
        f("rpc_bulk_get", &RpcCounters::bulk_get);
        f("rpc_bulk_put", &RpcCounters::bulk_put);
    }
    friend bool operator==(const RpcCounters&, const RpcCounters&) = default;
};

struct LnetCounters {
    u32 msgs_alloc = 0, msgs_max = 0, errors = 0, send_count = 0, recv_count = 0, route_count = 0,
        drop_count = 0;
    u64 send_length = 0, recv_length = 0, route_length = 0, drop_length = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("lnet_msgs_alloc", &LnetCounters::msgs_alloc);
        f("lnet_msgs_max", &LnetCounters::msgs_max);
        f("lnet_errors", &LnetCounters::errors);
        f("lnet_send_count", &LnetCounters::send_count);
        f("lnet_recv_count", &LnetCounters::recv_count);
        f("lnet_route_count", &LnetCounters::route_count);
        f("lnet_drop_count", &LnetCounters::drop_count);
        f("lnet_send_length", &LnetCounters::send_length);
        f("lnet_recv_length", &LnetCounters::recv_length);
        f("lnet_route_length", &LnetCounters::route_length);
        f("lnet_drop_length", &LnetCounters::drop_length);
    }
    friend bool operator==(const LnetCounters&, const LnetCounters&) = default;
};

struct StatReply {
    u32 status = 0;
    Sid sid;
    FrameworkCounters framework;
    RpcCounters rpc;
    LnetCounters lnet;
    template <class F> static constexpr void fields(F&& f) {
        f("status", &StatReply::status);
        f("sid", &StatReply::sid);
        f("framework", &StatReply::framework);
        f("rpc", &StatReply::rpc);
        f("lnet", &StatReply::lnet);
    }
    friend bool operator==(const StatReply&, const StatReply&) = default;
};
static_assert(wire_size<StatReply>() == message_bytes - wire_size<Header>());
static_assert(wire_offset<StatReply>("rpc") == 40 && wire_offset<StatReply>("lnet") == 76);

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

struct StatusReply {  // of BRW; every reply begins so
    u32 status = 0;
    template <class F> static constexpr void fields(F&& f) { f("status", &StatusReply::status); }
    friend bool operator==(const StatusReply&, const StatusReply&) = default;
};

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

// The sender's order by the magic; not ok: not a self test message (length or magic).
Result<Order> message_order(std::span<const std::byte>);

// Decodes header and body parts one after the other; false when the length is not 160 or the magic
// is wrong. The type is the caller's to compare.
template <class... Parts>
bool decode_message(std::span<const std::byte> bytes, Header& header, Parts&... parts) {
    const Result<Order> order = message_order(bytes);
    if (!order.ok()) return false;
    Reader reader(bytes, *order);
    reader.read(header);
    (reader.read(parts), ...);
    return reader.ok();
}

using Message = std::array<std::byte, message_bytes>;
template <class... Parts>
void encode_message(Message& out, Order order, const Header& header, const Parts&... parts) {
    static_assert((wire_size<Parts>() + ... + wire_size<Header>()) <= message_bytes);
    Writer writer(out, order);
    writer.write(header);
    (writer.write(parts), ...);
    writer.zeros(message_bytes - writer.size());
}

// What a server makes of a request before it looks at the body.
enum class Arrival : u8 { good, drop, wrong_version };
Arrival judge_request(std::span<const std::byte>, Type expected, Header& header);

}  // namespace ulnet::lst
