// Codec of the LNet header in both sizes; see hdr.h. Runs on workers, once a message; allocates
// nothing.
#include "lnet/wire/hdr.h"

#include <cerrno>

#include "lnet/wire/fields.h"

namespace ulnet {
namespace {

using namespace hdr_fields;

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
