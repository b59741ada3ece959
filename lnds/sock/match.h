// Which connection suits a message: the rule of version 3. Pure.
#pragma once

#include "lnds/sock/wire.h"

namespace ulnet::sock {

enum class Match : u8 { no, may, yes };

// `bytes` counts the whole frame. An LNet message.
constexpr Match match_lnet(ConnType type, u64 bytes, u64 min_bulk) {
    switch (type) {
    case ConnType::control:
        return bytes < min_bulk ? Match::yes : Match::may;
    case ConnType::bulk_out:
        return bytes >= min_bulk ? Match::yes : Match::may;
    case ConnType::bulk_in:
    case ConnType::any:
    case ConnType::none:
        break;
    }
    return Match::no;
}

// A NOOP of ours (acknowledgement or keepalive).
constexpr Match match_noop(ConnType type) {
    return type == ConnType::bulk_in ? Match::yes : Match::no;
}

}  // namespace ulnet::sock
