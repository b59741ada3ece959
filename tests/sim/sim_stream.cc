// SimStreamOs, its streams and listeners.
#include "tests/sim/sim_stream.h"

#include <cerrno>

namespace ulnet::sim {

namespace {

u64 length_of(std::span<const iovec> parts) {
    u64 total = 0;
    for (const iovec& part : parts) total += part.iov_len;
    return total;
}

// Brings the network's notices to a sink on a worker.
class Watch final : public Task, public Notice {
 public:
    Watch(StreamNet& net, SimSched& sched) : net_(net), sched_(sched) {}
    ~Watch() {
        CHECK(sink_ == nullptr);
        CHECK(!queued_);
    }
    void watch(CptId cpt, sock::StreamSink& sink) {
        CHECK(sink_ == nullptr);
        cpt_ = cpt;
        sink_ = &sink;
        tell();
    }
    void unwatch(Task& done) {
        CHECK(sink_ != nullptr);
        sink_ = nullptr;
        if (queued_) {
            done_ = &done;
        } else {
            sched_.post(cpt_, done);
        }
    }
    void tell() override {
        if (sink_ == nullptr || queued_) return;
        queued_ = true;
        sched_.post(cpt_, *this);
    }
    // What is so now; asked when the sink is told.
    struct State {
        virtual sock::Readiness readiness() const = 0;

     protected:
        ~State() = default;
    };
    const State* state = nullptr;

 private:
    void run() override {
        queued_ = false;
        if (done_ != nullptr) return sched_.post(cpt_, *std::exchange(done_, nullptr));
        if (sink_ == nullptr) return;
        const sock::Readiness now = state->readiness();
        const bool spurious = chance(net_.engine().network, net_.params.spurious_percent);
        if (now.readable || now.writable || now.ended || spurious) sink_->ready(now);
        // A spurious notice is followed by another one now and then.
        if (spurious && chance(net_.engine().network, 20)) tell();
    }

    StreamNet& net_;
    SimSched& sched_;
    CptId cpt_ = 0;
    sock::StreamSink* sink_ = nullptr;
    Task* done_ = nullptr;
    bool queued_ = false;
};

}  // namespace

class SimStream final : public sock::Stream, private Watch::State {
 public:
    SimStream(SimKernel& os, Side& side) : os_(os), side_(side), watch_(os.net_, os.sched_) {
        watch_.state = this;
        side_.notice = &watch_;
        ++os_.streams_;
    }
    ~SimStream() override {
        os_.net_.release(side_, os_.sched_.now());
        --os_.streams_;
    }
    Status watch(CptId cpt, sock::StreamSink& sink) override {
        os_.watched_ = true;
        watch_.watch(cpt, sink);
        return ok_status;
    }
    void unwatch(Task& done) override { watch_.unwatch(done); }
    i64 readv(std::span<const iovec> to) override {
        CHECK(!to.empty());
        return charged(os_.net_.read(side_, to, os_.sched_.now()));
    }
    i64 writev(std::span<const iovec> from) override {
        CHECK(!from.empty());
        CHECK(length_of(from) > 0);
        return charged(os_.net_.write(side_, from, os_.sched_.now()));
    }
    Status connect_status() override { return Status(-std::exchange(side_.error, 0)); }
    void shutdown() override { os_.net_.shutdown(side_, os_.sched_.now()); }
    void set_options(const sock::StreamOptions& options) override {
        if (options.tx_buffer > 0) side_.tx_buffer = options.tx_buffer;
        if (options.rx_buffer > 0) side_.rx_buffer = options.rx_buffer;
        if (options.unacked_timeout_s > 0)
            side_.unacked_timeout = std::chrono::seconds(options.unacked_timeout_s);
        os_.net_.set_keepalive(side_, options.keepalive_idle_s, options.keepalive_interval_s,
                               options.keepalive_count);
    }
    Endpoint local() const override { return side_.local; }
    Endpoint remote() const override { return side_.remote; }

 private:
    sock::Readiness readiness() const override {
        const bool ended = side_.broken || side_.fin_received || side_.read_shut;
        const bool room = side_.state == Side::State::open && !side_.want_write;
        return {.readable = ended || side_.readable() > 0,
                .writable = side_.broken || (side_.read_shut && side_.fin_sent) || room,
                .ended = ended};
    }
    i64 charged(i64 moved) {
        os_.sched_.charge(os_.params_.per_call);
        if (moved > 0)
            os_.sched_.charge(Duration(moved * 1000 / static_cast<i64>(os_.params_.bytes_per_us)));
        return moved;
    }

    SimKernel& os_;
    Side& side_;
    Watch watch_;
};

class SimListener final : public sock::StreamListener,
                          public ListHook<SimListener>,
                          private Watch::State {
 public:
    SimListener(SimKernel& os, ListenSocket& socket)
        : os_(os), socket_(&socket), local_(socket.local), watch_(os.net_, os.sched_) {
        watch_.state = this;
        socket_->notice = &watch_;
        os_.listeners_.push_back(*this);
    }
    ~SimListener() override {
        os_.listeners_.remove(*this);
        cut(false);
    }
    void cut(bool silently) {
        if (socket_ != nullptr) os_.net_.close(*std::exchange(socket_, nullptr), silently);
    }
    Status watch(CptId cpt, sock::StreamSink& sink) override {
        os_.watched_ = true;
        watch_.watch(cpt, sink);
        return ok_status;
    }
    void unwatch(Task& done) override { watch_.unwatch(done); }
    Result<std::unique_ptr<sock::Stream>> accept() override {
        os_.sched_.charge(os_.params_.per_call);
        if (socket_ == nullptr) return Status(-EINVAL);
        const Result<Side*> side = os_.net_.accept(*socket_);
        if (!side.ok()) return side.status();
        return std::unique_ptr<sock::Stream>(std::make_unique<SimStream>(os_, **side));
    }
    Endpoint local() const override { return local_; }

 private:
    sock::Readiness readiness() const override {
        return {.readable = socket_ != nullptr && !socket_->queue.empty(),
                .writable = false,
                .ended = false};
    }
    SimKernel& os_;
    ListenSocket* socket_;
    const Endpoint local_;
    Watch watch_;
};

SimKernel::SimKernel(StreamNet& net, SimSched& sched, const SimOsParams& params)
    : net_(net), sched_(sched), params_(params) {}

SimKernel::~SimKernel() {
    CHECK(streams_ == 0);
    CHECK(sides_.empty());
}

void SimKernel::cut(bool silently) {
    cut_ = true;
    for (SimListener& listener : listeners_) listener.cut(silently);
    for (Side& side : sides_) net_.cut(side, silently);
}

SimStreamOs::~SimStreamOs() {
    CHECK(kernel_.listeners_.empty());
}

Result<std::unique_ptr<sock::StreamListener>> SimStreamOs::listen(const Endpoint& at, u32 backlog,
                                                                  const std::string&) {
    if (kernel_.cut_) return Status(-ENETDOWN);
    if (at.port != 0 && at.port < 1024 && !kernel_.params_.privileged) return Status(-EACCES);
    const Result<ListenSocket*> socket = kernel_.net_.listen(at, backlog, kernel_.sides_);
    if (!socket.ok()) return socket.status();
    return std::unique_ptr<sock::StreamListener>(std::make_unique<SimListener>(kernel_, **socket));
}

Result<std::unique_ptr<sock::Stream>> SimStreamOs::connect(const sock::Origin& from,
                                                           const Endpoint& to) {
    kernel_.sched_.charge(kernel_.params_.per_call);
    if (kernel_.cut_) return Status(-ENETDOWN);
    const bool privileged = from.ports == sock::LocalPort::privileged;
    if (privileged && !kernel_.params_.privileged) return Status(-EACCES);
    const Result<Side*> side =
        kernel_.net_.connect(from.address, privileged, to, kernel_.sides_, kernel_.sched_.now());
    if (!side.ok()) return side.status();
    return std::unique_ptr<sock::Stream>(std::make_unique<SimStream>(kernel_, **side));
}

bool SimStreamOs::started() const {
    return kernel_.watched_;
}

void SimStreamOs::stop(Task& done) {
    CHECK(kernel_.streams_ == 0);
    CHECK(kernel_.listeners_.empty());
    kernel_.sched_.post(0, done);
}

}  // namespace ulnet::sim
