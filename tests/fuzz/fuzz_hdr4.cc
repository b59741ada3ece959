// Fuzz target: the LNet header with 8-byte NIDs.
#include <array>

#include "lnet/wire/hdr.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(hdr4)(std::span<const std::byte> input) {
    const Result<Hdr> hdr = decode_hdr4(input);
    if (input.size() < hdr4_bytes) CHECK(!hdr.ok());
    if (!hdr.ok()) return;
    CHECK(hdr->dest_nid.valid() && hdr->src_nid.valid());
    std::array<std::byte, hdr4_bytes> bytes;
    bytes.fill(std::byte{0x5a});
    encode_hdr4(*hdr, bytes);
    const Result<Hdr> again = decode_hdr4(bytes);
    CHECK(again.ok());
    CHECK(*again == *hdr);
    CHECK(!to_text(hdr->dest_nid).empty());
}

}  // namespace ulnet
