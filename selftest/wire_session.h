// Bodies of the framework messages: sessions, batches, statistics. The request to add a test is in
// wire_test.h. Values, any thread.
#pragma once

#include "selftest/wire.h"

namespace ulnet::lst {

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

}  // namespace ulnet::lst
