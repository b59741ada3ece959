// Starts and stops the parts of lnetd. Main thread; waits for workers through futures.
#include "tools/daemon.h"

#include <cerrno>
#include <future>

#include "lnet/ctl/objects.h"
#include "tools/drivers.h"

namespace ulnet::tools {
namespace {

constexpr std::chrono::seconds stop_wait{30};

// A `done` to wait for.
class Closing final : public Task {
 public:
    Closing() : end_(ended_->get_future()) {}
    void run() override {
        const auto own = ended_;  // the waiter may be gone before set_value() has returned
        own->set_value();
    }
    // False: not in time.
    bool wait() { return end_.wait_for(stop_wait) == std::future_status::ready; }

 private:
    const std::shared_ptr<std::promise<void>> ended_ = std::make_shared<std::promise<void>>();
    const std::future<void> end_;
};

}  // namespace

Daemon::Daemon(DaemonOptions options) : options_(std::move(options)) {}

Daemon::~Daemon() {
    stop();
}

Error Daemon::make_lnds() {
    if (options_.trace) {
        std::string why;
        auto file = TraceFile::open(*options_.trace, why);
        if (!file.ok()) return {file.status(), "--trace: " + why};
        trace_ = std::move(*file);
    }
    if (!options_.faults.empty()) faults_ = std::make_unique<FaultRules>(options_.faults);
    drivers_ = make_drivers(
        {.sock_uring = options_.sock_uring, .faults = faults_.get(), .trace = trace_.get()});
    for (const auto& driver : drivers_) lnds_.push_back(driver.get());
    return {};
}

Error Daemon::check_config(const CptTable& cpts) {
    ctl::NiContext context;
    context.lnds = lnds_;
    context.addresses = ctl::interface_addresses();
    context.cpts = cpts.size();
    return ctl::plan_config(options_.config, std::move(context), {}, {}, plan_);
}

Error Daemon::start() {
    std::string why;
    const Result<CptTable> cpts =
        CptTable::make(Topology::of_machine(), options_.cpu_npartitions, options_.cpu_pattern, why);
    if (!cpts.ok()) return {cpts.status(), why};
    if (Error error = make_lnds(); !error.ok()) return error;
    if (Error error = check_config(*cpts); !error.ok()) return error;
    sched_ = std::make_unique<ThreadSched>(*cpts, options_.sched);
    run_on(*sched_, 0, [&] {
        node_ = std::make_unique<Node>(*sched_, lnds_, plan_.options);
        ctl::register_objects(*node_, registry_, {.lnds = lnds_});
        ctl::register_cpt(*sched_, registry_);
        selftest_ = std::make_unique<Selftest>(*node_, registry_, options_.selftest);
    });
    Error error = open_nis();
    if (error.ok()) error = open_server();
    if (!error.ok()) stop();
    return error;
}

Error Daemon::open_nis() {
    const auto opened = std::make_shared<std::promise<Error>>();
    std::future<Error> answer = opened->get_future();
    node_->control([this, opened] {
        ctl::add_all_or_none(*node_, plan_.nis,
                             [opened](Error error) { opened->set_value(std::move(error)); });
    });
    return answer.get();
}

Error Daemon::open_server() {
    ctl::ServerOptions options;
    options.path = options_.socket;
    options.name = options_.name;
    std::string why;
    auto server = ctl::Server::open(
        *sched_, registry_, [this](std::function<void()> fn) { node_->control(std::move(fn)); },
        options, why);
    if (!server.ok()) return {server.status(), why};
    server_ = std::move(*server);
    return {};
}

bool Daemon::stop() {
    bool in_time = true;
    if (server_) {
        Closing open;
        server_->close(open);
        in_time = open.wait();
    }
    // Together: the self test waits for messages that only the closing of their NI may end.
    if (in_time && node_) {
        const auto selftest_open = std::make_unique<Closing>();
        const auto node_open = std::make_unique<Closing>();
        if (selftest_)
            selftest_->close(*selftest_open);
        else
            selftest_open->run();
        node_->close(*node_open);
        in_time = selftest_open->wait() && node_open->wait();
    }
    if (!in_time) return false;
    if (sched_) run_on(*sched_, 0, [] {});  // the last `done` has returned
    server_.reset();
    selftest_.reset();
    node_.reset();
    sched_.reset();
    return true;
}

std::vector<Nid> Daemon::nids() {
    return node_->nids();
}

}  // namespace ulnet::tools
