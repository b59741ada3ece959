// The peer table: bounds, eviction, learned peers.
#include <algorithm>

#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

class PeerTest : public NodeTest {
 protected:
    PeerTable& table() { return node_->impl().peers; }
    const Ni& ni() { return *node_->impl().topology.latest().nis.back(); }
    bool hear(u32 last) {
        Nid primary;
        return table().heard(tcp_nid(last), ni(), MsgType::put, primary);
    }
};

TEST_F(PeerTest, TheNumberOfEntriesIsBounded) {
    start();
    run([&] {
        PeerNi* const held = table().hold(tcp_nid(5), ni());
        ASSERT_NE(held, nullptr);
        EXPECT_EQ(table().hold(tcp_nid(5), ni()), held);
        table().release(*held);
        for (u32 i = 0; i < PeerTable::entries_max * 2; ++i) ASSERT_TRUE(hear(0x10000 + i));
        EXPECT_LE(table().size(), PeerTable::entries_max);
        EXPECT_GT(table().size(), PeerTable::entries_max / 2);
        // What is held is not evicted, what was used last is still there.
        EXPECT_EQ(table().hold(tcp_nid(5), ni()), held);
        table().release(*held);
        table().release(*held);
        EXPECT_TRUE(table().idle());
    });
}

TEST_F(PeerTest, ATableOfBusyPeersRefusesNewOnes) {
    start();
    run([&] {
        std::vector<PeerNi*> held;
        u32 refused = 0;
        for (u32 i = 0; i < PeerTable::entries_max * 2; ++i) {
            if (PeerNi* const peer = table().hold(tcp_nid(i + 10), ni()))
                held.push_back(peer);
            else
                ++refused;
        }
        EXPECT_LE(held.size(), PeerTable::entries_max);
        EXPECT_EQ(held.size() + refused, PeerTable::entries_max * 2);
        EXPECT_GT(refused, 0u);
        for (PeerNi* each : held) table().release(*each);
        EXPECT_NE(table().hold(tcp_nid(1 << 19), ni()), nullptr);
        table().for_each([&](PeerNi& each) {
            if (each.nid == tcp_nid(1 << 19)) table().release(each);
        });
    });
}

TEST_F(PeerTest, LearnedNidsAreBoundedToo) {
    start();
    control([&] {
        for (u32 i = 0; i < 40; ++i) {
            PingInfo info;
            info.features = ping_ni_status | ping_multi_rail | ping_discovery;
            for (u32 n = 0; n < 1000; ++n)
                info.nis.push_back({tcp_nid(0x10000 + i * 1000 + n), ni_status_up});
            ASSERT_TRUE(hear(0x10000 + i * 1000));
            table().learn(info.nis[0].nid, info, false);
        }
        u64 learned = 0;
        for (const auto& [primary, peer] : table().peers()) learned += peer->nids.size();
        EXPECT_LE(learned, PeerTable::learned_max);
        EXPECT_GT(learned, PeerTable::learned_max / 2);
        // The latest is known, the first was forgotten and its NIDs stand alone.
        EXPECT_EQ(table().primary(tcp_nid(0x10000 + 39 * 1000 + 5)), tcp_nid(0x10000 + 39 * 1000));
        EXPECT_EQ(table().primary(tcp_nid(0x10000 + 5)), tcp_nid(0x10000 + 5));
    });
}

TEST_F(PeerTest, EventsOfTheDriver) {
    start();
    run([&] {
        ASSERT_TRUE(hear(2));
        ni_->up.peer_event(tcp_nid(2), PeerEvent::down);
        ni_->up.peer_event(tcp_nid(77), PeerEvent::down);  // unknown: no entry is made for it
        EXPECT_EQ(table().size(), 1u);
    });
}

// All workers send to, hear from and look up the same peers while others come and go.
TEST_F(PeerTest, Race) {
    start();
    ni_->hold_sends = false;
    Target& t = target(8);
    Md md = bind(t.spec({}));
    constexpr u32 count = 200;
    std::vector<std::unique_ptr<FnTask<std::function<void()>>>> tasks;
    std::atomic<u32> left{count};
    for (u32 i = 0; i < count; ++i)
        tasks.push_back(std::make_unique<FnTask<std::function<void()>>>([&, i] {
            ASSERT_TRUE(node_->put(md, {.to = process(10 + i % 7), .portal = 1}).ok());
            for (u32 n = 0; n < 20; ++n) ASSERT_TRUE(hear(1000 + i * 20 + n));
            node_->primary(tcp_nid(10 + i % 7));
            left.fetch_sub(1);
        }));
    for (auto& task : tasks) sched_.post(0, *task);
    ASSERT_TRUE(eventually([&] { return left.load() == 0; }));
    ASSERT_TRUE(t.recorder.wait(count));
    EXPECT_EQ(t.recorder.overlaps(), 0u);
    EXPECT_EQ(table().size(), 7u + count * 20);
}

}  // namespace
}  // namespace ulnet::test
