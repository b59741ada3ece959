// Kernel TCP behind the byte-stream seam: non-blocking sockets, and one source of readiness a CPT
// (epoll.cc, uring.cc), asked by whichever worker is free. No thread owns a socket.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <vector>

#include "cpt/cpt.h"
#include "lnds/sock/readiness.h"

namespace ulnet::sock {
namespace {

constexpr u16 privileged_high = 1023;
constexpr u16 privileged_low = 512;

Status last_error() {
    return Status(-errno);
}

// An Endpoint as the system calls want it, and back.
class SockAddr {
 public:
    SockAddr() : size_(sizeof raw_) {}  // to be filled in
    explicit SockAddr(const Endpoint& at) {
        if (at.address.ipv6()) {
            raw_.ipv6.sin6_family = AF_INET6;
            std::ranges::copy(at.address.bytes(), raw_.ipv6.sin6_addr.s6_addr);
            raw_.ipv6.sin6_port = htons(at.port);
            size_ = sizeof raw_.ipv6;
        } else {
            raw_.ipv4.sin_family = AF_INET;
            raw_.ipv4.sin_addr.s_addr = htonl(at.address.tail());
            raw_.ipv4.sin_port = htons(at.port);
            size_ = sizeof raw_.ipv4;
        }
    }
    Endpoint endpoint() const {
        if (raw_.any.sa_family == AF_INET6)
            return {Address(raw_.ipv6.sin6_addr.s6_addr), ntohs(raw_.ipv6.sin6_port)};
        return {ntohl(raw_.ipv4.sin_addr.s_addr), ntohs(raw_.ipv4.sin_port)};
    }
    sockaddr* raw() { return &raw_.any; }
    socklen_t& size() { return size_; }

 private:
    union {
        sockaddr any;
        sockaddr_in ipv4;
        sockaddr_in6 ipv6;
    } raw_{};
    socklen_t size_ = 0;
};

Status bind_to(int fd, const Endpoint& at) {
    SockAddr to(at);
    return ::bind(fd, to.raw(), to.size()) == 0 ? ok_status : last_error();
}

Status bind_to_interface(int fd, const std::string& interface) {
    if (interface.empty()) return ok_status;
    const auto size = static_cast<socklen_t>(interface.size());
    if (::setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.data(), size) == 0)
        return ok_status;
    // EPERM would be taken for a matter of ports.
    return errno == EPERM ? Status(-ENODEV) : last_error();
}

void set_int(int fd, int level, int option, int value) {
    // A kernel that does not know an option works without it.
    static_cast<void>(::setsockopt(fd, level, option, &value, sizeof value));
}

void set_tos(int fd, const Address& address, i32 tos) {
    if (tos < 0) return;
    if (address.ipv6())
        set_int(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
    else
        set_int(fd, IPPROTO_IP, IP_TOS, tos);
}

// Negative: errno tells why.
int make_socket(const Address& address) {
    if (!address.ipv4() && !address.ipv6()) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    const int family = address.ipv6() ? AF_INET6 : AF_INET;
    return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

// The descriptor and its watch, shared by streams and listeners.
class Socket {
 public:
    Socket(const ReadinessSources& sources, int fd) : sources_(sources), fd_(fd) {}
    ~Socket() { ::close(fd_); }
    Socket(const Socket&) = delete;
    const ReadinessSources& sources() const { return sources_; }
    Status watch(CptId cpt, StreamSink& sink) {
        CHECK(cpt < sources_.size());
        CHECK(source_ == nullptr);
        // Set first: a ready() may come, and lead to unwatch(), before add() has returned.
        source_ = sources_[cpt].get();
        const Status status = source_->add(fd_, sink, slot_);
        if (!status.ok()) source_ = nullptr;
        return status;
    }
    void unwatch(Task& done) {
        CHECK(source_ != nullptr);
        std::exchange(source_, nullptr)->remove(fd_, slot_, done);
    }
    int fd() const { return fd_; }
    Endpoint local() const {
        SockAddr at;
        static_cast<void>(::getsockname(fd_, at.raw(), &at.size()));
        return at.endpoint();
    }

 private:
    const ReadinessSources& sources_;
    const int fd_;
    ReadinessSource* source_ = nullptr;
    u32 slot_ = 0;
};

class KernelStream final : public Stream {
 public:
    KernelStream(const ReadinessSources& sources, int fd, const Endpoint& remote)
        : socket_(sources, fd), remote_(remote) {}
    Status watch(CptId cpt, StreamSink& sink) override { return socket_.watch(cpt, sink); }
    void unwatch(Task& done) override { socket_.unwatch(done); }
    i64 readv(std::span<const iovec> to) override {
        ssize_t moved = 0;
        do {
            moved = to.size() == 1 ? ::recv(socket_.fd(), to[0].iov_base, to[0].iov_len, 0)
                                   : ::readv(socket_.fd(), to.data(), static_cast<int>(to.size()));
        } while (moved < 0 && errno == EINTR);
        return moved >= 0 ? moved : -errno;
    }
    i64 writev(std::span<const iovec> from) override {
        msghdr message{};
        message.msg_iov = const_cast<iovec*>(from.data());  // sendmsg does not write there
        message.msg_iovlen = from.size();
        ssize_t moved = 0;
        do {
            moved = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
        } while (moved < 0 && errno == EINTR);
        return moved >= 0 ? moved : -errno;
    }
    Status connect_status() override {
        int error = 0;
        socklen_t size = sizeof error;
        if (::getsockopt(socket_.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            return last_error();
        return Status(-error);
    }
    void shutdown() override { static_cast<void>(::shutdown(socket_.fd(), SHUT_RDWR)); }
    void set_options(const StreamOptions& options) override {
        const int fd = socket_.fd();
        set_int(fd, IPPROTO_TCP, TCP_NODELAY, options.nodelay ? 1 : 0);
        set_int(fd, SOL_SOCKET, SO_KEEPALIVE, options.keepalive_idle_s > 0 ? 1 : 0);
        if (options.keepalive_idle_s > 0) {
            set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(options.keepalive_idle_s));
            set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>(options.keepalive_interval_s));
            set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, static_cast<int>(options.keepalive_count));
        }
        if (options.unacked_timeout_s > 0)
            set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                    static_cast<int>(options.unacked_timeout_s * 1000));
        if (options.tx_buffer > 0)
            set_int(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(options.tx_buffer));
        if (options.rx_buffer > 0)
            set_int(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(options.rx_buffer));
        set_tos(fd, remote_.address, options.tos);
        if (options.eager_ack) set_int(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
    }
    Endpoint local() const override { return socket_.local(); }
    Endpoint remote() const override { return remote_; }

 private:
    Socket socket_;
    const Endpoint remote_;
};

class KernelListener final : public StreamListener {
 public:
    KernelListener(const ReadinessSources& sources, int fd) : socket_(sources, fd) {}
    Status watch(CptId cpt, StreamSink& sink) override { return socket_.watch(cpt, sink); }
    void unwatch(Task& done) override { socket_.unwatch(done); }
    Result<std::unique_ptr<Stream>> accept() override {
        SockAddr from;
        const int fd =
            ::accept4(socket_.fd(), from.raw(), &from.size(), SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return last_error();
        return std::unique_ptr<Stream>(
            std::make_unique<KernelStream>(socket_.sources(), fd, from.endpoint()));
    }
    Endpoint local() const override { return socket_.local(); }

 private:
    Socket socket_;
};

class KernelOs final : public StreamOs {
 public:
    KernelOs(Sched& sched, ReadinessSources sources)
        : sched_(sched), sources_(std::move(sources)) {}
    Result<std::unique_ptr<StreamListener>> listen(const Endpoint& at, u32 backlog,
                                                   const std::string& interface) override {
        const int fd = make_socket(at.address);
        if (fd < 0) return last_error();
        auto listener = std::make_unique<KernelListener>(sources_, fd);
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        const Status device = bind_to_interface(fd, interface);
        if (!device.ok()) return device;
        const Status status = bind_to(fd, at);
        if (!status.ok()) return status;
        if (::listen(fd, static_cast<int>(backlog)) != 0) return last_error();
        return std::unique_ptr<StreamListener>(std::move(listener));
    }
    Result<std::unique_ptr<Stream>> connect(const Origin& from, const Endpoint& to) override {
        if (from.ports == LocalPort::any) return connect_from(from, 0, to);
        for (u16 port = privileged_high; port >= privileged_low; --port) {
            auto stream = connect_from(from, port, to);
            if (stream.ok()) return stream;
            const int code = stream.status().code();
            if (code != -EADDRINUSE && code != -EADDRNOTAVAIL) return stream.status();
        }
        return Status(-EADDRINUSE);
    }
    bool started() const override {
        return std::any_of(sources_.begin(), sources_.end(),
                           [](const auto& source) { return source->started(); });
    }
    void stop(Task& done) override {
        // One more than the sources, so that nothing is freed before this function is through.
        done_ = &done;
        left_.store(static_cast<u32>(sources_.size()) + 1, std::memory_order_relaxed);
        for (CptId cpt = 0; cpt < sources_.size(); ++cpt) {
            removed_.push_back(std::make_unique<Removed>(*this, cpt));
            if (sources_[cpt]->started())
                sched_.remove_poller(cpt, *sources_[cpt], *removed_[cpt]);
            else
                drop(cpt);
        }
        drop(0);
    }

 private:
    struct Removed final : Task {
        Removed(KernelOs& owner, CptId at) : os(owner), cpt(at) {}
        void run() override { os.drop(cpt); }
        KernelOs& os;
        const CptId cpt;
    };

    // The last one to drop posts `done`, which may free the KernelOs.
    void drop(CptId cpt) {
        Task* const last = done_;
        Sched& sched = sched_;
        if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) sched.post(cpt, *last);
    }
    Result<std::unique_ptr<Stream>> connect_from(const Origin& from, u16 port, const Endpoint& to) {
        if (!to.address.same_family(from.address)) return Status(-EAFNOSUPPORT);
        const int fd = make_socket(to.address);
        if (fd < 0) return last_error();
        auto stream = std::make_unique<KernelStream>(sources_, fd, to);
        // Ports of connections in TIME_WAIT may be used again, as the kernel's connector does.
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        set_tos(fd, to.address, from.tos);
        const Status device = bind_to_interface(fd, from.interface);
        if (!device.ok()) return device;
        // Without a port of our choice, the port is taken at connect(), when all four are known.
        if (port == 0) set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        const Status status = bind_to(fd, {from.address, port});
        if (!status.ok()) return status;
        SockAddr raw(to);
        if (::connect(fd, raw.raw(), raw.size()) != 0 && errno != EINPROGRESS) return last_error();
        return std::unique_ptr<Stream>(std::move(stream));
    }

    Sched& sched_;
    const ReadinessSources sources_;
    std::vector<std::unique_ptr<Removed>> removed_;
    std::atomic<u32> left_{0};
    Task* done_ = nullptr;
};

}  // namespace

std::unique_ptr<StreamOs> make_kernel_os(Sched& sched, ReadinessSources sources) {
    return std::make_unique<KernelOs>(sched, std::move(sources));
}

}  // namespace ulnet::sock
