// Fuzz target: frames of socklnd. The first byte picks version and order, the rest is a stream of
// frames that is walked as a receiver does it; each header is encoded to what was decoded.
#include <algorithm>
#include <vector>

#include "lnds/sock/wire.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(frame)(std::span<const std::byte> input) {
    using namespace sock;
    if (input.empty()) return;
    const u32 pick = static_cast<u32>(input[0]);
    const Framing framing{1 + pick % 4, pick & 4 ? Order::big : Order::little};
    input = input.subspan(1);
    while (!input.empty()) {
        const Result<u32> need = frame_bytes(framing, input);
        if (!need.ok()) return;
        CHECK(*need > 0 && *need <= frame_bytes_max);
        for (std::size_t size = 0; size < std::min<std::size_t>(*need, input.size()); ++size) {
            const std::vector<std::byte> part(input.begin(),
                                              input.begin() + static_cast<std::ptrdiff_t>(size));
            const Result<u32> less = frame_bytes(framing, part);
            CHECK(less.ok() && *less > size && *less <= *need);
            CHECK(!decode_frame(framing, part).ok());
        }
        if (input.size() < *need) return;
        const Result<Frame> frame = decode_frame(framing, input.first(*need));
        if (!frame.ok()) return;
        static_cast<void>(zc_ack_of(framing.version, *frame));
        static_cast<void>(crc_start(framing, input.first(*need)));
        std::array<std::byte, frame_bytes_max> again{};
        CHECK(encode_frame(framing, *frame, again) == *need);
        const Result<Frame> twice = decode_frame(framing, std::span(again).first(*need));
        CHECK(twice.ok() && *twice == *frame);
        const std::size_t payload = frame->lnet ? frame->hdr.payload_length : 0;
        input = input.subspan(*need);
        input = input.subspan(std::min(payload, input.size()));
    }
}

}  // namespace ulnet
