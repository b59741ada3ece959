// Codec of the LNet header in both sizes; see hdr.h. Runs on workers, once a message; allocates
// nothing.
#include "lnet/wire/hdr.h"

#include <cerrno>

namespace ulnet {
namespace {

using NidBytes = std::array<u8, Nid::bytes_max>;

// What comes before the union, by size of the NIDs.
struct Front4 {
    Le<u64> dest_nid, src_nid;
    Le<u32> dest_pid, src_pid, type, payload_length;
    template <class F> static constexpr void fields(F&& f) {
        f("dest_nid", &Front4::dest_nid);
        f("src_nid", &Front4::src_nid);
        f("dest_pid", &Front4::dest_pid);
        f("src_pid", &Front4::src_pid);
        f("type", &Front4::type);
        f("payload_length", &Front4::payload_length);
    }
};
struct Front16 {
    NidBytes dest_nid, src_nid;
    Le<u32> dest_pid, src_pid, type, payload_length;
    template <class F> static constexpr void fields(F&& f) {
        f("dest_nid", &Front16::dest_nid);
        f("src_nid", &Front16::src_nid);
        f("dest_pid", &Front16::dest_pid);
        f("src_pid", &Front16::src_pid);
        f("type", &Front16::type);
        f("payload_length", &Front16::payload_length);
    }
};

// The union: 40 bytes, those behind the type's own fields are zero.
constexpr std::size_t union_bytes = 40;
struct Put {
    WireHandle ack;
    Le<u64> match_bits;
    Opaque<u64> hdr_data;
    Le<u32> portal, offset;
    template <class F> static constexpr void fields(F&& f) {
        f("ack", &Put::ack);
        f("match_bits", &Put::match_bits);
        f("hdr_data", &Put::hdr_data);
        f("portal", &Put::portal);
        f("offset", &Put::offset);
    }
};
struct Get {
    WireHandle reply;
    Le<u64> match_bits;
    Le<u32> portal, offset, sink_length;
    template <class F> static constexpr void fields(F&& f) {
        f("reply", &Get::reply);
        f("match_bits", &Get::match_bits);
        f("portal", &Get::portal);
        f("offset", &Get::offset);
        f("sink_length", &Get::sink_length);
    }
};
struct Ack {
    WireHandle destination;
    Le<u64> match_bits;
    Le<u32> mlength;
    template <class F> static constexpr void fields(F&& f) {
        f("destination", &Ack::destination);
        f("match_bits", &Ack::match_bits);
        f("mlength", &Ack::mlength);
    }
};
struct Hello {
    Le<u64> incarnation;
    Le<u32> conn_type;
    template <class F> static constexpr void fields(F&& f) {
        f("incarnation", &Hello::incarnation);
        f("conn_type", &Hello::conn_type);
    }
};

static_assert(wire_size<Front4>() == 32 && wire_size<Front4>() + union_bytes == hdr4_bytes);
static_assert(wire_size<Front16>() == 56 && wire_size<Front16>() + union_bytes == hdr16_bytes);
static_assert(wire_offset<Front4>("type") == 24 && wire_offset<Front4>("payload_length") == 28);
static_assert(wire_offset<Front16>("dest_pid") == 40 && wire_offset<Front16>("type") == 48);
static_assert(wire_size<WireHandle>() == 16);
static_assert(wire_size<Put>() == union_bytes && wire_offset<Put>("match_bits") == 16);
static_assert(wire_offset<Put>("hdr_data") == 24 && wire_offset<Put>("portal") == 32);
static_assert(wire_size<Get>() == 36 && wire_offset<Get>("portal") == 24);
static_assert(wire_offset<Get>("sink_length") == 32);
static_assert(wire_size<Ack>() == 28 && wire_offset<Ack>("mlength") == 24);
static_assert(wire_size<Hello>() == 12 && wire_offset<Hello>("conn_type") == 8);

Nid to_nid(Le<u64> nid4) {
    return Nid::from_nid4(nid4);
}
Nid to_nid(const NidBytes& raw) {
    return Nid::from_raw(raw);
}
void from_nid(const Nid& nid, Le<u64>& out) {
    CHECK(nid.is_nid4());
    out = nid.nid4();
}
void from_nid(const Nid& nid, NidBytes& out) {
    out = nid.raw();
}

void read_union(Reader& reader, Hdr& hdr) {
    switch (hdr.type) {
    case MsgType::put: {
        Put put;
        reader.read(put);
        hdr.handle = put.ack;
        hdr.match_bits = put.match_bits;
        hdr.hdr_data = put.hdr_data;
        hdr.portal = put.portal;
        hdr.offset = put.offset;
        return;
    }
    case MsgType::get: {
        Get get;
        reader.read(get);
        hdr.handle = get.reply;
        hdr.match_bits = get.match_bits;
        hdr.portal = get.portal;
        hdr.offset = get.offset;
        hdr.sink_length = get.sink_length;
        return;
    }
    case MsgType::reply:
        reader.read(hdr.handle);
        return;
    case MsgType::ack: {
        Ack ack;
        reader.read(ack);
        hdr.handle = ack.destination;
        hdr.match_bits = ack.match_bits;
        hdr.mlength = ack.mlength;
        return;
    }
    case MsgType::hello: {
        Hello hello;
        reader.read(hello);
        hdr.incarnation = hello.incarnation;
        hdr.conn_type = hello.conn_type;
        return;
    }
    }
    reader.fail();
}

void write_union(const Hdr& hdr, Writer& writer) {
    switch (hdr.type) {
    case MsgType::put:
        writer.write(Put{hdr.handle, {hdr.match_bits}, {hdr.hdr_data}, {hdr.portal}, {hdr.offset}});
        return;
    case MsgType::get:
        writer.write(
            Get{hdr.handle, {hdr.match_bits}, {hdr.portal}, {hdr.offset}, {hdr.sink_length}});
        return;
    case MsgType::reply:
        writer.write(hdr.handle);
        return;
    case MsgType::ack:
        writer.write(Ack{hdr.handle, {hdr.match_bits}, {hdr.mlength}});
        return;
    case MsgType::hello:
        writer.write(Hello{{hdr.incarnation}, {hdr.conn_type}});
        return;
    }
}

template <class Front> Result<Hdr> decode(std::span<const std::byte> bytes) {
    const Status malformed{-EPROTO};
    if (bytes.size() < wire_size<Front>() + union_bytes) return malformed;
    Reader reader(bytes);
    Front front;
    reader.read(front);
    Hdr hdr;
    hdr.dest_nid = to_nid(front.dest_nid);
    hdr.src_nid = to_nid(front.src_nid);
    hdr.dest_pid = front.dest_pid;
    hdr.src_pid = front.src_pid;
    hdr.type = static_cast<MsgType>(front.type.value);
    hdr.payload_length = front.payload_length;
    read_union(reader, hdr);
    if (!reader.ok() || !hdr.dest_nid.valid() || !hdr.src_nid.valid()) return malformed;
    return hdr;
}

template <class Front> void encode(const Hdr& hdr, std::span<std::byte> bytes) {
    Front front;
    from_nid(hdr.dest_nid, front.dest_nid);
    from_nid(hdr.src_nid, front.src_nid);
    front.dest_pid = hdr.dest_pid;
    front.src_pid = hdr.src_pid;
    front.type = static_cast<u32>(hdr.type);
    front.payload_length = hdr.payload_length;
    Writer writer(bytes);
    writer.write(front);
    write_union(hdr, writer);
    writer.zeros(bytes.size() - writer.size());
    DCHECK(writer.ok());
}

}  // namespace

Result<Hdr> decode_hdr4(std::span<const std::byte> bytes) {
    return decode<Front4>(bytes);
}
Result<Hdr> decode_hdr16(std::span<const std::byte> bytes) {
    return decode<Front16>(bytes);
}
void encode_hdr4(const Hdr& hdr, std::span<std::byte, hdr4_bytes> bytes) {
    encode<Front4>(hdr, bytes);
}
void encode_hdr16(const Hdr& hdr, std::span<std::byte, hdr16_bytes> bytes) {
    encode<Front16>(hdr, bytes);
}

}  // namespace ulnet
