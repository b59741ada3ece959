// The control socket: serves the commands of a Registry to local processes. Made by lnetd (any
// process with a Node) before or after its Sched has work; from then on it lives on one CPT as a
// Poller: everything here happens in poll(), which one worker at a time calls, so there is no lock
// but the one of the outbox through which other threads answer.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "cpt/base/log.h"
#include "cpt/sched.h"
#include "lnet/ctl/protocol.h"
#include "lnet/ctl/registry.h"

namespace ulnet::ctl {

struct ServerOptions {
    std::string path;
    std::string name;  // told in the hello
    CptId cpt = 0;
    u32 clients_max = 64;  // the longest idle one gives way to a new one
    u32 calls_max = 64;    // requests under way for one client
    std::size_t queue_bytes_max = 2 * reply_bytes_max;  // waiting for one client; more ends it
    // Who may use write verbs; the default is root and the owner of this process.
    std::function<bool(uid_t)> may_write;
};

class Server final : private Poller {
 public:
    // Runs a function on the control strand (Node::control).
    using Control = std::function<void(std::function<void()>)>;

    // Makes the folder and the socket (mode 0660), takes over a dead one's; EADDRINUSE when a live
    // process has it. `why` names the path and the reason. Registry and Sched outlive the Server
    // and every Call.
    static Result<std::unique_ptr<Server>> open(Sched&, const Registry&, Control,
                                                const ServerOptions&, std::string& why);
    ~Server();  // close() has completed
    // Drops all clients and removes the socket, then posts `done`. Calls under way may still be
    // answered, to nobody.
    void close(Task& done);
    // Connections closed at once for want of descriptors. Any thread.
    u64 turned_away() const { return turned_away_.load(std::memory_order_relaxed); }

 private:
    struct Hub;
    class SocketCall;
    struct Client;
    using Clients = std::map<u64, Client>;

    Server(Sched&, const Registry&, Control, const ServerOptions&);
    Error listen();
    Error bind_socket();
    Error take_lock();
    Error watch(int fd, u64 id, u32 events);

    unsigned poll(Budget&) override;
    Armed arm() override { return Armed::yes; }
    int wait_fd() const override { return epoll_fd_; }

    void accept_clients();
    void shed_one_connection(int why);
    bool make_room();
    void read_from(Client&);
    void handle_frames(Client&);
    void handle_text(Client&, std::string_view text);
    void greet(Client&, const Value& hello);
    void request(Client&, const Value& request);
    void refuse(Client&, i64 id, Status, std::string text);
    void hang_up(Client&, std::string text);
    void drain_outbox();
    void queue(Client&, std::string json);
    void flush(Client&);
    void want(Client&, u32 events);
    void drop(u64 id);
    void finish_close();

    Sched& sched_;
    const Registry& registry_;
    const Control control_;
    const ServerOptions options_;
    std::shared_ptr<Hub> hub_;  // Calls hold it too: they may outlive the Server
    Clients clients_;
    u64 next_id_;
    u64 activity_ = 0;  // stamps what happened last
    int epoll_fd_ = -1;
    int listen_fd_ = -1;
    int lock_fd_ = -1;
    std::atomic<u64> turned_away_{0};
    LogLimit shortage_lines_{1, std::chrono::seconds(60)};
    int reserve_fd_ = -1;  // given up for a moment when the process is out of descriptors
    bool bound_ = false;
    bool polled_ = false;
    Task* close_done_ = nullptr;
    struct Closed final : Task {
        explicit Closed(Server& server) : server_(server) {}
        void run() override { server_.finish_close(); }
        Server& server_;
    } closed_{*this};
};

}  // namespace ulnet::ctl
