// The driver connects to a scripted peer, which plays its part byte for byte.
#include <gtest/gtest.h>

#include "lnds/sock/lnd.h"
#include "lnet/wire/acceptor.h"
#include "tests/unit/sock/harness.h"

namespace ulnet::sock {
namespace {

using std::chrono::milliseconds;

class Active : public testing::Test {
 protected:
    void make(Settings settings = {}, u8 last = 1) {
        settings.try_emplace(Tunable::min_reconnect_ms, 20);
        node = std::make_unique<TestNode>(*sched, last, port, settings);
    }
    // Takes the next connection, checks what the driver says first and returns its HELLO.
    Hello greeted(RawConn& conn) {
        conn = listener.accept();
        EXPECT_TRUE(conn.valid());
        EXPECT_EQ(conn.read(acceptor_v1_bytes), request_to(peer));
        const Hello hello = read_hello(conn);
        EXPECT_EQ(hello.version, 3u);
        EXPECT_EQ(hello.order, native_order);
        EXPECT_EQ(hello.src_nid, node->nid());
        EXPECT_EQ(hello.dst_nid, peer);
        EXPECT_EQ(hello.src_pid, pid_lustre);
        EXPECT_EQ(hello.dst_pid, 0u);
        EXPECT_EQ(hello.dst_incarnation, 0u);
        EXPECT_EQ(hello.nips, 0u);
        return hello;
    }
    Hello answer_to(const Hello& hello, u64 incarnation = 55) {
        Hello answer = hello_from(peer, hello.src_nid, ConnType::none, incarnation);
        if (const auto type = invert(hello.type)) answer.type = static_cast<u32>(*type);
        return answer;
    }
    // Takes the next connection and agrees.
    RawConn agreed(ConnType wanted, u64 incarnation = 55) {
        RawConn conn;
        const Hello hello = greeted(conn);
        EXPECT_EQ(hello.type, static_cast<u32>(wanted));
        EXPECT_TRUE(conn.send(hello_bytes_of(answer_to(hello, incarnation))));
        return conn;
    }
    MsgPtr sent(u64 id, u32 len) {
        auto msg = put(node->nid(), peer, id, len);
        node->send(msg);
        return msg;
    }
    // A message that makes the driver connect: while it waits for its next attempt, or its
    // connections end, messages fail at once. nullptr: it never connected.
    MsgPtr sent_that_dials(u64 id) {
        MsgPtr msg;
        const bool dialled = eventually([&] {
            msg = sent(id, 10);
            bool waiting = false;
            EXPECT_TRUE(eventually([&] {
                waiting = !listener.none_waiting(milliseconds(0));
                return waiting || node->core.times_finished(*msg) == 1;
            }));
            return waiting;
        });
        return dialled ? std::move(msg) : nullptr;
    }
    void expect_message(RawConn& conn, const TestMsg& msg) {
        const u32 len = msg.hdr.payload_length;
        const Bytes bytes = conn.read(frame3_bytes + len);
        ASSERT_EQ(bytes.size(), frame3_bytes + len);
        const Result<Frame> frame = decode_frame({}, bytes);
        ASSERT_TRUE(frame.ok());
        EXPECT_EQ(frame->head, (FrameHead{static_cast<u32>(FrameType::lnet), 0, 0, 0}));
        EXPECT_EQ(frame->hdr, msg.hdr);
        EXPECT_EQ(Bytes(bytes.begin() + frame3_bytes, bytes.end()), payload_of(msg.id, len));
        EXPECT_TRUE(finished(msg));
    }
    bool finished(const TestMsg& msg) {
        return node->core.wait([&] { return msg.finished == 1; });
    }

    const u16 port = free_port();
    const Nid peer = nid_at(2);
    RawListener listener{2, port};
    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    std::unique_ptr<TestNode> node;
};

// CONTROL first, and the message at once; then a bulk connection of each kind. The message goes
// before the other connections are there.
TEST_F(Active, OpensThreeConnections) {
    make();
    const auto msg = sent(1, 5000);
    RawConn control = agreed(ConnType::control);
    expect_message(control, *msg);
    ASSERT_TRUE(finished(*msg));
    RawConn in = agreed(ConnType::bulk_in);
    RawConn out = agreed(ConnType::bulk_out);
    ASSERT_TRUE(node->wait_connections(3));
    EXPECT_TRUE(listener.none_waiting(milliseconds(20)));
    // Large ones on BULK_OUT, small ones on CONTROL; nothing on BULK_IN.
    const auto large = sent(2, 1024 - frame3_bytes);
    expect_message(out, *large);
    const auto small = sent(3, 1023 - frame3_bytes);
    expect_message(control, *small);
    EXPECT_TRUE(in.silent(milliseconds(1)));
    ASSERT_EQ(node->core.held()->events.size(), 1u);
    EXPECT_EQ(node->core.held()->events[0], std::make_pair(peer, PeerEvent::up));
    // The end of one is the end of all, and the peer is down.
    in.close();
    EXPECT_TRUE(control.closed());
    EXPECT_TRUE(out.closed());
    ASSERT_TRUE(node->core.wait([&] { return node->core.events.size() == 2; }));
    EXPECT_EQ(node->core.held()->events[1].second, PeerEvent::down);
}

TEST_F(Active, OrderOfConnections) {
    make({{Tunable::conns_per_peer, 3}});
    const auto msg = sent(1, 10);
    std::vector<RawConn> conns;
    conns.push_back(agreed(ConnType::control));
    for (int i = 0; i < 3; ++i) {
        conns.push_back(agreed(ConnType::bulk_in));
        conns.push_back(agreed(ConnType::bulk_out));
    }
    ASSERT_TRUE(node->wait_connections(7));
    EXPECT_TRUE(listener.none_waiting(milliseconds(20)));
    // Equally empty ones take turns.
    for (u64 id = 2; id <= 7; ++id) {
        const auto large = sent(id, 3000);
        expect_message(conns[2 * ((id - 2) % 3) + 2], *large);
    }
}

// A busy connection gets nothing while another one of its kind is free.
TEST_F(Active, FewestQueuedBytes) {
    make({{Tunable::conns_per_peer, 2}, {Tunable::tx_buffer_size, 4096}});
    const auto msg = sent(1, 10);
    std::vector<RawConn> conns;
    conns.push_back(agreed(ConnType::control));
    for (int i = 0; i < 2; ++i) {
        conns.push_back(agreed(ConnType::bulk_in));
        conns.push_back(agreed(ConnType::bulk_out));
    }
    ASSERT_TRUE(node->wait_connections(5));
    // conns[2] is not read and holds the first message; all others go by conns[4].
    std::vector<MsgPtr> msgs;
    for (u64 id = 2; id <= 9; ++id) {
        msgs.push_back(sent(id, id == 2 ? 1u << 20 : 2000));
        if (id > 2) expect_message(conns[4], *msgs.back());
    }
    expect_message(conns[2], *msgs.front());
    ASSERT_TRUE(finished(*msgs.front()));
}

// Refused with NONE: the message waits, and goes with the next attempt.
TEST_F(Active, RefusalIsTriedAgain) {
    make();
    const auto msg = sent(1, 10);
    for (int i = 0; i < 2; ++i) {
        RawConn conn;
        Hello answer = answer_to(greeted(conn));
        answer.type = static_cast<u32>(ConnType::none);
        ASSERT_TRUE(conn.send(hello_bytes_of(answer)));
        EXPECT_TRUE(conn.closed());
    }
    EXPECT_EQ(node->core.times_finished(*msg), 0u);
    RawConn control = agreed(ConnType::control);
    expect_message(control, *msg);
    ASSERT_TRUE(finished(*msg));
    EXPECT_EQ(node->counter("refusals_received"), 2u);
}

// Refused with NONE because the peer connects itself: the message takes that connection.
TEST_F(Active, RefusedThenConnectedByThePeer) {
    make({{Tunable::min_reconnect_ms, 3600000}, {Tunable::max_reconnect_ms, 3600000}});
    const auto msg = sent(1, 10);
    RawConn conn;
    Hello answer = answer_to(greeted(conn));
    answer.type = static_cast<u32>(ConnType::none);
    ASSERT_TRUE(conn.send(hello_bytes_of(answer)));
    EXPECT_TRUE(conn.closed());
    ASSERT_TRUE(node->wait_counter("refusals_received", 1));
    // So does one that comes now, though the next attempt of ours is far off.
    const auto late = sent(2, 20);
    Hello reply;
    RawConn control = open_conn(2, *node, port, ConnType::control, reply, 55);
    EXPECT_EQ(reply.type, static_cast<u32>(ConnType::control));
    expect_message(control, *msg);
    expect_message(control, *late);
    ASSERT_TRUE(finished(*msg));
}

TEST_F(Active, BadAnswersFailTheMessage) {
    make({{Tunable::min_reconnect_ms, 10}, {Tunable::max_reconnect_ms, 10}});
    const auto answered = [&](const std::function<void(Hello&)>& change, int error) {
        const auto msg = sent_that_dials(1);
        ASSERT_NE(msg, nullptr);
        RawConn conn;
        Hello answer = answer_to(greeted(conn));
        change(answer);
        ASSERT_TRUE(conn.send(hello_bytes_of(answer)));
        EXPECT_TRUE(conn.closed());
        ASSERT_TRUE(finished(*msg));
        EXPECT_EQ(msg->status, Status(error));
    };
    answered([](Hello& hello) { hello.src_nid = nid_at(3); }, -EPROTO);
    answered([](Hello& hello) { hello.src_pid = 5; }, -EPROTO);
    answered([](Hello& hello) { hello.type = static_cast<u32>(ConnType::bulk_in); }, -EPROTO);
    answered([](Hello& hello) { hello.type = 9; }, -EPROTO);
    EXPECT_EQ(node->counter("connect_failures"), 4u);
}

TEST_F(Active, PeerClosesInsteadOfAnswering) {
    make();
    const auto msg = sent(1, 10);
    RawConn conn;
    greeted(conn);
    conn.close();
    ASSERT_TRUE(finished(*msg));
    EXPECT_EQ(msg->status, Status(-ECONNRESET));
    EXPECT_EQ(msg->health, Health::remote_dropped);
}

TEST_F(Active, PeerNeverAnswers) {
    make({{Tunable::sock_timeout, 1}});
    const auto msg = sent(1, 10);
    RawConn conn;
    greeted(conn);
    ASSERT_TRUE(finished(*msg));
    EXPECT_EQ(msg->status, Status(-ETIMEDOUT));
    EXPECT_EQ(msg->health, Health::network_timeout);
    EXPECT_TRUE(conn.closed());
}

// The deadline of a message that waits for a connection counts.
TEST_F(Active, DeadlineWhileConnecting) {
    make();
    auto msg = put(node->nid(), peer, 1, 10);
    msg->deadline = sched->now() + milliseconds(50);
    node->send(msg);
    RawConn conn;
    greeted(conn);
    ASSERT_TRUE(finished(*msg));
    EXPECT_EQ(msg->status, Status(-ETIMEDOUT));
}

// Both connect at the same time: the attempt of the higher NID wins.
TEST_F(Active, CrossingWithALowerNid) {
    make({}, 3);  // peer 2 < node 3
    const auto msg = sent(1, 10);
    RawConn ours;
    const Hello hello = greeted(ours);
    Hello reply;
    RawConn theirs = open_conn(2, *node, port, ConnType::control, reply, 55);
    EXPECT_EQ(reply.type, static_cast<u32>(ConnType::none));
    EXPECT_TRUE(theirs.closed());
    ASSERT_TRUE(ours.send(hello_bytes_of(answer_to(hello))));
    expect_message(ours, *msg);
}

TEST_F(Active, CrossingWithAHigherNid) {
    make();  // node 1 < peer 2
    const auto msg = sent(1, 10);
    RawConn ours;
    Hello answer = answer_to(greeted(ours));
    Hello reply;
    RawConn theirs = open_conn(2, *node, port, ConnType::control, reply, 55);
    EXPECT_EQ(reply.type, static_cast<u32>(ConnType::control));
    expect_message(theirs, *msg);
    answer.type = static_cast<u32>(ConnType::none);
    ASSERT_TRUE(ours.send(hello_bytes_of(answer)));
    EXPECT_TRUE(ours.closed());
    EXPECT_EQ(node->connections(), 1u);
    EXPECT_EQ(node->core.held()->sent_failed, 0u);
}

// The peer restarts while connections are being opened: all end, and a new start is made.
TEST_F(Active, IncarnationChangesWhileConnecting) {
    make();
    const auto msg = sent(1, 10);
    RawConn control = agreed(ConnType::control, 55);
    expect_message(control, *msg);
    RawConn in = agreed(ConnType::bulk_in, 56);
    EXPECT_TRUE(control.closed());
    EXPECT_TRUE(in.closed());
    const auto next = sent_that_dials(2);
    ASSERT_NE(next, nullptr);
    RawConn again = agreed(ConnType::control, 56);
    expect_message(again, *next);
}

TEST_F(Active, PeerDiesInTheMiddleOfBulk) {
    make();
    std::vector<MsgPtr> msgs;
    msgs.push_back(sent(1, 10));
    RawConn control = agreed(ConnType::control);
    RawConn in = agreed(ConnType::bulk_in);
    RawConn out = agreed(ConnType::bulk_out);
    ASSERT_TRUE(node->wait_connections(3));
    for (u64 id = 2; id <= 41; ++id) msgs.push_back(sent(id, 1u << 20));
    EXPECT_EQ(out.read(3u << 20).size(), 3u << 20);
    out.reset();
    ASSERT_TRUE(node->core.wait(
        [&] { return node->core.sent_finished + node->core.sent_failed == msgs.size(); }));
    EXPECT_GT(node->core.held()->sent_failed, 0u);
    for (const auto& msg : msgs) {
        EXPECT_EQ(msg->finished, 1u);
        if (!msg->status.ok()) {
            EXPECT_EQ(msg->status, Status(-ECONNRESET));
            EXPECT_EQ(msg->health, Health::remote_dropped);
        }
    }
    EXPECT_TRUE(control.closed());
}

TEST_F(Active, DropPeerWhileConnecting) {
    make();
    const auto msg = sent(1, 10);
    RawConn conn;
    greeted(conn);
    run_on(*sched, 0, [&] { node->ni().drop_peer(peer); });
    ASSERT_TRUE(finished(*msg));
    EXPECT_EQ(msg->status, Status(-EHOSTDOWN));
    EXPECT_TRUE(conn.closed());
}

TEST_F(Active, CloseWhileConnecting) {
    make();
    const auto msg = sent(1, 10);
    RawConn conn;
    greeted(conn);
    node->close();
    EXPECT_EQ(msg->finished, 1u);
    EXPECT_EQ(msg->status, Status(-ESHUTDOWN));
    EXPECT_TRUE(conn.closed());
}

// An operating system that gives no privileged ports.
class NoPrivileges final : public StreamOs {
 public:
    explicit NoPrivileges(std::unique_ptr<StreamOs> below) : below_(std::move(below)) {}
    Result<std::unique_ptr<StreamListener>> listen(const Endpoint& at, u32 backlog,
                                                   const std::string& interface) override {
        return below_->listen(at, backlog, interface);
    }
    Result<std::unique_ptr<Stream>> connect(const Origin& from, const Endpoint& to) override {
        if (from.ports == LocalPort::privileged) return Status(-EACCES);
        return below_->connect(from, to);
    }
    void stop(Task& done) override { below_->stop(done); }

 private:
    std::unique_ptr<StreamOs> below_;
};

// A connection of which the kernel says that its peer acknowledges nothing, once it has carried
// something.
class Unacknowledged final : public Stream {
 public:
    explicit Unacknowledged(std::unique_ptr<Stream> below) : below_(std::move(below)) {}
    i64 readv(std::span<const iovec> to) override { return below_->readv(to); }
    i64 writev(std::span<const iovec> from) override {
        // The request with the HELLO, and one message.
        return ++writes_ > 2 ? -ETIMEDOUT : below_->writev(from);
    }
    Status connect_status() override { return below_->connect_status(); }
    void shutdown() override { below_->shutdown(); }
    void set_options(const StreamOptions& options) override {
        // The driver's own tick knows of a peer that does not read before the kernel ends it.
        EXPECT_GT(options.unacked_timeout_s, 50u);
        below_->set_options(options);
    }
    Endpoint local() const override { return below_->local(); }
    Endpoint remote() const override { return below_->remote(); }
    Status watch(CptId cpt, StreamSink& sink) override { return below_->watch(cpt, sink); }
    void unwatch(Task& done) override { below_->unwatch(done); }

 private:
    std::unique_ptr<Stream> below_;
    u32 writes_ = 0;
};
class UnacknowledgedOs final : public StreamOs {
 public:
    explicit UnacknowledgedOs(std::unique_ptr<StreamOs> below) : below_(std::move(below)) {}
    Result<std::unique_ptr<StreamListener>> listen(const Endpoint& at, u32 backlog,
                                                   const std::string& interface) override {
        return below_->listen(at, backlog, interface);
    }
    Result<std::unique_ptr<Stream>> connect(const Origin& from, const Endpoint& to) override {
        auto made = below_->connect(from, to);
        if (!made.ok()) return made.status();
        return std::unique_ptr<Stream>(std::make_unique<Unacknowledged>(std::move(*made)));
    }
    void stop(Task& done) override { below_->stop(done); }

 private:
    std::unique_ptr<StreamOs> below_;
};

// Kernel sockets with something around them.
template <class Around> Result<std::unique_ptr<StreamOs>> make_around(Sched& on) {
    auto below = (back_end() == SockBackEnd::io_uring ? make_uring_os : make_epoll_os)(on);
    if (!below.ok()) return below.status();
    return std::unique_ptr<StreamOs>(std::make_unique<Around>(std::move(*below)));
}

// A time-out is counted whoever noticed it.
TEST_F(Active, TimeOutOfTheKernelCounts) {
    LogLines lines;
    SockLnd lnd(make_around<UnacknowledgedOs>);
    Core core(*sched);
    std::unique_ptr<LndNi> ni;
    std::string why;
    const NiConfig config = ni_config(1, port);
    run_on(*sched, 0, [&] { ni = std::move(*lnd.open(config, core, *sched, why)); });
    core.attach(ni.get());
    MsgPtr msgs[2];
    RawConn conn;
    for (u64 id = 1; auto& msg : msgs) {
        msg = put(config.nid, peer, id++, 10);
        run_on(*sched, 0, [&] { ni->send(*msg); });
        if (!conn.valid()) {
            conn = listener.accept();
            conn.read(acceptor_v1_bytes);
            ASSERT_TRUE(conn.send(hello_bytes_of(answer_to(read_hello(conn)))));
        }
        ASSERT_TRUE(core.wait([&] { return msg->finished == 1; }));
    }
    EXPECT_EQ(msgs[0]->status, ok_status);
    EXPECT_EQ(msgs[1]->status, Status(-ETIMEDOUT));
    EXPECT_EQ(msgs[1]->health, Health::network_timeout);
    ctl::Value shown;
    run_on(*sched, 0, [&] { ni->describe(shown); });
    EXPECT_EQ(shown["counters"]["timeouts"].as_int(), 1);
    EXPECT_NE(lines.text().find("127.0.0.2@tcp: no progress"), std::string::npos) << lines.text();
    close_ni(*sched, *ni);
    ni.reset();
}

// Without privileged ports the NI is a guest, says so, and opens only CONTROL, where answers come.
TEST_F(Active, GuestWithoutPrivilegedPorts) {
    SockLnd lnd(make_around<NoPrivileges>);
    Core core(*sched);
    std::unique_ptr<LndNi> ni;
    std::string why;
    const NiConfig config = ni_config(1, port, {{Tunable::privileged, 1}});
    run_on(*sched, 0, [&] { ni = std::move(*lnd.open(config, core, *sched, why)); });
    core.attach(ni.get());
    auto msg = put(config.nid, peer, 1, 5000);
    run_on(*sched, 0, [&] { ni->send(*msg); });
    RawConn conn = listener.accept();
    EXPECT_GT(conn.local_port(), 0);
    EXPECT_EQ(conn.read(acceptor_v1_bytes), request_to(peer));
    const Hello hello = read_hello(conn);
    EXPECT_EQ(hello.type, static_cast<u32>(ConnType::control));
    ASSERT_TRUE(conn.send(hello_bytes_of(answer_to(hello))));
    EXPECT_EQ(conn.read(frame3_bytes + 5000).size(), frame3_bytes + 5000);
    ASSERT_TRUE(core.wait([&] { return msg->finished == 1; }));
    EXPECT_TRUE(listener.none_waiting(milliseconds(50)));
    ctl::Value shown;
    run_on(*sched, 0, [&] { ni->describe(shown); });
    EXPECT_TRUE(shown["guest"].as_bool());
    close_ni(*sched, *ni);
    ni.reset();
}

}  // namespace
}  // namespace ulnet::sock
