// The node at the level of messages: bytes in, bytes out.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "selftest/pattern.h"
#include "tests/golden/golden.h"
#include "tests/unit/selftest/raw.h"

namespace ulnet::lst {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr u64 batch_one = 1;

class SelftestNode : public testing::Test {
 protected:
    SelftestNode() { start({}, {}); }
    void start(const SelftestOptions& options, const NodeOptions& node_options) {
        raw.reset();
        rig = std::make_unique<Rig>();
        node = &rig->add(3, options, node_options);
        peer = &rig->add_bare(2);
        raw = std::make_unique<Raw>(*peer);
        sid = {peer->nid().nid4(), 77};
    }
    u64 id() { return ++last_id; }
    std::optional<Message> ask(Service service, const Message& request, Duration within = 30s) {
        return raw->ask(node->nid(), service, request, within);
    }
    MakeSessionReply mksn(const Sid& of, bool force = false, u32 features = 1,
                          u32* features_out = nullptr, Order order = native_order) {
        return reply_of<MakeSessionReply>(
            Type::make_session,
            ask(Service::make_session,
                request_of(Type::make_session, order, features,
                           MakeSessionRequest{id(), of, force ? 1u : 0u, name_from("s1")})),
            features_out);
    }
    SidReply rmsn(const Sid& of, u32 features = 1, u32* features_out = nullptr) {
        return reply_of<SidReply>(
            Type::remove_session,
            ask(Service::remove_session, request_of(Type::remove_session, native_order, features,
                                                    RemoveSessionRequest{id(), of})),
            features_out);
    }
    DebugReply debug(u32 features = 1, u32* features_out = nullptr) {
        return reply_of<DebugReply>(
            Type::debug,
            ask(Service::debug,
                request_of(Type::debug, native_order, features, DebugRequest{id(), sid, 0})),
            features_out);
    }
    StatReply stat(const Sid& of) {
        return reply_of<StatReply>(
            Type::stat,
            ask(Service::stat, request_of(Type::stat, native_order, 1, StatRequest{id(), of, 0})));
    }
    BatchReply batch(BatchOp op, u32 index = 0, u64 batch_id = batch_one, u32 argument = 0) {
        return reply_of<BatchReply>(
            Type::batch,
            ask(Service::batch, request_of(Type::batch, native_order, 1,
                                           BatchRequest{id(), sid, batch_id, static_cast<u32>(op),
                                                        index, argument})));
    }
    TestRequest ping_test(bool client) {
        TestRequest out;
        out.rpyid = id();
        out.bulkid = client ? id() : 0;
        out.sid = sid;
        out.batch_id = batch_one;
        out.service = static_cast<u32>(Service::ping);
        out.loop = 1;
        out.concurrency = 1;
        out.is_client = client;
        out.destinations = client ? 1 : 0;
        return out;
    }
    u32 test(const TestRequest& request, Order order = native_order) {
        return reply_of<SidReply>(Type::test, ask(Service::test, request_of(Type::test, order, 1,
                                                                            request, PingParams{})))
            .status;
    }

    std::unique_ptr<Rig> rig;
    Host* node = nullptr;
    Host* peer = nullptr;
    std::unique_ptr<Raw> raw;
    Sid sid;
    u64 last_id = u64{1} << 48;
    static inline const Sid other_sid{0x2000000000001, 5};
};

TEST_F(SelftestNode, make_and_remove_session) {
    u32 features = 0;
    MakeSessionReply made = mksn(sid, false, 1, &features);
    EXPECT_EQ(made, (MakeSessionReply{0, sid, 100, {}}));
    EXPECT_EQ(features, 1u);
    EXPECT_EQ(mksn(sid_invalid).status, static_cast<u32>(EINVAL));
    EXPECT_EQ(mksn(sid).status, 0u);  // a second reference
    const MakeSessionReply busy = mksn(other_sid);
    EXPECT_EQ(busy.status, static_cast<u32>(EBUSY));
    EXPECT_EQ(busy.sid, sid);
    EXPECT_EQ(busy.timeout_s, 100u);
    EXPECT_EQ(name_text(busy.name), "s1");
    EXPECT_EQ(rmsn(sid_invalid), (SidReply{EINVAL, sid}));
    EXPECT_EQ(rmsn(other_sid), (SidReply{EBUSY, sid}));
    EXPECT_EQ(rmsn(sid), (SidReply{0, sid}));
    EXPECT_EQ(rmsn(sid), (SidReply{0, sid_invalid}));
    EXPECT_EQ(rmsn(sid), (SidReply{ESRCH, sid_invalid}));
}

TEST_F(SelftestNode, force_takes_the_node_over) {
    EXPECT_EQ(mksn(sid).status, 0u);
    const MakeSessionReply taken = mksn(other_sid, true);
    EXPECT_EQ(taken.status, 0u);
    EXPECT_EQ(taken.sid, other_sid);
    EXPECT_EQ(rmsn(sid), (SidReply{EBUSY, other_sid}));
}

TEST_F(SelftestNode, features) {
    u32 features = 0;
    EXPECT_EQ(mksn(sid, false, 2, &features).status, static_cast<u32>(EPROTO));
    EXPECT_EQ(features, 1u);
    EXPECT_EQ(debug(0x80000000, &features).status, static_cast<u32>(EPROTO));
    EXPECT_EQ(features, 1u);
    // Without a session nobody compares.
    EXPECT_EQ(rmsn(sid, 0xff, &features).status, static_cast<u32>(ESRCH));
    EXPECT_EQ(features, 1u);
    EXPECT_EQ(mksn(sid, false, 0, &features).status, 0u);
    EXPECT_EQ(features, 0u);
    EXPECT_EQ(rmsn(sid, 1, &features), (SidReply{EPROTO, sid}));
    EXPECT_EQ(features, 1u);
    EXPECT_EQ(debug(1, &features).status, 0u);
    EXPECT_EQ(features, 0u);
    EXPECT_EQ(rmsn(sid, 0, &features), (SidReply{0, sid_invalid}));
    EXPECT_EQ(features, 1u);
}

TEST_F(SelftestNode, debug_tells_the_session) {
    EXPECT_EQ(debug(), (DebugReply{ESRCH, sid_invalid, 0, 0, {}}));
    mksn(sid);
    EXPECT_EQ(debug(), (DebugReply{0, sid, 100, 0, name_from("s1")}));
}

TEST_F(SelftestNode, stat_needs_the_session) {
    EXPECT_EQ(stat(sid).status, static_cast<u32>(ESRCH));
    mksn(sid);
    EXPECT_EQ(stat(sid_invalid).status, static_cast<u32>(EINVAL));
    EXPECT_EQ(stat(other_sid).status, static_cast<u32>(ESRCH));
    const StatReply reply = stat(sid);
    EXPECT_EQ(reply.status, 0u);
    EXPECT_EQ(reply.sid, sid);
    EXPECT_EQ(reply.rpc.rcvd, 5u);
    EXPECT_EQ(reply.rpc.dropped, 0u);
    EXPECT_GE(reply.lnet.recv_count, 5u);
    EXPECT_GE(reply.lnet.send_length, 4 * message_bytes);
}

TEST_F(SelftestNode, requests_in_the_other_order) {
    const Order order = other(native_order);
    EXPECT_EQ(mksn(sid, false, 1, nullptr, order).status, 0u);
    EXPECT_EQ(debug().sid, sid);
    TestRequest request = ping_test(true);
    std::vector<std::byte> list(12);
    encode_destination(list, 0, {peer->nid().nid4(), pid_lustre}, order);
    raw->offer(request.bulkid, list, node->nid());
    EXPECT_EQ(test(request, order), 0u);
    // The unit knows the destination: its request comes in.
    raw->post(portal_test, static_cast<u64>(Service::ping), message_bytes);
    EXPECT_EQ(batch(BatchOp::run).status, 0u);
    EXPECT_TRUE(raw->next(static_cast<u64>(Service::ping)).has_value());
}

TEST_F(SelftestNode, what_is_not_a_request_gets_no_answer) {
    mksn(sid);
    const Message good =
        request_of(Type::debug, native_order, 1, DebugRequest{.rpyid = id(), .sid = sid});
    Message bad_magic = good, bad_type = good;
    bad_magic[0] ^= std::byte{1};
    bad_type[8] ^= std::byte{2};
    raw->put(node->nid(), portal_framework, 0, bad_magic);
    raw->put(node->nid(), portal_framework, 0, bad_type);
    for (const std::size_t size : {0u, 1u, 24u, 159u})
        raw->put(node->nid(), portal_framework, 0, std::span(good).first(size));
    EXPECT_TRUE(eventually([&] { return stat(sid).rpc.dropped == 6; }));
    std::vector<std::byte> longer(good.begin(), good.end());
    longer.push_back(std::byte{0});
    raw->put(node->nid(), portal_framework, 0, longer);  // LNet itself drops this one
    EXPECT_EQ(debug().status, 0u);
    EXPECT_EQ(stat(sid).rpc.dropped, 6u);
}

TEST_F(SelftestNode, another_version_is_answered) {
    for (const Service service : {Service::make_session, Service::test, Service::brw, Service::ping,
                                  Service::batch, Service::stat}) {
        Message request = request_of(request_type(service), native_order, 1, id());
        request[4] = std::byte{2};
        const std::optional<Message> reply = ask(service, request);
        const SidReply body = reply_of<SidReply>(request_type(service), reply);
        EXPECT_EQ(body.status, static_cast<u32>(EPROTO));
        if (portal_of(service) == portal_framework) {
            EXPECT_EQ(body.sid, sid_invalid);
        }
    }
}

TEST_F(SelftestNode, test_is_judged_in_order) {
    const auto with = [&](auto change) {
        TestRequest request = ping_test(false);
        change(request);
        return test(request);
    };
    const u32 invalid = EINVAL;
    EXPECT_EQ(with([](TestRequest& t) { t.loop = 0; }), invalid);
    EXPECT_EQ(with([](TestRequest& t) { t.concurrency = 0; }), invalid);
    EXPECT_EQ(with([](TestRequest& t) { t.concurrency = 1025; }), invalid);
    EXPECT_EQ(with([](TestRequest& t) { t.sid = sid_invalid; }), invalid);
    EXPECT_EQ(with([](TestRequest& t) { t.destinations = 87297; }), invalid);
    EXPECT_EQ(with([](TestRequest& t) { t.is_client = 1; }), invalid);
    EXPECT_EQ(with([](TestRequest& t) { t.service = 10; }), invalid);
    EXPECT_EQ(with([](TestRequest& t) { t.service = 13; }), invalid);
    EXPECT_EQ(with([](TestRequest&) {}), static_cast<u32>(ENOENT));
    mksn(sid);
    EXPECT_EQ(with([](TestRequest& t) { t.sid = other_sid; }), static_cast<u32>(ENOENT));
    EXPECT_EQ(with([](TestRequest&) {}), 0u);
    EXPECT_EQ(batch(BatchOp::query, 1).status, 0u);
    EXPECT_EQ(batch(BatchOp::query, 2).status, static_cast<u32>(ENOENT));
}

TEST_F(SelftestNode, batch_answers) {
    EXPECT_EQ(batch(BatchOp::run).status, static_cast<u32>(ESRCH));
    mksn(sid);
    EXPECT_EQ(batch(BatchOp::run), (BatchReply{ENOENT, sid, 0, 0}));
    test(ping_test(false));
    EXPECT_EQ(batch(BatchOp::run), (BatchReply{0, sid, 0, 0}));
    EXPECT_EQ(batch(BatchOp::stop), (BatchReply{0, sid, 0, 0}));
    EXPECT_EQ(batch(BatchOp::query), (BatchReply{0, sid, 0, 0}));
    const Message odd =
        request_of(Type::batch, native_order, 1, BatchRequest{id(), sid, batch_one, 4, 0, 0});
    EXPECT_FALSE(ask(Service::batch, odd, 200ms).has_value());
    EXPECT_TRUE(eventually([&] { return stat(sid).rpc.dropped == 1; }));
}

TEST_F(SelftestNode, a_list_that_cannot_be_fetched_ends_the_request) {
    start({}, {.transaction_timeout_s = 1});
    mksn(sid);
    const Message request = request_of(Type::test, native_order, 1, ping_test(true), PingParams{});
    EXPECT_FALSE(ask(Service::test, request, 100ms).has_value());
    EXPECT_TRUE(eventually([&] { return stat(sid).rpc.dropped == 1; }));
    EXPECT_EQ(batch(BatchOp::query).status, static_cast<u32>(ENOENT));
}

TEST_F(SelftestNode, bad_lists_are_refused) {
    mksn(sid);
    const auto add = [&](const PackedId& entry, u32 bytes) {
        TestRequest request = ping_test(true);
        std::vector<std::byte> list(12);
        encode_destination(list, 0, entry);
        list.resize(bytes);
        raw->offer(request.bulkid, list, node->nid());
        return test(request);
    };
    EXPECT_EQ(add({~u64{0}, pid_lustre}, 12), static_cast<u32>(EINVAL));
    EXPECT_EQ(add({peer->nid().nid4(), pid_any}, 12), static_cast<u32>(EINVAL));
    EXPECT_EQ(add({peer->nid().nid4(), pid_lustre}, 12), 0u);
}

TEST_F(SelftestNode, units_are_bounded) {
    mksn(sid);
    TestRequest request = ping_test(true);
    request.destinations = 100;
    request.concurrency = 1024;
    std::vector<std::byte> list(destination_bytes(100));
    for (u32 i = 0; i < 100; ++i) encode_destination(list, i, {peer->nid().nid4(), pid_lustre});
    raw->offer(request.bulkid, list, node->nid());
    EXPECT_EQ(test(request), static_cast<u32>(ENOMEM));
}

TEST_F(SelftestNode, session_times_out) {
    start({.session_timeout_s = 2}, {});
    EXPECT_EQ(mksn(sid).timeout_s, 2u);
    EXPECT_EQ(debug().status, 0u);
    EXPECT_TRUE(eventually([&] { return node->must("node_stats")["session"].is_null(); }));
    EXPECT_EQ(debug().status, static_cast<u32>(ESRCH));
    EXPECT_EQ(mksn(other_sid).status, 0u);
}

TEST_F(SelftestNode, pings) {
    const Message request =
        request_of(Type::ping, native_order, 1, PingRequest{.rpyid = id(), .sequence = 9});
    EXPECT_EQ(reply_of<PingReply>(Type::ping, ask(Service::ping, request)),
              (PingReply{0, ping_data_magic, 9}));
    const Message big =
        request_of(Type::ping, other(native_order), 0, PingRequest{.rpyid = id(), .sequence = 10});
    u32 features = 1;
    EXPECT_EQ(reply_of<PingReply>(Type::ping, ask(Service::ping, big), &features).sequence, 10u);
    EXPECT_EQ(features, 0u);
    const Message odd = request_of(Type::ping, native_order, 2, PingRequest{.rpyid = id()});
    EXPECT_EQ(reply_of<PingReply>(Type::ping, ask(Service::ping, odd), &features).status,
              static_cast<u32>(EPROTO));
    EXPECT_EQ(features, 1u);
    const Message wrong =
        request_of(Type::ping, native_order, 1, PingRequest{.rpyid = id(), .magic = 1});
    EXPECT_FALSE(ask(Service::ping, wrong, 200ms).has_value());
}

class SelftestBrw : public SelftestNode {
 protected:
    u32 brw(const BrwRequest& request, u32 features = 1, Order order = native_order) {
        return reply_of<StatusReply>(
                   Type::brw, ask(Service::brw, request_of(Type::brw, order, features, request)))
            .status;
    }
};

TEST_F(SelftestBrw, invalid_values_are_answered) {
    const auto make = [&](u32 rw, u32 length, u32 flags) {
        return BrwRequest{id(), id(), rw, length, flags};
    };
    for (const BrwRequest& bad :
         {make(0, 4096, 1), make(3, 4096, 1), make(1, 4096, 0), make(1, 4096, 5), make(1, 0, 1),
          make(2, (1 << 20) + 8, 1), make(1, 12, 1), make(2, 0xffffffff, 2)})
        EXPECT_EQ(brw(bad), static_cast<u32>(EINVAL)) << bad.rw << " " << bad.length;
    EXPECT_EQ(brw(make(1, 4096, 1), 2), static_cast<u32>(EPROTO));
    EXPECT_EQ(brw(make(1, 512, 1), 0), static_cast<u32>(EINVAL));  // not whole pages
}

TEST_F(SelftestBrw, read_sends_the_pattern_before_the_reply) {
    for (const u32 length : {8u, 4096u, 12296u, 1u << 20}) {
        const BrwRequest request{id(), id(), 1, length, 3};
        raw->post(portal_reply, request.bulkid, length, node->nid());
        EXPECT_EQ(brw(request), 0u);
        const std::optional<Raw::Arrival> data = raw->next(request.bulkid);
        ASSERT_TRUE(data.has_value());
        EXPECT_EQ(data->bytes.size(), length);
        EXPECT_EQ(data->event.hdr_data, 0u);
        EXPECT_TRUE(check_pattern(data->bytes, 0, Check::full, native_order));
    }
}

TEST_F(SelftestBrw, write_is_checked_in_the_writers_order) {
    for (const Order order : {Order::little, Order::big}) {
        for (const Check check : {Check::simple, Check::full}) {
            std::vector<std::byte> data(8200);
            fill_pattern(data, 0, check, order);
            BrwRequest request{id(), id(), 2, 8200, static_cast<u32>(check)};
            raw->offer(request.bulkid, data, node->nid());
            EXPECT_EQ(brw(request, 1, order), 0u);
            data[4095] ^= std::byte{1};
            request.rpyid = id();
            request.bulkid = id();
            raw->offer(request.bulkid, data, node->nid());
            EXPECT_EQ(brw(request, 1, order), static_cast<u32>(EBADMSG));
        }
    }
}

// A peer that asks for data to be fetched from it and never lets it be: its requests keep buffers
// and data until the Node gives the GETs up, but not those that others need.
TEST_F(SelftestBrw, a_peer_that_does_not_answer_starves_nobody) {
    for (const u32 length : {1u << 20, 4096u}) {
        start({.workitems = 256, .server_bulk_bytes_max = 8 << 20}, {});
        // Buffers of another size that lie idle do not count.
        const BrwRequest idle{id(), id(), 1, length == 4096 ? 1u << 20 : 4096u, 1};
        raw->post(portal_reply, idle.bulkid, idle.length, node->nid());
        EXPECT_EQ(brw(idle), 0u);
        Host& bad = rig->add_bare(4);
        {
            Raw silent(bad);
            for (int i = 0; i < 300; ++i)
                silent.put(
                    node->nid(), portal_test, static_cast<u64>(Service::brw),
                    request_of(Type::brw, native_order, 1, BrwRequest{id(), id(), 2, length, 1}));
            // All of them have arrived when this is answered: it comes behind them.
            const u64 rpyid = id();
            EXPECT_TRUE(silent
                            .ask(node->nid(), Service::ping,
                                 request_of(Type::ping, native_order, 1, PingRequest{rpyid}))
                            .has_value());
            for (int i = 0; i < 20; ++i) {
                const BrwRequest request{id(), id(), 1, length, 3};
                raw->post(portal_reply, request.bulkid, length, node->nid());
                ASSERT_EQ(brw(request), 0u) << length << " number " << i;
                EXPECT_TRUE(raw->next(request.bulkid).has_value());
            }
        }
    }
}

// What waits behind a peer's own requests is forgotten when its clients must have given it up.
TEST_F(SelftestBrw, a_peer_that_starts_anew_does_not_wait_for_its_past) {
    start({.rpc_timeout_s = 1, .server_bulk_bytes_max = 1 << 20}, {.transaction_timeout_s = 2});
    for (int i = 0; i < 300; ++i)  // 150 rounds of 2 s each, if all of them were served
        raw->put(node->nid(), portal_test, static_cast<u64>(Service::brw),
                 request_of(Type::brw, native_order, 1, BrwRequest{id(), id(), 2, 1 << 20, 1}));
    const BrwRequest request{id(), id(), 1, 4096, 3};
    raw->post(portal_reply, request.bulkid, 4096, node->nid());
    EXPECT_TRUE(
        eventually([&] { return node->must("node_stats")["rpc"]["dropped"].as_int() >= 299; }));
    EXPECT_EQ(brw(request), 0u);
}

// One peer may have more under way than its share of the buffers: what exceeds it waits its turn.
TEST_F(SelftestBrw, requests_beyond_the_share_of_a_peer_wait) {
    start({.workitems = 64, .server_bulk_bytes_max = 1 << 20}, {});
    constexpr int count = 200;
    std::vector<BrwRequest> requests;
    for (int i = 0; i < count; ++i) requests.push_back({id(), id(), 1, 65536, 2});
    for (const BrwRequest& each : requests) {
        raw->post(portal_reply, each.bulkid, 65536, node->nid());
        raw->post(portal_reply, each.rpyid, message_bytes, node->nid());
        raw->put(node->nid(), portal_test, static_cast<u64>(Service::brw),
                 request_of(Type::brw, native_order, 1, each));
    }
    for (const BrwRequest& each : requests) {
        EXPECT_TRUE(raw->next(each.rpyid).has_value());
        EXPECT_TRUE(raw->next(each.bulkid).has_value());
    }
}

// What the console of the capture asked the node 10.77.0.3 is asked again. The replies are the
// same, but for the counters of STAT.
class SelftestReplay : public testing::Test {
 protected:
    SelftestReplay() : records(golden::load("02-lst.jsonl")) {
        node = &rig.add(0x4d0003);
        console = &rig.add(0x4d0002);  // serves the tests of the node
        raw = std::make_unique<Raw>(*console);
    }
    Message message(const json& record) {
        const std::vector<std::byte> frame = golden::unhex(record["bytes"].get<std::string>());
        Message out;
        std::copy_n(frame.begin() + record["hdr"].get<i64>(), message_bytes, out.begin());
        return out;
    }
    const json* answer_to(const json& record, const char* type) {
        for (const json& each : records)
            if (each.contains("re") && each["re"] == record["n"] && each["type"] == type)
                return &each;
        return nullptr;
    }
    void offer_list(const json& request) {
        const json* get = answer_to(request, "GET");
        const json* reply = get ? answer_to(*get, "REPLY") : nullptr;
        if (!reply) return;
        const std::vector<std::byte> frame = golden::unhex((*reply)["bytes"].get<std::string>());
        raw->offer(golden::number((*get)["match_bits"]),
                   std::span(frame).subspan((*reply)["hdr"].get<std::size_t>()), node->nid());
    }
    bool idle() { return node->must("node_stats")["framework"]["active_batches"].as_int() == 0; }

    Rig rig;
    std::vector<json> records;
    Host* node;
    Host* console;
    std::unique_ptr<Raw> raw;
};

TEST_F(SelftestReplay, golden_02) {
    u32 compared = 0;
    for (const json& record : records) {
        if (record.value("kind", "") != "lnet" || record.value("portal", 0) != 51 ||
            record["dst_nid"] != "10.77.0.3@tcp")
            continue;
        SCOPED_TRACE(record["n"].dump() + " " + record["srpc"].get<std::string>());
        const json* want = answer_to(record, "PUT");
        ASSERT_NE(want, nullptr);
        const u64 service = golden::number(record["match_bits"]);
        offer_list(record);
        // The console of the capture asked when the tests were over.
        ASSERT_TRUE(eventually([&] { return idle(); }));
        const std::optional<Message> reply =
            raw->ask(node->nid(), static_cast<Service>(service), message(record));
        ASSERT_TRUE(reply.has_value());
        Message expected = message(*want);
        Message got = *reply;
        if (service == static_cast<u64>(Service::stat)) {  // all after the sid are counters
            std::fill(got.begin() + 44, got.end(), std::byte{0});
            std::fill(expected.begin() + 44, expected.end(), std::byte{0});
        }
        EXPECT_EQ(golden::hex(got), golden::hex(expected));
        ++compared;
    }
    EXPECT_EQ(compared, 34u);
    // What the tests did: 20 pings, 8 + 8 + 8 BRWs as in the capture.
    const Value stats = node->must("node_stats");
    EXPECT_EQ(stats["rpc"]["sent"].as_int(), 44);
    EXPECT_EQ(stats["rpc"]["errors"].as_int(), 0);
    EXPECT_EQ(stats["rpc"]["bulk_get"].as_int(), 48);
}

}  // namespace
}  // namespace ulnet::lst
