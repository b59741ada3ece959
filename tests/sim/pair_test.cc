// Two nodes and a conversation that is known step by step: split at every byte, begun by both ends
// at once, and read by a node that has nowhere to put what comes.
#include <gtest/gtest.h>

#include <list>

#include "lnds/sock/lnd.h"
#include "lnds/sock/ni.h"
#include "lnet/node_impl.h"
#include "tests/sim/checkers.h"

namespace ulnet::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr PortalId portal = 9;

// An MD of either end, and what it was told.
struct Record {
    explicit Record(u32 size, u64 pattern = 0) : bytes(size), mem(bytes.data(), size) {
        if (pattern != 0) fill_pattern(bytes, pattern, 0);
    }
    std::vector<std::byte> bytes;
    Mem mem;
    u32 sends = 0, answers = 0, arrivals = 0, bad = 0;
    bool unlinked = false;
    std::vector<u64> hdr_data;  // in the order of arrival

    MdSpec spec(MdOptions options, u32 threshold) {
        MdSpec made;
        made.mem = &mem;
        made.options = options;
        made.threshold = threshold;
        made.user = this;
        made.handler = [](const Event& event) { static_cast<Record*>(event.user)->told(event); };
        return made;
    }
    void told(const Event& event) {
        EXPECT_FALSE(unlinked);
        if (!event.status.ok()) ++bad;
        switch (event.kind) {
        case Event::Kind::send:
            ++sends;
            break;
        case Event::Kind::ack:
        case Event::Kind::reply:
            ++answers;
            break;
        case Event::Kind::put:
        case Event::Kind::get:
            ++arrivals;
            hdr_data.push_back(event.hdr_data);
            break;
        case Event::Kind::unlink:
            break;
        }
        unlinked = unlinked || event.unlinked;
    }
};

class Pair {
 public:
    struct How {
        u32 version[2] = {3, 3};
        StreamParams streams;
        Duration latency = microseconds(10);
        u32 peer_credits = 8;
        std::vector<std::pair<std::string_view, i64>> tunables;
    };
    explicit Pair(const How& how) {
        world.streams.params = how.streams;
        world.model.params.latency_min = world.model.params.latency_max = how.latency;
        for (const u32 version : how.version) {
            NodeSpec spec;
            spec.level = Level::stream;
            spec.node.transaction_timeout_s = 20;
            spec.peer_credits = how.peer_credits;
            spec.tunables = how.tunables;
            spec.tunables.emplace_back("protocol", version);
            world.add_node(spec).start();
        }
        EXPECT_TRUE(world.run_until_ready(seconds(10)));
    }
    ~Pair() {
        if (closed) return;
        EXPECT_TRUE(close()) << world.failure();
    }
    bool close() {
        closed = true;
        world.run_for(seconds(1));
        for (u32 i = 0; i < 2; ++i) {
            on(i, [this, i](Node& node) { checkers.audit(node, "node " + std::to_string(i)); });
            checkers.audit_connections(world.node(i));
        }
        return world.close_all(seconds(100)) && world.streams.connections() == 0;
    }
    void on(u32 index, const std::function<void(Node&)>& what) {
        bool done = false;
        Node& node = world.node(index).node();
        node.control([&] {
            what(node);
            done = true;
        });
        const Instant end = world.now() + seconds(1);
        while (!done && world.engine.step(end)) {
        }
        EXPECT_TRUE(done);
    }
    // Wildcard bits, any sender.
    void offer(u32 index, Record& record, MdOptions options, u32 threshold) {
        on(index, [&](Node& node) {
            Result<Me> me = node.attach(portal, {.bits = 0, .ignore = ~u64{0}}, Unlink::with_md);
            ASSERT_TRUE(me.ok());
            Result<Md> md = node.attach(*me, record.spec(options, threshold));
            ASSERT_TRUE(md.ok());
            md->release();
        });
    }
    void put(Node& node, u32 to, Record& record, Ack ack, u64 hdr_data = 0) {
        MdOptions options;
        options.auto_unlink = true;
        Result<Md> md = node.bind(record.spec(options, ack == Ack::yes ? 2 : 1));
        ASSERT_TRUE(md.ok());
        ASSERT_TRUE(node.put(*md, {.to = world.node(to).process(),
                                   .portal = portal,
                                   .match_bits = 1,
                                   .hdr_data = hdr_data,
                                   .ack = ack})
                        .ok());
        md->release();
    }
    void get(Node& node, u32 to, Record& record) {
        MdOptions options;
        options.auto_unlink = true;
        Result<Md> md = node.bind(record.spec(options, 2));
        ASSERT_TRUE(md.ok());
        ASSERT_TRUE(node.get(*md, {.to = world.node(to).process(), .portal = portal}).ok());
        md->release();
    }
    ctl::Value view(u32 index) {
        ctl::Value view;
        world.node(index).life().sock->find_ni(world.node(index).nid())->describe(view);
        return view;
    }
    i64 counter(u32 index, std::string_view name) { return view(index)["counters"][name].as_int(); }

    World world{1};
    Checkers checkers{world};
    bool closed = false;
};

MdOptions takes_all() {
    MdOptions options;
    options.put = options.get = options.manage_remote = true;
    options.auto_unlink = true;
    return options;
}

// Requests, HELLOs, a PUT with its ACK, a GET with its REPLY, and keepalives where the version has
// them. Returns the bytes that the busiest stream has carried each way.
std::array<u64, 2> converse(const Pair::How& how) {
    Pair pair(how);
    Record there(100, 5), put(100, 7), got(60);
    pair.offer(1, there, takes_all(), 2);
    pair.on(0, [&](Node& node) { pair.put(node, 1, put, Ack::yes); });
    EXPECT_TRUE(pair.world.run_until([&] { return put.unlinked; }, seconds(10)));
    EXPECT_EQ(check_pattern(there.bytes, 7, 0), 100u);
    pair.on(0, [&](Node& node) { pair.get(node, 1, got); });
    EXPECT_TRUE(pair.world.run_until([&] { return got.unlinked; }, seconds(10)));
    EXPECT_EQ(check_pattern(got.bytes, 7, 0), 60u);
    pair.world.run_for(seconds(15));  // the first keepalive is due after 10
    EXPECT_EQ(put.bad + got.bad + there.bad, 0u);
    EXPECT_EQ(put.answers + got.answers + there.arrivals, 4u);
    EXPECT_EQ(pair.counter(0, "keepalives_sent") > 0, how.version[0] >= 3);
    EXPECT_EQ(pair.counter(0, "protocol_errors") + pair.counter(1, "protocol_errors"), 0);
    std::array<u64, 2> most{};
    for (const ctl::Value& conn : pair.view(0)["connections"].items()) {
        most[0] = std::max(most[0], static_cast<u64>(conn["tx_bytes"].as_int()));
        most[1] = std::max(most[1], static_cast<u64>(conn["rx_bytes"].as_int()));
    }
    return most;
}

class SplitTest : public testing::TestWithParam<u32> {};

TEST_P(SplitTest, AtEveryByteBothWays) {
    Pair::How how;
    how.version[0] = how.version[1] = GetParam();
    how.tunables = {{"keepalive", 1}};
    const std::array<u64, 2> whole = converse(how);
    // The handshake is not counted there.
    static constexpr u64 handshake = 28 + sock::hello_bytes_max;
    for (u32 side = 0; side < 2; ++side) {
        ASSERT_GT(whole[side], 200u);
        how.streams.cut_side = side;
        for (u64 at = 1; at <= whole[side] + handshake; ++at) {
            how.streams.cut_at = at;
            converse(how);
            if (HasFailure()) FAIL() << "cut at byte " << at << " of side " << side;
        }
    }
}
INSTANTIATE_TEST_SUITE_P(Versions, SplitTest, testing::Values(1, 2, 3, 4));

// Both ends dial in the same instant, in any two versions: one connection of each type is left, no
// message is lost, and the race was one.
TEST(Crossing, BothDialAtOnceInAnyVersions) {
    for (u32 first = 1; first <= 4; ++first) {
        for (u32 second = 1; second <= 4; ++second) {
            SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(second));
            Pair::How how;
            how.version[0] = first;
            how.version[1] = second;
            how.latency = milliseconds(1);
            Pair pair(how);
            std::array<std::list<Record>, 2> puts;
            std::array<Record, 2> there{Record(64 * 1024), Record(64 * 1024)};
            for (u32 i = 0; i < 2; ++i) {
                MdOptions options;
                options.put = true;
                options.auto_unlink = true;
                pair.offer(i, there[i], options, 8);
            }
            for (u32 i = 0; i < 2; ++i) {
                Node& node = pair.world.node(i).node();
                node.control([&pair, &node, &puts, i] {
                    for (u32 n = 0; n < 8; ++n)
                        pair.put(node, 1 - i, puts[i].emplace_back(n % 2 == 0 ? 10u : 5000u),
                                 Ack::yes);
                });
            }
            ASSERT_TRUE(pair.world.run_until([&] { return there[0].unlinked && there[1].unlinked; },
                                             seconds(60)));
            pair.world.run_for(seconds(10));
            for (const auto& all : puts)
                for (const Record& put : all) EXPECT_TRUE(put.unlinked && put.bad == 0);
            EXPECT_GT(pair.counter(0, "refusals_sent") + pair.counter(1, "refusals_sent"), 0);
            EXPECT_LE(pair.view(0)["connections"].items().size(), 3u);
        }
    }
}

// A message that waits on a lazy portal stops the reading of its connection, not of others; the
// sender notices, nothing is lost, and all goes on in order when there is room.
TEST(Lazy, OverflowStopsReadingThatConnectionOnly) {
    static constexpr u32 bulk = 4096, messages = 200;
    Pair::How how;
    how.streams.tx_buffer = how.streams.rx_buffer = 32 * 1024;
    how.tunables = {{"conns_per_peer", 1}};
    how.peer_credits = 256;  // so that only the stream can hold messages up
    Pair pair(how);
    // Until the bulk connections are open, CONTROL carries all.
    Record first(bulk), first_put(bulk);
    pair.offer(1, first, takes_all(), 1);
    pair.on(0, [&](Node& node) { pair.put(node, 1, first_put, Ack::yes); });
    pair.world.run_for(seconds(1));
    ASSERT_EQ(pair.view(1)["connections"].items().size(), 3u);
    pair.on(1, [](Node& node) { ASSERT_TRUE(node.set_lazy(portal, true).ok()); });
    std::list<Record> puts;
    for (u32 i = 0; i < messages; ++i)
        pair.on(0, [&](Node& node) { pair.put(node, 1, puts.emplace_back(bulk), Ack::no, i); });
    pair.world.run_for(seconds(5));
    EXPECT_EQ(pair.counter(1, "parked"), 1);
    u64 read = 0;
    for (const ctl::Value& conn : pair.view(1)["connections"].items())
        if (conn["parked"].as_bool())
            read = std::max(read, static_cast<u64>(conn["rx_bytes"].as_int()));
    EXPECT_LE(read, 16u * 1024);  // a buffer of a connection
    u32 sent = 0;
    for (const Record& put : puts) sent += put.sends;
    EXPECT_LT(sent, messages);
    // CONTROL goes on meanwhile, and so does what the other way brings.
    bool answered = false;
    pair.on(0, [&](Node& node) {
        node.ping(pair.world.node(1).process(), {}, seconds(2), [&](const Result<PingInfo>& info) {
            EXPECT_TRUE(info.ok()) << info.status().text();
            answered = true;
        });
    });
    EXPECT_TRUE(pair.world.run_until([&] { return answered; }, seconds(3)));
    Record there(bulk * messages);
    MdOptions options;
    options.put = true;
    options.auto_unlink = true;
    pair.offer(1, there, options, messages);
    EXPECT_TRUE(pair.world.run_until([&] { return there.unlinked; }, seconds(20)));
    ASSERT_EQ(there.hdr_data.size(), messages);
    for (u32 i = 0; i < messages; ++i) EXPECT_EQ(there.hdr_data[i], i);
    pair.world.run_for(seconds(1));
    for (const Record& put : puts) EXPECT_TRUE(put.unlinked && put.bad == 0);
    pair.on(1, [](Node& node) { EXPECT_EQ(inspect_stats(node).drop_count, 0u); });
}

// A reader that takes a byte a millisecond is slow, not dead: no time-out strikes while it reads.
TEST(SlowReader, IsNotTakenForDead) {
    Pair::How how;
    how.tunables = {{"sock_timeout", 2}};
    how.streams.rx_buffer = 1024;
    Pair pair(how);
    Record there(5000), put(5000, 3);
    MdOptions options;
    options.put = true;
    options.auto_unlink = true;
    pair.offer(1, there, options, 1);
    pair.world.model.slow_reader(pair.world.node(1).address(), 1);
    const Instant begin = pair.world.now();
    pair.on(0, [&](Node& node) { pair.put(node, 1, put, Ack::yes); });
    EXPECT_TRUE(pair.world.run_until([&] { return put.unlinked; }, seconds(19)));
    EXPECT_GT(pair.world.now() - begin, seconds(5));
    EXPECT_EQ(put.bad + there.bad, 0u);
    EXPECT_EQ(check_pattern(there.bytes, 3, 0), 5000u);
    EXPECT_EQ(pair.counter(0, "timeouts") + pair.counter(1, "timeouts"), 0);
}

// What the audits are for.
class LeaksTest : public testing::Test {
 protected:
    // A pair with connections.
    void SetUp() override {
        Record there(10), put(10);
        pair_.offer(1, there, takes_all(), 1);
        pair_.on(0, [&](Node& node) { pair_.put(node, 1, put, Ack::yes); });
        ASSERT_TRUE(pair_.world.run_until([&] { return put.unlinked; }, seconds(10)));
        pair_.world.run_for(seconds(1));
        pair_.checkers.audit_connections(pair_.world.node(0));
        ASSERT_EQ(pair_.world.failure(), "");
    }
    // The world has failed as it should; it can end all the same.
    void TearDown() override {
        pair_.closed = true;
        for (u32 i = 0; i < 2; ++i) pair_.world.node(i).close();
        const Instant end = pair_.world.now() + seconds(10);
        while (pair_.world.engine.step(end)) {
        }
        os_.reset();
        for (u32 i = 0; i < 2; ++i) EXPECT_TRUE(pair_.world.node(i).reap());
    }
    Pair pair_{{}};
    std::unique_ptr<SimStreamOs> os_;
};

TEST_F(LeaksTest, AMessage) {
    pair_.on(0, [&](Node& node) {
        CoreMsg* const leaked = node.impl().new_msg(0);
        leaked->set_state(MsgState::routing);
        pair_.checkers.audit(node, "node 0");
        node.impl().unref(*leaked);
    });
    EXPECT_NE(pair_.world.failure().find("msgs_alloc"), std::string::npos);
}

TEST_F(LeaksTest, AConnectionThatIsCountedButNotThere) {
    SimNode& node = pair_.world.node(0);
    const auto ni = node.life().sock->find_ni(node.nid());
    ASSERT_TRUE(ni->add_conn());
    pair_.checkers.audit_connections(node);
    ni->drop_conn();
    EXPECT_NE(pair_.world.failure().find("connections are"), std::string::npos);
}

TEST_F(LeaksTest, AStreamThatNoConnectionHas) {
    SimNode& node = pair_.world.node(0);
    os_ = std::make_unique<SimStreamOs>(node.life().kernel);
    const sock::Address from(node.nid());
    auto stream = os_->connect({.address = from}, {sock::Address(pair_.world.node(1).nid()), 988});
    ASSERT_TRUE(stream.ok());
    pair_.checkers.audit_connections(node);
    EXPECT_NE(pair_.world.failure().find("streams are"), std::string::npos);
}

}  // namespace
}  // namespace ulnet::sim
