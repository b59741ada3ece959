// Codec of lists of process ids; see process_id.h.
#include "lnet/wire/process_id.h"

#include <cerrno>

namespace ulnet {

Result<std::vector<ProcessId>> decode_process_ids(std::span<const std::byte> bytes, Order sender) {
    constexpr std::size_t entry_bytes = wire_size<PackedProcessId>();
    if (bytes.size() % entry_bytes != 0) return Status(-EPROTO);
    std::vector<ProcessId> ids;
    ids.reserve(bytes.size() / entry_bytes);
    Reader reader(bytes, sender);
    while (reader.remaining() > 0) {
        PackedProcessId packed;
        reader.read(packed);
        ids.push_back({Nid::from_nid4(packed.nid), packed.pid});
    }
    return ids;
}

std::vector<std::byte> encode_process_ids(std::span<const ProcessId> ids, Order order) {
    std::vector<std::byte> bytes(ids.size() * wire_size<PackedProcessId>());
    Writer writer(bytes, order);
    for (const ProcessId& id : ids) {
        CHECK(id.nid.is_nid4());
        writer.write(PackedProcessId{id.nid.nid4(), id.pid});
    }
    CHECK(writer.ok());
    return bytes;
}

}  // namespace ulnet
