// The transmit half of a connection: gathers many frames into one write. Runs in the connection's
// transmit strand. Frames being sent stand in a window of slots that hold their encoded headers;
// payload goes out from the message's own memory.
#include <algorithm>

#include "lnds/sock/conn.h"
#include "lnds/sock/ni.h"
#include "lnds/sock/peer.h"

namespace ulnet::sock {
namespace {

// How Msg::scratch is used between push() and finished().
constexpr unsigned scratch_queued_at = 0;

}  // namespace

void Conn::push(Msg& msg) {
    msg.scratch[scratch_queued_at] = static_cast<u64>(ni_.sched().now().time_since_epoch().count());
    count_queued(frame_bytes_of(msg));
    queue_.push_back(msg);
}

void Conn::count_queued(u64 bytes) {
    // A connection that had nothing to send has made all the progress it could.
    if (queued_bytes_.load(relaxed) == 0)
        tx_progress_.store(ni_.sched().now().time_since_epoch().count(), relaxed);
    queued_bytes_.fetch_add(bytes, std::memory_order_release);
}

Instant Conn::oldest_queued() {
    if (queue_.empty()) return instant_never;
    return Instant(Duration(static_cast<i64>(queue_.front().scratch[scratch_queued_at])));
}

bool Conn::tx_step(Budget& budget) {
    if (tx_over_) return false;
    bool retried = false;
    do {
        if (error_.load(std::memory_order_acquire) != 0) {
            tx_end();
            return false;
        }
        if (!fill_window()) return false;
        std::array<iovec, tx_iov_max> from;
        u64 total = 0;
        const unsigned count = gather(from, total);
        const i64 sent = stream_->writev(std::span(from).first(count));
        if (sent == -EAGAIN) {
            // Ask to be told, then look once more: room may have come in between.
            if (retried) return false;
            retried = true;
            want_write_.store(true);
            continue;
        }
        if (sent < 0) {
            // EPIPE only says that the peer went away earlier.
            broken(sent == -EPIPE ? -ECONNRESET : static_cast<int>(sent));
            return false;
        }
        advance(static_cast<u64>(sent), budget);
        retried = static_cast<u64>(sent) < total;
        want_write_.store(retried);
    } while (budget.left());
    return true;
}

Conn::Slot& Conn::next_slot() {
    Slot& slot = window_[(window_begin_ + window_count_) % window_max];
    ++window_count_;
    return slot;
}

u32 Conn::crc_update_view(u32 crc, const MemView& view, u32 at, u32 bytes) {
    while (bytes > 0) {
        std::array<iovec, rx_iov_max> pieces;
        const unsigned count = view.gather(at, pieces);
        CHECK(count > 0);
        for (unsigned i = 0; i < count && bytes > 0; ++i) {
            const u32 size = static_cast<u32>(std::min<u64>(pieces[i].iov_len, bytes));
            crc = crc_update(crc, {static_cast<const std::byte*>(pieces[i].iov_base), size});
            at += size;
            bytes -= size;
        }
    }
    return crc;
}

// The header of a frame, with its checksum where the version has one and it is wanted.
void Conn::encode(Slot& slot, Frame frame) {
    slot.header_bytes = encode_frame(tx_framing_, frame, slot.header);
    if (!proto_.checksums || ni_.tunable(Tunable::enable_csum) == 0) return;
    u32 crc = crc_start(tx_framing_, std::span(slot.header).first(slot.header_bytes));
    if (slot.msg != nullptr) crc = crc_update_view(crc, slot.msg->payload, 0, slot.payload_bytes);
    if (ni_.take_once(Tunable::inject_csum_error)) ++crc;
    frame.head.checksum = crc;
    encode_frame(tx_framing_, frame, slot.header);
}

void Conn::add_noop(u64 cookie0, u64 cookie1) {
    Slot& slot = next_slot();
    slot.msg = nullptr;
    slot.payload_bytes = 0;
    encode(slot, {{static_cast<u32>(FrameType::noop), 0, cookie0, cookie1}, false, {}});
    count_queued(slot.header_bytes);
}

void Conn::add_msg(Msg& msg, u64 cookie1) {
    Slot& slot = next_slot();
    slot.msg = &msg;
    slot.payload_bytes = msg.hdr.payload_length;
    encode(slot, {{static_cast<u32>(FrameType::lnet), 0, 0, cookie1}, true, msg.hdr});
}

// Neighbouring numbers become one run.
bool Conn::push_ack(u64 cookie) {
    if (!acks_.empty() && acks_.back().last + 1 == cookie) {
        acks_.back().last = cookie;
        return true;
    }
    if (acks_.size() >= acks_max) return false;
    acks_.push_back({cookie, cookie});
    return true;
}

// The next number that goes alone: 0 = none, or what is owed is better put into a NOOP.
u64 Conn::take_ack() {
    if (!acks_left()) return 0;
    AckRun& run = acks_sending_[acks_at_];
    const bool last = run.first == run.last;
    if (proto_.ack_runs && !last) return 0;
    if (last) ++acks_at_;
    ni_.count(Count::zc_acks_sent);
    return last ? run.first : run.first++;
}

// As much as one NOOP can acknowledge: a range, two numbers with the larger one first, or one.
void Conn::add_ack_noop() {
    if (!proto_.ack_runs) {
        add_noop(0, take_ack());
        return;
    }
    const AckRun run = acks_sending_[acks_at_++];
    ni_.count(Count::zc_acks_sent, run.last - run.first + 1);
    if (run.first != run.last) {
        add_noop(run.first, run.last);
        return;
    }
    const AckRun other = acks_left() ? acks_sending_[acks_at_] : run;
    const auto [less, more] = std::minmax(run.first, other.first);
    // 1 as the second number would be a keepalive.
    if (other.first != other.last || less == more || less < 2) {
        add_noop(0, run.first);
        return;
    }
    ++acks_at_;
    ni_.count(Count::zc_acks_sent);
    add_noop(more, less);
}

// How much of the window's room is kept for acknowledgements: at most half, since messages carry
// them for nothing, but never none.
u32 Conn::acks_room(u32 room) const {
    const std::size_t runs = acks_sending_.size() - acks_at_;
    const u32 half = (room + 1) / 2;
    // Without runs each number takes a place.
    if (!proto_.ack_runs) return runs > 0 ? half : 0;
    return static_cast<u32>(std::min<std::size_t>(runs, half));
}

// Takes what is queued into the window: acknowledgements first. False: there is nothing to send.
bool Conn::fill_window() {
    bool keepalive = false;
    Msg* taken[window_max];
    u64 cookies[window_max];
    u32 count = 0;
    if (!acks_left()) {
        acks_sending_.clear();
        acks_at_ = 0;
    }
    {
        const std::lock_guard guard(peer_.lock());
        if (acks_sending_.empty()) std::swap(acks_, acks_sending_);
        u32 room = window_max - window_count_;
        room -= acks_room(room);
        if (room > 0) keepalive = std::exchange(keepalive_due_, false);
        if (keepalive) --room;
        while (count < room && !queue_.empty()) taken[count++] = queue_.pop_front();
    }
    for (u32 i = 0; i < count; ++i) cookies[i] = take_ack();
    const u32 used = count + (keepalive ? 1 : 0);
    while (acks_left() && window_count_ + used < window_max) add_ack_noop();
    if (keepalive) {
        add_noop(0, 1);
        ni_.count(Count::keepalives_sent);
    }
    for (u32 i = 0; i < count; ++i) add_msg(*taken[i], cookies[i]);
    return window_count_ > 0;
}

// The iovecs of what the window holds, at most write_bytes_max bytes.
unsigned Conn::gather(std::array<iovec, tx_iov_max>& out, u64& total) {
    unsigned used = 0;
    u32 skip = sent_of_front_;
    for (u32 i = 0; i < window_count_ && used < tx_iov_max && total < write_bytes_max; ++i) {
        Slot& slot = window_[(window_begin_ + i) % window_max];
        if (skip < slot.header_bytes) {
            out[used++] = {slot.header.data() + skip, slot.header_bytes - skip};
            total += slot.header_bytes - skip;
            skip = 0;
        } else {
            skip -= slot.header_bytes;
        }
        u32 left = slot.payload_bytes - skip;
        if (left > 0) {
            const MemView& view = slot.msg->payload;
            const unsigned pieces = view.gather(skip, std::span(out).subspan(used));
            for (unsigned j = 0; j < pieces && left > 0 && total < write_bytes_max; ++j) {
                iovec& piece = out[used++];
                piece.iov_len = std::min<u64>({piece.iov_len, left, write_bytes_max - total});
                left -= static_cast<u32>(piece.iov_len);
                total += piece.iov_len;
            }
            if (left > 0) break;  // the rest goes next time
        }
        skip = 0;
    }
    return used;
}

// Accounts for bytes that the stream has taken and finishes the messages they complete.
void Conn::advance(u64 moved, Budget& budget) {
    tx_bytes_.store(tx_bytes_.load(relaxed) + moved, relaxed);
    queued_bytes_.fetch_sub(moved, relaxed);
    tx_progress_.store(ni_.sched().now().time_since_epoch().count(), relaxed);
    budget.take(0, moved);
    while (moved > 0) {
        Slot& slot = window_[window_begin_];
        const u64 part = std::min<u64>(moved, slot.bytes() - sent_of_front_);
        sent_of_front_ += static_cast<u32>(part);
        moved -= part;
        if (sent_of_front_ < slot.bytes()) break;
        sent_of_front_ = 0;
        window_begin_ = (window_begin_ + 1) % window_max;
        --window_count_;
        Msg* const msg = std::exchange(slot.msg, nullptr);
        if (msg == nullptr) continue;
        tx_msgs_.store(tx_msgs_.load(relaxed) + 1, relaxed);
        ni_.count(Count::tx_messages);
        ni_.count(Count::tx_bytes, slot.payload_bytes);
        budget.take(1, 0);
        ni_.up().finished(*msg, ok_status, Health::ok);
    }
    i64 oldest = 0;
    if (window_count_ > 0 && window_[window_begin_].msg != nullptr)
        oldest = static_cast<i64>(window_[window_begin_].msg->scratch[scratch_queued_at]);
    tx_oldest_.store(oldest, relaxed);
}

// The connection failed: so has all that was on it, sent in part or not at all.
void Conn::tx_end() {
    tx_over_ = true;
    const int error = error_.load();
    List<Msg> left;
    for (; window_count_ > 0; --window_count_) {
        if (Msg* const msg = std::exchange(window_[window_begin_].msg, nullptr))
            left.push_back(*msg);
        window_begin_ = (window_begin_ + 1) % window_max;
    }
    {
        const std::lock_guard guard(peer_.lock());
        left.splice_back(queue_);
    }
    queued_bytes_.store(0, relaxed);
    while (Msg* const msg = left.pop_front())
        ni_.up().finished(*msg, Status(error), health_of(error));
    unref();
}

}  // namespace ulnet::sock
