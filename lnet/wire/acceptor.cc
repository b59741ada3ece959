// Codec of the connection request; see acceptor.h.
#include "lnet/wire/acceptor.h"

#include "lnet/wire/fields.h"

namespace ulnet {
namespace {

using namespace acceptor_fields;

using Next = ConnRequestStep::Next;

ConnRequestStep end(Next next) {
    ConnRequestStep step;
    step.next = next;
    step.wanted = 0;
    return step;
}

// The magic and then the version decide alone; reads the order from the magic.
Next judge_front(std::span<const std::byte> so_far, Order& order, u32& version) {
    for (const Order candidate : {native_order, other(native_order)}) {
        Reader reader(so_far, candidate);
        u32 magic = 0;
        if (!reader.read(magic)) return Next::more;
        if (magic == lnet_generic_magic) return Next::answer;
        if (magic != acceptor_magic) continue;
        order = candidate;
        if (!reader.read(version)) return Next::more;
        return version == 1 || version == 2 ? Next::request : Next::answer;
    }
    return Next::close;
}

}  // namespace

ConnRequestStep decode_conn_request(std::span<const std::byte> so_far) {
    ConnRequestStep step;
    u32 version = 0;
    const Next next = judge_front(so_far, step.order, version);
    if (next == Next::answer || next == Next::close) return end(next);
    const u32 whole = version == 2 ? acceptor_v2_bytes : acceptor_v1_bytes;
    if (so_far.size() < whole) {
        step.wanted = whole - static_cast<u32>(so_far.size());
        return step;
    }
    Reader reader(so_far, step.order);
    step.request.version = version;
    if (version == 1) {
        RequestV1 v1;
        reader.read(v1);
        step.request.target = Nid::from_nid4(v1.nid);
    } else {
        RequestV2 v2;
        reader.read(v2);
        step.request.target = Nid::from_raw(v2.nid);
    }
    if (!reader.ok() || !step.request.target.valid()) return end(Next::close);
    step.next = Next::request;
    step.wanted = 0;
    step.used = whole;
    return step;
}

std::vector<std::byte> encode_conn_request(const ConnRequest& request, Order order) {
    CHECK(request.version == 2 || (request.version == 1 && request.target.is_nid4()));
    const Front front{acceptor_magic, request.version};
    std::vector<std::byte> bytes(request.version == 1 ? acceptor_v1_bytes : acceptor_v2_bytes);
    Writer writer(bytes, order);
    if (request.version == 1) {
        writer.write(RequestV1{front, request.target.nid4()});
    } else {
        writer.write(RequestV2{front, request.target.raw()});
    }
    CHECK(writer.ok());
    return bytes;
}

std::vector<std::byte> acceptor_answer(Order order) {
    std::vector<std::byte> bytes(acceptor_v1_bytes);
    Writer writer(bytes, order);
    writer.write(RequestV1{{acceptor_magic, 1}, 0});
    CHECK(writer.ok());
    return bytes;
}

}  // namespace ulnet
