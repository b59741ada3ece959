// Calls that came through the control socket and the outbox they answer into. Any thread.
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "lnet/ctl/server_detail.h"

namespace ulnet::ctl {

std::string error_text(i64 id, const Error& error) {
    Value reply = Value::map();
    reply.set("id", id);
    reply.set("status", error.status.ok() ? -EIO : error.status.code());
    reply.set("errors", Value::list()).push(error.text.empty() ? error.status.text() : error.text);
    return to_json(reply);
}

Server::Hub::Hub(Control control)
    : event_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), control_(std::move(control)) {}

Server::Hub::~Hub() {
    if (event_fd >= 0) ::close(event_fd);
}

void Server::Hub::join(u64 client) {
    std::lock_guard lock(mutex_);
    alive_.insert(client);
}

void Server::Hub::leave(u64 client) {
    {
        std::lock_guard lock(mutex_);
        alive_.erase(client);
    }
    tell_gone();
}

bool Server::Hub::alive(u64 client) {
    std::lock_guard lock(mutex_);
    return alive_.contains(client);
}

void Server::Hub::watch(u64 client, const Call* call, std::function<void()> fn) {
    {
        std::lock_guard lock(mutex_);
        watchers_[call] = {client, std::move(fn)};
        if (alive_.contains(client)) return;
    }
    tell_gone();
}

void Server::Hub::unwatch(const Call* call) {
    std::lock_guard lock(mutex_);
    watchers_.erase(call);
}

// One at a time: what one of them does may end the call of another.
void Server::Hub::tell_gone() {
    const auto is_gone = [this](const auto& each) { return !alive_.contains(each.second.client); };
    {
        std::lock_guard lock(mutex_);
        if (std::none_of(watchers_.begin(), watchers_.end(), is_gone)) return;
    }
    control_([self = shared_from_this(), is_gone] {
        for (;;) {
            std::function<void()> fn;
            {
                std::lock_guard lock(self->mutex_);
                const auto found =
                    std::find_if(self->watchers_.begin(), self->watchers_.end(), is_gone);
                if (found == self->watchers_.end()) return;
                fn = std::move(found->second.fn);
                self->watchers_.erase(found);
            }
            fn();
        }
    });
}

void Server::Hub::put(Answer answer) {
    {
        std::lock_guard lock(mutex_);
        if (!alive_.contains(answer.client)) return;
        if (!answer.last && waiting_bytes_ + answer.json.size() > waiting_bytes_max) return;
        waiting_bytes_ += answer.json.size();
        waiting_.push_back(std::move(answer));
    }
    const u64 one = 1;
    // Can only fail when the counter is full, and then the poller is awake anyway.
    [[maybe_unused]] const ssize_t written = ::write(event_fd, &one, sizeof(one));
}

std::vector<Server::Hub::Answer> Server::Hub::take() {
    u64 count = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_fd, &count, sizeof(count));
    std::lock_guard lock(mutex_);
    waiting_bytes_ = 0;
    return std::exchange(waiting_, {});
}

void Server::Hub::end() {
    {
        std::lock_guard lock(mutex_);
        alive_.clear();
        waiting_.clear();
        waiting_bytes_ = 0;
    }
    tell_gone();
}

Server::SocketCall::~SocketCall() {
    if (!answered_) fail({Status(-ECANCELED), "the command was given up"});
}

void Server::SocketCall::reply(Value result) {
    Value reply = Value::map();
    reply.set("id", id_);
    reply.set("status", 0);
    reply.set("errors", Value::list());
    reply.set("value", std::move(result));
    std::string json = to_json(reply);
    if (json.size() > reply_bytes_max)
        json = error_text(id_, {Status(-EMSGSIZE), "the answer is larger than " +
                                                       std::to_string(reply_bytes_max) +
                                                       " bytes; ask for less"});
    end(std::move(json));
}

void Server::SocketCall::fail(Error error) {
    end(error_text(id_, error));
}

void Server::SocketCall::progress(Value part) {
    CHECK(!answered_);
    Value reply = Value::map();
    reply.set("id", id_);
    reply.set("progress", std::move(part));
    std::string json = to_json(reply);
    if (json.size() <= reply_bytes_max) hub_->put({client_, std::move(json), false});
}

void Server::SocketCall::end(std::string json) {
    CHECK(!answered_);
    answered_ = true;
    hub_->unwatch(this);
    hub_->put({client_, std::move(json), true});
}

}  // namespace ulnet::ctl
