// The receive half of a connection: bytes to frames, headers to the core, payload into the memory
// that the core names. Runs in the connection's receive strand; receive() comes from any worker.
//
// One message is with the core at a time: nothing behind it is read before the core has said where
// its payload goes, so a core that cannot decide yet stops the stream (and TCP the peer).
#include <algorithm>

#include "lnds/sock/conn.h"
#include "lnds/sock/ni.h"
#include "lnds/sock/peer.h"

namespace ulnet::sock {

bool Conn::rx_step(Budget& budget) {
    if (rx_over_) return false;
    if (!watched_ && error_.load(std::memory_order_acquire) == 0 && !rx_begin()) return false;
    bool drained = false;
    while (budget.left()) {
        const RxState state = rx_state_.load(std::memory_order_acquire);
        if (state == RxState::waiting) return false;
        if (const int error = error_.load(std::memory_order_acquire)) {
            if (state == RxState::assigned) finish_received(error);
            rx_end();
            return false;
        }
        const bool go_on = state == RxState::assigned ? take_payload(budget, drained)
                                                      : take_frame(budget, drained);
        if (!go_on) {
            // A message that waits for the core is no fault of the peer.
            rx_missing_.store(missing(), relaxed);
            // An error of our own making is cleaned up by the next step, which it has woken.
            return false;
        }
    }
    return true;
}

// Of the frame that has begun to come in.
u32 Conn::missing() const {
    const RxState state = rx_state_.load(relaxed);
    if (state == RxState::assigned) return std::max(1u, frame_.hdr.payload_length - got_);
    if (state != RxState::frame || end_ == begin_) return 0;
    const Result<u32> need = frame_bytes(rx_framing_, buffered());
    return need.ok() ? std::max(1u, *need - std::min(*need, end_ - begin_)) : 1;
}

bool Conn::rx_begin() {
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes);
    ref();  // the watch's
    watched_ = true;
    const Status status = stream_->watch(peer_.cpt(), *this);
    if (status.ok()) return true;
    watched_ = false;
    unref();
    broken(status.code());
    return false;
}

void Conn::rx_end() {
    rx_over_ = true;
    rx_missing_.store(0, relaxed);
    if (watched_) stream_->unwatch(unwatched_);
    unref();
}

// Tells the peer, and with it this connection, that it is over. Nothing here is touched after that
// but by the next step.
void Conn::protocol_error(int error, const char* what) {
    ni_.count(Count::protocol_errors);
    ni_.note(std::string("peer ") + to_text(peer_.id()) + ": " + what + ", connections closed");
    broken(error);
}

Conn::Fill Conn::read_buffer(Budget& budget) {
    if (begin_ == end_) {
        begin_ = end_ = 0;
    } else if (buffer_bytes - end_ < read_bytes_min && begin_ > 0) {
        std::copy(buffer_.get() + begin_, buffer_.get() + end_, buffer_.get());
        end_ -= begin_;
        begin_ = 0;
    }
    const iovec to{buffer_.get() + end_, buffer_bytes - end_};
    const i64 got = stream_->readv(std::span(&to, 1));
    if (got > 0) end_ += static_cast<u32>(got);
    return after_read(got, to.iov_len, budget);
}

Conn::Fill Conn::after_read(i64 got, u64 asked, Budget& budget) {
    if (got == -EAGAIN) return Fill::drained;
    if (got <= 0) {
        // An end of the stream is a peer that went away, in the middle of a message or not.
        broken(got == 0 ? -ECONNRESET : static_cast<int>(got));
        return Fill::failed;
    }
    const auto bytes = static_cast<u64>(got);
    budget.take(0, bytes);
    rx_bytes_.store(rx_bytes_.load(relaxed) + bytes, relaxed);
    rx_progress_.store(ni_.sched().now().time_since_epoch().count(), relaxed);
    const bool emptied = bytes < asked && !ended_.load(std::memory_order_acquire);
    return emptied ? Fill::drained : Fill::more;
}

// One frame header. False: wait, or over.
bool Conn::take_frame(Budget& budget, bool& drained) {
    for (;;) {
        const Result<u32> need = frame_bytes(rx_framing_, buffered());
        if (!need.ok()) {
            protocol_error(-EPROTO, "frame of unknown type");
            return false;
        }
        if (buffered().size() >= *need) {
            const Result<Frame> frame = decode_frame(rx_framing_, buffered());
            if (!frame.ok()) {
                protocol_error(-EPROTO, "LNet header of unknown type");
                return false;
            }
            frame_ = *frame;
            crc_ = frame_.head.checksum != 0 ? crc_start(rx_framing_, buffered().first(*need)) : 0;
            begin_ += *need;
            break;
        }
        if (drained) return false;
        const Fill fill = read_buffer(budget);
        if (fill == Fill::failed) return false;
        drained = fill == Fill::drained;
    }
    if (!frame_.lnet) return take_noop(frame_);
    return announce();
}

bool Conn::take_noop(const Frame& frame) {
    const Result<ZcAck> ack = zc_ack_of(rx_framing_.version, frame);
    if (proto_.checksums && frame.head.checksum != 0 && frame.head.checksum != crc_) {
        ni_.count(Count::checksum_errors);
        protocol_error(-EPROTO, "checksum of a NOOP");
        return false;
    }
    // We never ask for zero-copy acknowledgements, so whatever number one names is unknown.
    if (!ack.ok() || (ack->kind != ZcAck::Kind::none && ack->kind != ZcAck::Kind::keepalive)) {
        protocol_error(-EPROTO, "acknowledgement of an unknown zero-copy cookie");
        return false;
    }
    if (ack->kind == ZcAck::Kind::keepalive) ni_.count(Count::keepalives_received);
    return true;
}

// Checks the header as far as it is the driver's and shows it to the core.
bool Conn::announce() {
    Hdr& hdr = frame_.hdr;
    if (frame_.head.cookie1 != 0) {
        protocol_error(-EPROTO, "acknowledgement of an unknown zero-copy cookie");
        return false;
    }
    if (hdr.payload_length > LndCaps{}.payload_max) {
        const std::string what = "payload of " + std::to_string(hdr.payload_length) +
                                 " bytes, at most 1048576 are allowed";
        protocol_error(-EPROTO, what.c_str());
        return false;
    }
    if (hdr.payload_length == 0 && frame_.head.checksum != 0 && frame_.head.checksum != crc_) {
        ni_.count(Count::checksum_errors);
        protocol_error(-EPROTO, "checksum of a frame without payload");
        return false;
    }
    if (peer_.guest()) {
        hdr.src_nid = peer_.id().nid;
        hdr.src_pid = peer_.id().pid;
    }
    got_ = 0;
    rx_msgs_.store(rx_msgs_.load(relaxed) + 1, relaxed);
    rx_state_.store(RxState::announced, relaxed);
    ++token_;
    ref();  // the core's, until receive()
    const Status status = ni_.up().arrived(hdr, peer_.id(), {this, token_}, {});
    if (!status.ok()) {
        unref();
        rx_state_.store(RxState::frame, relaxed);
        protocol_error(status.code(), "message refused");
        return false;
    }
    RxState announced = RxState::announced;
    // Answered already: go on. Else receive() wakes the strand.
    return !rx_state_.compare_exchange_strong(announced, RxState::waiting,
                                              std::memory_order_acq_rel);
}

void Conn::receive(u64 id, Msg* into, u32 len) {
    CHECK(id == token_);
    CHECK(into == nullptr || len <= frame_.hdr.payload_length);
    into_ = into;
    want_ = into != nullptr ? len : 0;
    if (rx_state_.exchange(RxState::assigned, std::memory_order_acq_rel) == RxState::waiting)
        rx_.wake();
    unref();
}

// Payload bytes from the stream to where they belong. False: wait, or over.
bool Conn::take_payload(Budget& budget, bool& drained) {
    const u32 length = frame_.hdr.payload_length;
    take_buffered();
    while (got_ < length) {
        if (drained || !budget.left()) return !drained;
        const Fill fill = got_ < want_ ? read_payload(budget) : read_buffer(budget);
        if (fill == Fill::failed) return false;
        drained = fill == Fill::drained;
        take_buffered();
    }
    budget.take(1, 0);
    return complete();
}

// What the buffer holds of this payload.
void Conn::take_buffered() {
    const u32 length = frame_.hdr.payload_length;
    while (got_ < length && end_ > begin_) {
        const u32 limit = got_ < want_ ? want_ : length;
        const u32 bytes = std::min(end_ - begin_, limit - got_);
        const auto from = buffered().first(bytes);
        if (into_ != nullptr && frame_.head.checksum != 0) crc_ = crc_update(crc_, from);
        if (got_ < want_) into_->payload.copy_in(got_, from);
        begin_ += bytes;
        got_ += bytes;
    }
}

// Straight into the message, and into the buffer what comes behind it; the buffer is empty.
Conn::Fill Conn::read_payload(Budget& budget) {
    std::array<iovec, rx_iov_max> to;
    unsigned count = into_->payload.gather(got_, std::span(to).first(rx_iov_max - 1));
    u64 direct = 0;
    for (unsigned i = 0; i < count; ++i) {
        to[i].iov_len = std::min<u64>(to[i].iov_len, want_ - got_ - direct);
        direct += to[i].iov_len;
    }
    begin_ = end_ = 0;
    u64 asked = direct;
    if (got_ + direct == want_) {
        to[count++] = {buffer_.get(), buffer_bytes};
        asked += buffer_bytes;
    }
    const i64 got = stream_->readv(std::span(to).first(count));
    if (got > 0) {
        const auto bytes = static_cast<u32>(std::min(static_cast<u64>(got), direct));
        if (frame_.head.checksum != 0) crc_ = crc_update_view(crc_, into_->payload, got_, bytes);
        got_ += bytes;
        end_ = static_cast<u32>(static_cast<u64>(got) - bytes);
    }
    return after_read(got, asked, budget);
}

// All payload is in. False: the checksum was wrong.
bool Conn::complete() {
    if (into_ != nullptr && frame_.head.checksum != 0 && crc_ != frame_.head.checksum) {
        ni_.count(Count::checksum_errors);
        protocol_error(-EIO, "wrong checksum");
        return false;
    }
    if (want_ > 0 && ni_.flip_due(frame_.hdr.payload_length)) {
        const auto at = static_cast<u32>(ni_.sched().prng().below(want_));
        std::byte value{};
        into_->payload.copy_out(at, std::span(&value, 1));
        value ^= std::byte{0x5a};
        into_->payload.copy_in(at, std::span(&value, 1));
    }
    ni_.count(Count::rx_messages);
    ni_.count(Count::rx_bytes, frame_.hdr.payload_length);
    const u64 cookie = frame_.head.cookie0;
    finish_received(0);
    if (cookie != 0) owe_ack(cookie);
    return true;
}

void Conn::finish_received(int error) {
    Msg* const msg = std::exchange(into_, nullptr);
    want_ = 0;
    rx_state_.store(RxState::frame, relaxed);
    if (msg != nullptr) ni_.up().finished(*msg, Status(error), health_of(error));
}

// A peer that lets thousands of acknowledgements pile up breaks the connection.
void Conn::owe_ack(u64 cookie) {
    Ref<Conn> carrier;
    bool owed = false;
    {
        const std::lock_guard guard(peer_.lock());
        carrier = Ref<Conn>::of(peer_.choose_for_ack(*this));
        owed = carrier->push_ack(cookie);
    }
    if (owed)
        carrier->wake_tx();
    else
        protocol_error(-ENOBUFS, "zero-copy acknowledgements are not being read");
}

}  // namespace ulnet::sock
