// Two drivers in one process, over 127.0.0.1 and 127.0.0.2.
#include <gtest/gtest.h>

#include "lnds/sock/sock.h"
#include "tests/unit/sock/harness.h"

namespace ulnet::sock {
namespace {

class Engine : public testing::Test {
 protected:
    void make(Settings settings_a = {}, Settings settings_b = {}) {
        a = std::make_unique<TestNode>(*sched, u8{1}, port, settings_a);
        b = std::make_unique<TestNode>(*sched, u8{2}, port, settings_b);
    }
    // Sends from one node to the other and waits until all is finished at both ends.
    void exchange(TestNode& from, TestNode& to, std::vector<MsgPtr>& msgs) {
        const u32 before_sent = from.core.held()->sent_finished;
        const u32 before = to.core.held()->received_ok;
        const auto count = static_cast<u32>(msgs.size());
        for (auto& msg : msgs) from.send(msg);
        ASSERT_TRUE(from.core.wait([&] { return from.core.sent_finished == before_sent + count; }));
        ASSERT_TRUE(to.core.wait([&] { return to.core.received_ok == before + count; }));
        EXPECT_EQ(to.core.held()->wrong_bytes, 0u);
    }

    const u16 port = free_port();
    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    std::unique_ptr<TestNode> a, b;
};

TEST_F(Engine, OneSmallMessage) {
    make();
    std::vector<MsgPtr> msgs;
    msgs.push_back(put(a->nid(), b->nid(), 1, 64));
    exchange(*a, *b, msgs);
    EXPECT_EQ(b->core.held()->arrivals[0].hdr, msgs[0]->hdr);
    EXPECT_EQ(b->core.held()->arrivals[0].from, (ProcessId{a->nid(), pid_lustre}));
    ASSERT_TRUE(a->wait_connections(3));
    EXPECT_EQ(a->connections("control"), 1u);
    EXPECT_EQ(a->connections("bulk_in"), 1u);
    EXPECT_EQ(a->connections("bulk_out"), 1u);
    ASSERT_TRUE(b->wait_connections(3));
}

TEST_F(Engine, AllSizesAndShapesBothWays) {
    make();
    u64 id = 1;
    for (const u32 fragments : {1u, 2u, 3u, 7u, 64u, 255u, 256u}) {
        b->core.on_arrived([=](Core& core, const Core::Arrival& arrival) {
            core.accept(arrival, arrival.hdr.payload_length, 257 - fragments);
            return ok_status;
        });
        a->core.on_arrived([=](Core& core, const Core::Arrival& arrival) {
            core.accept(arrival, arrival.hdr.payload_length, fragments);
            return ok_status;
        });
        for (TestNode* from : {a.get(), b.get()}) {
            TestNode* to = from == a.get() ? b.get() : a.get();
            std::vector<MsgPtr> msgs;
            for (const u32 len : {0u, 1u, 255u, 1023u, 1024u, 4095u, 16288u, 65536u, 1u << 20})
                msgs.push_back(put(from->nid(), to->nid(), id++, len, fragments));
            exchange(*from, *to, msgs);
        }
    }
}

TEST_F(Engine, SeveralConnectionsPerPeer) {
    make({{Tunable::conns_per_peer, 3}}, {{Tunable::conns_per_peer, 3}});
    std::vector<MsgPtr> msgs;
    for (u64 id = 1; id <= 60; ++id)
        msgs.push_back(put(a->nid(), b->nid(), id, id % 2 ? 100 : 200000));
    exchange(*a, *b, msgs);
    ASSERT_TRUE(a->wait_connections(7));
    EXPECT_EQ(a->connections("bulk_in"), 3u);
    EXPECT_EQ(a->connections("bulk_out"), 3u);
    ASSERT_TRUE(b->wait_connections(7));
    msgs.clear();
    for (u64 id = 100; id <= 160; ++id) msgs.push_back(put(b->nid(), a->nid(), id, 300000));
    exchange(*b, *a, msgs);
    // All of the sender's bulk connections carried something.
    const ctl::Value all = b->describe();
    for (const ctl::Value& conn : all["connections"].items())
        if (conn["type"].as_text() == "bulk_out") {
            EXPECT_GT(conn["tx_messages"].as_int(), 0);
        }
}

// The peer with fewer connections refuses the surplus, and after three refusals that is accepted.
TEST_F(Engine, PeersWithDifferentConnectionCounts) {
    make({{Tunable::conns_per_peer, 4}, {Tunable::min_reconnect_ms, 20}},
         {{Tunable::conns_per_peer, 1}});
    u64 id = 1;
    const auto one = [&] {
        std::vector<MsgPtr> msgs;
        msgs.push_back(put(a->nid(), b->nid(), id++, 100));
        exchange(*a, *b, msgs);
    };
    one();
    ASSERT_TRUE(eventually([&] {
        one();
        return a->counter("refusals_received") >= 3;
    }));
    for (int i = 0; i < 50; ++i) one();
    EXPECT_EQ(a->counter("refusals_received"), 3u);
    EXPECT_EQ(a->connections(), 3u);
    EXPECT_EQ(b->connections(), 3u);
}

TEST_F(Engine, CrossingConnects) {
    for (int round = 0; round < 20; ++round) {
        make({{Tunable::min_reconnect_ms, 20}}, {{Tunable::min_reconnect_ms, 20}});
        auto to_b = put(a->nid(), b->nid(), 1, 5000);
        auto to_a = put(b->nid(), a->nid(), 2, 5000);
        run_on(*sched, 0, [&] {
            a->ni().send(*to_b);
            b->ni().send(*to_a);
        });
        ASSERT_TRUE(a->core.wait([&] { return a->core.received_ok == 1; }));
        ASSERT_TRUE(b->core.wait([&] { return b->core.received_ok == 1; }));
        ASSERT_TRUE(a->core.wait([&] { return a->core.sent_finished == 1; }));
        ASSERT_TRUE(b->core.wait([&] { return b->core.sent_finished == 1; }));
        EXPECT_EQ(a->core.held()->sent_failed + b->core.held()->sent_failed, 0u);
        // Whoever opened them, one of each type remains.
        ASSERT_TRUE(a->wait_connections(3));
        ASSERT_TRUE(b->wait_connections(3));
        a->close();
        b->close();
    }
}

TEST_F(Engine, ConnectionRefused) {
    make({{Tunable::min_reconnect_ms, 3600000}, {Tunable::max_reconnect_ms, 3600000}});
    auto first = put(a->nid(), nid_at(9), 1, 100);
    a->send(first);
    ASSERT_TRUE(a->core.wait([&] { return first->finished == 1; }));
    EXPECT_EQ(first->status, Status(-ECONNREFUSED));
    EXPECT_EQ(first->health, Health::remote_dropped);
    // Until the next attempt is due, nothing is queued for this peer; the reason stays the same.
    auto second = put(a->nid(), nid_at(9), 2, 100);
    a->send(second);
    ASSERT_TRUE(a->core.wait([&] { return second->finished == 1; }));
    EXPECT_EQ(second->status, Status(-ECONNREFUSED));
    EXPECT_EQ(second->health, Health::remote_dropped);
    ASSERT_TRUE(a->core.wait([&] {
        return !a->core.events.empty() && a->core.events.back().second == PeerEvent::down;
    }));
}

TEST(SockTunables, TheLongestWaitIsNotTheShorterOne) {
    const std::unique_ptr<Lnd> lnd = make_sock_lnd(back_end());
    const auto check = [&](i64 first, i64 last) {
        return lnd->check_together(
            ni_config(1, 988,
                      {{Tunable::min_reconnect_ms, first}, {Tunable::max_reconnect_ms, last}})
                .tunables);
    };
    EXPECT_TRUE(check(1000, 60000).ok());
    EXPECT_TRUE(check(60000, 60000).ok());
    EXPECT_EQ(check(70000, 60000).text,
              "min_reconnectms: '70000' is not allowed; allowed: 1 ... 60000 ms "
              "(max_reconnectms)");
}

TEST_F(Engine, ReconnectsAfterThePeerComesBack) {
    make({{Tunable::min_reconnect_ms, 10}, {Tunable::max_reconnect_ms, 20}});
    std::vector<MsgPtr> msgs;
    msgs.push_back(put(a->nid(), b->nid(), 1, 3000));
    exchange(*a, *b, msgs);
    b.reset();
    ASSERT_TRUE(a->wait_connections(0));
    b = std::make_unique<TestNode>(*sched, u8{2}, port);
    std::vector<MsgPtr> tries;
    ASSERT_TRUE(eventually([&] {
        tries.push_back(put(a->nid(), b->nid(), 100 + tries.size(), 3000));
        a->send(tries.back());
        EXPECT_TRUE(a->core.wait([&] { return tries.back()->finished == 1; }));
        return tries.back()->status.ok();
    }));
    ASSERT_TRUE(b->core.wait([&] { return b->core.received_ok == 1; }));
}

TEST_F(Engine, DropPeerEndsWhatIsQueued) {
    make();
    b->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        core.park(arrival);
        return ok_status;
    });
    // More than the sockets hold: the rest stays queued behind the parked first one.
    std::vector<MsgPtr> msgs;
    for (u64 id = 1; id <= 40; ++id) {
        msgs.push_back(put(a->nid(), b->nid(), id, 1u << 20));
        a->send(msgs.back());
    }
    ASSERT_TRUE(b->core.wait([&] { return !b->core.parked.empty(); }));
    run_on(*sched, 0, [&] { a->ni().drop_peer(b->nid()); });
    ASSERT_TRUE(
        a->core.wait([&] { return a->core.sent_finished + a->core.sent_failed == msgs.size(); }));
    EXPECT_GT(a->core.held()->sent_failed, 0u);
    for (const auto& msg : msgs)
        if (!msg->status.ok()) {
            EXPECT_EQ(msg->status, Status(-EHOSTDOWN));
        }
}

TEST_F(Engine, ParkStopsTheStreamUntilReceive) {
    make();
    b->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        core.park(arrival);
        return ok_status;
    });
    std::vector<MsgPtr> msgs;
    for (u64 id = 1; id <= 5; ++id) {
        msgs.push_back(put(a->nid(), b->nid(), id, 500));
        a->send(msgs.back());
    }
    for (u32 i = 0; i < 5; ++i) {
        ASSERT_TRUE(b->core.wait([&] { return b->core.parked.size() == 1; }));
        Core::Arrival arrival{};
        {
            const std::lock_guard guard(b->core.lock);
            EXPECT_EQ(b->core.arrivals.size(), i + 1);
            arrival = b->core.parked.back();
            b->core.parked.clear();
        }
        EXPECT_EQ(arrival.hdr.match_bits, i + 1);
        // Whichever worker, also one of another CPT.
        run_on(*sched, i % 2, [&] { b->core.accept(arrival, arrival.hdr.payload_length, 3); });
        ASSERT_TRUE(b->core.wait([&] { return b->core.received_ok == i + 1; }));
    }
    EXPECT_EQ(b->core.held()->wrong_bytes, 0u);
    EXPECT_EQ(b->counter("parked"), 5u);
}

TEST_F(Engine, CutAndDiscardedPayload) {
    make();
    b->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        if (arrival.hdr.match_bits % 3 == 0)
            core.discard(arrival);
        else
            core.accept(arrival, arrival.hdr.payload_length / 3, 5);
        return ok_status;
    });
    std::vector<MsgPtr> msgs;
    for (u64 id = 1; id <= 60; ++id) {
        msgs.push_back(put(a->nid(), b->nid(), id, static_cast<u32>(id * 3001)));
        a->send(msgs.back());
    }
    ASSERT_TRUE(b->core.wait([&] { return b->core.received_ok == 40; }));
    ASSERT_TRUE(a->core.wait([&] { return a->core.sent_finished == 60; }));
    ASSERT_TRUE(b->core.wait([&] { return b->core.arrivals.size() == 60; }));
    EXPECT_EQ(b->core.held()->wrong_bytes, 0u);
}

TEST_F(Engine, RefusedByTheCoreDropsTheConnections) {
    make();
    b->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        if (arrival.hdr.match_bits == 2) return Status(-EPROTO);
        core.accept(arrival, arrival.hdr.payload_length);
        return ok_status;
    });
    std::vector<MsgPtr> msgs;
    msgs.push_back(put(a->nid(), b->nid(), 1, 100));
    exchange(*a, *b, msgs);
    // One that is being opened when the others end would open them anew.
    ASSERT_TRUE(a->wait_connections(3));
    ASSERT_TRUE(b->wait_connections(3));
    auto bad = put(a->nid(), b->nid(), 2, 100);
    a->send(bad);
    ASSERT_TRUE(a->wait_connections(0));
    ASSERT_TRUE(b->wait_connections(0));
    EXPECT_EQ(b->counter("protocol_errors"), 1u);
    ASSERT_TRUE(a->core.wait([&] { return bad->finished == 1; }));
}

TEST_F(Engine, FlippedBytes) {
    make({}, {{Tunable::inject_rx_flip, 4}});
    std::vector<MsgPtr> msgs;
    for (u64 id = 1; id <= 40; ++id) {
        // Short ones do not count.
        msgs.push_back(put(a->nid(), b->nid(), id, id % 2 ? 1023 : 1024 + static_cast<u32>(id)));
        a->send(msgs.back());
    }
    ASSERT_TRUE(b->core.wait([&] { return b->core.received_ok == 40; }));
    ASSERT_TRUE(a->core.wait([&] { return a->core.sent_finished == 40; }));
    EXPECT_EQ(b->core.held()->wrong_bytes, 5u);
    EXPECT_EQ(b->counter("flips_injected"), 5u);
}

TEST_F(Engine, CloseUnderLoad) {
    for (u64 seed = 0; seed < 10; ++seed) {
        make();
        std::vector<MsgPtr> msgs;
        const u32 count = 60;
        for (u64 id = 1; id <= count; ++id) {
            const bool forth = id % 2 != 0;
            TestNode& from = forth ? *a : *b;
            msgs.push_back(put(from.nid(), forth ? b->nid() : a->nid(), id,
                               static_cast<u32>((id * 7919 + seed) % 300000)));
            from.send(msgs.back());
        }
        (seed % 2 ? a : b)->close();
        (seed % 2 ? b : a)->close();
        for (const auto& msg : msgs) EXPECT_EQ(msg->finished, 1u);
    }
}

TEST_F(Engine, SendAfterCloseFails) {
    make();
    auto msg = put(a->nid(), b->nid(), 1, 10);
    FnTask done([] {});
    run_on(*sched, 0, [&] {
        // Between close() and its end: a parked message keeps the driver from being through.
        a->ni().send(*msg);
    });
    ASSERT_TRUE(a->core.wait([&] { return msg->finished == 1; }));
    ASSERT_TRUE(b->core.wait([&] { return b->core.received_ok == 1; }));
    a->core.on_arrived([](Core& core, const Core::Arrival& arrival) {
        core.park(arrival);
        return ok_status;
    });
    auto back = put(b->nid(), a->nid(), 2, 10);
    b->send(back);
    ASSERT_TRUE(a->core.wait([&] { return !a->core.parked.empty(); }));
    std::mutex lock;
    std::condition_variable changed;
    bool closed = false;
    FnTask closing([&] {
        const std::lock_guard guard(lock);
        closed = true;
        changed.notify_all();
    });
    run_on(*sched, 0, [&] { a->ni().close(closing); });
    auto late = put(a->nid(), b->nid(), 3, 10);
    a->send(late);
    ASSERT_TRUE(a->core.wait([&] { return late->finished == 1; }));
    EXPECT_EQ(late->status, Status(-ESHUTDOWN));
    {
        const std::lock_guard guard(lock);
        EXPECT_FALSE(closed) << "a message was still with the core";
    }
    const Core::Arrival arrival = a->core.take_parked().back();
    run_on(*sched, 1, [&] { a->core.accept(arrival, 10); });
    {
        std::unique_lock guard(lock);
        ASSERT_TRUE(changed.wait_for(guard, patience, [&] { return closed; }));
    }
    EXPECT_EQ(a->core.held()->received_failed, 1u);
    a->forget();
}

TEST_F(Engine, OpenSaysWhyNot) {
    make();
    const auto lnd = make_sock_lnd(back_end());
    Core core(*sched);
    const auto why_not = [&](const NiConfig& config, int error) {
        std::string why;
        Status status;
        run_on(*sched, 0, [&] {
            auto ni = lnd->open(config, core, *sched, why);
            status = ni.status();
        });
        EXPECT_EQ(status, Status(error));
        return why;
    };
    EXPECT_NE(why_not(ni_config(1, port), -EADDRINUSE).find("port is in use"), std::string::npos);
    NiConfig elsewhere = ni_config(1, port);
    elsewhere.nid = Nid::ipv4(tcp, 0xc0000201);  // 192.0.2.1, for documentation only
    EXPECT_NE(why_not(elsewhere, -EADDRNOTAVAIL).find("192.0.2.1"), std::string::npos);
    NiConfig other_net = ni_config(3, port);
    other_net.nid = Nid::ipv4(net_lo, 0);
    EXPECT_NE(why_not(other_net, -EINVAL).find("0@lo"), std::string::npos);
    NiConfig no_cpt = ni_config(3, port);
    no_cpt.cpts = {7};
    EXPECT_NE(why_not(no_cpt, -EINVAL).find("CPT 7"), std::string::npos);
}

// Two nets on one address: one acceptor finds the NI by its NID.
TEST_F(Engine, TwoNetsShareAListener) {
    const auto lnd = make_sock_lnd(back_end());
    Core core0(*sched), core1(*sched);
    NiConfig config0 = ni_config(1, port);
    NiConfig config1 = config0;
    config1.net = Net::of(NetType::tcp, 1);
    config1.nid = Nid::ipv4(config1.net, local(1));
    std::unique_ptr<LndNi> ni0, ni1;
    std::string why;
    run_on(*sched, 0, [&] {
        ni0 = std::move(*lnd->open(config0, core0, *sched, why));
        ni1 = std::move(*lnd->open(config1, core1, *sched, why));
        NiConfig config2 = config1;  // what the acceptor goes by cannot differ
        config2.nid = Nid::ipv4(Net::of(NetType::tcp, 2), local(1));
        config2.net = config2.nid.net();
        config2.tunables[static_cast<std::size_t>(Tunable::accept)] = 0;
        EXPECT_EQ(lnd->open(config2, core1, *sched, why).status(), Status(-EINVAL));
        EXPECT_TRUE(why.starts_with("tcp: accept: 'secure' is not allowed; allowed: 'all', as"))
            << why;
        config2.tunables = config1.tunables;
        config2.tunables[static_cast<std::size_t>(Tunable::accept_timeout)] = 9;
        EXPECT_EQ(lnd->open(config2, core1, *sched, why).status(), Status(-EINVAL));
        EXPECT_TRUE(why.starts_with("tcp: accept_timeout: '9' is not allowed; allowed: '5'"))
            << why;
    });
    core0.attach(ni0.get());
    core1.attach(ni1.get());
    RawConn first = RawConn::to(3, 1, port);
    first.send(request_to(config1.nid) +
               hello_bytes_of(hello_from(nid_at(3), config1.nid, ConnType::control)));
    EXPECT_EQ(read_hello(first).src_nid, config1.nid);
    // The one that opened the listener goes; the other goes on with it.
    close_ni(*sched, *ni0);
    ni0.reset();
    RawConn second = RawConn::to(4, 1, port);
    second.send(request_to(config1.nid) +
                hello_bytes_of(hello_from(nid_at(4), config1.nid, ConnType::control)));
    EXPECT_EQ(read_hello(second).src_nid, config1.nid);
    RawConn gone = RawConn::to(5, 1, port);
    gone.send(request_to(config0.nid));
    EXPECT_TRUE(gone.closed());
    close_ni(*sched, *ni1);
    EXPECT_TRUE(first.closed());
    EXPECT_TRUE(second.closed());
    ni1.reset();
}

TEST_F(Engine, Tune) {
    make();
    const auto tune = [&](Tunable which, i64 value) {
        Status status;
        run_on(*sched, 0, [&] { status = a->ni().tune(static_cast<std::size_t>(which), value); });
        return status;
    };
    EXPECT_EQ(tune(Tunable::conns_per_peer, 2), ok_status);
    EXPECT_EQ(a->describe()["conns_per_peer"].as_int(), 2);
    EXPECT_EQ(tune(Tunable::conns_per_peer, 128), Status(-EINVAL));
    EXPECT_EQ(tune(Tunable::accept_port, 99), Status(-EPERM));
    EXPECT_EQ(tune(Tunable::count_, 1), Status(-EINVAL));
    std::vector<MsgPtr> msgs;
    msgs.push_back(put(a->nid(), b->nid(), 1, 3000));
    exchange(*a, *b, msgs);
}

TEST_F(Engine, LargeNidsAreNotSent) {
    make();
    auto msg = put(a->nid(), b->nid(), 1, 10);
    msg->hdr.dest_nid = Nid::ipv6(tcp, {0x20, 1});
    a->send(msg);
    ASSERT_TRUE(a->core.wait([&] { return msg->finished == 1; }));
    EXPECT_EQ(msg->status, Status(-EAFNOSUPPORT));
}

}  // namespace
}  // namespace ulnet::sock
