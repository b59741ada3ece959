// Self test messages: whatever decodes must encode to the same bytes, in its own order; destination
// lists and data checks stay within what they are given.
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "selftest/pattern.h"
#include "selftest/wire.h"
#include "selftest/wire_session.h"
#include "selftest/wire_test.h"

namespace ulnet {
namespace {

using namespace lst;

// Encodes what was decoded and decodes that: the same values.
template <class... Parts> void round_trip(std::span<const std::byte> input) {
    Header header;
    std::tuple<Parts...> parts;
    const bool decoded =
        std::apply([&](auto&... part) { return decode_message(input, header, part...); }, parts);
    CHECK(decoded == message_order(input).ok());
    if (!decoded) return;
    CHECK(input.size() == message_bytes && header.magic == message_magic);
    Message again;
    std::apply(
        [&](auto&... part) { encode_message(again, *message_order(input), header, part...); },
        parts);
    const std::size_t used = (wire_size<Header>() + ... + wire_size<Parts>());
    CHECK(std::equal(again.begin(), again.begin() + static_cast<i64>(used), input.begin()));
    CHECK(std::all_of(again.begin() + static_cast<i64>(used), again.end(),
                      [](std::byte byte) { return byte == std::byte{0}; }));
}

void destinations(std::span<const std::byte> input) {
    for (const Order order : {Order::little, Order::big}) {
        for (u32 index = 0; index < 1024; ++index) {
            PackedId id;
            if (!decode_destination(input, index, order, id)) {
                CHECK(destination_bytes(index + 1) > input.size());
                break;
            }
            CHECK(destination_bytes(index + 1) <= input.size());
            std::vector<std::byte> again(input.size());
            CHECK(encode_destination(again, index, id, order));
        }
    }
}

void data(std::span<const std::byte> input) {
    // What is filled comes in whole words.
    std::vector<std::byte> copy(input.size() / word_bytes * word_bytes);
    for (const Check check : {Check::none, Check::simple, Check::full, Check::discard}) {
        check_pattern(input, 0, check, Order::little);
        const u32 offset = input.empty() ? 0 : static_cast<u32>(input[0]) * 8;
        fill_pattern(copy, offset, check, Order::big);
        CHECK(check_pattern(copy, offset, check, Order::big));
        poison(copy, offset, check);
    }
}

}  // namespace

FUZZ_TARGET(selftest)(std::span<const std::byte> input) {
    round_trip<MakeSessionRequest>(input);
    round_trip<MakeSessionReply>(input);
    round_trip<RemoveSessionRequest>(input);
    round_trip<SidReply>(input);
    round_trip<JoinRequest>(input);
    round_trip<DebugRequest>(input);
    round_trip<DebugReply>(input);
    round_trip<BatchRequest>(input);
    round_trip<BatchReply>(input);
    round_trip<StatRequest>(input);
    round_trip<StatReply>(input);
    round_trip<TestRequest, PingParams>(input);
    round_trip<TestRequest, BrwParamsV0>(input);
    round_trip<TestRequest, BrwParamsV1>(input);
    round_trip<PingRequest>(input);
    round_trip<PingReply>(input);
    round_trip<BrwRequest>(input);
    round_trip<StatusReply>(input);
    Header header;
    const Arrival arrival = judge_request(input, Type::test, header);
    CHECK(arrival == Arrival::drop || input.size() == message_bytes);
    destinations(input);
    data(input);
}

}  // namespace ulnet
