// Kernel TCP behind the byte-stream seam: non-blocking sockets and one epoll instance a CPT, asked
// by whichever worker is free. Edge-triggered events only wake strands; no thread owns a socket.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

#include "cpt/cpt.h"
#include "lnds/sock/stream.h"

namespace ulnet::sock {
namespace {

constexpr u16 privileged_high = 1023;
constexpr u16 privileged_low = 512;
constexpr unsigned events_max = 64;

Status last_error() {
    return Status(-errno);
}

sockaddr_in to_sockaddr(const Endpoint& at) {
    sockaddr_in raw{};
    raw.sin_family = AF_INET;
    raw.sin_addr.s_addr = htonl(at.address);
    raw.sin_port = htons(at.port);
    return raw;
}

Endpoint to_endpoint(const sockaddr_in& raw) {
    return {ntohl(raw.sin_addr.s_addr), ntohs(raw.sin_port)};
}

Status bind_to(int fd, const Endpoint& at) {
    const sockaddr_in raw = to_sockaddr(at);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&raw), sizeof raw) == 0 ? ok_status
                                                                                : last_error();
}

void set_int(int fd, int level, int option, int value) {
    // A kernel that does not know an option works without it.
    static_cast<void>(::setsockopt(fd, level, option, &value, sizeof value));
}

// One epoll instance. Slots stand between the kernel's events and the sinks, so that an event that
// was fetched before unwatch() reaches nobody after it.
class EpollPoller final : public Poller {
 public:
    EpollPoller(Sched& sched, CptId cpt, int fd) : sched_(sched), cpt_(cpt), fd_(fd) {}
    ~EpollPoller() { ::close(fd_); }
    EpollPoller(const EpollPoller&) = delete;

    Status add(int fd, StreamSink& sink, u32& index) {
        epoll_event event{};
        bool first = false;
        {
            const std::lock_guard guard(lock_);
            first = !std::exchange(started_, true);
            if (free_.empty()) {
                slots_.emplace_back();
                free_.push_back(static_cast<u32>(slots_.size() - 1));
            }
            index = free_.back();
            free_.pop_back();
            Slot& slot = slots_[index];
            slot.sink = &sink;
            event.data.u64 = (u64{slot.generation} << 32) | index;
        }
        // Workers ask only where there is something to hear of.
        if (first) sched_.add_poller(cpt_, *this);
        event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
        if (::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0) return ok_status;
        const Status status = last_error();
        const std::lock_guard guard(lock_);
        release(index);
        return status;
    }

    void remove(int fd, u32 index, Task& done) {
        static_cast<void>(::epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr));
        {
            const std::lock_guard guard(lock_);
            if (slots_[index].busy) {
                slots_[index].done = &done;
                return;
            }
            release(index);
        }
        sched_.post(cpt_, done);
    }

    bool started() const {
        const std::lock_guard guard(lock_);
        return started_;
    }
    unsigned poll(Budget& budget) override {
        epoll_event events[events_max];
        StreamSink* sinks[events_max];
        const int count = ::epoll_wait(fd_, events, static_cast<int>(events_max), 0);
        if (count <= 0) return 0;
        const auto found = static_cast<unsigned>(count);
        {
            const std::lock_guard guard(lock_);
            for (unsigned i = 0; i < found; ++i) sinks[i] = begin(events[i].data.u64);
        }
        for (unsigned i = 0; i < found; ++i) {
            if (sinks[i] == nullptr) continue;
            const u32 bits = events[i].events;
            const bool broken = (bits & (EPOLLERR | EPOLLHUP)) != 0;
            const bool ended = broken || (bits & EPOLLRDHUP) != 0;
            sinks[i]->ready(
                {ended || (bits & EPOLLIN) != 0, broken || (bits & EPOLLOUT) != 0, ended});
        }
        finish(std::span(events, found), std::span(sinks, found));
        budget.take(found, 0);
        return found;
    }
    Armed arm() override { return Armed::yes; }  // the epoll descriptor itself is level-triggered
    int wait_fd() const override { return fd_; }

 private:
    struct Slot {
        StreamSink* sink = nullptr;
        Task* done = nullptr;  // unwatch() came while ready() was running
        u32 generation = 0;
        bool busy = false;
    };

    StreamSink* begin(u64 data) {
        Slot& slot = slots_[static_cast<u32>(data)];
        if (slot.sink == nullptr || slot.generation != static_cast<u32>(data >> 32)) return nullptr;
        slot.busy = true;
        return slot.sink;
    }
    void finish(std::span<const epoll_event> events, std::span<StreamSink* const> sinks) {
        Task* gone[events_max];
        unsigned count = 0;
        {
            const std::lock_guard guard(lock_);
            for (std::size_t i = 0; i < events.size(); ++i) {
                if (sinks[i] == nullptr) continue;
                const u32 index = static_cast<u32>(events[i].data.u64);
                Slot& slot = slots_[index];
                slot.busy = false;
                if (slot.done == nullptr) continue;
                gone[count++] = slot.done;
                release(index);
            }
        }
        for (unsigned i = 0; i < count; ++i) sched_.post(cpt_, *gone[i]);
    }
    void release(u32 index) {
        Slot& slot = slots_[index];
        slot.sink = nullptr;
        slot.done = nullptr;
        ++slot.generation;
        free_.push_back(index);
    }

    Sched& sched_;
    const CptId cpt_;
    const int fd_;
    mutable std::mutex lock_;  // guards: all below
    bool started_ = false;
    std::vector<Slot> slots_;
    std::vector<u32> free_;
};

using Pollers = std::vector<std::unique_ptr<EpollPoller>>;  // by CPT

// The descriptor and its watch, shared by streams and listeners.
class Socket {
 public:
    Socket(const Pollers& pollers, int fd) : pollers_(pollers), fd_(fd) {}
    ~Socket() { ::close(fd_); }
    Socket(const Socket&) = delete;
    const Pollers& pollers() const { return pollers_; }
    Status watch(CptId cpt, StreamSink& sink) {
        CHECK(cpt < pollers_.size());
        CHECK(poller_ == nullptr);
        // Set first: a ready() may come, and lead to unwatch(), before add() has returned.
        poller_ = pollers_[cpt].get();
        const Status status = poller_->add(fd_, sink, slot_);
        if (!status.ok()) poller_ = nullptr;
        return status;
    }
    void unwatch(Task& done) {
        CHECK(poller_ != nullptr);
        std::exchange(poller_, nullptr)->remove(fd_, slot_, done);
    }
    int fd() const { return fd_; }
    Endpoint local() const {
        sockaddr_in raw{};
        socklen_t size = sizeof raw;
        static_cast<void>(::getsockname(fd_, reinterpret_cast<sockaddr*>(&raw), &size));
        return to_endpoint(raw);
    }

 private:
    const Pollers& pollers_;
    const int fd_;
    EpollPoller* poller_ = nullptr;
    u32 slot_ = 0;
};

class EpollStream final : public Stream {
 public:
    EpollStream(const Pollers& pollers, int fd, const Endpoint& remote)
        : socket_(pollers, fd), remote_(remote) {}
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
        if (options.tos >= 0) set_int(fd, IPPROTO_IP, IP_TOS, options.tos);
        if (options.eager_ack) set_int(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
    }
    Endpoint local() const override { return socket_.local(); }
    Endpoint remote() const override { return remote_; }

 private:
    Socket socket_;
    const Endpoint remote_;
};

class EpollListener final : public StreamListener {
 public:
    EpollListener(const Pollers& pollers, int fd) : socket_(pollers, fd) {}
    Status watch(CptId cpt, StreamSink& sink) override { return socket_.watch(cpt, sink); }
    void unwatch(Task& done) override { socket_.unwatch(done); }
    Result<std::unique_ptr<Stream>> accept() override {
        sockaddr_in raw{};
        socklen_t size = sizeof raw;
        const int fd = ::accept4(socket_.fd(), reinterpret_cast<sockaddr*>(&raw), &size,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return last_error();
        return std::unique_ptr<Stream>(
            std::make_unique<EpollStream>(socket_.pollers(), fd, to_endpoint(raw)));
    }
    Endpoint local() const override { return socket_.local(); }

 private:
    Socket socket_;
};

class EpollOs final : public StreamOs {
 public:
    EpollOs(Sched& sched, Pollers pollers) : sched_(sched), pollers_(std::move(pollers)) {}
    Result<std::unique_ptr<StreamListener>> listen(const Endpoint& at, u32 backlog) override {
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) return last_error();
        auto listener = std::make_unique<EpollListener>(pollers_, fd);
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        const Status status = bind_to(fd, at);
        if (!status.ok()) return status;
        if (::listen(fd, static_cast<int>(backlog)) != 0) return last_error();
        return std::unique_ptr<StreamListener>(std::move(listener));
    }
    Result<std::unique_ptr<Stream>> connect(u32 local_address, LocalPort ports,
                                            const Endpoint& to) override {
        if (ports == LocalPort::any) return connect_from({local_address, 0}, to);
        for (u16 port = privileged_high; port >= privileged_low; --port) {
            auto stream = connect_from({local_address, port}, to);
            if (stream.ok()) return stream;
            const int code = stream.status().code();
            if (code != -EADDRINUSE && code != -EADDRNOTAVAIL) return stream.status();
        }
        return Status(-EADDRINUSE);
    }
    bool started() const override {
        return std::any_of(pollers_.begin(), pollers_.end(),
                           [](const auto& poller) { return poller->started(); });
    }
    void stop(Task& done) override {
        // One more than the pollers, so that nothing is freed before this function is through.
        done_ = &done;
        left_.store(static_cast<u32>(pollers_.size()) + 1, std::memory_order_relaxed);
        for (CptId cpt = 0; cpt < pollers_.size(); ++cpt) {
            removed_.push_back(std::make_unique<Removed>(*this, cpt));
            if (pollers_[cpt]->started())
                sched_.remove_poller(cpt, *pollers_[cpt], *removed_[cpt]);
            else
                drop(cpt);
        }
        drop(0);
    }

 private:
    struct Removed final : Task {
        Removed(EpollOs& owner, CptId at) : os(owner), cpt(at) {}
        void run() override { os.drop(cpt); }
        EpollOs& os;
        const CptId cpt;
    };

    // The last one to drop posts `done`, which may free the EpollOs.
    void drop(CptId cpt) {
        Task* const last = done_;
        Sched& sched = sched_;
        if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) sched.post(cpt, *last);
    }
    Result<std::unique_ptr<Stream>> connect_from(const Endpoint& from, const Endpoint& to) {
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) return last_error();
        auto stream = std::make_unique<EpollStream>(pollers_, fd, to);
        // Ports of connections in TIME_WAIT may be used again, as the kernel's connector does.
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        // Without a port of our choice, the port is taken at connect(), when all four are known.
        if (from.port == 0) set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        const Status status = bind_to(fd, from);
        if (!status.ok()) return status;
        const sockaddr_in raw = to_sockaddr(to);
        if (::connect(fd, reinterpret_cast<const sockaddr*>(&raw), sizeof raw) != 0 &&
            errno != EINPROGRESS)
            return last_error();
        return std::unique_ptr<Stream>(std::move(stream));
    }

    Sched& sched_;
    const Pollers pollers_;
    std::vector<std::unique_ptr<Removed>> removed_;
    std::atomic<u32> left_{0};
    Task* done_ = nullptr;
};

}  // namespace

std::string to_text(const Endpoint& at) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) {
        text += std::to_string((at.address >> shift) & 0xff);
        text += shift > 0 ? '.' : ':';
    }
    return text + std::to_string(at.port);
}

Result<std::unique_ptr<StreamOs>> make_epoll_os(Sched& sched) {
    Pollers pollers;
    for (CptId cpt = 0; cpt < sched.cpts().size(); ++cpt) {
        const int fd = ::epoll_create1(EPOLL_CLOEXEC);
        if (fd < 0) return last_error();
        pollers.push_back(std::make_unique<EpollPoller>(sched, cpt, fd));
    }
    return std::unique_ptr<StreamOs>(std::make_unique<EpollOs>(sched, std::move(pollers)));
}

}  // namespace ulnet::sock
