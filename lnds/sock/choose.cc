// Which connection of a peer carries a frame, and which one is to be opened next. With the peer's
// lock held.
#include <algorithm>

#include "lnds/sock/ni.h"
#include "lnds/sock/peer.h"

namespace ulnet::sock {

u32 Peer::count(ConnType type) {
    u32 found = 0;
    for (Conn& conn : conns_) found += conn.type() == type ? 1 : 0;
    return found;
}

// What the peer allows holds until somebody wants another number.
u32 Peer::bulk_max() {
    const u32 wanted = ni_.conns_per_peer();
    if (wanted != bulk_wanted_) bulk_agreed_ = 0;
    return bulk_agreed_ > 0 ? bulk_agreed_ : wanted;
}

// The best match; among equals the one with fewest queued bytes, then the least recently used.
Conn* Peer::choose(const Msg& msg) {
    const auto min_bulk = static_cast<u64>(ni_.tunable(Tunable::min_bulk));
    const bool round_robin = ni_.tunable(Tunable::round_robin) != 0;
    const bool untyped = ni_.tunable(Tunable::typed_conns) == 0;
    Conn* best = nullptr;
    Match best_match = Match::no;
    for (Conn& conn : conns_) {
        const Match match =
            conn.proto().match_lnet(conn.type(), conn.frame_bytes_of(msg), min_bulk);
        // A guest cannot be dialled: what it opened must do. So must untyped connections where
        // they are what we open.
        const bool must_do = guest() || (untyped && conn.type() == ConnType::any);
        if (match == Match::no && !must_do) continue;
        bool better = best == nullptr || match > best_match;
        if (!better && match == best_match) {
            const u64 queued = conn.queued_bytes();
            const u64 least = best->queued_bytes();
            better = queued < least ||
                     (queued == least && round_robin && conn.last_used < best->last_used);
        }
        if (!better) continue;
        best = &conn;
        best_match = match;
    }
    if (best != nullptr) best->last_used = ++use_count_;
    return best;
}

// The best match, or any: acknowledgements must not wait for a better connection.
Conn* Peer::choose_for_noop(bool apart) {
    const auto min_bulk = static_cast<u64>(ni_.tunable(Tunable::min_bulk));
    Conn* best = nullptr;
    Match best_match = Match::no;
    for (Conn& conn : conns_) {
        const Match match = conn.proto().match_noop(conn.type(), apart, min_bulk);
        if (best != nullptr && match <= best_match) continue;
        best = &conn;
        best_match = match;
    }
    return best;
}

// Where to acknowledge what came on this connection: there, if no other suits better. When it has
// ended so has the debt, and what was opened since must not hear of it.
Conn& Peer::choose_for_ack(Conn& of_data) {
    if (!of_data.linked()) return of_data;
    const auto min_bulk = static_cast<u64>(ni_.tunable(Tunable::min_bulk));
    const bool apart = ni_.tunable(Tunable::nonblk_zcack) != 0;
    const auto match = [&](const Conn& conn) {
        return conn.proto().match_noop(conn.type(), apart, min_bulk);
    };
    Conn& best = *choose_for_noop(apart);
    return match(best) > match(of_data) ? best : of_data;
}

// The connection to open next; none = all are there. As a guest we get replies only on connections
// that the peer may send on, which one of type CONTROL is.
ConnType Peer::next_type() {
    if (ni_.tunable(Tunable::typed_conns) == 0) {
        const u32 max = ni_.guest() ? 1 : bulk_max();
        return count(ConnType::any) < max ? ConnType::any : ConnType::none;
    }
    if (count(ConnType::control) == 0) return ConnType::control;
    if (ni_.guest()) return ConnType::none;
    const u32 in = count(ConnType::bulk_in);
    const u32 out = count(ConnType::bulk_out);
    const u32 max = bulk_max();
    if (in < max && in <= out) return ConnType::bulk_in;
    return out < max ? ConnType::bulk_out : ConnType::none;
}

// How many there are of each type that carries bulk; 0 also when CONTROL is missing.
u32 Peer::most_of_each() {
    if (ni_.tunable(Tunable::typed_conns) == 0) return count(ConnType::any);
    if (count(ConnType::control) == 0) return 0;
    return std::min(count(ConnType::bulk_in), count(ConnType::bulk_out));
}

}  // namespace ulnet::sock
