// Fuzz target: packed lists of process ids.
#include "lnet/wire/process_id.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(process_id)(std::span<const std::byte> input) {
    for (const Order order : {Order::little, Order::big}) {
        const auto ids = decode_process_ids(input, order);
        CHECK(ids.ok() == (input.size() % 12 == 0));
        if (!ids.ok()) return;
        const auto bytes = encode_process_ids(*ids, order);
        CHECK(bytes.size() == input.size());
        CHECK(*decode_process_ids(bytes, order) == *ids);
    }
}

}  // namespace ulnet
