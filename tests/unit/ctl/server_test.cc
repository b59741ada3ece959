// The control socket with real clients: several at once, slow, silent, vanishing and hostile ones.
#include "lnet/ctl/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "cpt/threads.h"
#include "lnet/ctl/client.h"
#include "tests/unit/cpt/wait.h"

namespace ulnet::ctl {
namespace {

using namespace std::chrono_literals;
using test::eventually;
constexpr Duration patience = 30s;

// A folder of this test's own.
class Folder {
 public:
    Folder() {
        char name[] = "/tmp/ulnet-ctl-XXXXXX";
        path_ = ::mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string operator/(const std::string& file) const { return path_ + "/" + file; }

 private:
    std::string path_;
};

class ServerTest : public ::testing::Test {
 protected:
    ServerTest() : sched_(CptTable::single(2), {.workers_per_cpt = 2, .pin = false, .seed = 1}) {
        registry_.add({"test", "echo", Access::read, "", [](CallPtr call) {
                           Value args = call->args();
                           call->reply(std::move(args));
                       }});
        registry_.add(
            {"test", "write", Access::write, "", [](CallPtr call) { call->reply(Value::map()); }});
        registry_.add({"test", "fail", Access::read, "", [](CallPtr call) {
                           call->fail({Status(-ENOENT), "no such thing"});
                       }});
        registry_.add({"test", "drop", Access::read, "", [](CallPtr) {}});
        registry_.add({"test", "count", Access::read, "", [](CallPtr call) {
                           for (i64 i = 0; i < call->args()["to"].as_int(); ++i)
                               call->progress(Value::map({{"at", Value(i)}}));
                           call->reply(Value("done"));
                       }});
        registry_.add({"test", "large", Access::read, "", [](CallPtr call) {
                           const i64 bytes = call->args()["bytes"].as_int();
                           call->reply(std::string(static_cast<std::size_t>(bytes), 'x'));
                       }});
        // Kept until the test lets go of it.
        registry_.add({"test", "keep", Access::read, "", [this](CallPtr call) {
                           std::lock_guard lock(mutex_);
                           kept_.push_back(std::move(call));
                       }});
    }
    ~ServerTest() override {
        close();
        kept_.clear();
        sched_.stop();
    }
    void open(ServerOptions options = {}) {
        options.path = path();
        options.name = "tester";
        std::string why;
        auto server = Server::open(
            sched_, registry_, [](std::function<void()> fn) { fn(); }, options, why);
        ASSERT_TRUE(server.ok()) << why;
        server_ = std::move(*server);
    }
    void close() {
        if (!server_) return;
        std::atomic<bool> closed = false;
        FnTask done([&] { closed = true; });
        server_->close(done);
        ASSERT_TRUE(eventually([&] { return closed.load(); }));
        server_.reset();
    }
    std::string path() const { return folder_ / "node.sock"; }
    Client connect() {
        std::string why;
        Result<Client> client = Client::open(path(), patience, why);
        EXPECT_TRUE(client.ok()) << why;
        if (!client.ok()) std::abort();
        return std::move(*client);
    }
    std::size_t kept() {
        std::lock_guard lock(mutex_);
        return kept_.size();
    }

    Folder folder_;
    ThreadSched sched_;
    Registry registry_;
    std::unique_ptr<Server> server_;
    std::mutex mutex_;  // guards: kept_
    std::vector<CallPtr> kept_;
};

// A socket without manners.
class Raw {
 public:
    explicit Raw(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof(address.sun_path) - 1);
        connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
        const timeval time{30, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    }
    ~Raw() { ::close(fd_); }
    bool connected() const { return connected_; }
    bool send(std::string_view bytes) {
        return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(bytes.size());
    }
    // Everything until the server closes; "timeout" when it does not.
    std::string rest() {
        std::string all;
        char bytes[4096];
        for (;;) {
            const ssize_t got = ::recv(fd_, bytes, sizeof(bytes), 0);
            if (got < 0) return errno == EAGAIN ? "timeout" : all;
            if (got == 0) return all;
            all.append(bytes, static_cast<std::size_t>(got));
        }
    }
    // Reads until all of these have come; false when the server closes or is silent before.
    bool until(std::initializer_list<std::string_view> wanted) {
        char bytes[4096];
        const auto missing = [&] {
            for (const std::string_view text : wanted)
                if (seen_.find(text) == std::string::npos) return true;
            return false;
        };
        while (missing()) {
            const ssize_t got = ::recv(fd_, bytes, sizeof(bytes), 0);
            if (got <= 0) return false;
            seen_.append(bytes, static_cast<std::size_t>(got));
        }
        return true;
    }
    int fd() const { return fd_; }
    void leave() { ::close(std::exchange(fd_, -1)); }

 private:
    int fd_;
    bool connected_ = false;
    std::string seen_;
};

const std::string hello = make_frame(R"({"hello":"ulnet","version":1})");

TEST_F(ServerTest, AnswersErrorsAndGivenUpCalls) {
    open();
    Client client = connect();
    EXPECT_EQ(client.node_name(), "tester");
    const Value args = Value::map({{"a", Value::list({Value(1), Value("x"), Value()})}});
    const Client::Answer echo = client.call("test", "echo", args);
    ASSERT_TRUE(echo.ok()) << echo.error.text;
    EXPECT_EQ(echo.value, args);
    const Client::Answer fail = client.call("test", "fail", {});
    EXPECT_EQ(fail.error.status.code(), -ENOENT);
    EXPECT_EQ(fail.error.text, "no such thing");
    EXPECT_EQ(client.call("test", "drop", {}).error.status.code(), -ECANCELED);
    const Client::Answer unknown = client.call("test", "nothing", {});
    EXPECT_EQ(unknown.error.status.code(), -EOPNOTSUPP);
    EXPECT_EQ(unknown.error.text, "unknown command 'test nothing'");
}

TEST_F(ServerTest, ProgressComesInOrderBeforeTheAnswer) {
    open();
    Client client = connect();
    std::vector<i64> seen;
    const Client::Answer answer =
        client.call("test", "count", Value::map({{"to", Value(100)}}), patience,
                    [&](const Value& part) { seen.push_back(part["at"].as_int()); });
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer.value, Value("done"));
    ASSERT_EQ(seen.size(), 100u);
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<i64>(i));
}

TEST_F(ServerTest, ManyClientsAtOnce) {
    open();
    std::atomic<int> good = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            Client client = connect();
            for (int i = 0; i < 50; ++i) {
                const Value args = Value::map({{"n", Value(t * 1000 + i)}});
                const Client::Answer answer = client.call("test", "echo", args);
                if (answer.ok() && answer.value == args) ++good;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good, 8 * 50);
}

TEST_F(ServerTest, WriteNeedsPermission) {
    open({.may_write = [](uid_t) { return false; }});
    Client client = connect();
    const Client::Answer answer = client.call("test", "write", {});
    EXPECT_EQ(answer.error.status.code(), -EPERM);
    EXPECT_NE(answer.error.text.find("'test write' changes the node"), std::string::npos);
    EXPECT_TRUE(client.call("test", "echo", {}).ok());
}

TEST_F(ServerTest, OwnerMayWriteAndOthersCannotConnect) {
    open();
    EXPECT_TRUE(connect().call("test", "write", {}).ok());
    struct stat info {};
    ASSERT_EQ(::stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0660u);
}

TEST_F(ServerTest, RefusesWhatIsNotTheProtocol) {
    open();
    const struct {
        std::string bytes;
        const char* says;
    } cases[] = {
        {make_frame("{}"), "the first request must be"},
        {make_frame(R"({"hello":"ulnet","version":2})"), "protocol version 2 is not allowed"},
        {make_frame(R"({"hello":"ulnet"})"), "protocol version null"},
        {make_frame("[1]"), "must be a JSON object"},
        {make_frame("{"), "must be JSON"},
        {make_frame(""), "must be JSON"},
        {make_frame("\xff\xfe"), "must be JSON"},
        {std::string("GET / HTTP/1.1\r\n\r\n"), "bytes is not allowed"},
        {std::string("\xff\xff\xff\xff"), "a request of 4294967295 bytes is not allowed"},
        {hello + make_frame(R"({"object":"test","verb":"echo"})"), "needs an integer 'id'"},
        {hello + make_frame(R"({"id":"7"})"), "needs an integer 'id'"},
        {hello + make_frame(std::string(500, '[')), "nested deeper"},
    };
    for (const auto& c : cases) {
        Raw raw(path());
        ASSERT_TRUE(raw.send(c.bytes));
        EXPECT_NE(raw.rest().find(c.says), std::string::npos) << c.says;
    }
    EXPECT_TRUE(connect().call("test", "echo", {}).ok());
}

TEST_F(ServerTest, FramesInAnyPieces) {
    open();
    Raw raw(path());
    const std::string frames = hello + make_frame(R"({"id":1,"object":"test","verb":"echo"})") +
                               make_frame(R"({"id":2,"object":"test","verb":"drop"})");
    for (const char byte : frames) ASSERT_TRUE(raw.send({&byte, 1}));
    EXPECT_TRUE(raw.until({R"("id":1,"status":0)", R"("id":2,"status":-125)"}));
    ASSERT_TRUE(raw.send(make_frame("x")));
    EXPECT_NE(raw.rest().find("must be JSON"), std::string::npos);
}

TEST_F(ServerTest, VanishedClientsTurnCallsDead) {
    open();
    {
        Raw raw(path());
        ASSERT_TRUE(raw.send(hello + make_frame(R"({"id":1,"object":"test","verb":"keep"})")));
        ASSERT_TRUE(eventually([&] { return kept() == 1; }));
        EXPECT_TRUE(kept_[0]->alive());
    }
    EXPECT_TRUE(eventually([&] { return !kept_[0]->alive(); }));
    kept_[0]->progress(Value(1));
    kept_[0]->reply(Value(2));  // goes nowhere
    EXPECT_TRUE(connect().call("test", "echo", {}).ok());
}

TEST_F(ServerTest, VanishedClientsAreToldToTheirCalls) {
    open();
    std::atomic<int> told = 0, others = 0;
    {
        Raw raw(path()), stays(path());
        const std::string keep = hello + make_frame(R"({"id":1,"object":"test","verb":"keep"})");
        ASSERT_TRUE(raw.send(keep + make_frame(R"({"id":2,"object":"test","verb":"keep"})")));
        ASSERT_TRUE(eventually([&] { return kept() == 2; }));
        ASSERT_TRUE(stays.send(keep));
        ASSERT_TRUE(eventually([&] { return kept() == 3; }));
        kept_[0]->on_gone([&] { ++told; });
        kept_[1]->on_gone([&] { ++told; });
        kept_[2]->on_gone([&] { ++others; });
        kept_[1]->reply(Value(1));  // has ended: hears nothing any more
        raw.leave();
        EXPECT_TRUE(eventually([&] { return told == 1; }));
        EXPECT_EQ(others, 0);
    }
    EXPECT_TRUE(eventually([&] { return others == 1; }));
    EXPECT_EQ(told, 1);
    kept_[0]->on_gone([&] { ++told; });  // later: told at once
    EXPECT_TRUE(eventually([&] { return told == 2; }));
    close();
}

TEST_F(ServerTest, CallsMayOutliveTheServer) {
    open();
    Raw raw(path());
    ASSERT_TRUE(raw.send(hello + make_frame(R"({"id":1,"object":"test","verb":"keep"})")));
    ASSERT_TRUE(eventually([&] { return kept() == 1; }));
    close();
    EXPECT_FALSE(kept_[0]->alive());
    kept_[0]->reply(Value(1));
    EXPECT_NE(raw.rest(), "timeout");
    EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(ServerTest, SlowReaderDoesNotHoldUpOthersAndIsCutOff) {
    open({.queue_bytes_max = 4 << 20});
    Raw slow(path());
    ASSERT_TRUE(slow.send(hello));
    // 20 MB of answers that nobody reads: more than socket and queue hold.
    for (int i = 0; i < 20; ++i) {
        const std::string request = R"({"id":)" + std::to_string(i) +
                                    R"(,"object":"test","verb":"large","args":{"bytes":1000000}})";
        if (!slow.send(make_frame(request))) break;  // cut off already
    }
    Client other = connect();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(other.call("test", "echo", {}).ok());
    const std::string got = slow.rest();
    EXPECT_NE(got, "timeout");
    EXPECT_LT(got.size(), 20'000'000u);
}

TEST_F(ServerTest, SlowReaderWithinBoundsGetsEverything) {
    open();
    Raw slow(path());
    ASSERT_TRUE(slow.send(
        hello + make_frame(R"({"id":1,"object":"test","verb":"large","args":{"bytes":8000000}})")));
    Client other = connect();
    ASSERT_TRUE(other.call("test", "echo", {}).ok());
    std::size_t got = 0;
    char bytes[65536];
    while (got < 8'000'000) {
        const ssize_t count = ::recv(slow.fd(), bytes, sizeof(bytes), 0);
        ASSERT_GT(count, 0);
        got += static_cast<std::size_t>(count);
    }
}

TEST_F(ServerTest, TooLargeAnswersAreAnError) {
    open();
    Client client = connect();
    const Value args = Value::map({{"bytes", Value(static_cast<i64>(reply_bytes_max))}});
    EXPECT_EQ(client.call("test", "large", args).error.status.code(), -EMSGSIZE);
    EXPECT_TRUE(client.call("test", "echo", {}).ok());
}

TEST_F(ServerTest, TooLargeRequestsAreAnErrorAndNothingIsSent) {
    open();
    Client client = connect();
    const Value large = Value::map({{"text", Value(std::string(request_bytes_max, 'x'))}});
    const Client::Answer answer = client.call("test", "echo", large);
    EXPECT_EQ(answer.error.status.code(), -E2BIG);
    EXPECT_NE(answer.error.text.find("allowed: at most 1048576"), std::string::npos);
    EXPECT_TRUE(client.call("test", "echo", {}).ok());
}

TEST_F(ServerTest, CallsOfOneClientAreBounded) {
    open({.calls_max = 3});
    Raw raw(path());
    std::string frames = hello;
    for (int i = 1; i <= 4; ++i)
        frames +=
            make_frame(R"({"id":)" + std::to_string(i) + R"(,"object":"test","verb":"keep"})");
    ASSERT_TRUE(raw.send(frames + make_frame("x")));
    const std::string answers = raw.rest();
    EXPECT_NE(answers.find(R"("id":4,"status":-16)"), std::string::npos) << answers;
    EXPECT_EQ(kept(), 3u);
}

TEST_F(ServerTest, TheLongestIdleClientGivesWay) {
    open({.clients_max = 3});
    Raw busy(path());
    ASSERT_TRUE(busy.send(hello + make_frame(R"({"id":1,"object":"test","verb":"keep"})")));
    ASSERT_TRUE(eventually([&] { return kept() == 1; }));
    Raw silent(path());
    Client idle = connect();
    ASSERT_TRUE(idle.call("test", "echo", {}).ok());
    Client fourth = connect();  // `silent` was quiet longest
    EXPECT_TRUE(fourth.call("test", "echo", {}).ok());
    EXPECT_EQ(silent.rest(), "");
    EXPECT_TRUE(idle.call("test", "echo", {}).ok());
    EXPECT_TRUE(kept_[0]->alive());
}

TEST_F(ServerTest, ABusyServerTurnsNewClientsAway) {
    open({.clients_max = 1});
    Raw busy(path());
    ASSERT_TRUE(busy.send(hello + make_frame(R"({"id":1,"object":"test","verb":"keep"})")));
    ASSERT_TRUE(eventually([&] { return kept() == 1; }));
    std::string why;
    EXPECT_FALSE(Client::open(path(), patience, why).ok());
}

TEST_F(ServerTest, OnePathOneServer) {
    open();
    std::string why;
    const auto second = Server::open(
        sched_, registry_, [](std::function<void()> fn) { fn(); }, {.path = path()}, why);
    EXPECT_EQ(second.status().code(), -EADDRINUSE);
    EXPECT_NE(why.find("another process serves"), std::string::npos) << why;
    EXPECT_TRUE(connect().call("test", "echo", {}).ok());
}

TEST_F(ServerTest, TakesOverTheSocketOfADeadProcess) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
    ASSERT_TRUE(std::filesystem::exists(path()));
    open();
    EXPECT_TRUE(connect().call("test", "echo", {}).ok());
}

TEST_F(ServerTest, RefusesAPathThatIsNoSocket) {
    const auto refused = [&](const std::string& at) {
        std::string why;
        const auto server = Server::open(
            sched_, registry_, [](std::function<void()> fn) { fn(); }, {.path = at}, why);
        EXPECT_FALSE(server.ok());
        return why;
    };
    ::close(::open(path().c_str(), O_CREAT | O_WRONLY, 0600));
    EXPECT_NE(refused(path()).find("exists and is no socket"), std::string::npos);
    EXPECT_NE(refused(folder_ / std::string(200, 'x')).find("1 ... 103 bytes"), std::string::npos);
    EXPECT_NE(refused(folder_ / "no/folder/x.sock").find("No such file"), std::string::npos);
}

TEST_F(ServerTest, SilentNodeTimesOut) {
    open();
    Client client = connect();
    const Client::Answer answer = client.call("test", "keep", {}, 50ms);
    EXPECT_EQ(answer.error.status.code(), -ETIMEDOUT);
}

// The limit of descriptors is the process's, so nothing else may want one meanwhile.
TEST_F(ServerTest, OutOfDescriptorsTurnsAwayAndTellsOnce) {
    struct Lines final : LogSink {
        Lines() : LogSink(LogLevel::warn) {}
        void write(LogLevel, std::string_view line) override {
            const std::lock_guard lock(mutex);
            text += std::string(line) + "\n";
        }
        std::string all() {
            const std::lock_guard lock(mutex);
            return text;
        }
        std::mutex mutex;
        std::string text;
    } lines;
    open();
    Client known = connect();
    ASSERT_TRUE(known.call("test", "echo", {}).ok());
    rlimit was{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &was), 0);
    set_log_sink(&lines);
    // UBSan looks at each class once, and wants a descriptor for it.
    log_line(LogLevel::warn, "before");
    ASSERT_EQ(lines.all(), "before\n");
    std::vector<int> sockets;
    for (int i = 0; i < 5; ++i) sockets.push_back(::socket(AF_UNIX, SOCK_STREAM, 0));
    const rlimit none{static_cast<rlim_t>(sockets.front()), was.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    for (const int fd : sockets)
        ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    EXPECT_TRUE(eventually([&] { return server_->turned_away() == 5; }));
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &was), 0);
    set_log_sink(nullptr);
    for (const int fd : sockets) ::close(fd);
    EXPECT_NE(lines.all().find("1 connections turned away so far: Too many open files"),
              std::string::npos)
        << lines.all();
    EXPECT_EQ(std::ranges::count(lines.all(), '\n'), 2) << lines.all();
    EXPECT_TRUE(connect().call("test", "echo", {}).ok());
}

TEST(Client, SaysWhereItLooked) {
    Folder folder;
    std::string why;
    EXPECT_EQ(Client::open(folder / "none.sock", patience, why).status().code(), -ENOENT);
    EXPECT_EQ(why, "there is no socket '" + (folder / "none.sock") +
                       "': is lnetd running? (--node NAME or --socket PATH reach another node)");
    ::close(::open((folder / "file").c_str(), O_CREAT | O_WRONLY, 0600));
    EXPECT_EQ(Client::open(folder / "file", patience, why).status().code(), -ECONNREFUSED);
    EXPECT_TRUE(why.starts_with("nobody listens at '" + (folder / "file") + "': lnetd has ended"))
        << why;
}

TEST(SocketPath, NamesAndPaths) {
    std::string why;
    EXPECT_EQ(*server_socket_path("/x/y.sock", why), "/x/y.sock");
    EXPECT_EQ(*client_socket_path("./y.sock", why), "./y.sock");
    for (const char* bad : {"", ".", "..", "a b", "ä"})
        EXPECT_EQ(server_socket_path(bad, why).status().code(), -EINVAL) << bad;
    EXPECT_FALSE(server_socket_path(std::string(65, 'x'), why).ok());
    EXPECT_TRUE(good_node_name(std::string(64, 'x')));
    EXPECT_FALSE(good_node_name("a/b"));
}

}  // namespace
}  // namespace ulnet::ctl
