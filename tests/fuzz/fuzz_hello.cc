// Fuzz target: the HELLO of socklnd. What is asked for grows with what is there, never beyond the
// largest HELLO, and what is decoded is encoded to the same bytes.
#include <algorithm>
#include <vector>

#include "lnds/sock/wire.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(hello)(std::span<const std::byte> input) {
    using namespace sock;
    std::size_t before = 0;
    for (std::size_t size = 0; size <= std::min(input.size(), hello_bytes_max); ++size) {
        const std::vector<std::byte> part(input.begin(),
                                          input.begin() + static_cast<std::ptrdiff_t>(size));
        const Result<std::size_t> need = hello_bytes(part);
        if (!need.ok()) {
            CHECK(!decode_hello(part).ok());
            continue;
        }
        CHECK(*need >= before && *need <= hello_bytes_max);
        before = *need;
        const Result<Hello> hello = decode_hello(part);
        if (size < *need) {
            CHECK(!hello.ok());
            continue;
        }
        if (!hello.ok() || size > *need) continue;
        std::array<std::byte, hello_bytes_max> again{};
        CHECK(encode_hello(*hello, again) == size);
        const Result<Hello> twice = decode_hello(std::span(again).first(size));
        CHECK(twice.ok());
        CHECK(*twice == *hello);
    }
}

}  // namespace ulnet
