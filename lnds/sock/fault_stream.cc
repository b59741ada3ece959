// The decorators of streams, listeners and the factory. A stream's two directions may run at the
// same time: what they share is atomic or guarded by a leaf lock; the inner stream is called
// without it.
#include "lnds/sock/fault_stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

#include "lnds/sock/fault_duplicate.h"

namespace ulnet::sock {
namespace {

constexpr std::size_t pieces_max = 256;
constexpr std::byte flip{0x55};

class FaultStreamOs;

// The pieces, or the beginning of them, with at most `bytes` bytes.
class Pieces {
 public:
    Pieces() = default;
    Pieces(std::span<const iovec> all, u64 bytes) {
        for (const iovec& piece : all) {
            if (bytes == 0 || count_ == pieces_max) break;
            add(piece.iov_base, std::min<u64>(piece.iov_len, bytes));
            bytes -= parts_[count_ - 1].iov_len;
        }
    }
    void add(void* base, u64 size) {
        parts_[count_++] = {base, static_cast<std::size_t>(size)};
        bytes_ += size;
    }
    // The byte at this place.
    std::byte* find(u64 at) const {
        for (const iovec& part : list()) {
            if (at < part.iov_len) return static_cast<std::byte*>(part.iov_base) + at;
            at -= part.iov_len;
        }
        return nullptr;
    }
    // The byte at this place is taken from elsewhere; there is room for two more parts.
    Pieces with(u64 at, std::byte* other) const {
        Pieces changed;
        for (const iovec& part : list()) {
            auto* const base = static_cast<std::byte*>(part.iov_base);
            if (at >= part.iov_len) {
                changed.add(base, part.iov_len);
            } else {
                if (at > 0) changed.add(base, at);
                changed.add(other, 1);
                if (at + 1 < part.iov_len) changed.add(base + at + 1, part.iov_len - at - 1);
                at = ~u64{0};
                continue;
            }
            if (at != ~u64{0}) at -= part.iov_len;
        }
        return changed;
    }
    std::span<const iovec> list() const { return std::span(parts_).first(count_); }
    u64 bytes() const { return bytes_; }

 private:
    std::array<iovec, pieces_max + 2> parts_;
    std::size_t count_ = 0;
    u64 bytes_ = 0;
};

class FaultStream final : public Stream, private StreamSink {
 public:
    FaultStream(Sched& sched, std::unique_ptr<Stream> inner,
                const std::vector<const FaultRule*>& rules, std::shared_ptr<Duplicate> duplicate);
    ~FaultStream() override;

    Status watch(CptId cpt, StreamSink& sink) override {
        cpt_ = cpt;
        sink_ = &sink;
        watched_.store(true, std::memory_order_release);
        const Status status = inner_->watch(cpt, *this);
        if (!status.ok()) watched_.store(false, std::memory_order_release);
        return status;
    }
    void unwatch(Task& done) override {
        done_ = &done;
        watched_.store(false, std::memory_order_release);
        inner_->unwatch(unwatched_);
    }
    i64 readv(std::span<const iovec>) override;
    i64 writev(std::span<const iovec>) override;
    Status connect_status() override { return inner_->connect_status(); }
    void shutdown() override { inner_->shutdown(); }
    void set_options(const StreamOptions& options) override { inner_->set_options(options); }
    Endpoint local() const override { return inner_->local(); }
    Endpoint remote() const override { return inner_->remote(); }

 private:
    class Alarm final : public Timer {
     public:
        explicit Alarm(FaultStream& own) : own_(own) {}
        void fire() override { own_.alarm(); }

     private:
        FaultStream& own_;
    };
    class Unwatched final : public Task {
     public:
        explicit Unwatched(FaultStream& own) : own_(own) {}
        void run() override { own_.unwatched(); }

     private:
        FaultStream& own_;
    };
    void ready(Readiness readiness) override { sink_->ready(readiness); }
    i64 gate(FaultWay, u64 position);
    u64 until_next(FaultWay, u64 position) const;
    void set_alarm(Instant);
    void alarm();
    void unwatched();
    bool acts(const FaultRule* rule, FaultWay way) const {
        return rule != nullptr && (static_cast<u8>(rule->way) & static_cast<u8>(way)) != 0;
    }

    Sched& sched_;
    const std::unique_ptr<Stream> inner_;
    const FaultRule *reset_ = nullptr, *stall_ = nullptr, *corrupt_ = nullptr;
    u64 read_ = 0, written_ = 0;  // bytes, each of its direction
    std::byte changed_{};         // of the writing direction
    std::mutex lock_;             // guards: stalled_, is_reset_, until_
    bool stalled_ = false, is_reset_ = false;
    Instant until_{};
    std::atomic<bool> watched_{false}, answered_{false};
    std::atomic<u32> alarms_{0};  // armed or firing
    Alarm alarm_{*this};
    Unwatched unwatched_{*this};
    CptId cpt_ = 0;
    StreamSink* sink_ = nullptr;
    Task* done_ = nullptr;
    const std::shared_ptr<Duplicate> duplicate_;
};

class FaultListener final : public StreamListener {
 public:
    FaultListener(FaultStreamOs& os, std::unique_ptr<StreamListener> inner)
        : os_(os), inner_(std::move(inner)) {}
    Status watch(CptId cpt, StreamSink& sink) override { return inner_->watch(cpt, sink); }
    void unwatch(Task& done) override { inner_->unwatch(done); }
    Result<std::unique_ptr<Stream>> accept() override;
    Endpoint local() const override { return inner_->local(); }

 private:
    FaultStreamOs& os_;
    const std::unique_ptr<StreamListener> inner_;
};

class FaultStreamOs final : public StreamOs {
 public:
    FaultStreamOs(std::unique_ptr<StreamOs> inner, Sched& sched, FaultRules& rules)
        : inner_(std::move(inner)), sched_(sched), rules_(rules) {}

    Result<std::unique_ptr<StreamListener>> listen(const Endpoint& at, u32 backlog,
                                                   const std::string& interface) override {
        auto listener = inner_->listen(at, backlog, interface);
        if (!listener.ok()) return listener;
        return std::unique_ptr<StreamListener>(
            std::make_unique<FaultListener>(*this, std::move(*listener)));
    }
    Result<std::unique_ptr<Stream>> connect(const Origin&, const Endpoint& to) override;
    bool started() const override { return inner_->started(); }
    void stop(Task& done) override;

    std::vector<const FaultRule*> hits(const Endpoint& peer) {
        return rules_.hit_stream(peer.address.nid(Net::of(NetType::tcp, 0)), sched_.now(),
                                 sched_.prng());
    }
    std::unique_ptr<Stream> wrap(std::unique_ptr<Stream> stream,
                                 const std::vector<const FaultRule*>& rules,
                                 std::shared_ptr<Duplicate> second) {
        if (rules.empty()) return stream;
        return std::make_unique<FaultStream>(sched_, std::move(stream), rules, std::move(second));
    }

 private:
    class Stopping final : public Task {
     public:
        explicit Stopping(FaultStreamOs& os) : os_(os) {}
        void run() override { os_.go_on_stopping(); }

     private:
        FaultStreamOs& os_;
    };
    static constexpr std::size_t duplicates_max = 256;
    static bool wanted(const std::vector<const FaultRule*>& rules) {
        return std::ranges::any_of(rules, [](const FaultRule* rule) {
            return rule->action == FaultAction::stream_duplicate;
        });
    }
    std::shared_ptr<Duplicate> duplicate(const Origin&, const Endpoint& to);
    void go_on_stopping();

    const std::unique_ptr<StreamOs> inner_;
    Sched& sched_;
    FaultRules& rules_;
    std::mutex lock_;  // guards: duplicates_
    std::vector<std::shared_ptr<Duplicate>> duplicates_;
    Task* stop_done_ = nullptr;
    Stopping stopping_{*this};
};

// --- the factory

Result<std::unique_ptr<Stream>> FaultStreamOs::connect(const Origin& from, const Endpoint& to) {
    auto stream = inner_->connect(from, to);
    if (!stream.ok()) return stream;
    const auto rules = hits(to);
    return wrap(std::move(*stream), rules, wanted(rules) ? duplicate(from, to) : nullptr);
}

// None when it cannot be had.
std::shared_ptr<Duplicate> FaultStreamOs::duplicate(const Origin& from, const Endpoint& to) {
    std::vector<std::shared_ptr<Duplicate>> over;
    {
        const std::lock_guard guard(lock_);
        const auto gone =
            std::partition(duplicates_.begin(), duplicates_.end(),
                           [](const auto& each) { return !each->over() || each.use_count() > 1; });
        std::move(gone, duplicates_.end(), std::back_inserter(over));
        duplicates_.erase(gone, duplicates_.end());
        if (duplicates_.size() >= duplicates_max) return nullptr;
    }
    auto stream = inner_->connect(from, to);
    if (!stream.ok()) return nullptr;
    auto made = std::make_shared<Duplicate>(sched_, sched_.this_cpt(), std::move(*stream));
    if (!made->begin().ok()) return nullptr;
    const std::lock_guard guard(lock_);
    duplicates_.push_back(made);
    return made;
}

// The streams are gone, so that nothing feeds the duplicates.
void FaultStreamOs::stop(Task& done) {
    stop_done_ = &done;
    std::vector<std::shared_ptr<Duplicate>> all;
    {
        const std::lock_guard guard(lock_);
        all = duplicates_;
    }
    for (const auto& each : all) each->end();
    go_on_stopping();
}

void FaultStreamOs::go_on_stopping() {
    bool over = true;
    {
        const std::lock_guard guard(lock_);
        over = std::ranges::all_of(duplicates_, [](const auto& each) { return each->over(); });
    }
    if (over)
        inner_->stop(*stop_done_);
    else
        sched_.post(sched_.this_cpt(), stopping_);
}

Result<std::unique_ptr<Stream>> FaultListener::accept() {
    auto stream = inner_->accept();
    if (!stream.ok()) return stream;
    const auto rules = os_.hits((*stream)->remote());
    return os_.wrap(std::move(*stream), rules, nullptr);
}

// --- a stream

FaultStream::FaultStream(Sched& sched, std::unique_ptr<Stream> inner,
                         const std::vector<const FaultRule*>& rules,
                         std::shared_ptr<Duplicate> duplicate)
    : sched_(sched), inner_(std::move(inner)), duplicate_(std::move(duplicate)) {
    for (const FaultRule* const rule : rules) {
        if (rule->action == FaultAction::stream_reset) reset_ = rule;
        if (rule->action == FaultAction::stream_stall) stall_ = rule;
        if (rule->action == FaultAction::stream_corrupt) corrupt_ = rule;
    }
}

FaultStream::~FaultStream() {
    if (duplicate_ && !answered_.load(std::memory_order_acquire)) duplicate_->end();
}

// Applies what begins at this position. 0: go on; -EAGAIN, -ECONNRESET: nothing moves now.
i64 FaultStream::gate(FaultWay way, u64 position) {
    if (reset_ == nullptr && stall_ == nullptr) return 0;
    const Instant now = sched_.now();
    bool resets = false, stalls = false;
    {
        const std::lock_guard guard(lock_);
        if (is_reset_) return -ECONNRESET;
        resets = acts(reset_, way) && position >= reset_->after;
        is_reset_ = resets;
        stalls = !stalled_ && acts(stall_, way) && position >= stall_->after;
        if (stalls) {
            stalled_ = true;
            until_ = now + stall_->time;
        }
        if (!resets && !stalls) return stalled_ && now < until_ ? -EAGAIN : 0;
    }
    if (resets) inner_->shutdown();
    set_alarm(resets ? now : now + stall_->time);
    return resets ? -ECONNRESET : -EAGAIN;
}

// Bytes that may move before something begins.
u64 FaultStream::until_next(FaultWay way, u64 position) const {
    u64 least = ~u64{0};
    for (const FaultRule* const rule : {reset_, stall_})
        if (acts(rule, way) && position < rule->after)
            least = std::min(least, rule->after - position);
    return least;
}

i64 FaultStream::readv(std::span<const iovec> pieces) {
    if (const i64 refused = gate(FaultWay::receive, read_); refused != 0) return refused;
    const Pieces part(pieces, until_next(FaultWay::receive, read_));
    const i64 moved = inner_->readv(part.list());
    if (moved <= 0) return moved;
    if (!answered_.exchange(true, std::memory_order_acq_rel) && duplicate_)
        duplicate_->begin_to_say();
    const u64 before = read_;
    read_ += static_cast<u64>(moved);
    if (acts(corrupt_, FaultWay::receive) && corrupt_->after >= before && corrupt_->after < read_)
        *part.find(corrupt_->after - before) ^= flip;
    gate(FaultWay::receive, read_);  // so that what begins here wakes the reader again
    return moved;
}

i64 FaultStream::writev(std::span<const iovec> pieces) {
    if (const i64 refused = gate(FaultWay::send, written_); refused != 0) return refused;
    Pieces part(pieces, until_next(FaultWay::send, written_));
    if (acts(corrupt_, FaultWay::send) && corrupt_->after >= written_ &&
        corrupt_->after - written_ < part.bytes()) {
        const u64 at = corrupt_->after - written_;
        changed_ = *part.find(at) ^ flip;
        part = part.with(at, &changed_);
    }
    const i64 moved = inner_->writev(part.list());
    if (moved <= 0) return moved;
    written_ += static_cast<u64>(moved);
    if (duplicate_ && !answered_.load(std::memory_order_acquire))
        duplicate_->add(part.list(), static_cast<u64>(moved));
    gate(FaultWay::send, written_);
    return moved;
}

void FaultStream::set_alarm(Instant when) {
    if (!watched_.load(std::memory_order_acquire)) return;
    if (sched_.cancel(alarm_)) alarms_.fetch_sub(1, std::memory_order_acq_rel);
    alarms_.fetch_add(1, std::memory_order_relaxed);
    sched_.arm(cpt_, alarm_, when);
}

// The stall is over, or the stream has ended: whoever waited looks again.
void FaultStream::alarm() {
    bool ended = false;
    {
        const std::lock_guard guard(lock_);
        ended = is_reset_;
    }
    if (watched_.load(std::memory_order_acquire)) sink_->ready({true, true, ended});
    alarms_.fetch_sub(1, std::memory_order_acq_rel);
}

// The inner stream tells nothing any more; nor does the alarm, once it has returned.
void FaultStream::unwatched() {
    if (sched_.cancel(alarm_)) alarms_.fetch_sub(1, std::memory_order_acq_rel);
    if (alarms_.load(std::memory_order_acquire) != 0)
        sched_.post(cpt_, unwatched_);
    else
        sched_.post(cpt_, *done_);
}

}  // namespace

std::unique_ptr<StreamOs> make_fault_os(std::unique_ptr<StreamOs> inner, Sched& sched,
                                        FaultRules& rules) {
    return std::make_unique<FaultStreamOs>(std::move(inner), sched, rules);
}

}  // namespace ulnet::sock
