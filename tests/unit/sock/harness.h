// What the tests of the engine need: a core that records and checks what drivers promise, nodes
// with one NI on 127.0.0.x, and a peer made of plain sockets that plays a script byte for byte.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cpt/base/log.h"
#include "cpt/threads.h"
#include "lnds/sock/proto.h"
#include "lnds/sock/sock.h"
#include "lnds/sock/tunables.h"
#include "lnet/lnd.h"

namespace ulnet::sock {

using Bytes = std::vector<std::byte>;
constexpr auto patience = std::chrono::seconds(30);
constexpr Net tcp = Net::of(NetType::tcp, 0);

constexpr u32 local(u8 last) {
    return (127u << 24) | last;
}
inline Nid nid_at(u8 last) {
    return Nid::ipv4(tcp, local(last));
}
// A port that was free on all of 127.0.0.x a moment ago.
u16 free_port();
std::unique_ptr<ThreadSched> make_sched(u32 cpts, u32 workers);

// Bytes that tell which message they belong to.
std::byte pattern(u64 id, u32 at);
void fill(const MemView&, u64 id);
// Number of bytes that are not as they should be.
u32 differences(const MemView&, u64 id);

// A message with memory of its own in `fragments` uneven pieces.
struct TestMsg : Msg {
    TestMsg(u64 id, u32 len, u32 fragments = 1);
    const u64 id;
    Bytes bytes;
    Mem mem;
    // Written under the lock of its Core.
    u32 finished = 0;
    Status status;
    Health health = Health::ok;
};
// A node keeps what it sends for as long as its driver may have it, whatever the test does.
using MsgPtr = std::shared_ptr<TestMsg>;
MsgPtr put(const Nid& from, const Nid& to, u64 id, u32 len, u32 fragments = 1);

// The core above a driver. What is done with an arrived message is decided by `on_arrived`, which
// is called without a lock; the default takes all of it at once into one piece.
class Core final : public LndUp {
 public:
    struct Arrival {
        Hdr hdr;
        ProcessId from;
        RxToken token;
    };
    using OnArrived = std::function<Status(Core&, const Arrival&)>;
    explicit Core(Sched& sched) : sched_(sched) {}
    ~Core();

    Status arrived(const Hdr&, const ProcessId&, RxToken, RdmaGet) override;
    void finished(Msg&, Status, Health) override;
    Msg* reply_for(Msg&) override { return nullptr; }
    void peer_event(const Nid&, PeerEvent) override;
    void ni_event(NiEvent) override {}

    // What arrives before that waits for it: an NI is open before its opener holds it.
    void attach(LndNi* ni);
    void on_arrived(OnArrived fn);
    // For on_arrived, and for later: the answers to a driver.
    void accept(const Arrival&, u32 len, u32 fragments = 1);
    void discard(const Arrival&);
    void park(const Arrival&);
    // Discards what is parked, and from now on what would be: a driver that closes waits for it.
    void answer_parked();

    // From the test's thread. False when it did not come true in time. The condition is asked with
    // the lock.
    bool wait(const std::function<bool()>& condition);
    // The way to the members below outside of a condition: has the lock until the end of the
    // expression.
    class Held {
     public:
        explicit Held(Core& core) : core_(core), guard_(core.lock) {}
        Core* operator->() { return &core_; }

     private:
        Core& core_;
        const std::lock_guard<std::mutex> guard_;
    };
    Held held() { return Held(*this); }
    u32 times_finished(const TestMsg&);
    std::vector<Arrival> take_parked();
    // With the lock.
    std::vector<Arrival> arrivals;
    std::vector<MsgPtr> received;  // finished or not
    std::vector<Arrival> parked;
    std::vector<std::pair<Nid, PeerEvent>> events;
    u32 received_ok = 0, received_failed = 0, wrong_bytes = 0;
    u32 sent_finished = 0, sent_failed = 0;
    std::mutex lock;

 private:
    LndNi& ni();

    Sched& sched_;
    LndNi* ni_ = nullptr;
    std::shared_ptr<const OnArrived> on_arrived_;
    std::condition_variable changed_;
    std::set<Msg*> receiving_;
    bool closing_ = false;
};

using Settings = std::map<Tunable, i64>;

// Of the environment (ULNET_SOCK_IO): all tests run with either.
SockBackEnd back_end();

// A driver with one NI.
class TestNode {
 public:
    // accept=all and privileged=0, so that no rights are needed and typed connections are full
    // peers.
    TestNode(Sched&, u8 last, u16 port, Settings = {}, Core::OnArrived = {});
    TestNode(Sched&, NiConfig, std::unique_ptr<Lnd>, Core::OnArrived = {});
    ~TestNode();
    const Nid& nid() const { return config_.nid; }
    LndNi& ni() { return *ni_; }
    // From the test's thread.
    void send(const MsgPtr&);
    void close();
    // The test has closed it.
    void forget() { ni_.reset(); }
    ctl::Value describe();
    void tune(Tunable, i64 value);
    u64 counter(const std::string& name);
    std::size_t connections(const std::string& type = "");
    // Waits until so many connections (of the type) are open.
    bool wait_connections(std::size_t count, const std::string& type = "");
    bool wait_counter(const std::string& name, u64 least);

    Core core;

 private:
    Sched& sched_;
    NiConfig config_;
    std::unique_ptr<Lnd> lnd_;
    std::unique_ptr<LndNi> ni_;
    std::vector<MsgPtr> sent_;
};
NiConfig ni_config(u8 last, u16 port, const Settings& = {});
// Calls close() on a worker and waits for `done`.
void close_ni(Sched&, LndNi&);
// Polls the condition until the deadline.
bool eventually(const std::function<bool()>& condition);

// What is logged while it lives.
class LogLines final : public LogSink {
 public:
    LogLines() : LogSink(LogLevel::warn) { set_log_sink(this); }
    ~LogLines() override { set_log_sink(nullptr); }
    void write(LogLevel, std::string_view line) override {
        const std::lock_guard guard(lock_);
        text_ += line;
        text_ += '\n';
    }
    std::string text() {
        const std::lock_guard guard(lock_);
        return text_;
    }

 private:
    std::mutex lock_;
    std::string text_;
};

// A blocking socket with a deadline on every read. Failures show as short results.
class RawConn {
 public:
    RawConn() = default;
    explicit RawConn(int fd);
    RawConn(RawConn&&) noexcept;
    RawConn& operator=(RawConn&&) noexcept;
    ~RawConn();
    // From 127.0.0.`from`, any port.
    static RawConn to(u8 from, u8 last, u16 port);
    bool send(std::span<const std::byte>);
    // Fewer bytes when the stream ends or time is over.
    Bytes read(std::size_t count);
    // True when the other end closes within the patience; what it sent before is in `rest`.
    bool closed(Bytes* rest = nullptr);
    // Nothing to read for this long.
    bool silent(std::chrono::milliseconds time);
    void reset();  // RST
    void close();
    u16 local_port() const;
    bool valid() const { return fd_ >= 0; }

 private:
    int fd_ = -1;
};

class RawListener {
 public:
    RawListener(u8 last, u16 port);
    ~RawListener();
    RawListener(const RawListener&) = delete;
    bool valid() const { return fd_ >= 0; }
    RawConn accept();
    bool none_waiting(std::chrono::milliseconds time);

 private:
    int fd_ = -1;
};

// Pieces of scripts.
Bytes request_to(const Nid&);
Bytes hello_bytes_of(const Hello&);
Hello hello_from(const Nid& from, const Nid& to, ConnType, u64 incarnation = 77);
Bytes frame_of(const Frame&, Order = native_order, u32 version = version_default);
Frame put_frame(const Nid& from, const Nid& to, u64 id, u32 len);
Bytes payload_of(u64 id, u32 len);
Bytes noop(u64 cookie0, u64 cookie1);
Bytes operator+(Bytes a, const Bytes& b);
// Opens a connection as a full peer; the answer is in `answer`.
RawConn open_conn(u8 from, TestNode&, u16 port, ConnType, Hello& answer, u64 incarnation = 77);
Hello read_hello(RawConn&);

}  // namespace ulnet::sock
