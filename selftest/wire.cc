// Self test messages: what is not a template of the header.
#include "selftest/wire.h"

#include <algorithm>

#include "selftest/wire_test.h"

namespace ulnet::lst {

std::string name_text(const NameBytes& bytes) {
    const auto end = std::find(bytes.begin(), bytes.end() - 1, '\0');
    return std::string(bytes.begin(), end);
}

NameBytes name_from(std::string_view text) {
    NameBytes bytes{};
    std::copy_n(text.begin(), std::min(text.size(), name_bytes - 1), bytes.begin());
    return bytes;
}

Result<Order> message_order(std::span<const std::byte> bytes) {
    if (bytes.size() != message_bytes) return Status(-EBADMSG);
    for (const Order order : {Order::little, Order::big}) {
        u32 magic = 0;
        Reader reader(bytes, order);
        if (reader.read(magic) && magic == message_magic) return order;
    }
    return Status(-EBADMSG);
}

static std::size_t destination_at(u32 index) {
    return static_cast<std::size_t>(index / ids_per_page) * wire_page_bytes +
           static_cast<std::size_t>(index % ids_per_page) * wire_size<PackedId>();
}

bool encode_destination(std::span<std::byte> list, u32 index, const PackedId& id, Order order) {
    const std::size_t at = destination_at(index);
    if (at > list.size()) return false;
    return Writer(list.subspan(at), order).write(id);
}

bool decode_destination(std::span<const std::byte> list, u32 index, Order order, PackedId& out) {
    const std::size_t at = destination_at(index);
    if (at > list.size()) return false;
    return Reader(list.subspan(at), order).read(out);
}

Arrival judge_request(std::span<const std::byte> bytes, Type expected, Header& header) {
    if (!decode_message(bytes, header) || header.type != static_cast<u32>(expected))
        return Arrival::drop;
    return header.version == message_version ? Arrival::good : Arrival::wrong_version;
}

}  // namespace ulnet::lst
