// Starts and stops the parts of lnetd. Main thread; waits for workers through futures.
#include "tools/daemon.h"

#include <cerrno>
#include <future>

#include "lnet/ctl/objects.h"
#include "tools/drivers.h"

namespace ulnet::tools {
namespace {

constexpr std::chrono::seconds stop_wait{30};

// Runs `begin(done)` and waits for `done` to have run on its worker. False: not in time.
template <class Begin> bool wait_done(Begin begin) {
    const auto ended = std::make_shared<std::promise<void>>();
    std::future<void> end = ended->get_future();
    // A reference of its own: this frame may be gone before set_value() has returned.
    FnTask done([ended] {
        const auto own = ended;
        own->set_value();
    });
    begin(done);
    return end.wait_for(stop_wait) == std::future_status::ready;
}

}  // namespace

Daemon::Daemon(DaemonOptions options) : options_(std::move(options)), drivers_(make_drivers()) {
    for (const auto& driver : drivers_) lnds_.push_back(driver.get());
}

Daemon::~Daemon() {
    stop();
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
    if (server_) in_time = wait_done([&](Task& done) { server_->close(done); });
    if (in_time && selftest_) in_time = wait_done([&](Task& done) { selftest_->close(done); });
    if (in_time && node_) in_time = wait_done([&](Task& done) { node_->close(done); });
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
