// Credits: the pool, its conservation and order, deadlines and cancels of messages that wait.
#include <algorithm>

#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

TEST(CreditPool, HandsOutInOrder) {
    std::array<CoreMsg, 4> msgs;
    CreditPool pool(1);
    EXPECT_TRUE(pool.take(msgs[0]));
    EXPECT_FALSE(pool.take(msgs[1]));
    EXPECT_FALSE(pool.take(msgs[2]));
    EXPECT_FALSE(pool.take(msgs[3]));
    EXPECT_EQ(pool.balance(), -3);
    pool.leave(msgs[2]);
    EXPECT_EQ(pool.balance(), -2);
    EXPECT_EQ(pool.release(), &msgs[1]);
    EXPECT_EQ(pool.release(), &msgs[3]);
    EXPECT_EQ(pool.release(), nullptr);
    EXPECT_EQ(pool.balance(), 1);
    EXPECT_EQ(pool.low(), -3);
}

TEST(CreditPool, Deadlines) {
    std::array<CoreMsg, 3> msgs;
    CreditPool pool(0);
    msgs[0].deadline = Instant(Duration(20));
    msgs[1].deadline = Instant(Duration(10));
    msgs[2].deadline = Instant(Duration(30));
    for (CoreMsg& msg : msgs) EXPECT_FALSE(pool.take(msg));
    EXPECT_EQ(pool.next_deadline(), Instant(Duration(10)));
    EXPECT_EQ(pool.expired(Instant(Duration(9))), nullptr);
    EXPECT_EQ(pool.expired(Instant(Duration(20))), &msgs[0]);
    EXPECT_EQ(pool.expired(Instant(Duration(20))), &msgs[1]);
    EXPECT_EQ(pool.expired(Instant(Duration(20))), nullptr);
    EXPECT_EQ(pool.next_deadline(), Instant(Duration(30)));
    EXPECT_EQ(pool.expired(Instant(Duration(30))), &msgs[2]);
    EXPECT_EQ(pool.next_deadline(), instant_never);
    EXPECT_EQ(pool.balance(), 0);
}

TEST(CreditPool, ShareOfAQueue) {
    EXPECT_EQ(queue_credits(256, 8, 1), 256u);
    EXPECT_EQ(queue_credits(256, 8, 2), 128u);
    EXPECT_EQ(queue_credits(256, 8, 8), 64u);    // not below 8 x peer credits
    EXPECT_EQ(queue_credits(256, 64, 4), 256u);  // not above all
    EXPECT_EQ(queue_credits(10, 1, 4), 8u);
}

class CreditTest : public NodeTest {
 protected:
    void put_many(Md& md, u32 count, u32 to = 2) {
        run([&] {
            for (u32 i = 0; i < count; ++i)
                ASSERT_TRUE(
                    node_->put(md, {.to = process(to), .portal = 1, .hdr_data = next_++}).ok());
        });
    }
    PeerNiView peer(u32 last) {
        PeerNiView found{};
        control([&] {
            for (const PeerView& each : inspect_peers(*node_))
                for (const PeerNiView& ni : each.nis)
                    if (ni.nid == tcp_nid(last)) found = ni;
        });
        return found;
    }
    NiView ni_view() {
        NiView view{};
        control([&] { view = inspect_nis(*node_).back(); });
        return view;
    }
    u64 next_ = 0;
};

TEST_F(CreditTest, PeerCreditsBoundWhatIsInFlight) {
    peer_credits_ = 3;
    start();
    Target& t = target(8);
    Md md = bind(t.spec({}));
    put_many(md, 10);
    EXPECT_EQ(ni_->sends(), 3u);
    PeerNiView view = peer(2);
    EXPECT_EQ(view.credits_max, 3);
    EXPECT_EQ(view.credits_free, -7);
    EXPECT_EQ(view.credits_low, -7);
    EXPECT_EQ(view.queued, 7u);
    put_many(md, 1, 3);  // another peer has its own
    EXPECT_EQ(ni_->sends(), 4u);
    EXPECT_EQ(ni_view().credits_free, 252);
    for (u32 done = 0; done < 11; ++done) {
        ASSERT_TRUE(eventually([&] { return ni_->pending() > 0; }));
        EXPECT_LE(ni_->pending(), 4u);
        run([&] { ni_->finish_one(); });
    }
    ASSERT_TRUE(t.recorder.wait(11));
    view = peer(2);
    EXPECT_EQ(view.credits_free, 3);
    EXPECT_EQ(view.credits_low, -7);
    EXPECT_EQ(view.queued, 0u);
    EXPECT_EQ(view.sent.put, 10u);
    EXPECT_GT(view.latency_p99_ns, 0u);
    EXPECT_EQ(ni_view().credits_free, 256);
    EXPECT_EQ(ni_view().credits_low, 252);
}

TEST_F(CreditTest, FailedSendsHaveNoLatency) {
    start();
    Target& t = target(8);
    Md md = bind(t.spec({}));
    put_many(md, 2);
    run([&] { ni_->finish_one(Status(-ECONNREFUSED), Health::remote_dropped); });
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_EQ(peer(2).sent.put, 1u);
    EXPECT_EQ(peer(2).latency_p99_ns, 0u);
    run([&] { ni_->finish_one(); });
    ASSERT_TRUE(t.recorder.wait(2));
    EXPECT_GT(peer(2).latency_p99_ns, 0u);
}

TEST_F(CreditTest, WaitersGoInOrder) {
    peer_credits_ = 1;
    start();
    Target& t = target(8);
    Md md = bind(t.spec({}));
    put_many(md, 50);
    for (u32 done = 0; done < 50; ++done) {
        ASSERT_TRUE(eventually([&] { return ni_->pending() > 0; }));
        EXPECT_EQ(ni_->sent(done).hdr.hdr_data, done);
        run([&] { ni_->finish_one(); });
    }
    ASSERT_TRUE(t.recorder.wait(50));
}

TEST_F(CreditTest, NiCreditsBoundAllPeersTogether) {
    credits_ = 8;
    peer_credits_ = 1;
    start();
    Target& t = target(8);
    Md md = bind(t.spec({}));
    for (u32 i = 0; i < 20; ++i) put_many(md, 1, 10 + i);
    EXPECT_EQ(ni_->sends(), 8u);
    EXPECT_EQ(ni_view().credits_free, -12);
    // Those that wait for the NI hold their peer's credit already.
    EXPECT_EQ(peer(29).credits_free, 0);
    for (u32 done = 0; done < 20; ++done) {
        ASSERT_TRUE(eventually([&] { return ni_->pending() > 0; }));
        run([&] { ni_->finish_one(); });
    }
    ASSERT_TRUE(t.recorder.wait(20));
    EXPECT_EQ(ni_view().credits_free, 8);
    EXPECT_EQ(ni_view().credits_low, -12);
    EXPECT_EQ(peer(29).credits_free, 1);
}

TEST_F(CreditTest, QueuedMessagesEndAtTheirDeadline) {
    peer_credits_ = 1;
    node_options_.retry_count = 0;
    lnd_.caps_.timeout = milliseconds(10);  // and a second on top
    start();
    Target& t = target(8);
    Md md = bind(t.spec({}));
    put_many(md, 100);
    ASSERT_TRUE(t.recorder.wait(99));
    for (const Event& event : t.recorder.events()) EXPECT_EQ(event.status, Status(-ETIMEDOUT));
    EXPECT_EQ(ni_->sends(), 1u);
    EXPECT_EQ(peer(2).credits_free, 0);
    run([&] { ni_->finish_one(); });
    ASSERT_TRUE(t.recorder.wait(100));
    EXPECT_TRUE(t.recorder.events()[99].status.ok());
    EXPECT_EQ(stats().network_timeout_count, 99u);
    EXPECT_EQ(peer(2).credits_free, 1);
    EXPECT_TRUE(eventually([&] { return peer(2).refcount == 0; }));  // the timer's hold too
}

TEST_F(CreditTest, MessagesThatWaitForTheNiEndAtTheirDeadlineToo) {
    credits_ = 8;
    peer_credits_ = 1;
    node_options_.retry_count = 0;
    lnd_.caps_.timeout = milliseconds(10);
    start();
    Target& t = target(8);
    Md md = bind(t.spec({}));
    for (u32 i = 0; i < 12; ++i) put_many(md, 1, 10 + i);
    ASSERT_TRUE(t.recorder.wait(4));
    for (const Event& event : t.recorder.events()) EXPECT_EQ(event.status, Status(-ETIMEDOUT));
    EXPECT_EQ(ni_view().credits_free, 0);
    EXPECT_EQ(peer(21).credits_free, 1);
}

TEST_F(CreditTest, UnlinkCancelsWhatWaits) {
    peer_credits_ = 2;
    start();
    Target& t = target(8);
    Target& other = target(8);
    Md md = bind(t.spec({}));
    Md stays = bind(other.spec({}));
    put_many(md, 2);
    put_many(stays, 1);
    put_many(md, 20);
    put_many(stays, 1);
    run([&] { node_->unlink(std::move(md)); });
    ASSERT_TRUE(t.recorder.wait(20));
    for (const Event& event : t.recorder.events()) {
        EXPECT_EQ(event.status, Status(-ECANCELED));
        EXPECT_FALSE(event.unlinked);
    }
    EXPECT_EQ(peer(2).queued, 2u);
    for (u32 i = 0; i < 4; ++i) {
        ASSERT_TRUE(eventually([&] { return ni_->pending() > 0; }));
        run([&] { ni_->finish_one(); });
    }
    ASSERT_TRUE(t.recorder.wait_unlinked());
    EXPECT_EQ(t.recorder.count(), 22u);
    ASSERT_TRUE(other.recorder.wait(2));
    EXPECT_EQ(peer(2).credits_free, 2);
    EXPECT_EQ(ni_->sends(), 4u);
}

// A peer that asks without end and takes no answer.
TEST_F(CreditTest, AnswersThatWaitAreBounded) {
    peer_credits_ = 2;
    start();
    Target& t = target(8);
    const Md md = attach(5, any_bits(7), t.spec(accept_get));
    constexpr u32 extra = 100;
    constexpr u32 asked = PeerNi::answers_waiting_max + 2 + extra;
    run([&] {
        for (u32 i = 0; i < asked; ++i) ni_->inject(get_hdr(5, 7, 0), process(2));
    });
    ASSERT_TRUE(t.recorder.wait(extra));
    EXPECT_EQ(t.recorder.count(), extra);
    for (const Event& event : t.recorder.events()) EXPECT_EQ(event.status, Status(-ENOBUFS));
    EXPECT_EQ(peer(2).queued, PeerNi::answers_waiting_max);
    EXPECT_EQ(stats().msgs_alloc, asked - extra);
}

// Many workers, few credits, unlinks and failures in between: at the end all is back.
class CreditRaceTest : public CreditTest {
 protected:
    CreditRaceTest() : CreditTest() {}
};

TEST_F(CreditRaceTest, NothingIsLost) {
    peer_credits_ = 2;
    credits_ = 5;
    start();
    ni_->hold_sends = false;
    constexpr u32 mds = 40;
    std::vector<Target*> targets;
    std::atomic<u32> left{mds};
    std::vector<std::unique_ptr<FnTask<std::function<void()>>>> tasks;
    for (u32 i = 0; i < mds; ++i) {
        targets.push_back(&target(16));
        tasks.push_back(std::make_unique<FnTask<std::function<void()>>>([&, i] {
            Md md = std::move(*node_->bind(targets[i]->spec({})));
            for (u32 n = 0; n < 25; ++n)
                ASSERT_TRUE(node_->put(md, {.to = process(2 + n % 3), .portal = 1}).ok());
            if (i % 2 == 0) std::this_thread::yield();
            node_->unlink(std::move(md));
            left.fetch_sub(1);
        }));
    }
    for (auto& task : tasks) sched_.post(0, *task);
    ASSERT_TRUE(eventually([&] { return left.load() == 0; }));
    for (Target* each : targets) {
        ASSERT_TRUE(each->recorder.wait_unlinked());
        const std::vector<Event> events = each->recorder.events();
        EXPECT_GE(events.size(), 25u);
        EXPECT_LE(events.size(), 26u);  // and an unlink event when all were done before
        EXPECT_EQ(each->recorder.unlinked(), 1u);
        EXPECT_EQ(each->recorder.overlaps(), 0u);
        EXPECT_FALSE(each->recorder.late());
    }
    ASSERT_TRUE(quiet());
    for (u32 last = 2; last < 5; ++last) {
        EXPECT_EQ(peer(last).credits_free, 2);
        EXPECT_EQ(peer(last).queued, 0u);
    }
    EXPECT_EQ(ni_view().credits_free, 5);
}

}  // namespace
}  // namespace ulnet::test
