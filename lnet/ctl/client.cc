// Blocking requests over the control socket. The calling thread waits; time-outs are the kernel's
// (SO_RCVTIMEO), so nothing here asks for the time.
#include "lnet/ctl/client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ulnet::ctl {
namespace {

Error system_error(int code, const std::string& what) {
    const Status status(-code);
    return {status, what + ": " + status.text()};
}

// Why nobody answered at the socket, and what to do about it.
Error connect_error(int code, const std::string& path) {
    const std::string other = " (--node NAME or --socket PATH reach another node)";
    switch (code) {
    case ENOENT:
    case ENOTDIR:
        return {Status(-code), "there is no socket '" + path + "': is lnetd running?" + other};
    case ECONNREFUSED:
        return {Status(-code),
                "nobody listens at '" + path + "': lnetd has ended there; start it again" + other};
    case EACCES:
    case EPERM:
        return {Status(-code), "no permission to use the socket '" + path +
                                   "': only root, the user who runs lnetd and members of the "
                                   "group of the socket may (for a node of root: group lnet)"};
    case EAGAIN:
        return {Status(-ETIMEDOUT), "the node at '" + path + "' is too busy to take a connection"};
    default:
        return system_error(code, "no node answers at '" + path + "'");
    }
}

}  // namespace

Client::Client(Client&& other) noexcept
    : path_(std::move(other.path_)), name_(std::move(other.name_)), silence_(other.silence_),
      fd_(std::exchange(other.fd_, -1)), next_id_(other.next_id_) {}

Client& Client::operator=(Client&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(name_, other.name_);
    std::swap(silence_, other.silence_);
    std::swap(fd_, other.fd_);
    std::swap(next_id_, other.next_id_);
    return *this;
}

Client::~Client() {
    if (fd_ >= 0) ::close(fd_);
}

Result<Client> Client::open(const std::string& path, Duration silence, std::string& why) {
    Client client;
    client.path_ = path;
    client.silence_ = silence;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(address.sun_path)) {
        why = "socket '" + path + "': the path is empty or too long";
        return Status(-ENAMETOOLONG);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    client.fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Error error =
        client.fd_ < 0 ? system_error(errno, "cannot make a socket") : client.set_silence(silence);
    if (error.ok() &&
        ::connect(client.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
        error = connect_error(errno, path);
    Value hello = Value::map({{"hello", Value("ulnet")}, {"version", Value(protocol_version)}});
    if (error.ok()) error = client.send_frame(hello);
    if (error.ok()) error = client.receive_frame(hello);
    if (error.ok() && hello["hello"].as_text() != "ulnet") {
        const Value& errors = hello["errors"];
        error = {Status(-EPROTO),
                 "'" + path + "' does not speak this protocol" +
                     (errors.size() > 0 ? ": " + errors.items()[0].as_text() : "")};
    }
    if (!error.ok()) {
        why = error.text;
        return error.status;
    }
    client.name_ = hello["name"].as_text();
    return client;
}

Error Client::set_silence(Duration silence) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(silence).count();
    timeval time{};
    time.tv_sec = static_cast<time_t>(us / 1000000);
    time.tv_usec = static_cast<suseconds_t>(us % 1000000);
    if (us == 0) time.tv_usec = 1;  // 0 would mean for ever
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
        if (::setsockopt(fd_, SOL_SOCKET, option, &time, sizeof(time)) != 0)
            return system_error(errno, "cannot set a time-out");
    return {};
}

Error Client::send_frame(const Value& value) {
    const std::string frame = make_frame(to_json(value));
    if (const std::size_t bytes = frame.size() - frame_head_bytes; bytes > request_bytes_max)
        return {Status(-E2BIG), "a request of " + std::to_string(bytes) +
                                    " bytes is not allowed; allowed: at most " +
                                    std::to_string(request_bytes_max)};
    std::size_t sent = 0;
    while (sent < frame.size()) {
        const ssize_t count = ::send(fd_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0)
            return system_error(errno == EAGAIN ? ETIMEDOUT : errno,
                                "cannot ask the node at '" + path_ + "'");
        sent += static_cast<std::size_t>(count);
    }
    return {};
}

Error Client::receive_frame(Value& out) {
    std::string text(frame_head_bytes, '\0');
    std::size_t got = 0;
    bool head = true;
    while (got < text.size() || head) {
        if (got == text.size()) {  // the head is complete
            const std::size_t length = frame_length(text);
            if (length > reply_bytes_max)
                return {Status(-EPROTO), "the node at '" + path_ + "' sent a frame of " +
                                             std::to_string(length) + " bytes"};
            head = false;
            got = 0;
            text.assign(length, '\0');
            continue;
        }
        const ssize_t count = ::recv(fd_, text.data() + got, text.size() - got, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0)
            return system_error(errno == EAGAIN ? ETIMEDOUT : errno,
                                "no answer from the node at '" + path_ + "'");
        if (count == 0)
            return {Status(-ECONNRESET), "the node at '" + path_ + "' closed the connection"};
        got += static_cast<std::size_t>(count);
    }
    std::string why;
    Result<Value> value = parse_json(text, why);
    if (!value.ok()) return {Status(-EPROTO), "the node at '" + path_ + "' sent no JSON: " + why};
    out = std::move(*value);
    return {};
}

Client::Answer Client::call(std::string_view object, std::string_view verb, Value args,
                            Duration silence, const Progress& progress) {
    const i64 id = next_id_++;
    Value request = Value::map();
    request.set("id", id);
    request.set("object", object);
    request.set("verb", verb);
    request.set("args", std::move(args));
    Error error = set_silence(silence == Duration{} ? silence_ : silence);
    if (error.ok()) error = send_frame(request);
    while (error.ok()) {
        Value frame;
        error = receive_frame(frame);
        if (!error.ok()) break;
        if (frame.has("progress")) {
            if (frame["id"].as_int() == id && progress) progress(frame["progress"]);
            continue;
        }
        // An answer of id 0 is the node's last word about the connection.
        if (frame["id"].as_int() != id && frame["id"].as_int() != 0) continue;
        Answer answer;
        answer.error.status = Status(static_cast<int>(frame["status"].as_int(-EPROTO)));
        for (const Value& sentence : frame["errors"].items())
            answer.error.text += (answer.error.text.empty() ? "" : "\n") + sentence.as_text();
        answer.value = frame["value"];
        return answer;
    }
    return {std::move(error), Value()};
}

}  // namespace ulnet::ctl
