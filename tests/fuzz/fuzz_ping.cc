// Fuzz target: the ping buffer. What the decoder skips (metadata, NIDs longer than ours) is not
// encoded again, so the second decoding is compared with a third.
#include <algorithm>

#include "lnet/wire/ping.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(ping)(std::span<const std::byte> input) {
    const Result<PingInfo> info = decode_ping(input);
    if (!info.ok()) return;
    CHECK(info->truncated == (info->bytes > input.size()));
    CHECK(info->nis.size() < ping_nis_max);
    const std::vector<std::byte> bytes = encode_ping(*info);
    const Result<PingInfo> second = decode_ping(bytes);
    CHECK(second.ok());
    CHECK(!second->truncated && second->bytes == bytes.size());
    CHECK(second->pid == info->pid && second->sequence == info->sequence);
    CHECK(std::ranges::is_permutation(second->nis, info->nis));
    const Result<PingInfo> third = decode_ping(encode_ping(*second, other(native_order)));
    CHECK(third.ok());
    CHECK(*third == *second);
    CHECK(third->primary() == second->primary());
}

}  // namespace ulnet
