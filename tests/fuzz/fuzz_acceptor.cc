// Fuzz target: the connection request. The answer for more bytes never contradicts the answer for
// fewer, and no byte behind the request is ever asked for.
#include <algorithm>

#include "lnet/wire/acceptor.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(acceptor)(std::span<const std::byte> input) {
    using Next = ConnRequestStep::Next;
    const ConnRequestStep whole = decode_conn_request(input);
    for (std::size_t size = 0; size <= std::min<std::size_t>(input.size(), 32); ++size) {
        const std::vector<std::byte> part(input.begin(),
                                          input.begin() + static_cast<std::ptrdiff_t>(size));
        const ConnRequestStep step = decode_conn_request(part);
        if (step.next == Next::more) {
            CHECK(step.wanted > 0 && size + step.wanted <= acceptor_v2_bytes);
            if (whole.next == Next::request) CHECK(size + step.wanted <= whole.used);
        } else {
            CHECK(step.next == whole.next && step.used == whole.used);
            CHECK(step.request == whole.request && step.order == whole.order);
        }
    }
    if (whole.next != Next::request) return;
    const auto bytes = encode_conn_request(whole.request, whole.order);
    CHECK(bytes.size() == whole.used);
    CHECK(decode_conn_request(bytes).request == whole.request);
}

}  // namespace ulnet
