// Nodes with self test for tests.
#include "tests/unit/selftest/rig.h"

#include <condition_variable>
#include <thread>

#include "cpt/cpt.h"
#include "lnds/lo/lo.h"

namespace ulnet::lst {

using namespace std::chrono_literals;

struct Pending::Shared {
    std::mutex mutex;
    std::condition_variable changed;
    Answer answer;
    u32 ends = 0;
    std::atomic<bool> alive{true};
    std::function<void()> gone;  // on_gone()'s; of the control strand
    std::function<void(std::function<void()>)> control;
};

namespace {

class TestCall final : public ctl::Call {
 public:
    TestCall(std::shared_ptr<Pending::Shared> shared, Value args)
        : shared_(std::move(shared)), args_(std::move(args)) {}
    ~TestCall() override {
        if (!ended_) end({Status(-ECANCELED), "not answered"}, {});
    }
    const Value& args() const override { return args_; }
    void reply(Value result) override { end({}, std::move(result)); }
    void fail(Error error) override {
        EXPECT_FALSE(error.ok());
        EXPECT_FALSE(error.text.empty());
        end(std::move(error), {});
    }
    void progress(Value part) override {
        const std::lock_guard lock(shared_->mutex);
        EXPECT_FALSE(shared_->answer.done);
        shared_->answer.parts.push_back(std::move(part));
        shared_->changed.notify_all();
    }
    bool alive() const override { return shared_->alive; }
    void on_gone(std::function<void()> fn) override {
        shared_->gone = std::move(fn);
        if (!shared_->alive) tell(shared_);
    }
    static void tell(const std::shared_ptr<Pending::Shared>& shared) {
        shared->control([shared] {
            const auto fn = std::exchange(shared->gone, nullptr);
            if (fn) fn();
        });
    }

 private:
    void end(Error error, Value value) {
        ended_ = true;
        shared_->gone = nullptr;
        const std::lock_guard lock(shared_->mutex);
        EXPECT_EQ(++shared_->ends, 1u) << "ended twice";
        shared_->answer.error = std::move(error);
        shared_->answer.value = std::move(value);
        shared_->answer.done = true;
        shared_->changed.notify_all();
    }
    std::shared_ptr<Pending::Shared> shared_;
    const Value args_;
    bool ended_ = false;
};

// Posts fn's task and waits until its `done` has run.
void wait_done(const std::function<void(Task&)>& begin) {
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;
    FnTask done([&] {
        const std::lock_guard lock(mutex);
        over = true;
        changed.notify_all();
    });
    begin(done);
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 60s, [&] { return over; })) << "never closed";
}

}  // namespace

Answer Pending::wait() {
    std::unique_lock lock(shared_->mutex);
    EXPECT_TRUE(shared_->changed.wait_for(lock, 60s, [&] { return shared_->answer.done; }));
    return shared_->answer;
}

bool Pending::done() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->answer.done;
}

std::size_t Pending::parts() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->answer.parts.size();
}

void Pending::leave() {
    shared_->alive = false;
    TestCall::tell(shared_);
}

bool eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

Host::Host(Rig& rig, const Nid& nid, const SelftestOptions* options)
    : rig_(rig), nid_(nid), lo_(make_lo_lnd()), link_(rig.net) {
    Lnd* const lnds[] = {lo_.get(), &link_};
    run_on(*rig.sched_, 0, [&] {
        node_ = std::make_unique<Node>(*rig.sched_, lnds, rig.node_options);
        if (options) selftest_ = std::make_unique<Selftest>(*node_, registry_, *options);
    });
    wait_done([&](Task& done) {
        node_->control([&] {
            NiConfig config;
            config.net = nid_.net();
            config.nid = nid_;
            config.interface = "link";
            config.credits = 256;
            config.peer_credits = 64;
            const Error error = node_->add_ni(config);
            EXPECT_TRUE(error.ok()) << error.text;
            rig_.sched_->post(0, done);
        });
    });
}

Host::~Host() {
    close_selftest();
    wait_done([&](Task& done) { run_on(*rig_.sched_, 0, [&] { node_->close(done); }); });
    run_on(*rig_.sched_, 0, [&] { node_.reset(); });
}

void Host::close_selftest() {
    if (!selftest_) return;
    wait_done([&](Task& done) { selftest_->close(done); });
    run_on(*rig_.sched_, 0, [&] { selftest_.reset(); });
}

Pending Host::start(std::string_view verb, Value args) {
    auto shared = std::make_shared<Pending::Shared>();
    shared->control = [node = node_.get()](std::function<void()> fn) {
        node->control(std::move(fn));
    };
    const ctl::Command* command = registry_.find("lst", verb);
    EXPECT_NE(command, nullptr) << verb;
    // A std::function must be copyable, a CallPtr is not.
    auto call = std::make_shared<ctl::CallPtr>(std::make_unique<TestCall>(shared, std::move(args)));
    node_->control([command, call] { command->run(std::move(*call)); });
    return Pending(std::move(shared));
}

Answer Host::call(std::string_view verb, Value args) {
    return start(verb, std::move(args)).wait();
}

Value Host::must(std::string_view verb, Value args) {
    Answer answer = call(verb, std::move(args));
    EXPECT_TRUE(answer.ok()) << verb << ": " << answer.error.text;
    return answer.value;
}

Rig::Rig(u32 workers)
    : sched_(std::make_unique<ThreadSched>(
          CptTable::single(1),
          ThreadSchedOptions{.workers_per_cpt = workers, .pin = false, .seed = 42})) {}

Rig::~Rig() {
    net.set_hook({});
    hosts_.clear();
    sched_->stop();
}

Sched& Host::sched() {
    return *rig_.sched_;
}

Host& Rig::add(u32 number, const SelftestOptions& options, const NodeOptions& node) {
    return add_host(number, &options, node);
}

Host& Rig::add_bare(u32 number, const NodeOptions& node) {
    return add_host(number, nullptr, node);
}

Host& Rig::add_host(u32 number, const SelftestOptions* options, const NodeOptions& node) {
    node_options = node;
    const Nid nid = Nid::ipv4(Net::of(NetType::tcp, 0), 0x0a000000 + number);
    hosts_.push_back(std::make_unique<Host>(*this, nid, options));
    return *hosts_.back();
}

void Rig::kill(std::size_t index) {
    net.cut(hosts_[index]->nid(), true);
    hosts_.erase(hosts_.begin() + static_cast<i64>(index));
}

Value map(Value::Map members) {
    Value out = Value::map();
    for (auto& [key, value] : members) out.set(key, std::move(value));
    return out;
}

Value texts(std::initializer_list<std::string> items) {
    Value out = Value::list();
    for (const std::string& item : items) out.push(item);
    return out;
}

}  // namespace ulnet::lst
