// The loopback driver: what is sent comes back, whole, cut, thrown away or late, and ends once.
#include <gtest/gtest.h>

#include "lnds/lo/lo.h"
#include "tests/unit/sock/harness.h"

namespace ulnet::sock {
namespace {

class Lo : public testing::Test {
 protected:
    Lo() {
        NiConfig config;
        config.net = net_lo;
        config.nid = nid_lo();
        run_on(*sched, 0, [&] {
            std::string why;
            ni = std::move(*lnd->open(config, core, *sched, why));
        });
        core.attach(ni.get());
    }
    ~Lo() override {
        core.answer_parked();
        if (ni != nullptr) close_ni(*sched, *ni);
    }
    void send(std::vector<MsgPtr>& msgs) {
        run_on(*sched, 0, [&] {
            for (auto& msg : msgs) ni->send(*msg);
        });
    }
    static MsgPtr to_self(u64 id, u32 len, u32 fragments = 1) {
        auto msg = put(nid_lo(), nid_lo(), id, len, fragments);
        msg->cpt = static_cast<CptId>(id % 2);
        return msg;
    }

    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    std::unique_ptr<Lnd> lnd = make_lo_lnd();
    Core core{*sched};
    std::unique_ptr<LndNi> ni;
};

TEST_F(Lo, SizesAndShapes) {
    core.on_arrived([](Core& at, const Core::Arrival& arrival) {
        EXPECT_EQ(arrival.from, (ProcessId{nid_lo(), pid_lustre}));
        at.accept(arrival, arrival.hdr.payload_length, 17);
        return ok_status;
    });
    std::vector<MsgPtr> msgs;
    u64 id = 1;
    for (const u32 fragments : {1u, 3u, 256u})
        for (const u32 len : {0u, 1u, 1000u, 65536u, 1u << 20})
            msgs.push_back(to_self(id++, len, fragments));
    send(msgs);
    ASSERT_TRUE(core.wait([&] { return core.received_ok == msgs.size(); }));
    ASSERT_TRUE(core.wait([&] { return core.sent_finished == msgs.size(); }));
    EXPECT_EQ(core.held()->wrong_bytes, 0u);
    ctl::Value shown;
    run_on(*sched, 0, [&] { ni->describe(shown); });
    EXPECT_EQ(shown["messages"].as_int(), static_cast<i64>(msgs.size()));
}

// Nothing arrives, and nothing ends, within send(): also not when the core sends from an upcall.
TEST_F(Lo, NoRecursion) {
    std::vector<MsgPtr> chain;
    for (u64 id = 0; id < 1000; ++id) chain.push_back(to_self(id, 100));
    thread_local int depth = 0;
    std::atomic<int> deepest{0};
    core.on_arrived([&](Core& at, const Core::Arrival& arrival) {
        ++depth;
        deepest = std::max(deepest.load(), depth);
        at.accept(arrival, arrival.hdr.payload_length);
        const u64 next = arrival.hdr.match_bits + 1;
        if (next < chain.size()) ni->send(*chain[next]);
        --depth;
        return ok_status;
    });
    run_on(*sched, 0, [&] { ni->send(*chain[0]); });
    ASSERT_TRUE(core.wait([&] { return core.sent_finished == chain.size(); }));
    EXPECT_EQ(deepest, 1);
}

TEST_F(Lo, CutDiscardedRefusedAndParked) {
    core.on_arrived([](Core& at, const Core::Arrival& arrival) {
        switch (arrival.hdr.match_bits % 4) {
        case 0:
            return Status(-EPROTO);
        case 1:
            at.accept(arrival, arrival.hdr.payload_length / 2, 3);
            break;
        case 2:
            at.discard(arrival);
            break;
        default:
            at.park(arrival);
        }
        return ok_status;
    });
    std::vector<MsgPtr> msgs;
    for (u64 id = 0; id < 40; ++id) msgs.push_back(to_self(id, 4000));
    send(msgs);
    ASSERT_TRUE(core.wait([&] {
        return core.parked.size() == 10 && core.sent_finished == 20 && core.sent_failed == 10;
    }));
    const std::vector<Core::Arrival> parked = core.take_parked();
    for (const Core::Arrival& arrival : parked)
        run_on(*sched, 1, [&] { core.accept(arrival, 4000); });
    ASSERT_TRUE(core.wait([&] { return core.sent_finished == 30; }));
    EXPECT_EQ(core.held()->received_ok, 20u);
    EXPECT_EQ(core.held()->wrong_bytes, 0u);
    for (const auto& msg : msgs) {
        const bool refused = msg->id % 4 == 0;
        EXPECT_EQ(msg->status, refused ? Status(-EPROTO) : ok_status);
    }
}

TEST_F(Lo, CloseEndsEverything) {
    std::vector<MsgPtr> msgs;
    for (u64 id = 0; id < 2000; ++id) msgs.push_back(to_self(id, 200));
    run_on(*sched, 0, [&] {
        for (auto& msg : msgs) ni->send(*msg);
    });
    close_ni(*sched, *ni);
    ni.reset();
    for (const auto& msg : msgs) {
        EXPECT_EQ(msg->finished, 1u);
        EXPECT_TRUE(msg->status.ok() || msg->status == Status(-ESHUTDOWN));
    }
}

TEST_F(Lo, CloseWaitsForTheCore) {
    core.on_arrived([](Core& at, const Core::Arrival& arrival) {
        at.park(arrival);
        return ok_status;
    });
    std::vector<MsgPtr> msgs;
    msgs.push_back(to_self(1, 100));
    send(msgs);
    ASSERT_TRUE(core.wait([&] { return core.parked.size() == 1; }));
    std::atomic<bool> closed{false};
    FnTask done([&] { closed = true; });
    run_on(*sched, 0, [&] { ni->close(done); });
    EXPECT_FALSE(closed);
    const std::vector<Core::Arrival> parked = core.take_parked();
    run_on(*sched, 1, [&] { core.accept(parked[0], 100); });
    ASSERT_TRUE(eventually([&] { return closed.load(); }));
    EXPECT_EQ(core.held()->received_ok, 1u);
    ni.reset();
}

TEST_F(Lo, OnlyItsOwnNid) {
    NiConfig config;
    config.net = tcp;
    config.nid = nid_at(1);
    std::string why;
    run_on(*sched, 0,
           [&] { EXPECT_EQ(lnd->open(config, core, *sched, why).status(), Status(-EINVAL)); });
    EXPECT_NE(why.find("127.0.0.1@tcp"), std::string::npos);
}

}  // namespace
}  // namespace ulnet::sock
