// The byte-stream seam: all that the protocol engine knows of TCP. Back ends: kernel_tcp.cc with
// epoll.cc or uring.cc; a user-space TCP and a simulated network implement the same calls.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>

#include "cpt/base/result.h"
#include "cpt/sched.h"
#include "lnds/sock/address.h"

namespace ulnet::sock {

struct StreamOptions {
    bool nodelay = true;
    u32 keepalive_idle_s = 0, keepalive_interval_s = 0, keepalive_count = 0;  // idle 0 = off
    u32 tx_buffer = 0, rx_buffer = 0;  // bytes, 0 = the system's choice
    u32 unacked_timeout_s = 0;  // how long sent bytes may stay unacknowledged; 0 = the system's
    i32 tos = -1;               // -1 = leave it
    bool eager_ack = false;
};

struct Readiness {
    bool readable = false, writable = false;
    bool ended = false;  // the peer has ended its direction, or the connection is broken
};

// Told about readiness, on a worker of the CPT that was named; must only note it and wake strands.
// Edges: told once when the state changes, and once at the beginning when ready already. A read
// that yields less than asked for has emptied the stream, unless it has `ended`.
class StreamSink {
 public:
    virtual void ready(Readiness) = 0;

 protected:
    ~StreamSink() = default;
};

// Something a sink can watch: a stream or a listener.
class Watched {
 public:
    virtual ~Watched() = default;
    // From now on the sink is told, on the CPT. ENOMEM, ENOSPC and the like when it cannot be.
    virtual Status watch(CptId, StreamSink&) = 0;
    // No ready() comes after `done` was posted; until then the Watched must live.
    virtual void unwatch(Task& done) = 0;
};

// A connection. Non-blocking; reading and writing may happen at the same time on two threads.
// Destroying it closes it: nobody may watch or use it any more.
class Stream : public Watched {
 public:
    // Bytes moved; 0 from readv is the end of the stream; else a negative errno (-EAGAIN: a ready()
    // follows).
    virtual i64 readv(std::span<const iovec>) = 0;
    virtual i64 writev(std::span<const iovec>) = 0;
    // For a stream from connect(), once it is writable: how the connecting ended.
    virtual Status connect_status() = 0;
    // Ends both directions; reads and writes under way or to come fail or end.
    virtual void shutdown() = 0;
    virtual void set_options(const StreamOptions&) = 0;
    virtual Endpoint local() const = 0;
    virtual Endpoint remote() const = 0;
};

class StreamListener : public Watched {
 public:
    // The next connection; EAGAIN: none, a ready() follows; other errors concern one connection or
    // a shortage of resources.
    virtual Result<std::unique_ptr<Stream>> accept() = 0;
    virtual Endpoint local() const = 0;
};

// Which local ports connect() may use.
enum class LocalPort : u8 {
    privileged,  // 1023 down to 512, EACCES when that is not permitted
    any,
};

// Where connect() connects from.
struct Origin {
    Address address;
    LocalPort ports = LocalPort::any;
    i32 tos = -1;           // type of service from the first packet on; -1 = leave it
    std::string interface;  // packets come and go by it only; empty = by the routes
};

// The factory. One serves all NIs of a driver; it keeps one event source a CPT.
class StreamOs {
 public:
    virtual ~StreamOs() = default;
    // By this interface only; empty = any.
    virtual Result<std::unique_ptr<StreamListener>> listen(const Endpoint&, u32 backlog,
                                                           const std::string& interface) = 0;
    // Begins to connect; writable tells the end. EAFNOSUPPORT: not from this address to that.
    virtual Result<std::unique_ptr<Stream>> connect(const Origin&, const Endpoint& to) = 0;
    // False: nothing was ever watched, so that it may be destroyed without stop().
    virtual bool started() const { return true; }
    // Everything watched must be unwatched; `done` is posted when the event sources are gone and
    // the StreamOs may be destroyed.
    virtual void stop(Task& done) = 0;
};

// Kernel TCP, told by epoll or by io_uring (ENOSYS, EPERM: the system has none for us).
Result<std::unique_ptr<StreamOs>> make_epoll_os(Sched&);
Result<std::unique_ptr<StreamOs>> make_uring_os(Sched&);

}  // namespace ulnet::sock
