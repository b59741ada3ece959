// TCP as the simulator sees it: hosts, listening sockets, and connections of two sides. Bytes
// travel in segments cut at drawn points and arrive in order; buffers are finite; sides can vanish
// without a word. sim_stream.h puts the seam of lnds/sock on top. Kernel side of the simulation: it
// goes on while a node is paused.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "lnds/sock/stream.h"
#include "tests/sim/net_model.h"

namespace ulnet::sim {

using sock::Address;
using sock::Endpoint;

class StreamNet;
struct Connection;
struct ListenSocket;

enum class Split : u8 { whole, random, bytes };

struct StreamParams {
    Split split = Split::whole;
    u32 tx_buffer = 128 * 1024, rx_buffer = 128 * 1024;
    u32 partial_write_percent = 0;  // writes cut short although there is room
    u32 spurious_percent = 0;       // notices that say nothing new
    u32 accept_error_percent = 0;   // ECONNABORTED, EMFILE
    u32 connect_error_percent = 0;  // EMFILE, ENETUNREACH, refused though somebody listens
    // What side `cut_side` (0 = who connects) sends is cut before this byte, and goes on `cut_gap`
    // later; 0 = nowhere.
    u64 cut_at = 0;
    u32 cut_side = 0;
    Duration cut_gap = std::chrono::milliseconds(1);
};

// Who is told that something can be read, written or accepted.
class Notice {
 public:
    virtual void tell() = 0;

 protected:
    ~Notice() = default;
};

// Bytes on their way, of one side to the other: written, of these arrived, of these read.
class ByteRing {
 public:
    void write(std::span<const iovec> from, u64 count);
    void read(std::span<const iovec> to, u64 count);
    void clear();
    u64 size() const { return written_ - read_; }

 private:
    void grow(u64 needed);
    std::vector<std::byte> bytes_;
    u64 written_ = 0, read_ = 0;
};

struct Segment {
    Instant at;
    u64 upto;  // position in the flow
    bool fin;
};

struct OnHost;  // hook: sides of one operating system (an incarnation of a node)

// One end of a connection. Outgoing bytes are kept here until the peer reads them.
struct Side final : ListHook<OnHost> {
    enum class State : u8 { none, connecting, open };
    Side() = default;
    ~Side() = default;

    Connection* connection = nullptr;
    u32 index = 0;
    Endpoint local, remote;
    State state = State::none;
    bool registered = false;  // its addresses are taken on the host
    bool owned = false;       // a Stream has it, or the queue of a listener
    bool dead = false;        // its host knows nothing of it any more: swallows all
    bool broken = false;      // reset or timed out
    bool swallowed = false;   // what it sends gets lost on the way
    bool fin_sent = false, fin_received = false, read_shut = false;
    bool want_write = false;
    int error = 0;  // told once
    Notice* notice = nullptr;
    // The outgoing flow, by positions.
    ByteRing bytes;
    u64 written = 0, acked = 0, arrived = 0, taken = 0;
    std::vector<Segment> segments;
    std::size_t next_segment = 0;
    Instant last_arrival{};
    u32 attempt = 0;
    bool window_shut = false;
    u32 tx_buffer = 0, rx_buffer = 0;
    Duration unacked_timeout{};
    Instant last_heard{}, unacked_since{};
    List<Side, OnHost>* on = nullptr;  // the list it is linked to
    Instant may_read{};                // a slow reader not before
    u32 keepalive_idle_s = 0, keepalive_interval_s = 0, keepalive_count = 0, probes = 0;

    void deliver_event();
    void ack_event();
    void reset_event();
    void keepalive_event();
    void connect_event();
    void read_event();
    EventOf<Side, &Side::deliver_event> deliver{*this};
    EventOf<Side, &Side::ack_event> ack{*this};
    EventOf<Side, &Side::reset_event> reset{*this};  // a RST arrives here
    EventOf<Side, &Side::keepalive_event> keepalive{*this};
    EventOf<Side, &Side::connect_event> connect{*this};  // the next step of connecting
    EventOf<Side, &Side::read_event> read_on{*this};     // a slow reader looks again
    u64 readable() const;                                // bytes that can be read here
    Side& peer() const;
};

struct Connection {
    StreamNet* net = nullptr;
    std::array<Side, 2> sides;
    ListenSocket* listener = nullptr;  // whose queue it waits in
    int verdict = 0;                   // of connecting, once the answer is on its way
    bool answered = false;
    Instant began{};
};

struct ListenSocket {
    Endpoint local;
    u32 backlog = 0;
    std::vector<Connection*> queue;
    u32 coming = 0;  // handshakes not complete
    Notice* notice = nullptr;
    List<Side, OnHost>* sides = nullptr;  // of the operating system
};

class StreamNet {
 public:
    explicit StreamNet(NetModel& model) : model_(model), engine_(model.engine()) {}
    ~StreamNet();
    StreamNet(const StreamNet&) = delete;

    StreamParams params;

    // For an operating system; `at` is the time the calling task has reached.
    Result<ListenSocket*> listen(const Endpoint& at, u32 backlog, List<Side, OnHost>& sides);
    // Ends a listener: those in its queue are reset (or never hear again).
    void close(ListenSocket& socket, bool silently);
    Result<Side*> connect(const Address& local, bool privileged, const Endpoint& to,
                          List<Side, OnHost>& sides, Instant at);
    Result<Side*> accept(ListenSocket& socket);
    i64 read(Side& side, std::span<const iovec> to, Instant at);
    i64 write(Side& side, std::span<const iovec> from, Instant at);
    void shutdown(Side& side, Instant at);
    // The Stream is gone.
    void release(Side& side, Instant at);
    void set_keepalive(Side& side, u32 idle_s, u32 interval_s, u32 count);
    // The process of this side is gone. Silently: the whole host is, and nothing is sent.
    void cut(Side& side, bool silently);

    // A host that is down answers nothing; one that is up but does not listen refuses.
    void set_up(u32 host, bool up) { host_of(host).up = up; }
    // Breaks connections between two hosts as a middle box would: both sides are reset, or they
    // stop hearing of each other.
    void break_all(u32 host, u32 other, bool silently);

    u64 bytes_arrived() const { return bytes_arrived_; }
    u64 connections() const { return all_.size() - free_.size(); }
    Engine& engine() { return engine_; }

 private:
    friend struct Side;
    static constexpr Duration connect_timeout = std::chrono::seconds(127);
    static constexpr Duration window_probe = std::chrono::seconds(10);
    static constexpr Duration unacked_timeout = std::chrono::seconds(924);  // as the kernel's
    struct Host {
        bool up = true;
        u32 next_port = 32768;
        Instant wire_free{};
        std::map<u16, std::unique_ptr<ListenSocket>> listeners;
        std::map<u64, Side*> sides;  // by local port, remote port and address
    };
    // By the last four bytes of addresses: those of its IPv4 and its IPv6 address are the same.
    Host& host_of(u32 address) { return hosts_[address]; }
    static u64 key(u16 local_port, const Endpoint& remote);
    bool port_free(Host& host, u16 port, const Endpoint& to);
    u16 pick_port(Host& host, bool privileged, const Endpoint& to);
    Connection& make();
    void recycle(Connection& connection);
    void enter(Side& side, List<Side, OnHost>& sides);
    void unregister(Side& side);

    void syn(Side& side);
    void syn_fails(Side& side, int error, Duration after);
    void answer(Side& side);
    void establish(Side& side);
    void queue_segments(Side& side, u64 count, Instant at);
    void send_fin(Side& side, Instant at);
    void deliver(Side& side);
    void schedule_delivery(Side& side);
    void send_reset(Side& from, Instant at);
    void fail(Side& side, int error);
    void acknowledge(Side& side);
    void probe(Side& side);
    static void tell(Side& side);

    NetModel& model_;
    Engine& engine_;
    std::map<u32, Host> hosts_;
    std::vector<std::unique_ptr<Connection>> all_;
    std::vector<Connection*> free_;
    u64 bytes_arrived_ = 0;
};

}  // namespace ulnet::sim
