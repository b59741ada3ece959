// The messages of LNet self test: always 160 bytes, a header of 24 and a body by type, integers in
// the sender's order (the magic tells). Used by both ends of every RPC; values, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cpt/base/result.h"
#include "cpt/base/wire.h"
#include "lnet/lnet.h"

namespace ulnet::lst {

constexpr PortalId portal_test = 50;       // requests of test services
constexpr PortalId portal_framework = 51;  // requests of framework services
constexpr PortalId portal_reply = 52;      // replies and bulk data
constexpr std::size_t message_bytes = 160;
constexpr u32 message_magic = 0xeeb0f00d;
constexpr u32 message_version = 1;
constexpr u32 feature_bulk_len = 1;
constexpr u32 features_known = feature_bulk_len;
constexpr std::size_t name_bytes = 32;  // with the NUL at the end

enum class Service : u32 {
    debug = 0,
    make_session = 1,
    remove_session = 2,
    batch = 3,
    test = 4,
    stat = 5,
    join = 6,
    brw = 11,
    ping = 12,
};
constexpr PortalId portal_of(Service service) {
    return static_cast<u32>(service) < 10 ? portal_framework : portal_test;
}

// Request types; the reply's is one more.
enum class Type : u32 {
    make_session = 0,
    remove_session = 2,
    batch = 4,
    stat = 6,
    test = 8,
    debug = 10,
    brw = 12,
    ping = 14,
    join = 16,
};
constexpr Type request_type(Service service) {
    switch (service) {
    case Service::debug:
        return Type::debug;
    case Service::make_session:
        return Type::make_session;
    case Service::remove_session:
        return Type::remove_session;
    case Service::batch:
        return Type::batch;
    case Service::test:
        return Type::test;
    case Service::stat:
        return Type::stat;
    case Service::join:
        return Type::join;
    case Service::brw:
        return Type::brw;
    case Service::ping:
        break;
    }
    return Type::ping;
}
constexpr u32 reply_type(Type type) {
    return static_cast<u32>(type) + 1;
}

struct Header {
    u32 magic = message_magic;
    u32 version = message_version;
    u32 type = 0;
    u32 reserved1 = 0, reserved2 = 0;
    u32 features = 0;
    template <class F> static constexpr void fields(F&& f) {
        f("magic", &Header::magic);
        f("version", &Header::version);
        f("type", &Header::type);
        f("reserved1", &Header::reserved1);
        f("reserved2", &Header::reserved2);
        f("features", &Header::features);
    }
    friend bool operator==(const Header&, const Header&) = default;
};
static_assert(wire_size<Header>() == 24 && wire_offset<Header>("features") == 20);

// Session id: who made the session, and when (milliseconds of its clock).
struct Sid {
    u64 nid = ~u64{0};
    i64 stamp = -1;
    bool any() const { return nid == ~u64{0}; }
    template <class F> static constexpr void fields(F&& f) {
        f("nid", &Sid::nid);
        f("stamp", &Sid::stamp);
    }
    friend bool operator==(const Sid&, const Sid&) = default;
};
constexpr Sid sid_invalid{};

using NameBytes = std::array<char, name_bytes>;
// Up to the first NUL, at most 31 characters.
std::string name_text(const NameBytes&);
NameBytes name_from(std::string_view);

struct StatusReply {  // of BRW; every reply begins so
    u32 status = 0;
    template <class F> static constexpr void fields(F&& f) { f("status", &StatusReply::status); }
    friend bool operator==(const StatusReply&, const StatusReply&) = default;
};

// Replies of RMSN and TEST; the beginning of all framework replies.
struct SidReply {
    u32 status = 0;
    Sid sid;
    template <class F> static constexpr void fields(F&& f) {
        f("status", &SidReply::status);
        f("sid", &SidReply::sid);
    }
    friend bool operator==(const SidReply&, const SidReply&) = default;
};
static_assert(wire_size<SidReply>() == 20);

// The sender's order by the magic; not ok: not a self test message (length or magic).
Result<Order> message_order(std::span<const std::byte>);

// Decodes header and body parts one after the other; false when the length is not 160 or the magic
// is wrong. The type is the caller's to compare.
template <class... Parts>
bool decode_message(std::span<const std::byte> bytes, Header& header, Parts&... parts) {
    const Result<Order> order = message_order(bytes);
    if (!order.ok()) return false;
    Reader reader(bytes, *order);
    reader.read(header);
    (reader.read(parts), ...);
    return reader.ok();
}

using Message = std::array<std::byte, message_bytes>;
template <class... Parts>
void encode_message(Message& out, Order order, const Header& header, const Parts&... parts) {
    static_assert((wire_size<Parts>() + ... + wire_size<Header>()) <= message_bytes);
    Writer writer(out, order);
    writer.write(header);
    (writer.write(parts), ...);
    writer.zeros(message_bytes - writer.size());
}

// What a server makes of a request before it looks at the body.
enum class Arrival : u8 { good, drop, wrong_version };
Arrival judge_request(std::span<const std::byte>, Type expected, Header& header);

}  // namespace ulnet::lst
