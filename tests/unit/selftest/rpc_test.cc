// The client's side of RPCs against servers that do everything wrong.
#include "selftest/rpc.h"

#include <gtest/gtest.h>

#include <thread>

#include "lnet/node_impl.h"
#include "tests/unit/selftest/raw.h"

namespace ulnet::lst {
namespace {

using namespace std::chrono_literals;

class SelftestRpc : public testing::Test, public RpcOwner {
 protected:
    SelftestRpc() {
        client = &rig.add_bare(1);
        server = &rig.add_bare(2);
        run_on(rig.sched(), 0, [&] {
            ASSERT_TRUE(server->node().set_lazy(portal_test, true).ok());
            context = std::make_unique<Context>(client->node(), SelftestOptions{});
            rpc = std::make_unique<ClientRpc>(*context, *this, 0);
        });
        raw = std::make_unique<Raw>(*server);
        data.resize(4096);
        mem = Mem(data.data(), 4096);
    }
    ~SelftestRpc() override {
        run_on(rig.sched(), 0, [&] {
            rpc.reset();
            context.reset();
        });
    }
    void rpc_done(ClientRpc& done) override {
        const std::lock_guard lock(mutex);
        ++ends;
        status = done.status();
        changed.notify_all();
    }
    // Starts an RPC and takes its request from the wire.
    void start(Bulk bulk = Bulk::none, Duration timeout = 30s, bool take = true) {
        Header header;
        const Type type = bulk == Bulk::none ? Type::ping : Type::brw;
        header.type = static_cast<u32>(type);
        encode_message(rpc->request, native_order, header, ++rpyid);
        args = {.to = {server->nid(), pid_lustre},
                .service = bulk == Bulk::none ? Service::ping : Service::brw,
                .bulk = bulk,
                .bulk_mem = &mem,
                .rpyid = rpyid,
                .bulkid = rpyid + 1000,
                .timeout = timeout};
        run_on(rig.sched(), 0, [&] { rpc->start(args); });
        const u64 bits = static_cast<u64>(args.service);
        if (!take) return;
        raw->post(portal_test, bits, message_bytes);
        ASSERT_TRUE(raw->next(bits).has_value());
    }
    void reply(const Message& message, std::size_t bytes = message_bytes) {
        raw->put(client->nid(), portal_reply, rpyid, std::span(message).first(bytes));
    }
    Message good(u32 error = 0) {
        return request_of(static_cast<Type>(reply_type(request_type(args.service))), native_order,
                          1, StatusReply{error});
    }
    int wait_end(u32 wanted = 1) {
        std::unique_lock lock(mutex);
        EXPECT_TRUE(changed.wait_for(lock, 30s, [&] { return ends >= wanted; }));
        EXPECT_EQ(ends, wanted);
        return status.code();
    }
    bool ended() {
        const std::lock_guard lock(mutex);
        return ends > 0;
    }
    u64 count(RpcCount kind) { return context->counters.read(kind); }

    Rig rig;
    Host* client;
    Host* server;
    std::unique_ptr<Raw> raw;
    std::unique_ptr<Context> context;
    std::unique_ptr<ClientRpc> rpc;
    RpcArgs args;
    std::vector<std::byte> data;
    Mem mem;
    u64 rpyid = 1;
    std::mutex mutex;
    std::condition_variable changed;
    u32 ends = 0;
    Status status;
};

TEST_F(SelftestRpc, a_reply_ends_it_once_and_it_can_be_used_again) {
    for (u32 i = 1; i <= 20; ++i) {
        start();
        reply(good());
        EXPECT_EQ(wait_end(i), 0);
        reply(good());  // nobody waits for a second one
    }
    EXPECT_EQ(count(RpcCount::sent), 20u);
    EXPECT_EQ(count(RpcCount::errors), 0u);
}

TEST_F(SelftestRpc, two_replies_at_once) {
    start();
    reply(good());
    reply(good());
    EXPECT_EQ(wait_end(), 0);
}

TEST_F(SelftestRpc, nobody_answers) {
    start(Bulk::none, 50ms);
    EXPECT_EQ(wait_end(), -ETIMEDOUT);
    EXPECT_EQ(count(RpcCount::expired), 1u);
    EXPECT_EQ(count(RpcCount::errors), 1u);
    reply(good());  // too late: dropped
    start();
    reply(good());
    EXPECT_EQ(wait_end(2), 0);
}

TEST_F(SelftestRpc, nobody_takes_the_request) {
    start(Bulk::sink, 50ms, false);  // waits on the lazy portal
    EXPECT_EQ(wait_end(), -ETIMEDOUT);
}

TEST_F(SelftestRpc, nobody_is_there) {
    rig.net.cut(server->nid(), false);
    start(Bulk::source, 30s, false);
    EXPECT_EQ(wait_end(), -EHOSTUNREACH);
    EXPECT_EQ(count(RpcCount::sent), 0u);
}

TEST_F(SelftestRpc, no_net_to_send_on) {
    Header header;
    encode_message(rpc->request, native_order, header, ++rpyid);
    args.to = {Nid::ipv4(Net::of(NetType::o2ib, 0), 1), pid_lustre};
    args.rpyid = rpyid;
    run_on(rig.sched(), 0, [&] { rpc->start(args); });
    EXPECT_EQ(wait_end(), -EHOSTUNREACH);
}

TEST_F(SelftestRpc, replies_that_are_none) {
    u32 uses = 0;
    const auto refused = [&](const auto& spoil, std::size_t bytes) {
        start();
        Message message = good();
        spoil(message);
        reply(message, bytes);
        EXPECT_EQ(wait_end(++uses), -EBADMSG);
    };
    refused([](Message& m) { m[0] ^= std::byte{1}; }, message_bytes);  // magic
    refused([](Message& m) { m[8] ^= std::byte{1}; }, message_bytes);  // type
    for (const std::size_t bytes : {0u, 1u, 24u, 28u, 159u}) refused([](Message&) {}, bytes);
    // The version of a reply is nobody's business, nor is its byte order.
    start();
    Message message = good();
    message[4] = std::byte{9};
    reply(message);
    EXPECT_EQ(wait_end(++uses), 0);
    start();
    reply(request_of(static_cast<Type>(reply_type(Type::ping)), other(native_order), 1,
                     StatusReply{}));
    EXPECT_EQ(wait_end(++uses), 0);
}

TEST_F(SelftestRpc, the_reply_may_come_before_the_bulk) {
    start(Bulk::sink);
    reply(good());
    std::this_thread::yield();
    EXPECT_FALSE(ended());
    raw->put(client->nid(), portal_reply, args.bulkid, data);
    EXPECT_EQ(wait_end(), 0);
    EXPECT_EQ(rpc->bulk_bytes(), 4096u);
}

TEST_F(SelftestRpc, the_bulk_may_come_before_the_reply) {
    start(Bulk::sink);
    raw->put(client->nid(), portal_reply, args.bulkid, std::span(data).first(100));
    EXPECT_FALSE(ended());
    reply(good());
    EXPECT_EQ(wait_end(), 0);
    EXPECT_EQ(rpc->bulk_bytes(), 100u);
    start(Bulk::source);
    raw->get(client->nid(), args.bulkid, 4096);
    EXPECT_TRUE(raw->next(args.bulkid).has_value());
    reply(good());
    EXPECT_EQ(wait_end(2), 0);
    EXPECT_EQ(rpc->bulk_bytes(), 4096u);
}

TEST_F(SelftestRpc, a_refusal_needs_no_bulk) {
    for (const Bulk bulk : {Bulk::sink, Bulk::source}) {
        start(bulk);
        reply(good(EINVAL));
        EXPECT_EQ(wait_end(bulk == Bulk::sink ? 1 : 2), 0);
        EXPECT_EQ(rpc->bulk_bytes(), 0u);
    }
}

// The data was fetched and then refused, and the refusal is here before the data counts as sent.
TEST_F(SelftestRpc, a_refusal_overtakes_the_end_of_the_bulk) {
    const u64 idle_mds = client->node().impl().mds_in_use();
    start(Bulk::source);
    rig.net.keep_sent(true);
    raw->get(client->nid(), args.bulkid, 4096);
    EXPECT_TRUE(raw->next(args.bulkid).has_value());
    reply(good(ENOMEM));
    // Request and reply have ended; the bulk's MD is still there.
    EXPECT_TRUE(eventually([&] { return client->node().impl().mds_in_use() == idle_mds + 1; }));
    EXPECT_FALSE(ended());
    rig.net.keep_sent(false);
    EXPECT_EQ(wait_end(), 0);
    EXPECT_EQ(count(RpcCount::errors), 0u);
}

TEST_F(SelftestRpc, the_bulk_never_comes) {
    start(Bulk::sink, 100ms);
    reply(good());
    EXPECT_EQ(wait_end(), -ETIMEDOUT);
}

TEST_F(SelftestRpc, abort_at_any_time) {
    Prng prng(3);
    for (u32 i = 1; i <= 200; ++i) {
        start(i % 2 ? Bulk::sink : Bulk::none, 30s, false);
        std::thread aborter([&] { rpc->abort(Status(-EINTR)); });
        const u64 bits = static_cast<u64>(args.service);
        raw->post(portal_test, bits, message_bytes);
        if (prng.below(2)) reply(good());
        if (args.bulk == Bulk::sink) raw->put(client->nid(), portal_reply, args.bulkid, data);
        aborter.join();
        const int code = wait_end(i);
        EXPECT_TRUE(code == 0 || code == -EINTR) << code;
        rpc->abort(Status(-EINTR));  // not in use: nothing happens
    }
}

TEST_F(SelftestRpc, cancelled_before_it_starts) {
    const std::atomic<bool> cancelled{true};
    args = {.to = {server->nid(), pid_lustre}, .rpyid = ++rpyid, .cancelled = &cancelled};
    run_on(rig.sched(), 0, [&] { rpc->start(args); });
    EXPECT_EQ(wait_end(), -EINTR);
    EXPECT_EQ(count(RpcCount::sent), 0u);
}

TEST_F(SelftestRpc, time_out_and_reply_race) {
    for (u32 i = 1; i <= 50; ++i) {
        start(Bulk::none, 1ms);
        reply(good());
        const int code = wait_end(i);
        EXPECT_TRUE(code == 0 || code == -ETIMEDOUT) << code;
    }
}

}  // namespace
}  // namespace ulnet::lst
