// Fuzz target: wiredump. The input is a capture file (the first bit of it picks how much is
// printed), and each of its bytes' tails is offered to every format.
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tools/wiredump_capture.h"
#include "tools/wiredump_dump.h"

namespace ulnet {

FUZZ_TARGET(wiredump)(std::span<const std::byte> input) {
    using namespace tools;
    if (input.empty()) return;
    const bool fields = (static_cast<unsigned>(input[0]) & 1) != 0;
    const u32 version = 1 + static_cast<u32>(input[0]) / 2 % 4;
    input = input.subspan(1);
    std::size_t written = 0;
    const Error error = dump_capture(input, {{fields}, version},
                                     [&](std::string_view text) { written += text.size(); });
    CHECK(error.ok() == error.text.empty());
    if (input.size() > 512) return;
    std::string text;
    for (const Format& format : formats())
        for (const Order order : {Order::little, Order::big})
            CHECK(format.print(text, input, order, {fields}) <= input.size());
}

}  // namespace ulnet
