// Making and removing the control socket. open() on any thread; the rest as server.h says.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lnet/ctl/server_detail.h"

namespace ulnet::ctl {
namespace {

constexpr int backlog = 64;
constexpr std::string_view socket_aside = ".new";
constexpr std::size_t path_bytes_max = sizeof(sockaddr_un::sun_path) - 1 - socket_aside.size();

Error system_error(const std::string& what, const std::string& path) {
    const Status status(-errno);
    return {status, what + " '" + path + "': " + status.text()};
}

// The folder of the socket, when it is the usual one and not there yet.
void make_folder(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == 0 || slash == std::string::npos) return;
    ::mkdir(path.substr(0, slash).c_str(), 0755);  // a failure shows at bind()
}

void close_fd(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
}

}  // namespace

Server::Server(Sched& sched, const Registry& registry, Control control,
               const ServerOptions& options)
    : sched_(sched), registry_(registry), control_(std::move(control)), options_(options),
      hub_(std::make_shared<Hub>(control_)), next_id_(client_id_first) {}

Result<std::unique_ptr<Server>> Server::open(Sched& sched, const Registry& registry,
                                             Control control, const ServerOptions& options,
                                             std::string& why) {
    ServerOptions complete = options;
    if (!complete.may_write)
        complete.may_write = [own = ::geteuid()](uid_t uid) { return uid == 0 || uid == own; };
    std::unique_ptr<Server> server(new Server(sched, registry, std::move(control), complete));
    if (Error error = server->listen(); !error.ok()) {
        why = error.text;
        return error.status;
    }
    server->polled_ = true;
    sched.add_poller(complete.cpt, *server);
    return server;
}

// One live process a path: the lock goes with the process, however it ends, so a socket without a
// lock is a dead one's.
Error Server::take_lock() {
    const std::string lock = options_.path + ".lock";
    lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock_fd_ < 0) return system_error("cannot make the lock file", lock);
    if (::flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) return {};
    if (errno != EWOULDBLOCK) return system_error("cannot lock", lock);
    return {Status(-EADDRINUSE), "another process serves '" + options_.path +
                                     "' already; stop it or choose another name or socket"};
}

// The socket appears at its path by a rename once it listens: who sees it can connect.
Error Server::bind_socket() {
    const std::string& path = options_.path;
    const std::string aside = path + std::string(socket_aside);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, aside.c_str(), aside.size() + 1);
    ::unlink(aside.c_str());
    // Before bind(), so that the socket is at no time open to more people than it shall be.
    ::fchmod(listen_fd_, 0660);
    if (::bind(listen_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
        return system_error("cannot make the socket", path);
    if (::chmod(aside.c_str(), 0660) == 0 && ::listen(listen_fd_, backlog) == 0 &&
        ::rename(aside.c_str(), path.c_str()) == 0) {
        bound_ = true;
        return {};
    }
    Error error = system_error("cannot listen on", path);
    ::unlink(aside.c_str());
    return error;
}

Error Server::listen() {
    const std::string& path = options_.path;
    if (path.empty() || path.size() > path_bytes_max)
        return {Status(-ENAMETOOLONG), "socket '" + path + "' is not allowed; allowed: a path of " +
                                           "1 ... " + std::to_string(path_bytes_max) + " bytes"};
    make_folder(path);
    if (Error error = take_lock(); !error.ok()) return error;
    struct stat old {};
    if (::lstat(path.c_str(), &old) == 0 && !S_ISSOCK(old.st_mode))
        return {Status(-EEXIST), "'" + path + "' exists and is no socket"};
    listen_fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
    reserve_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (listen_fd_ < 0 || epoll_fd_ < 0 || hub_->event_fd < 0)
        return system_error("cannot make the socket", path);
    if (Error error = bind_socket(); !error.ok()) return error;
    if (Error error = watch(listen_fd_, listener_id, EPOLLIN); !error.ok()) return error;
    return watch(hub_->event_fd, outbox_id, EPOLLIN);
}

Error Server::watch(int fd, u64 id, u32 events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0) return {};
    return system_error("cannot watch", options_.path);
}

void Server::close(Task& done) {
    CHECK(polled_ && close_done_ == nullptr);
    close_done_ = &done;
    sched_.remove_poller(options_.cpt, *this, closed_);
}

void Server::finish_close() {
    hub_->end();
    for (auto& [id, client] : clients_) ::close(client.fd);
    clients_.clear();
    if (bound_) ::unlink(options_.path.c_str());
    bound_ = false;
    close_fd(listen_fd_);
    polled_ = false;
    sched_.post(options_.cpt, *close_done_);  // the owner may destroy this from now on
}

Server::~Server() {
    CHECK(!polled_);
    if (bound_) ::unlink(options_.path.c_str());
    close_fd(listen_fd_);
    close_fd(epoll_fd_);
    close_fd(reserve_fd_);
    close_fd(lock_fd_);
}

}  // namespace ulnet::ctl
