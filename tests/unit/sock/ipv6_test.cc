// IPv6: a conversation of two captured kernel nodes, with the driver in the place of either of
// them, and what the kernel's sockets have to be told. Connections go over ::1 whatever the NIDs
// say.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "lnds/sock/lnd.h"
#include "tests/golden/golden.h"
#include "tests/unit/sock/passive.h"

namespace ulnet::sock {
namespace {

using nlohmann::json;

constexpr const char* capture = "17-ipv6.jsonl";
constexpr std::size_t incarnation_at = 56, incarnation_bytes = 8;

Address loopback6() {
    return Address(in6addr_loopback.s6_addr);
}

// A socket bound to ::1; port 0 = any. Negative: there is no IPv6 here.
int bound6(u16 port) {
    const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return fd;
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 raw{};
    raw.sin6_family = AF_INET6;
    raw.sin6_addr = in6addr_loopback;
    raw.sin6_port = htons(port);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&raw), sizeof raw) == 0) return fd;
    ::close(fd);
    return -1;
}

u16 port_of(int fd) {
    sockaddr_in6 raw{};
    socklen_t size = sizeof raw;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&raw), &size);
    return ntohs(raw.sin6_port);
}

RawConn connect6(u16 port) {
    const int fd = bound6(0);
    sockaddr_in6 raw{};
    raw.sin6_family = AF_INET6;
    raw.sin6_addr = in6addr_loopback;
    raw.sin6_port = htons(port);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&raw), sizeof raw) == 0) return RawConn(fd);
    ::close(fd);
    return {};
}

// Every IPv6 address is ::1.
class Loopback6 final : public StreamOs {
 public:
    explicit Loopback6(std::unique_ptr<StreamOs> below) : below_(std::move(below)) {}
    Result<std::unique_ptr<StreamListener>> listen(const Endpoint& at, u32 backlog,
                                                   const std::string& interface) override {
        return below_->listen({here(at.address), at.port}, backlog, interface);
    }
    Result<std::unique_ptr<Stream>> connect(const Origin& from, const Endpoint& to) override {
        Origin origin = from;
        origin.address = here(from.address);
        return below_->connect(origin, {here(to.address), to.port});
    }
    bool started() const override { return below_->started(); }
    void stop(Task& done) override { below_->stop(done); }

 private:
    static Address here(const Address& wanted) { return wanted.ipv6() ? loopback6() : wanted; }
    std::unique_ptr<StreamOs> below_;
};

std::unique_ptr<Lnd> make_lnd6() {
    return std::make_unique<SockLnd>([](Sched& on) -> Result<std::unique_ptr<StreamOs>> {
        auto below = (back_end() == SockBackEnd::io_uring ? make_uring_os : make_epoll_os)(on);
        if (!below.ok()) return below.status();
        return std::unique_ptr<StreamOs>(std::make_unique<Loopback6>(std::move(*below)));
    });
}

Bytes bytes_of(const json& record) {
    return golden::unhex(record["bytes"].get<std::string>());
}

Hdr hdr_of(const Bytes& frame) {
    const Result<Frame> decoded = decode_frame({4, Order::little}, frame);
    EXPECT_TRUE(decoded.ok());
    return decoded.ok() ? decoded->hdr : Hdr{};
}

class Ipv6 : public testing::Test {
 protected:
    void SetUp() override {
        listener_ = bound6(0);
        if (listener_ < 0) GTEST_SKIP() << "no IPv6 on this machine's loopback interface";
        port_ = port_of(listener_);
    }
    ~Ipv6() override {
        if (listener_ >= 0) ::close(listener_);
    }
    void make(const Nid& nid, Settings settings = {}) {
        NiConfig config = ni_config(0, port_, settings);
        config.nid = nid;
        node_ = std::make_unique<TestNode>(*sched_, std::move(config), make_lnd6());
    }

    // --- the conversation; `initiator`: the driver is the node that opened the connections

    void play(bool initiator) {
        initiator_ = initiator;
        const std::vector<json> records = golden::load(capture);
        const json& first = *std::find_if(records.begin(), records.end(), [](const json& record) {
            return record["kind"] == "hello";
        });
        const Nid nid = *parse_nid(first[initiator ? "src_nid" : "dst_nid"].get<std::string>());
        make(nid, {{Tunable::accept, static_cast<i64>(initiator ? Accept::none : Accept::all)},
                   {Tunable::conns_per_peer, 1}});
        if (initiator) {
            ASSERT_EQ(::listen(listener_, 8), 0);
            // What it has to say makes it connect.
            send(*std::find_if(records.begin(), records.end(),
                               [](const json& record) { return record["kind"] == "lnet"; }));
        }
        const golden::Handler bytes = [this](const json& record) { handshake(record); };
        golden::for_each(capture, "kind",
                         {{"file", golden::elsewhere},
                          {"step", golden::elsewhere},
                          {"stream", golden::elsewhere},
                          {"end", golden::elsewhere},
                          {"conn", [this](const json& record) { connection(record); }},
                          {"connreq", bytes},
                          {"hello", bytes},
                          {"lnet", [this](const json& record) { message(record); }}});
        EXPECT_EQ(conns_.size(), 3u);
        EXPECT_TRUE(node_->wait_connections(3));
        EXPECT_EQ(messages_, 18u);
        EXPECT_EQ(node_->counter("protocol_errors"), 0u);
    }

 private:
    bool from_node(const json& record) const { return (record["dir"] == "i2r") == initiator_; }
    RawConn& conn_of(const json& record) { return conns_[record["conn"].get<int>()]; }

    void connection(const json& record) {
        if (!initiator_) {
            conn_of(record) = connect6(port_);
        } else {
            conn_of(record) = RawConn(::accept(listener_, nullptr, nullptr));
        }
        ASSERT_TRUE(conn_of(record).valid());
    }
    void handshake(const json& record) {
        Bytes bytes = bytes_of(record);
        if (!from_node(record)) {
            ASSERT_TRUE(conn_of(record).send(bytes));
            return;
        }
        Bytes came = conn_of(record).read(bytes.size());
        ASSERT_EQ(came.size(), bytes.size());
        if (record["kind"] == "hello") {
            // Each start of a node has its own.
            const auto at = static_cast<std::ptrdiff_t>(incarnation_at);
            const Bytes one(came.begin() + at, came.begin() + at + incarnation_bytes);
            EXPECT_NE(one, Bytes(incarnation_bytes));
            if (incarnation_.empty()) incarnation_ = one;
            EXPECT_EQ(one, incarnation_);
            std::copy(one.begin(), one.end(), bytes.begin() + at);
        }
        EXPECT_EQ(golden::hex(came), golden::hex(bytes));
    }
    void send(const json& record) {
        const Bytes bytes = bytes_of(record);
        const Bytes payload(bytes.begin() + frame_bytes_max, bytes.end());
        auto msg = std::make_shared<TestMsg>(0, static_cast<u32>(payload.size()));
        std::copy(payload.begin(), payload.end(), msg->bytes.begin());
        msg->hdr = hdr_of(bytes);
        msg->next_hop = {msg->hdr.dest_nid, pid_lustre};
        node_->send(msg);
        sent_ = record["n"].get<int>();
    }
    void message(const json& record) {
        ++messages_;
        const Bytes bytes = bytes_of(record);
        if (from_node(record)) {
            if (sent_ != record["n"].get<int>()) send(record);
            EXPECT_EQ(golden::hex(conn_of(record).read(bytes.size())), golden::hex(bytes));
            return;
        }
        ASSERT_TRUE(conn_of(record).send(bytes));
        const std::size_t want = ++arrivals_;
        Core& core = node_->core;
        ASSERT_TRUE(core.wait([&] {
            return core.arrivals.size() == want && core.received_ok + core.received_failed == want;
        }));
        const std::lock_guard guard(core.lock);
        const Core::Arrival& arrival = core.arrivals.back();
        EXPECT_EQ(arrival.hdr, hdr_of(bytes));
        EXPECT_EQ(arrival.from, (ProcessId{arrival.hdr.src_nid, pid_lustre}));
        EXPECT_EQ(golden::hex(core.received.back()->bytes),
                  golden::hex(std::span(bytes).subspan(frame_bytes_max)));
    }

    bool initiator_ = false;
    std::map<int, RawConn> conns_;
    Bytes incarnation_;
    int sent_ = 0;
    std::size_t arrivals_ = 0;
    u32 messages_ = 0;

 protected:
    int listener_ = -1;
    u16 port_ = 0;
    std::unique_ptr<ThreadSched> sched_ = make_sched(2, 2);
    std::unique_ptr<TestNode> node_;
};

TEST_F(Ipv6, CapturedConversationPassive) {
    play(false);
}

TEST_F(Ipv6, CapturedConversationActive) {
    play(true);
}

// An NI whose NID needs 20 bytes says so to peers of older versions, as to those of unknown ones.
TEST_F(Ipv6, OlderVersionsAreAnsweredWithVersion4) {
    const Nid nid = loopback6().nid(tcp);
    make(nid, {{Tunable::protocol, 2}});
    for (const u32 version : {1u, 2u, 3u}) {
        RawConn conn = connect6(port_);
        Hello hello = hello_from(nid_at(1), nid_at(2), ConnType::control);
        hello.version = version;
        ASSERT_TRUE(conn.send(request_to(nid) + hello_bytes_of(hello)));
        const Hello answer = read_hello(conn);
        EXPECT_EQ(answer.version, 4u);
        EXPECT_EQ(answer.type, static_cast<u32>(ConnType::none));
        EXPECT_EQ(answer.src_nid, nid);
        EXPECT_EQ(answer.dst_nid, nid);
        EXPECT_TRUE(conn.closed());
    }
    EXPECT_EQ(node_->connections(), 0u);
    EXPECT_EQ(node_->counter("refusals_sent"), 3u);
}

// All sizes, over real sockets; the tunable does not lower the version.
TEST_F(Ipv6, TalksToItself) {
    make(loopback6().nid(tcp), {{Tunable::protocol, 3}, {Tunable::tos, 32}});
    u64 id = 0;
    for (const u32 len : {0u, 1u, 4096u, 1u << 20}) {
        node_->send(put(node_->nid(), node_->nid(), ++id, len));
        ASSERT_TRUE(node_->core.wait([&] { return node_->core.received_ok == id; }));
    }
    EXPECT_EQ(node_->core.held()->wrong_bytes, 0u);
    const ctl::Value shown = node_->describe();
    for (const ctl::Value& conn : shown["connections"].items()) {
        EXPECT_EQ(conn["version"].as_int(), 4);
        EXPECT_EQ(conn["remote"].as_text().substr(0, 6), "[::1]:");
    }
}

// What cannot be reached from an address of the other family ends with an error that says so.
TEST_F(Ipv6, FamiliesDoNotMix) {
    make(loopback6().nid(tcp));
    const auto msg = put(node_->nid(), nid_at(1), 1, 10);
    node_->send(msg);
    ASSERT_TRUE(node_->core.wait([&] { return msg->finished == 1; }));
    EXPECT_EQ(msg->status, Status(-EAFNOSUPPORT));
}

// The acceptor counts a high port as a guest's, whose NID is its address.
TEST_F(Ipv6, GuestsHaveTheNidOfTheirAddress) {
    make(loopback6().nid(tcp), {{Tunable::privileged, 1}});
    RawConn conn = connect6(port_);
    Hello hello = hello_from(*parse_nid("fd00::9@tcp"), node_->nid(), ConnType::control);
    hello.version = 4;
    ASSERT_TRUE(conn.send(request_to(node_->nid()) + hello_bytes_of(hello)));
    const Hello answer = read_hello(conn);
    EXPECT_EQ(answer.dst_nid, loopback6().nid(tcp));
    EXPECT_EQ(answer.type, static_cast<u32>(ConnType::control));
    ASSERT_TRUE(node_->wait_connections(1));
    const ctl::Value shown = node_->describe();
    EXPECT_EQ(shown["peers"].items()[0]["nid"].as_text(), "::1@tcp");
    EXPECT_TRUE(shown["peers"].items()[0]["guest"].as_bool());
}

TEST_F(Ipv6, LinkLocalNidsAreRefused) {
    const auto lnd = make_lnd6();
    Core core(*sched_);
    NiConfig config = ni_config(0, port_);
    config.nid = *parse_nid("fe80::1@tcp");
    std::string why;
    run_on(*sched_, 0,
           [&] { EXPECT_EQ(lnd->open(config, core, *sched_, why).status(), Status(-EINVAL)); });
    EXPECT_NE(why.find("fe80::1@tcp is link-local"), std::string::npos) << why;
}

TEST(Addresses, Text) {
    EXPECT_EQ(to_text(Endpoint{0x0a4d0002, 988}), "10.77.0.2:988");
    EXPECT_EQ(to_text(Endpoint{}), "0.0.0.0:0");
    EXPECT_EQ(to_text(Endpoint{Address(*parse_nid("fd00:77::2@tcp")), 1023}), "[fd00:77::2]:1023");
}

TEST(Addresses, NidsAndBack) {
    for (const char* text : {"10.77.0.2@tcp3", "fd00:77::2@tcp3", "::ffff:1.2.3.4@tcp3"}) {
        const Nid nid = *parse_nid(text);
        EXPECT_EQ(Address(nid).nid(nid.net()), nid) << text;
    }
    EXPECT_NE(Address(*parse_nid("::ffff:1.2.3.4@tcp")), Address(0x01020304));
    // A NID from outside may have an address of any length.
    std::array<u8, 20> raw = nid_at(1).raw();
    raw[0] = 5;
    const Address odd(Nid::from_raw(raw));
    EXPECT_FALSE(odd.ipv4() || odd.ipv6());
    EXPECT_FALSE(odd.same_family(0));
}

}  // namespace
}  // namespace ulnet::sock
