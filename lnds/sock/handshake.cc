// The common part of handshakes; runs in the handshake's strand.
#include "lnds/sock/handshake.h"

#include <algorithm>

namespace ulnet::sock {

Handshake::Handshake(Sched& sched, CptId cpt, std::unique_ptr<Stream> stream, Duration patience)
    : sched_(sched), stream_(std::move(stream)), strand_(sched, cpt, *this) {
    next_stage(patience);
}

void Handshake::next_stage(Duration patience) {
    deadline_.store((sched_.now() + patience).time_since_epoch().count(),
                    std::memory_order_relaxed);
}

void Handshake::cancel(int error) {
    int none = 0;
    cancelled_.compare_exchange_strong(none, error);
    strand_.wake();
}

void Handshake::tick(Instant now) {
    if (now.time_since_epoch().count() >= deadline_.load(std::memory_order_relaxed))
        cancel(-ETIMEDOUT);
}

bool Handshake::step(Budget&) {
    if (over_) return false;
    std::optional<Status> result;
    if (const int error = cancelled_.load()) {
        result = Status(error);
    } else if (!watched_) {
        const Status status = stream_->watch(strand_.cpt(), *this);
        watched_ = status.ok();
        if (!status.ok()) result = status;
    }
    if (!result) result = advance();
    if (!result) return false;
    over_ = true;
    result_ = *result;
    if (watched_)
        stream_->unwatch(unwatched_);
    else
        sched_.post(strand_.cpt(), unwatched_);
    return false;
}

void Handshake::unwatched() {
    concluded(result_);
    unref();
}

std::optional<Status> Handshake::read_to(std::size_t need) {
    if (need > in_.size()) return Status(-EPROTO);
    while (in_used_ < need) {
        const iovec to{in_.data() + in_used_, need - in_used_};
        const i64 got = stream_->readv(std::span(&to, 1));
        if (got == -EAGAIN) return std::nullopt;
        if (got == 0) return Status(-ECONNRESET);
        if (got < 0) return Status(static_cast<int>(got));
        in_used_ += static_cast<std::size_t>(got);
    }
    return ok_status;
}

void Handshake::queue_out(std::span<const std::byte> bytes) {
    CHECK(bytes.size() <= out_.size() - out_used_);
    std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<std::ptrdiff_t>(out_used_));
    out_used_ += bytes.size();
}

std::optional<Status> Handshake::write_out() {
    while (out_sent_ < out_used_) {
        const iovec from{out_.data() + out_sent_, out_used_ - out_sent_};
        const i64 sent = stream_->writev(std::span(&from, 1));
        if (sent == -EAGAIN) return std::nullopt;
        if (sent < 0) return Status(static_cast<int>(sent));
        out_sent_ += static_cast<std::size_t>(sent);
    }
    return ok_status;
}

void Handshake::last_ref() {
    sched_.post(strand_.cpt(), destroy_);
}

void Handshake::destroy() {
    if (strand_.idle())
        delete this;
    else
        sched_.post(strand_.cpt(), destroy_);
}

}  // namespace ulnet::sock
