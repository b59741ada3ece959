// Fuzz target: the LNet header with 20-byte NIDs.
#include <array>

#include "lnet/wire/hdr.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(hdr16)(std::span<const std::byte> input) {
    const Result<Hdr> hdr = decode_hdr16(input);
    if (input.size() < hdr16_bytes) CHECK(!hdr.ok());
    if (!hdr.ok()) return;
    CHECK(hdr->dest_nid.valid() && hdr->src_nid.valid());
    std::array<std::byte, hdr16_bytes> bytes;
    bytes.fill(std::byte{0x5a});
    encode_hdr16(*hdr, bytes);
    const Result<Hdr> again = decode_hdr16(bytes);
    CHECK(again.ok());
    CHECK(*again == *hdr);
    CHECK(!to_text(hdr->dest_nid).empty());
}

}  // namespace ulnet
