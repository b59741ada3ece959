// The parts of the control socket's server; not for others.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "lnet/ctl/server.h"

namespace ulnet::ctl {

constexpr u64 listener_id = 0;
constexpr u64 outbox_id = 1;
constexpr u64 client_id_first = 2;

std::string error_text(i64 id, const Error&);

// The way back from any thread to the server: an outbox and an eventfd that wakes the poller.
// Calls share it, so it outlives the Server when they do; then what they say goes nowhere.
struct Server::Hub : std::enable_shared_from_this<Hub> {
    struct Answer {
        u64 client;
        std::string json;
        bool last;  // ends a call
    };
    explicit Hub(Control control);
    ~Hub();
    void join(u64 client);
    void leave(u64 client);
    bool alive(u64 client);
    // `fn` runs on the control strand when the client goes away, unless unwatch() comes before.
    void watch(u64 client, const Call*, std::function<void()> fn);
    void unwatch(const Call*);
    // Progress is thrown away when the poller does not keep up with more than this.
    static constexpr std::size_t waiting_bytes_max = reply_bytes_max;
    void put(Answer);
    std::vector<Answer> take();
    void end();  // the Server goes

    int event_fd = -1;

 private:
    struct Watcher {
        u64 client;
        std::function<void()> fn;
    };
    void tell_gone();
    const Control control_;
    std::mutex mutex_;  // guards: all below; a leaf
    std::map<const Call*, Watcher> watchers_;
    std::vector<Answer> waiting_;
    std::size_t waiting_bytes_ = 0;
    std::unordered_set<u64> alive_;
};

// One client. Touched in poll() only.
struct Server::Client {
    u64 id = 0;
    int fd = -1;
    uid_t uid = 0;
    bool greeted = false;
    bool ending = false;  // flush what is queued, then drop
    bool gone = false;    // to be dropped now
    u32 calls = 0;        // requests not answered yet
    u32 events = 0;       // what epoll watches for
    u64 active = 0;       // stamp of the last frame either way
    std::string in;
    std::deque<std::string> out;
    std::size_t out_sent = 0;  // bytes of out.front() that are sent
    std::size_t out_bytes = 0;
};

// A request that came through the socket.
class Server::SocketCall final : public Call {
 public:
    SocketCall(std::shared_ptr<Hub> hub, u64 client, i64 id, Value args)
        : hub_(std::move(hub)), client_(client), id_(id), args_(std::move(args)) {}
    ~SocketCall() override;
    const Value& args() const override { return args_; }
    void reply(Value result) override;
    void fail(Error error) override;
    void progress(Value part) override;
    bool alive() const override { return hub_->alive(client_); }
    void on_gone(std::function<void()> fn) override { hub_->watch(client_, this, std::move(fn)); }

 private:
    void end(std::string json);
    const std::shared_ptr<Hub> hub_;
    const u64 client_;
    const i64 id_;
    const Value args_;
    bool answered_ = false;
};

}  // namespace ulnet::ctl
