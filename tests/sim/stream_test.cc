// SimStreamOs: what the seam of lnds/sock promises, and that faults do what they say.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/sim/checkers.h"

namespace ulnet::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr u32 alice = 10u << 24 | 1, bob = 10u << 24 | 2;

struct Told final : sock::StreamSink {
    void ready(sock::Readiness now) override {
        ++count;
        readable = readable || now.readable;
        writable = writable || now.writable;
        ended = ended || now.ended;
    }
    u32 count = 0;
    bool readable = false, writable = false, ended = false;
};

// Two operating systems and a listener at bob's.
class StreamTest : public testing::Test {
 protected:
    StreamTest() { listener_ = std::move(*bob_.listen({bob, 988}, 4, {})); }
    ~StreamTest() override {
        unwatch(*listener_);
        for (auto* stream : watched_) unwatch(*stream);
        client_.reset();
        server_.reset();
        extra_.clear();
        listener_.reset();
        settle();
        EXPECT_EQ(streams_.connections(), 0u);
    }
    void settle(Duration time = seconds(1)) {
        const Instant end = engine_.now() + time;
        while (engine_.step(end)) {
        }
    }
    void unwatch(sock::Watched& watched) {
        bool done = false;
        FnTask task([&] { done = true; });
        if (&watched == listener_.get() && !listener_watched_) return;
        watched.unwatch(task);
        settle();
        EXPECT_TRUE(done);
    }
    std::unique_ptr<sock::Stream> begin(sock::LocalPort ports = sock::LocalPort::privileged) {
        auto stream = alice_.connect({.address = alice, .ports = ports}, {bob, 988});
        EXPECT_TRUE(stream.ok());
        return std::move(*stream);
    }
    void connect() {
        client_ = begin();
        settle(milliseconds(10));
        auto accepted = listener_->accept();
        ASSERT_TRUE(accepted.ok());
        server_ = std::move(*accepted);
    }
    static i64 write(sock::Stream& stream, std::size_t bytes, u64 offset) {
        std::vector<std::byte> data(bytes);
        fill_pattern(data, 7, offset);
        const iovec part{data.data(), data.size()};
        return stream.writev(std::span(&part, 1));
    }
    static i64 read(sock::Stream& stream, std::size_t bytes, u64 offset) {
        std::vector<std::byte> data(bytes);
        const iovec part{data.data(), data.size()};
        const i64 got = stream.readv(std::span(&part, 1));
        if (got > 0) {
            const auto count = static_cast<std::size_t>(got);
            EXPECT_EQ(check_pattern(std::span(data).first(count), 7, offset), count);
        }
        return got;
    }

    Engine engine_{5};
    NetModel model_{engine_};
    StreamNet streams_{model_};
    CptTable table_ = CptTable::single(2);
    SimSched alice_sched_{engine_, table_, {}}, bob_sched_{engine_, table_, {}};
    SimKernel alice_kernel_{streams_, alice_sched_, {}}, bob_kernel_{streams_, bob_sched_, {}};
    SimStreamOs alice_{alice_kernel_}, bob_{bob_kernel_};
    std::unique_ptr<sock::StreamListener> listener_;
    std::unique_ptr<sock::Stream> client_, server_;
    std::vector<std::unique_ptr<sock::Stream>> extra_;
    std::vector<sock::Stream*> watched_;
    bool listener_watched_ = false;
};

TEST_F(StreamTest, ConnectsFromPortsOfTheRangeDownwards) {
    connect();
    EXPECT_EQ(client_->local(), (sock::Endpoint{alice, 1023}));
    EXPECT_EQ(server_->remote(), client_->local());
    extra_.push_back(begin());
    EXPECT_EQ(extra_.back()->local().port, 1022);
    extra_.push_back(begin(sock::LocalPort::any));
    EXPECT_GE(extra_.back()->local().port, 32768);
    settle();
    while (listener_->accept().ok()) {
    }
}

TEST_F(StreamTest, NobodyListeningRefusesAndNoHostIsUnreachable) {
    auto refused =
        std::move(*alice_.connect({.address = alice, .ports = sock::LocalPort::any}, {bob, 77}));
    auto unreachable = std::move(
        *alice_.connect({.address = alice, .ports = sock::LocalPort::any}, {bob + 9, 988}));
    settle(seconds(5));
    EXPECT_EQ(refused->connect_status(), Status(-ECONNREFUSED));
    EXPECT_EQ(unreachable->connect_status(), Status(-EHOSTUNREACH));
    EXPECT_EQ(write(*refused, 1, 0), -EPIPE);
}

TEST_F(StreamTest, BytesArriveInOrderHoweverTheyAreSplit) {
    for (const Split split : {Split::whole, Split::random, Split::bytes}) {
        streams_.params.split = split;
        connect();
        u64 sent = 0, got = 0;
        while (got < 300'000) {
            if (sent < 300'000) {
                const i64 moved = write(*client_, 5000, sent);
                ASSERT_TRUE(moved > 0 || moved == -EAGAIN);
                if (moved > 0) sent += static_cast<u64>(moved);
            }
            settle(microseconds(100));
            for (i64 moved = 1; moved > 0;) {
                moved = read(*server_, 700, got);
                ASSERT_TRUE(moved > 0 || moved == -EAGAIN);
                if (moved > 0) got += static_cast<u64>(moved);
            }
        }
        EXPECT_EQ(sent, got);
        client_.reset();
        settle();
        EXPECT_EQ(read(*server_, 1, 0), 0);
        server_.reset();
    }
}

TEST_F(StreamTest, AReaderThatDoesNotReadStopsTheWriterUntilItDoes) {
    connect();
    Told told;
    ASSERT_TRUE(client_->watch(0, told).ok());
    watched_.push_back(client_.get());
    settle();
    EXPECT_TRUE(told.writable);
    u64 sent = 0;
    for (i64 moved = 1; moved > 0; settle()) {
        moved = write(*client_, 50'000, sent);
        if (moved > 0) sent += static_cast<u64>(moved);
    }
    EXPECT_EQ(sent, u64{streams_.params.tx_buffer} + streams_.params.rx_buffer);
    told = {};
    u64 got = 0;
    for (u32 turns = 0; got < sent && turns < 1000; ++turns) {
        const i64 moved = read(*server_, 10'000, got);
        if (moved > 0) got += static_cast<u64>(moved);
        settle(milliseconds(1));
    }
    EXPECT_EQ(got, sent);
    EXPECT_TRUE(told.writable);
}

TEST_F(StreamTest, ClosingWithUnreadBytesResetsThePeer) {
    connect();
    ASSERT_EQ(write(*client_, 10, 0), 10);
    settle();
    server_.reset();
    settle();
    EXPECT_EQ(read(*client_, 1, 0), -ECONNRESET);
    EXPECT_EQ(read(*client_, 1, 0), 0);
    EXPECT_EQ(write(*client_, 1, 0), -EPIPE);
}

TEST_F(StreamTest, ADeadHostIsSilentAndKeepaliveFindsOut) {
    connect();
    client_->set_options({.keepalive_idle_s = 30, .keepalive_interval_s = 5, .keepalive_count = 3});
    streams_.set_up(bob, false);
    bob_kernel_.cut(true);
    settle(seconds(20));
    EXPECT_EQ(read(*client_, 1, 0), -EAGAIN);
    settle(seconds(60));
    EXPECT_EQ(read(*client_, 1, 0), -ETIMEDOUT);
}

// Nobody will open the window again, and the reset that said so was lost.
TEST_F(StreamTest, AShutWindowIsAskedWhetherSomebodyIsThere) {
    streams_.params.rx_buffer = 1000;
    connect();
    ASSERT_EQ(write(*client_, 2000, 0), 2000);
    settle();
    model_.block(bob, alice);
    server_.reset();
    model_.heal(bob, alice);
    settle(seconds(30));
    EXPECT_EQ(read(*client_, 1, 0), -ECONNRESET);
}

// The same without a byte on its way: keepalive hears that nobody knows the connection.
TEST_F(StreamTest, KeepaliveFindsOutThatAResetWasLost) {
    connect();
    client_->set_options({.keepalive_idle_s = 30, .keepalive_interval_s = 5, .keepalive_count = 3});
    ASSERT_EQ(write(*client_, 10, 0), 10);
    settle();
    model_.block(bob, alice);
    server_.reset();
    model_.heal(bob, alice);
    settle(seconds(20));
    EXPECT_EQ(read(*client_, 1, 0), -EAGAIN);
    settle(seconds(60));
    EXPECT_EQ(read(*client_, 1, 0), -ECONNRESET);
}

TEST_F(StreamTest, UnacknowledgedBytesTimeOut) {
    connect();
    client_->set_options({.unacked_timeout_s = 50});
    streams_.break_all(alice, bob, true);
    ASSERT_EQ(write(*client_, 10, 0), 10);
    settle(seconds(45));
    EXPECT_EQ(read(*client_, 1, 0), -EAGAIN);
    settle(seconds(15));
    EXPECT_EQ(read(*client_, 1, 0), -ETIMEDOUT);
}

TEST_F(StreamTest, AHostThatCameBackResetsWhatItDoesNotKnow) {
    connect();
    streams_.set_up(bob, false);
    bob_kernel_.cut(true);
    ASSERT_EQ(write(*client_, 10, 0), 10);
    settle(seconds(5));
    EXPECT_EQ(read(*client_, 1, 0), -EAGAIN);
    streams_.set_up(bob, true);
    settle(seconds(10));
    EXPECT_EQ(read(*client_, 1, 0), -ECONNRESET);
}

TEST_F(StreamTest, AKilledProcessResetsAtOnce) {
    connect();
    bob_kernel_.cut(false);
    settle();
    EXPECT_EQ(read(*client_, 1, 0), -ECONNRESET);
    EXPECT_FALSE(bob_.connect({.address = bob, .ports = sock::LocalPort::any}, {alice, 988}).ok());
}

TEST_F(StreamTest, APartitionDelaysAndLosesNothing) {
    connect();
    model_.block(alice, bob);
    ASSERT_EQ(write(*client_, 100, 0), 100);
    settle(seconds(3));
    EXPECT_EQ(read(*server_, 100, 0), -EAGAIN);
    model_.heal_all();
    settle(seconds(10));
    EXPECT_EQ(read(*server_, 100, 0), 100);
}

TEST_F(StreamTest, AFullBacklogMakesConnectorsWait) {
    for (int i = 0; i < 8; ++i) extra_.push_back(begin());
    settle(milliseconds(100));
    u32 accepted = 0;
    for (; accepted < 5 && listener_->accept().ok(); ++accepted) {
    }
    EXPECT_EQ(accepted, 5u);
    EXPECT_FALSE(listener_->accept().ok());
    settle(seconds(60));
    while (listener_->accept().ok()) ++accepted;
    EXPECT_EQ(accepted, 8u);
}

TEST_F(StreamTest, ASinkHearsOfAcceptableConnectionsAndOfNothingAfterUnwatch) {
    Told told;
    ASSERT_TRUE(listener_->watch(0, told).ok());
    listener_watched_ = true;
    settle();
    EXPECT_EQ(told.count, 0u);
    client_ = begin();
    settle();
    EXPECT_TRUE(told.readable);
    unwatch(*listener_);
    listener_watched_ = false;
    const u32 before = told.count;
    extra_.push_back(begin());
    settle();
    EXPECT_EQ(told.count, before);
    EXPECT_FALSE(bob_.listen({bob, 988}, 1, {}).ok());
}

}  // namespace
}  // namespace ulnet::sim
