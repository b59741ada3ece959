// StreamNet: how bytes move between the two sides of a connection, and how it ends.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tests/sim/stream_net.h"

namespace ulnet::sim {

namespace {

u64 bytes_of(std::span<const iovec> parts) {
    u64 total = 0;
    for (const iovec& part : parts) total += part.iov_len;
    return total;
}

}  // namespace

void ByteRing::grow(u64 needed) {
    std::vector<std::byte> larger(std::bit_ceil(std::max<u64>(needed, 1024)));
    for (u64 at = read_; at < written_;) {
        const u64 from = at & (bytes_.size() - 1), to = at & (larger.size() - 1);
        const u64 count = std::min({written_ - at, bytes_.size() - from, larger.size() - to});
        std::memcpy(larger.data() + to, bytes_.data() + from, count);
        at += count;
    }
    bytes_ = std::move(larger);
}

void ByteRing::write(std::span<const iovec> from, u64 count) {
    if (size() + count > bytes_.size()) grow(size() + count);
    for (const iovec& part : from) {
        const auto* source = static_cast<const std::byte*>(part.iov_base);
        u64 left = std::min<u64>(part.iov_len, count);
        count -= left;
        while (left > 0) {
            const u64 at = written_ & (bytes_.size() - 1);
            const u64 piece = std::min(left, bytes_.size() - at);
            std::memcpy(bytes_.data() + at, source, piece);
            source += piece;
            written_ += piece;
            left -= piece;
        }
        if (count == 0) break;
    }
}

void ByteRing::read(std::span<const iovec> to, u64 count) {
    CHECK(count <= size());
    for (const iovec& part : to) {
        auto* target = static_cast<std::byte*>(part.iov_base);
        u64 left = std::min<u64>(part.iov_len, count);
        count -= left;
        while (left > 0) {
            const u64 at = read_ & (bytes_.size() - 1);
            const u64 piece = std::min(left, bytes_.size() - at);
            std::memcpy(target, bytes_.data() + at, piece);
            target += piece;
            read_ += piece;
            left -= piece;
        }
        if (count == 0) break;
    }
}

void ByteRing::clear() {
    static constexpr std::size_t keep_bytes = 16 * 1024;
    written_ = read_ = 0;
    if (bytes_.size() > keep_bytes) bytes_ = {};
}

u64 Side::readable() const {
    return peer().arrived - peer().taken;
}

i64 StreamNet::write(Side& side, std::span<const iovec> from, Instant at) {
    if (side.error != 0) return -std::exchange(side.error, 0);
    if (side.broken || side.fin_sent) return -EPIPE;
    if (side.state != Side::State::open) return -EAGAIN;
    const u64 asked = bytes_of(from);
    const u64 used = side.written - side.acked;
    const u64 room = used < side.tx_buffer ? side.tx_buffer - used : 0;
    u64 count = std::min(asked, room);
    // A kernel takes the first small writes whole, and drivers may rely on that.
    static constexpr u64 greeting_bytes = 1024;
    if (count > greeting_bytes && chance(engine_.network, params.partial_write_percent))
        count = between(engine_.network, 1, count);
    if (count < asked) {
        side.want_write = true;
        if (side.acked < side.arrived || count > 0)
            engine_.schedule(side.ack, at + model_.latency());
    }
    if (count == 0) return asked == 0 ? 0 : -EAGAIN;
    side.bytes.write(from, count);
    side.written += count;
    queue_segments(side, count, at);
    return static_cast<i64>(count);
}

void StreamNet::queue_segments(Side& side, u64 count, Instant at) {
    Host& host = host_of(side.local.address.tail());
    if (side.segments.empty()) side.unacked_since = at;
    u64 upto = side.written - count;
    // However small the pieces, the events of one write are bounded.
    static constexpr u64 pieces_max = 64;
    u64 pieces = 0;
    const u64 cut = side.index == params.cut_side ? params.cut_at : 0;
    while (upto < side.written) {
        u64 piece = side.written - upto;
        if (params.split == Split::random && piece > 1 && ++pieces < pieces_max)
            piece = between(engine_.network, 1,
                            chance(engine_.network, 50) ? piece : std::min<u64>(piece, 200));
        if (params.split == Split::bytes && ++pieces < pieces_max) piece = 1;
        if (upto < cut && upto + piece > cut) piece = cut - upto;
        if (cut != 0 && upto == cut) side.last_arrival += params.cut_gap;
        upto += piece;
        host.wire_free =
            std::max(host.wire_free, at) + model_.transmission(side.local.address.tail(), piece);
        side.last_arrival = std::max(side.last_arrival, host.wire_free + model_.latency());
        side.segments.push_back({side.last_arrival, upto, false});
    }
    schedule_delivery(side);
}

void StreamNet::send_fin(Side& side, Instant at) {
    side.fin_sent = true;
    side.last_arrival = std::max(side.last_arrival, at + model_.latency());
    side.segments.push_back({side.last_arrival, side.written, true});
    schedule_delivery(side);
}

void StreamNet::schedule_delivery(Side& side) {
    if (side.next_segment == side.segments.size()) {
        side.segments.clear();
        side.next_segment = 0;
        return;
    }
    if (!side.deliver.scheduled() && !side.window_shut)
        engine_.schedule(side.deliver, side.segments[side.next_segment].at);
}

// The next segment of this side reaches the other one, or does not.
void StreamNet::deliver(Side& side) {
    Side& peer = side.peer();
    const bool blocked = model_.blocked(side.local.address.tail(), side.remote.address.tail()) ||
                         model_.blocked(side.remote.address.tail(), side.local.address.tail());
    const bool vanished = side.swallowed || (peer.dead && !host_of(side.remote.address.tail()).up);
    if (blocked || vanished) {
        if (engine_.now() - side.unacked_since > side.unacked_timeout) return fail(side, ETIMEDOUT);
        engine_.schedule(side.deliver, engine_.now() + model_.retry_after(side.attempt++));
        return;
    }
    side.attempt = 0;
    side.unacked_since = engine_.now();
    if (peer.dead || (!peer.owned && !side.segments[side.next_segment].fin) || peer.broken) {
        // Nobody there who knows the connection.
        side.segments.clear();
        side.next_segment = 0;
        if (!side.dead && !side.broken && side.owned)
            engine_.schedule(side.reset, engine_.now() + model_.latency());
        return;
    }
    if (model_.lost()) {
        engine_.trace(Trace::reset, side.local.address.tail(), side.remote.address.tail());
        fail(side, ECONNRESET);
        return fail(peer, ECONNRESET);
    }
    const u64 before = side.arrived;
    const u64 window = side.taken + peer.rx_buffer;
    bool fin = false;
    while (side.next_segment < side.segments.size()) {
        const Segment& segment = side.segments[side.next_segment];
        if (segment.at > engine_.now()) break;
        side.arrived = std::max(side.arrived, std::min(segment.upto, window));
        if (segment.upto > window) {
            side.window_shut = true;
            // Asked again now and then: who reads there may have gone without a word getting here.
            engine_.schedule(side.deliver, engine_.now() + window_probe);
            break;
        }
        fin = fin || segment.fin;
        ++side.next_segment;
    }
    peer.last_heard = engine_.now();
    side.last_heard = engine_.now();
    bytes_arrived_ += side.arrived - before;
    engine_.trace(Trace::bytes, side.local.address.tail(), side.local.port, side.arrived);
    if (fin)
        engine_.trace(Trace::connection, side.local.address.tail(), side.local.port,
                      side.remote.port);
    if (fin) peer.fin_received = true;
    if (side.want_write && side.arrived > side.acked && !side.ack.scheduled())
        engine_.schedule(side.ack, engine_.now() + model_.latency());
    if (side.written - side.acked > side.tx_buffer / 2 && !side.ack.scheduled())
        engine_.schedule(side.ack, engine_.now() + model_.latency());
    schedule_delivery(side);
    if (side.arrived > before || fin) tell(peer);
}

// The sender hears how much has arrived.
void StreamNet::acknowledge(Side& side) {
    side.acked = side.arrived;
    if (side.broken || !side.want_write) return;
    const u64 used = side.written - side.acked;
    // As the kernel does: not for every byte of room.
    if (used < side.tx_buffer - side.tx_buffer / 3) {
        side.want_write = false;
        tell(side);
    }
}

i64 StreamNet::read(Side& side, std::span<const iovec> to, Instant at) {
    Side& peer = side.peer();
    const u64 asked = bytes_of(to);
    u64 count = std::min(asked, side.readable());
    const u64 most = model_.reads_at_most(side.local.address.tail());
    if (most > 0 && count > 0) {
        const bool early = at < side.may_read;
        if (!early) side.may_read = at + std::chrono::milliseconds(1);
        if (early || count > most) engine_.schedule(side.read_on, side.may_read);
        if (early) return -EAGAIN;
        count = std::min(count, most);
    }
    if (count > 0) {
        peer.bytes.read(to, count);
        peer.taken += count;
        if (peer.window_shut && peer.arrived - peer.taken <= side.rx_buffer / 2) {
            peer.window_shut = false;
            engine_.schedule(peer.deliver, at + model_.latency());
        }
        return static_cast<i64>(count);
    }
    if (asked == 0) return 0;
    if (side.error != 0) return -std::exchange(side.error, 0);
    if (side.broken || side.fin_received || side.read_shut) return 0;
    return -EAGAIN;
}

void StreamNet::shutdown(Side& side, Instant at) {
    if (side.state != Side::State::open) {
        if (side.state == Side::State::connecting && !side.broken) fail(side, ECONNRESET);
        return;
    }
    side.read_shut = true;
    if (!side.broken && !side.fin_sent) send_fin(side, at);
    tell(side);
}

void StreamNet::send_reset(Side& from, Instant at) {
    Side& peer = from.peer();
    from.segments.clear();
    from.next_segment = 0;
    engine_.withdraw(from.deliver);
    from.broken = true;
    if (peer.state != Side::State::open || peer.dead || peer.broken || from.swallowed) return;
    if (model_.blocked(from.local.address.tail(), from.remote.address.tail())) return;
    engine_.trace(Trace::reset, from.local.address.tail(), from.remote.address.tail());
    engine_.schedule(peer.reset, at + model_.latency());
}

void StreamNet::fail(Side& side, int error) {
    if (side.broken) return;
    side.broken = true;
    side.error = error;
    side.segments.clear();
    side.next_segment = 0;
    engine_.withdraw(side.deliver);
    engine_.withdraw(side.keepalive);
    engine_.withdraw(side.connect);
    if (chance(engine_.network, 50)) {
        // What came before the reset is gone, too.
        Side& peer = side.peer();
        std::array<std::byte, 512> waste;
        while (side.readable() > 0) {
            const u64 count = std::min<u64>(side.readable(), waste.size());
            const iovec part{waste.data(), count};
            peer.bytes.read(std::span(&part, 1), count);
            peer.taken += count;
        }
    }
    tell(side);
}

void StreamNet::set_keepalive(Side& side, u32 idle_s, u32 interval_s, u32 count) {
    side.keepalive_idle_s = idle_s;
    side.keepalive_interval_s = interval_s;
    side.keepalive_count = count;
    engine_.withdraw(side.keepalive);
    if (idle_s > 0 && !side.broken)
        engine_.schedule(side.keepalive, engine_.now() + std::chrono::seconds(idle_s));
}

// An idle connection is asked whether its peer is there.
void StreamNet::probe(Side& side) {
    if (side.broken || side.state != Side::State::open) return;
    const auto idle = std::chrono::seconds(side.keepalive_idle_s);
    if (side.written > side.arrived || engine_.now() - side.last_heard < idle) {
        side.probes = 0;
        engine_.schedule(side.keepalive, std::max(engine_.now(), side.last_heard) + idle);
        return;
    }
    Side& peer = side.peer();
    const bool silent = side.swallowed || !host_of(side.remote.address.tail()).up ||
                        model_.blocked(side.local.address.tail(), side.remote.address.tail()) ||
                        model_.blocked(side.remote.address.tail(), side.local.address.tail());
    if (!silent) {
        side.last_heard = engine_.now();
        side.probes = 0;
        if (peer.dead || peer.broken || !peer.owned) {  // its RST was lost
            engine_.schedule(side.reset, engine_.now() + model_.latency());
        } else {
            engine_.schedule(side.keepalive, engine_.now() + idle);
        }
        return;
    }
    if (++side.probes > side.keepalive_count) return fail(side, ETIMEDOUT);
    engine_.schedule(side.keepalive,
                     engine_.now() + std::chrono::seconds(std::max(side.keepalive_interval_s, 1u)));
}

}  // namespace ulnet::sim
