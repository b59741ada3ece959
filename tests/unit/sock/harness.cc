// The tests' core, nodes and scripted peers.
#include "tests/unit/sock/harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "cpt/cpt.h"
#include "lnds/sock/sock.h"
#include "lnet/wire/acceptor.h"

namespace ulnet::sock {
namespace {

sockaddr_in address(u8 last, u16 port) {
    sockaddr_in raw{};
    raw.sin_family = AF_INET;
    raw.sin_addr.s_addr = htonl(local(last));
    raw.sin_port = htons(port);
    return raw;
}

int bound(u8 last, u16 port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in raw = address(last, port);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&raw), sizeof raw) == 0) return fd;
    ::close(fd);
    return -1;
}

bool readable(int fd, int timeout_ms) {
    pollfd item{fd, POLLIN, 0};
    return ::poll(&item, 1, timeout_ms) == 1;
}

constexpr int patience_ms = 30000;
constexpr u8 lease_address = 254;

}  // namespace

u16 free_port() {
    // A socket on an address of its own keeps other test programs from choosing the same port.
    static std::vector<int> leases;
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in raw = address(lease_address, 0);
        socklen_t size = sizeof raw;
        const bool ok = ::bind(fd, reinterpret_cast<const sockaddr*>(&raw), size) == 0 &&
                        ::getsockname(fd, reinterpret_cast<sockaddr*>(&raw), &size) == 0;
        const u16 port = ntohs(raw.sin_port);
        bool free = ok;
        for (const u8 last : {u8{1}, u8{2}, u8{3}}) {
            const int probe = free ? bound(last, port) : -1;
            free = free && probe >= 0 && ::listen(probe, 1) == 0;
            if (probe >= 0) ::close(probe);
        }
        if (free) {
            leases.push_back(fd);
            return port;
        }
        ::close(fd);
    }
    return 0;
}

std::unique_ptr<ThreadSched> make_sched(u32 cpts, u32 workers) {
    Topology topology;
    for (u32 i = 0; i < cpts; ++i) {
        topology.nodes.push_back({i});
        topology.cores.push_back({i});
    }
    std::string why;
    const auto table = CptTable::make(topology, cpts, "", why);
    return std::make_unique<ThreadSched>(
        table.ok() ? *table : CptTable::single(cpts),
        ThreadSchedOptions{.workers_per_cpt = workers, .pin = false, .spin = {}, .seed = 0});
}

std::byte pattern(u64 id, u32 at) {
    return static_cast<std::byte>((id * 31 + at * 7 + (at >> 8)) & 0xff);
}

void fill(const MemView& view, u64 id) {
    Bytes bytes(view.len);
    for (u32 i = 0; i < view.len; ++i) bytes[i] = pattern(id, i);
    view.copy_in(0, bytes);
}

u32 differences(const MemView& view, u64 id) {
    Bytes bytes(view.len);
    view.copy_out(0, bytes);
    u32 wrong = 0;
    for (u32 i = 0; i < view.len; ++i) wrong += bytes[i] != pattern(id, i) ? 1 : 0;
    return wrong;
}

TestMsg::TestMsg(u64 number, u32 len, u32 fragments) : id(number), bytes(len) {
    fragments = std::max(1u, std::min(fragments, len));
    if (len > 0) {
        // Uneven pieces: the first ones are short, the last takes the rest.
        std::vector<Frag> frags;
        const u32 even = len / fragments;
        u32 at = 0;
        for (u32 i = 0; i < fragments; ++i) {
            const u32 size =
                i + 1 == fragments ? len - at : std::max(1u, even - (i % 3) * even / 4);
            frags.push_back({bytes.data() + at, size});
            at += size;
        }
        mem = Mem(frags);
    }
    payload = {&mem, 0, len};
}

MsgPtr put(const Nid& from, const Nid& to, u64 id, u32 len, u32 fragments) {
    auto msg = std::make_shared<TestMsg>(id, len, fragments);
    msg->hdr.type = MsgType::put;
    msg->hdr.src_nid = from;
    msg->hdr.dest_nid = to;
    msg->hdr.payload_length = len;
    msg->hdr.match_bits = id;
    msg->hdr.portal = 9;
    msg->next_hop = {to, pid_lustre};
    fill(msg->payload, id);
    return msg;
}

// --- the core

Core::~Core() {
    EXPECT_TRUE(receiving_.empty()) << "messages that the driver never finished";
    EXPECT_TRUE(parked.empty()) << "messages that the test never answered";
}

Status Core::arrived(const Hdr& hdr, const ProcessId& from, RxToken token, RdmaGet) {
    const Arrival arrival{hdr, from, token};
    std::shared_ptr<const OnArrived> decide;
    {
        const std::lock_guard guard(lock);
        arrivals.push_back(arrival);
        decide = on_arrived_;
        changed_.notify_all();
    }
    if (decide) return (*decide)(*this, arrival);
    accept(arrival, hdr.payload_length);
    return ok_status;
}

void Core::attach(LndNi* ni) {
    const std::lock_guard guard(lock);
    ni_ = ni;
    changed_.notify_all();
}

LndNi& Core::ni() {
    std::unique_lock guard(lock);
    CHECK(changed_.wait_for(guard, patience, [&] { return ni_ != nullptr; }));
    return *ni_;
}

void Core::on_arrived(OnArrived fn) {
    const std::lock_guard guard(lock);
    on_arrived_ = std::make_shared<const OnArrived>(std::move(fn));
}

void Core::accept(const Arrival& arrival, u32 len, u32 fragments) {
    auto made = std::make_shared<TestMsg>(arrival.hdr.match_bits, len, fragments);
    TestMsg& msg = *made;
    {
        const std::lock_guard guard(lock);
        receiving_.insert(&msg);
        received.push_back(std::move(made));
    }
    ni().receive(arrival.token, &msg, len);
}

void Core::discard(const Arrival& arrival) {
    ni().receive(arrival.token, nullptr, 0);
}

void Core::park(const Arrival& arrival) {
    EXPECT_TRUE(ni().park(arrival.token).ok());
    {
        const std::lock_guard guard(lock);
        if (!closing_) parked.push_back(arrival);
        changed_.notify_all();
        if (!closing_) return;
    }
    discard(arrival);
}

u32 Core::times_finished(const TestMsg& msg) {
    const std::lock_guard guard(lock);
    return msg.finished;
}

std::vector<Core::Arrival> Core::take_parked() {
    const std::lock_guard guard(lock);
    return std::exchange(parked, {});
}

void Core::answer_parked() {
    std::vector<Arrival> left;
    {
        const std::lock_guard guard(lock);
        closing_ = true;
        left.swap(parked);
    }
    for (const Arrival& arrival : left) run_on(sched_, 0, [&] { discard(arrival); });
}

void Core::finished(Msg& raw, Status status, Health health) {
    auto& msg = static_cast<TestMsg&>(raw);
    EXPECT_FALSE(raw.linked());
    const std::lock_guard guard(lock);
    EXPECT_EQ(msg.finished, 0u) << "finished twice";
    EXPECT_EQ(status.ok(), health == Health::ok);
    ++msg.finished;
    msg.status = status;
    msg.health = health;
    if (receiving_.erase(&msg) > 0) {
        ++(status.ok() ? received_ok : received_failed);
        if (status.ok()) wrong_bytes += differences(msg.payload, msg.id);
    } else {
        ++(status.ok() ? sent_finished : sent_failed);
    }
    changed_.notify_all();
}

void Core::peer_event(const Nid& nid, PeerEvent event) {
    const std::lock_guard guard(lock);
    events.emplace_back(nid, event);
    changed_.notify_all();
}

bool Core::wait(const std::function<bool()>& condition) {
    std::unique_lock guard(lock);
    return changed_.wait_for(guard, patience, condition);
}

// --- nodes

NiConfig ni_config(u8 last, u16 port, const Settings& settings) {
    NiConfig config;
    config.net = tcp;
    config.nid = nid_at(last);
    config.interface = "lo";
    for (const TunableSpec& spec : tunable_specs()) config.tunables.push_back(spec.def);
    const auto set = [&](Tunable which, i64 value) {
        config.tunables[static_cast<std::size_t>(which)] = value;
    };
    set(Tunable::accept, static_cast<i64>(Accept::all));
    set(Tunable::accept_port, port);
    set(Tunable::privileged, 0);
    for (const auto& [which, value] : settings) set(which, value);
    return config;
}

void close_ni(Sched& sched, LndNi& ni) {
    std::mutex lock;
    std::condition_variable changed;
    bool closed = false;
    FnTask done([&] {
        const std::lock_guard guard(lock);
        closed = true;
        changed.notify_all();
    });
    run_on(sched, 0, [&] { ni.close(done); });
    std::unique_lock guard(lock);
    ASSERT_TRUE(changed.wait_for(guard, patience, [&] { return closed; })) << "close hangs";
}

bool eventually(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return true;
}

SockBackEnd back_end() {
    const char* const name = std::getenv("ULNET_SOCK_IO");
    return name != nullptr && std::string_view(name) == "io_uring" ? SockBackEnd::io_uring
                                                                   : SockBackEnd::epoll;
}

TestNode::TestNode(Sched& sched, u8 last, u16 port, Settings settings, Core::OnArrived on_arrived)
    : TestNode(sched, ni_config(last, port, settings), make_sock_lnd(back_end()),
               std::move(on_arrived)) {}

TestNode::TestNode(Sched& sched, NiConfig config, std::unique_ptr<Lnd> lnd,
                   Core::OnArrived on_arrived)
    : core(sched), sched_(sched), config_(std::move(config)), lnd_(std::move(lnd)) {
    if (on_arrived) core.on_arrived(std::move(on_arrived));
    std::string why;
    run_on(sched_, 0, [&] {
        auto ni = lnd_->open(config_, core, sched_, why);
        if (ni.ok()) ni_ = std::move(*ni);
    });
    EXPECT_NE(ni_, nullptr) << why;
    core.attach(ni_.get());
}

TestNode::~TestNode() {
    close();
}

void TestNode::close() {
    if (ni_ == nullptr) return;
    core.answer_parked();
    close_ni(sched_, *ni_);
    ni_.reset();
}

void TestNode::send(const MsgPtr& msg) {
    sent_.push_back(msg);
    run_on(sched_, 0, [&] { ni_->send(*msg); });
}

ctl::Value TestNode::describe() {
    ctl::Value out;
    run_on(sched_, 0, [&] { ni_->describe(out); });
    return out;
}

void TestNode::tune(Tunable which, i64 value) {
    run_on(sched_, 0, [&] { EXPECT_TRUE(ni_->tune(static_cast<std::size_t>(which), value).ok()); });
}

u64 TestNode::counter(const std::string& name) {
    return static_cast<u64>(describe()["counters"][name].as_int());
}

std::size_t TestNode::connections(const std::string& type) {
    const ctl::Value all = describe();
    const auto& items = all["connections"].items();
    return static_cast<std::size_t>(std::count_if(items.begin(), items.end(), [&](const auto& one) {
        return type.empty() || one["type"].as_text() == type;
    }));
}

bool TestNode::wait_connections(std::size_t count, const std::string& type) {
    return eventually([&] { return connections(type) == count; });
}

bool TestNode::wait_counter(const std::string& name, u64 least) {
    return eventually([&] { return counter(name) >= least; });
}

// --- raw sockets

RawConn::RawConn(int fd) : fd_(fd) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
}
RawConn::RawConn(RawConn&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
RawConn& RawConn::operator=(RawConn&& other) noexcept {
    if (this != &other) {
        close();
        fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
}
RawConn::~RawConn() {
    close();
}

void RawConn::close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void RawConn::reset() {
    const linger hard{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
}

RawConn RawConn::to(u8 from, u8 last, u16 port) {
    const int fd = bound(from, 0);
    const sockaddr_in raw = address(last, port);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&raw), sizeof raw) != 0) {
        if (fd >= 0) ::close(fd);
        return {};
    }
    return RawConn(fd);
}

u16 RawConn::local_port() const {
    sockaddr_in raw{};
    socklen_t size = sizeof raw;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&raw), &size);
    return ntohs(raw.sin_port);
}

bool RawConn::send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
}

Bytes RawConn::read(std::size_t count) {
    Bytes bytes(count);
    std::size_t used = 0;
    while (used < count) {
        if (!readable(fd_, patience_ms)) break;
        const ssize_t got = ::recv(fd_, bytes.data() + used, count - used, 0);
        if (got <= 0) break;
        used += static_cast<std::size_t>(got);
    }
    bytes.resize(used);
    return bytes;
}

bool RawConn::closed(Bytes* rest) {
    std::array<std::byte, 4096> buffer;
    for (;;) {
        if (!readable(fd_, patience_ms)) return false;
        const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
        if (got <= 0) return true;
        if (rest != nullptr) rest->insert(rest->end(), buffer.begin(), buffer.begin() + got);
    }
}

bool RawConn::silent(std::chrono::milliseconds time) {
    return !readable(fd_, static_cast<int>(time.count()));
}

RawListener::RawListener(u8 last, u16 port) : fd_(bound(last, port)) {
    if (fd_ >= 0) ::listen(fd_, 64);
}
RawListener::~RawListener() {
    if (fd_ >= 0) ::close(fd_);
}

RawConn RawListener::accept() {
    if (!readable(fd_, patience_ms)) return {};
    const int fd = ::accept(fd_, nullptr, nullptr);
    return fd >= 0 ? RawConn(fd) : RawConn();
}

bool RawListener::none_waiting(std::chrono::milliseconds time) {
    return !readable(fd_, static_cast<int>(time.count()));
}

// --- pieces of scripts

Bytes operator+(Bytes a, const Bytes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

Bytes request_to(const Nid& nid) {
    return encode_conn_request(ConnRequest::to(nid));
}

Bytes hello_bytes_of(const Hello& hello) {
    std::array<std::byte, hello_bytes_max> bytes{};
    const std::size_t size = encode_hello(hello, bytes);
    return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

Hello hello_from(const Nid& from, const Nid& to, ConnType type, u64 incarnation) {
    Hello hello;
    hello.src_nid = from;
    hello.dst_nid = to;
    hello.src_incarnation = incarnation;
    hello.type = static_cast<u32>(type);
    return hello;
}

Bytes frame_of(const Frame& frame, Order order, u32 version) {
    std::array<std::byte, frame_bytes_max> bytes{};
    const u32 size = encode_frame({version, order}, frame, bytes);
    return {bytes.begin(), bytes.begin() + size};
}

Frame put_frame(const Nid& from, const Nid& to, u64 id, u32 len) {
    Frame frame;
    frame.hdr.type = MsgType::put;
    frame.hdr.src_nid = from;
    frame.hdr.dest_nid = to;
    frame.hdr.payload_length = len;
    frame.hdr.match_bits = id;
    frame.hdr.portal = 9;
    return frame;
}

Bytes payload_of(u64 id, u32 len) {
    Bytes bytes(len);
    for (u32 i = 0; i < len; ++i) bytes[i] = pattern(id, i);
    return bytes;
}

Bytes noop(u64 cookie0, u64 cookie1) {
    return frame_of({{static_cast<u32>(FrameType::noop), 0, cookie0, cookie1}, false, {}});
}

Hello read_hello(RawConn& conn) {
    Bytes bytes;
    for (;;) {
        const Result<std::size_t> need = hello_bytes(bytes);
        if (!need.ok() || bytes.size() >= *need) break;
        const Bytes more = conn.read(*need - bytes.size());
        if (more.empty()) break;
        bytes = bytes + more;
    }
    const Result<Hello> hello = decode_hello(bytes);
    EXPECT_TRUE(hello.ok()) << bytes.size() << " bytes";
    return hello.ok() ? *hello : Hello{};
}

RawConn open_conn(u8 from, TestNode& node, u16 port, ConnType type, Hello& answer,
                  u64 incarnation) {
    RawConn conn = RawConn::to(from, static_cast<u8>(node.nid().address4()), port);
    EXPECT_TRUE(conn.valid());
    EXPECT_TRUE(conn.send(request_to(node.nid()) +
                          hello_bytes_of(hello_from(nid_at(from), node.nid(), type, incarnation))));
    answer = read_hello(conn);
    return conn;
}

}  // namespace ulnet::sock
