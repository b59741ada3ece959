// The HELLO of socklnd, versions 1 to 4, and what connection types mean. Called by the handshakes
// (incoming.cc, connect.cc) and by tests; pure, any thread.
#include <algorithm>
#include <bit>

#include "lnds/sock/wire.h"

namespace ulnet::sock {
namespace {

constexpr std::size_t prefix_bytes = 8;  // magic and version
constexpr u32 lnet_type_hello = 4;

// What the first 8 bytes say; version 0 = not enough of them.
struct Prefix {
    u32 version = 0;
    Order order = Order::little;
};

Result<Prefix> read_prefix(std::span<const std::byte> have) {
    if (have.size() < 4) return Prefix{};
    Prefix prefix;
    u32 magic = 0;
    Reader(have, Order::little).read(magic);
    if (magic == hello_magic_v1) {
        if (have.size() < prefix_bytes) return Prefix{};
        Le<u16> major, minor;
        Reader reader(have.subspan(4));
        reader.read(major);
        reader.read(minor);
        if (major != 1 || minor != 0) return Status(-EPROTO);
        prefix.version = 1;
        return prefix;
    }
    if (magic != hello_magic) {
        prefix.order = Order::big;
        Reader(have, Order::big).read(magic);
        if (magic != hello_magic) return Status(-EPROTO);
    }
    if (have.size() < prefix_bytes) return Prefix{};
    Reader(have.subspan(4), prefix.order).read(prefix.version);
    if (prefix.version < 2 || prefix.version > version_max) return Status(-EPROTONOSUPPORT);
    return prefix;
}

template <class Raw> void take_common(const Raw& raw, Hello& hello) {
    hello.src_pid = raw.src_pid;
    hello.dst_pid = raw.dst_pid;
    hello.src_incarnation = raw.src_incarnation;
    hello.dst_incarnation = raw.dst_incarnation;
    hello.type = raw.type;
    hello.nips = raw.nips;
}

template <class Raw> void put_common(const Hello& hello, Raw& raw) {
    raw.magic = hello_magic;
    raw.version = hello.version;
    raw.src_pid = hello.src_pid;
    raw.dst_pid = hello.dst_pid;
    raw.src_incarnation = hello.src_incarnation;
    raw.dst_incarnation = hello.dst_incarnation;
    raw.type = hello.type;
    raw.nips = hello.nips;
}

bool take_v1(Reader& reader, Hello& hello) {
    HelloV1 raw;
    reader.read(raw);
    hello.src_nid = Nid::from_nid4(raw.src_nid);
    hello.dst_nid = Nid();
    hello.dst_pid = raw.dest_pid;
    hello.src_pid = raw.src_pid;
    hello.src_incarnation = raw.incarnation;
    hello.type = raw.conn_type;
    hello.nips = raw.payload_length / 4;
    return raw.type == lnet_type_hello && raw.payload_length % 4 == 0;
}

void put_v1(const Hello& hello, Writer& writer) {
    HelloV1 raw;
    raw.magic = hello_magic_v1;
    raw.major = 1;
    raw.minor = 0;
    raw.src_nid = hello.src_nid.nid4();
    raw.dest_pid = hello.dst_pid;
    raw.src_pid = hello.src_pid;
    raw.type = lnet_type_hello;
    raw.payload_length = 4 * hello.nips;
    raw.incarnation = hello.src_incarnation;
    raw.conn_type = hello.type;
    writer.write(raw);
}

bool take_v3(Reader& reader, Hello& hello) {
    HelloV3 raw{};
    reader.read(raw);
    take_common(raw, hello);
    hello.src_nid = Nid::from_nid4(raw.src_nid);
    hello.dst_nid = Nid::from_nid4(raw.dst_nid);
    return true;
}

void put_v3(const Hello& hello, Writer& writer) {
    HelloV3 raw{};
    put_common(hello, raw);
    raw.src_nid = hello.src_nid.nid4();
    raw.dst_nid = hello.dst_nid.nid4();
    writer.write(raw);
}

bool take_v4(Reader& reader, Hello& hello) {
    HelloV4 raw{};
    reader.read(raw);
    take_common(raw, hello);
    hello.src_nid = Nid::from_raw(raw.src_nid);
    hello.dst_nid = Nid::from_raw(raw.dst_nid);
    return true;
}

void put_v4(const Hello& hello, Writer& writer) {
    HelloV4 raw{};
    put_common(hello, raw);
    raw.src_nid = hello.src_nid.raw();
    raw.dst_nid = hello.dst_nid.raw();
    writer.write(raw);
}

// The HELLO of one version.
struct Form {
    std::size_t fixed_bytes;
    std::size_t count_at;  // where the number of addresses behind the fixed part stands,
    u32 count_unit;        // counted in these
    // False: not a HELLO. Too few bytes show in the reader.
    bool (*take)(Reader&, Hello&);
    void (*put)(const Hello&, Writer&);
};

constexpr Form forms[] = {
    {wire_size<HelloV1>(), wire_offset<HelloV1>("payload_length"), 4, take_v1, put_v1},
    {wire_size<HelloV3>(), wire_offset<HelloV3>("nips"), 1, take_v3, put_v3},
    {wire_size<HelloV3>(), wire_offset<HelloV3>("nips"), 1, take_v3, put_v3},
    {wire_size<HelloV4>(), wire_offset<HelloV4>("nips"), 1, take_v4, put_v4},
};
static_assert(std::size(forms) == version_max);

const Form& form_of(u32 version) {
    return forms[version - 1];
}

}  // namespace

std::optional<ConnType> invert(u32 type) {
    switch (static_cast<ConnType>(type)) {
    case ConnType::any:
    case ConnType::control:
        return static_cast<ConnType>(type);
    case ConnType::bulk_in:
        return ConnType::bulk_out;
    case ConnType::bulk_out:
        return ConnType::bulk_in;
    case ConnType::none:
        break;
    }
    return std::nullopt;
}

std::string_view to_text(ConnType type) {
    switch (type) {
    case ConnType::any:
        return "any";
    case ConnType::control:
        return "control";
    case ConnType::bulk_in:
        return "bulk_in";
    case ConnType::bulk_out:
        return "bulk_out";
    case ConnType::none:
        break;
    }
    return "none";
}

u32 conns_per_peer_of(u32 speed_mbit) {
    const u32 thousands = std::max(speed_mbit, 1000u) / 1000;
    return static_cast<u32>(std::bit_width(thousands) - 1) / 2 + 1;
}

Result<std::size_t> hello_bytes(std::span<const std::byte> have) {
    const Result<Prefix> prefix = read_prefix(have);
    if (!prefix.ok()) return prefix.status();
    if (prefix->version == 0) return prefix_bytes;
    const Form& form = form_of(prefix->version);
    if (have.size() < form.fixed_bytes) return form.fixed_bytes;
    u32 count = 0;
    Reader(have.subspan(form.count_at), prefix->order).read(count);
    count /= form.count_unit;
    if (count > hello_ips_max) return Status(-EPROTO);
    return form.fixed_bytes + 4 * std::size_t{count};
}

Result<Hello> decode_hello(std::span<const std::byte> bytes) {
    const Result<Prefix> prefix = read_prefix(bytes);
    if (!prefix.ok()) return prefix.status();
    if (prefix->version == 0) return Status(-EPROTO);
    Hello hello;
    hello.version = prefix->version;
    hello.order = prefix->order;
    Reader reader(bytes, prefix->order);
    const bool valid = form_of(hello.version).take(reader, hello);
    if (!valid || !reader.ok() || hello.nips > hello_ips_max || hello.src_nid.any())
        return Status(-EPROTO);
    for (u32 i = 0; i < hello.nips; ++i) {
        reader.read(hello.ips[i]);
        if (hello.ips[i] == 0) return Status(-EPROTO);
    }
    if (!reader.ok()) return Status(-EPROTO);
    return hello;
}

std::size_t encode_hello(const Hello& hello, std::span<std::byte> to) {
    CHECK(hello.nips <= hello_ips_max);
    CHECK(hello.version >= version_min);
    CHECK(hello.version <= version_max);
    Writer writer(to, hello.version == 1 ? Order::little : hello.order);
    form_of(hello.version).put(hello, writer);
    for (u32 i = 0; i < hello.nips; ++i) writer.write(hello.ips[i]);
    CHECK(writer.ok());
    return writer.size();
}

}  // namespace ulnet::sock
