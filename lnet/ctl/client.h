// The blocking client of the control socket: lnetctl, lst, tests. One thread; never on a worker.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lnet/ctl/protocol.h"

namespace ulnet::ctl {

class Client {
 public:
    struct Answer {
        Error error;  // its text holds the node's sentences, one a line
        Value value;
        bool ok() const { return error.ok(); }
    };
    using Progress = std::function<void(const Value& part)>;

    // Connects and says hello. `silence` bounds every wait for the node, here and in call(), unless
    // that is given its own. ENOENT, ECONNREFUSED: no node there; `why` says where it looked.
    static Result<Client> open(const std::string& path, Duration silence, std::string& why);
    Client(Client&&) noexcept;
    Client& operator=(Client&&) noexcept;
    ~Client();

    // One request and its answer. ETIMEDOUT: the node said nothing (no part, no answer) for
    // `silence`; the connection is then of no more use.
    Answer call(std::string_view object, std::string_view verb, Value args, Duration silence = {},
                const Progress& progress = {});
    const std::string& node_name() const { return name_; }
    const std::string& path() const { return path_; }

 private:
    Client() = default;
    Error send_frame(const Value&);
    Error receive_frame(Value&);
    Error set_silence(Duration);
    std::string path_, name_;
    Duration silence_{};
    int fd_ = -1;
    i64 next_id_ = 1;
};

}  // namespace ulnet::ctl
