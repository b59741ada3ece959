// The control socket's event loop: accept, frames in, frames out. Runs in poll(), one worker at a
// time. The socket itself and the calls are in server_open.cc and server_call.cc.
#include "lnet/ctl/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "lnet/ctl/server_detail.h"

namespace ulnet::ctl {
namespace {

constexpr int events_max = 32;   // taken from the kernel at once
constexpr int accepts_max = 16;  // new clients at once
constexpr std::size_t read_bytes = 64 * 1024;

}  // namespace

unsigned Server::poll(Budget& budget) {
    epoll_event events[events_max];
    const int count = ::epoll_wait(epoll_fd_, events, events_max, 0);
    for (int i = 0; i < count; ++i) {
        const u64 id = events[i].data.u64;
        budget.take(1, 0);
        if (id == listener_id) {
            accept_clients();
            continue;
        }
        if (id == outbox_id) {
            drain_outbox();
            continue;
        }
        const auto found = clients_.find(id);
        if (found == clients_.end()) continue;  // dropped by an event before this one
        Client& client = found->second;
        if ((events[i].events & EPOLLIN) != 0 && !client.ending) read_from(client);
        if ((events[i].events & EPOLLOUT) != 0) flush(client);
        if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0) client.gone = true;
        if (client.gone) drop(id);
    }
    return count > 0 ? static_cast<unsigned>(count) : 0;
}

void Server::accept_clients() {
    // Another acceptor of the process may have been faster when it was needed the last time.
    if (reserve_fd_ < 0) reserve_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < accepts_max; ++i) {
        const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) shed_one_connection(errno);
            return;
        }
        ucred who{};
        socklen_t bytes = sizeof(who);
        const bool known = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0;
        const u64 id = next_id_;
        if (!known || !make_room() || !watch(fd, id, EPOLLIN).ok()) {
            ::close(fd);
            continue;
        }
        ++next_id_;
        Client& client = clients_[id];
        client.id = id;
        client.fd = fd;
        client.uid = who.uid;
        client.events = EPOLLIN;
        client.active = ++activity_;
        hub_->join(id);
    }
}

// Out of descriptors: without this the listener would stay readable for ever.
void Server::shed_one_connection(int why) {
    if (reserve_fd_ >= 0) ::close(reserve_fd_);
    const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
        ::close(fd);
        const u64 all = turned_away_.fetch_add(1, std::memory_order_relaxed) + 1;
        shortage_lines_.log(sched_.now(), LogLevel::warn,
                            "control socket '" + options_.path + "': " + std::to_string(all) +
                                " connections turned away so far: " + Status(-why).text() +
                                " (ulimit -n, LimitNOFILE=)");
    }
    reserve_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

// True when there is room for one more client: the one that has been idle longest gives way.
bool Server::make_room() {
    if (clients_.size() < options_.clients_max) return true;
    const Client* idle = nullptr;
    for (const auto& [id, client] : clients_)
        if (client.calls == 0 && (idle == nullptr || client.active < idle->active)) idle = &client;
    if (idle == nullptr) return false;
    drop(idle->id);
    return true;
}

void Server::read_from(Client& client) {
    const std::size_t had = client.in.size();
    client.in.resize(had + read_bytes);
    const ssize_t got = ::recv(client.fd, client.in.data() + had, read_bytes, 0);
    client.in.resize(had + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        client.gone = true;
        return;
    }
    client.active = ++activity_;
    handle_frames(client);
}

void Server::handle_frames(Client& client) {
    std::string_view rest = client.in;
    while (!client.ending && !client.gone && rest.size() >= frame_head_bytes) {
        const std::size_t length = frame_length(rest);
        if (length > request_bytes_max) {
            hang_up(client, "a request of " + std::to_string(length) +
                                " bytes is not allowed; allowed: at most " +
                                std::to_string(request_bytes_max));
            break;
        }
        if (rest.size() - frame_head_bytes < length) break;
        handle_text(client, rest.substr(frame_head_bytes, length));
        rest.remove_prefix(frame_head_bytes + length);
    }
    client.in.erase(0, client.in.size() - rest.size());
    if (client.in.empty()) client.in.shrink_to_fit();
}

void Server::handle_text(Client& client, std::string_view text) {
    std::string why;
    const Result<Value> value = parse_json(text, why);
    if (!value.ok()) return hang_up(client, "a request must be JSON: " + why);
    if (!value->is_map()) return hang_up(client, "a request must be a JSON object");
    if (!client.greeted)
        greet(client, *value);
    else
        request(client, *value);
}

void Server::greet(Client& client, const Value& hello) {
    const Value& version = hello["version"];
    if (hello["hello"].as_text() != "ulnet")
        return hang_up(client, "the first request must be {\"hello\": \"ulnet\", \"version\": 1}");
    if (!version.is_integer() || version.as_int() != protocol_version)
        return hang_up(client, "protocol version " + to_json(version) +
                                   " is not allowed; allowed: " + std::to_string(protocol_version));
    client.greeted = true;
    Value reply = Value::map();
    reply.set("hello", "ulnet");
    reply.set("version", protocol_version);
    reply.set("name", options_.name);
    reply.set("pid", static_cast<i64>(::getpid()));
    queue(client, to_json(reply));
}

void Server::request(Client& client, const Value& request) {
    const Value& id_value = request["id"];
    if (!id_value.is_integer()) return hang_up(client, "a request needs an integer 'id'");
    const i64 id = id_value.as_int();
    const std::string& object = request["object"].as_text();
    const std::string& verb = request["verb"].as_text();
    const Command* command = registry_.find(object, verb);
    if (command == nullptr)
        return refuse(client, id, Status(-EOPNOTSUPP),
                      "unknown command '" + object + " " + verb + "'");
    if (command->access == Access::write && !options_.may_write(client.uid))
        return refuse(client, id, Status(-EPERM),
                      "'" + object + " " + verb +
                          "' changes the node: only root and the user who runs it may");
    if (client.calls >= options_.calls_max)
        return refuse(client, id, Status(-EBUSY),
                      "more than " + std::to_string(options_.calls_max) +
                          " requests of one client under way");
    ++client.calls;
    // std::function wants a copyable callable.
    auto call = std::make_shared<CallPtr>(
        std::make_unique<SocketCall>(hub_, client.id, id, request["args"]));
    control_([command, call] { command->run(std::move(*call)); });
}

void Server::refuse(Client& client, i64 id, Status status, std::string text) {
    queue(client, error_text(id, {status, std::move(text)}));
}

// For clients that do not speak the protocol: they get one sentence, then the end.
void Server::hang_up(Client& client, std::string text) {
    client.ending = true;
    queue(client, error_text(0, {Status(-EPROTO), std::move(text)}));
}

void Server::drain_outbox() {
    for (Hub::Answer& answer : hub_->take()) {
        const auto found = clients_.find(answer.client);
        if (found == clients_.end()) continue;
        Client& client = found->second;
        if (answer.last) --client.calls;
        client.active = ++activity_;
        queue(client, std::move(answer.json));
        if (client.gone) drop(answer.client);
    }
}

void Server::queue(Client& client, std::string json) {
    if (client.out_bytes + json.size() > options_.queue_bytes_max) {
        client.gone = true;  // reads too slowly for what it asked
        return;
    }
    client.out.push_back(make_frame(json));
    client.out_bytes += client.out.back().size();
    flush(client);
}

void Server::flush(Client& client) {
    while (!client.out.empty() && !client.gone) {
        const std::string& front = client.out.front();
        const ssize_t sent = ::send(client.fd, front.data() + client.out_sent,
                                    front.size() - client.out_sent, MSG_NOSIGNAL);
        if (sent < 0) {
            client.gone = errno != EAGAIN && errno != EINTR;
            break;
        }
        client.out_sent += static_cast<std::size_t>(sent);
        if (client.out_sent < front.size()) break;
        client.out_bytes -= front.size();
        client.out_sent = 0;
        client.out.pop_front();
    }
    if (client.ending && client.out.empty()) client.gone = true;
    if (!client.gone)
        want(client,
             (client.ending ? 0u : u32{EPOLLIN}) | (client.out.empty() ? 0u : u32{EPOLLOUT}));
}

void Server::want(Client& client, u32 events) {
    if (client.events == events) return;
    epoll_event event{};
    event.events = events;
    event.data.u64 = client.id;
    client.events = events;
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, client.fd, &event) != 0) client.gone = true;
}

void Server::drop(u64 id) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    hub_->leave(id);
    ::close(found->second.fd);
    clients_.erase(found);
}

}  // namespace ulnet::ctl
