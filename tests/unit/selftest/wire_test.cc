// Self test messages against the vectors and captures of tests/golden: every body, both orders.
#include "selftest/wire.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "selftest/pattern.h"
#include "selftest/placement.h"
#include "selftest/wire_session.h"
#include "tests/golden/golden.h"

namespace ulnet::lst {
namespace {

using nlohmann::json;

Order order_of(const json& record) {
    return record["order"] == "be" ? Order::big : Order::little;
}

// Compares each field of a structure with the vector's field of the same name.
template <class T>
void expect_fields(const T& value, const json& fields, const std::string& prefix = "") {
    T::fields([&]<class Field>(std::string_view name, Field T::*at) {
        if constexpr (std::is_same_v<Field, Sid>) {
            expect_fields(value.*at, fields, "sid_");
        } else if constexpr (std::is_same_v<Field, NameBytes>) {
            EXPECT_EQ(name_text(value.*at),
                      fields.at(std::string(name)).template get<std::string>());
        } else if constexpr (std::integral<Field>) {
            const json& want = fields.at(prefix + std::string(name));
            EXPECT_EQ(value.*at, want.template get<Field>()) << name;
        } else {
            expect_fields(value.*at, fields);
        }
    });
}

template <class... Parts> void agrees(const json& record) {
    const std::vector<std::byte> bytes = golden::unhex(record["bytes"].get<std::string>());
    Header header;
    std::tuple<Parts...> parts;
    std::apply([&](auto&... part) { ASSERT_TRUE(decode_message(bytes, header, part...)); }, parts);
    EXPECT_EQ(*message_order(bytes), order_of(record));
    expect_fields(header, record["fields"]);
    std::apply([&](auto&... part) { (expect_fields(part, record["fields"]), ...); }, parts);
    Message again;
    std::apply([&](auto&... part) { encode_message(again, order_of(record), header, part...); },
               parts);
    EXPECT_EQ(golden::hex(again), golden::hex(bytes));
    // Exactly 160 bytes: no beginning of it, and nothing longer.
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<i64>(size));
        Header ignored;
        EXPECT_FALSE(decode_message(cut, ignored)) << size;
    }
    std::vector<std::byte> longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode_message(longer, header));
}

void ping_request(const json& record) {
    if (!record.value("error", false)) {
        agrees<PingRequest>(record);
        return;
    }
    const std::vector<std::byte> bytes = golden::unhex(record["bytes"].get<std::string>());
    Header header;
    const Arrival arrival = judge_request(bytes, Type::ping, header);
    const std::string expect = golden::text(record, "expect");
    if (expect == "answer_status_EPROTO") {
        EXPECT_EQ(arrival, Arrival::wrong_version);
    } else if (expect == "answer_status_EPROTO_features_1") {
        EXPECT_EQ(arrival, Arrival::good);
        EXPECT_NE(header.features & ~features_known, 0u);
    } else if (arrival == Arrival::good) {  // dropped for its body: the service's affair
        PingRequest body;
        ASSERT_TRUE(decode_message(bytes, header, body));
        EXPECT_NE(body.magic, ping_data_magic);
    } else {
        EXPECT_EQ(arrival, Arrival::drop);
        EXPECT_EQ(expect, "drop");
    }
}

void destination_list(const json& record) {
    const std::vector<std::byte> bytes = golden::unhex(record["bytes"].get<std::string>());
    const u32 count = record["fields"]["count"].get<u32>();
    ASSERT_EQ(bytes.size(), destination_bytes(count));
    std::vector<std::byte> again(bytes.size());
    for (u32 i = 0; i < count; ++i) {
        PackedId id;
        ASSERT_TRUE(decode_destination(bytes, i, order_of(record), id));
        EXPECT_EQ(id.nid, record["fields"]["ids"][i][0].get<u64>());
        EXPECT_EQ(id.pid, record["fields"]["ids"][i][1].get<u32>());
        ASSERT_TRUE(encode_destination(again, i, id, order_of(record)));
    }
    EXPECT_EQ(again, bytes);
    PackedId beyond;
    EXPECT_FALSE(decode_destination(bytes, count, order_of(record), beyond));
    EXPECT_FALSE(decode_destination(bytes, 0xffffffff, order_of(record), beyond));
    EXPECT_FALSE(encode_destination(again, count, beyond, order_of(record)));
    for (std::size_t cut = bytes.size() - 12; cut < bytes.size(); ++cut)
        EXPECT_FALSE(
            decode_destination(std::span(bytes).first(cut), count - 1, order_of(record), beyond));
}

void pattern(const json& record) {
    const json& fields = record["fields"];
    const std::vector<std::byte> want = golden::unhex(record["bytes"].get<std::string>());
    const Check check = fields["check"] == "full" ? Check::full : Check::simple;
    const u32 offset = fields["offset"].get<u32>();
    std::vector<std::byte> data(fields["length"].get<u32>());
    fill_pattern(data, offset, check, order_of(record));
    ASSERT_EQ(data, want);
    EXPECT_TRUE(check_pattern(data, offset, check, order_of(record)));
    EXPECT_FALSE(check_pattern(data, offset, check, other(order_of(record))));
    EXPECT_TRUE(check_pattern(data, offset, Check::none, order_of(record)));
    EXPECT_TRUE(check_pattern(data, offset, Check::discard, order_of(record)));
    // Every bit of a checked word counts, no other does.
    std::vector<bool> checked(data.size(), false);
    for (const json& position : fields["positions"])
        for (std::size_t i = 0; i < 8; ++i) checked[position.get<std::size_t>() + i] = true;
    for (std::size_t i = 0; i < data.size(); ++i) {
        data[i] ^= std::byte{1};
        EXPECT_EQ(check_pattern(data, offset, check, order_of(record)), !checked[i]) << i;
        data[i] ^= std::byte{1};
    }
    for (const json& position : fields["positions"]) {
        poison(data, offset, check);
        fill_pattern(data, offset, check, order_of(record));
        std::memcpy(data.data() + position.get<std::size_t>(), &poison_word, 8);
        EXPECT_FALSE(check_pattern(data, offset, check, order_of(record)));
    }
}

void placement(const json& record) {
    const json& fields = record["fields"];
    const Result<Placement> placed = place(
        fields["sources"].get<u32>(), fields["destinations"].get<u32>(), fields["dist"].get<u32>(),
        fields["span"].get<u32>(), fields.value("concurrency", 8u));
    if (record.value("error", false)) {
        EXPECT_EQ(placed.status().code(), -EINVAL);
        return;
    }
    ASSERT_TRUE(placed.ok());
    EXPECT_EQ(placed->server_loop, fields["server_loop"].get<u32>());
    EXPECT_EQ(placed->clients, fields["clients"].get<std::vector<std::vector<u32>>>());
}

void service(const json& record) {
    const json& fields = record["fields"];
    const Service id = static_cast<Service>(fields["service"].get<u32>());
    EXPECT_EQ(static_cast<u32>(request_type(id)), fields["request_type"].get<u32>());
    EXPECT_EQ(reply_type(request_type(id)), fields["reply_type"].get<u32>());
    EXPECT_EQ(portal_of(id), fields["portal"].get<u32>());
    EXPECT_EQ(static_cast<u64>(id), fields["match_bits"].get<u64>());
}

TEST(SelftestWire, vectors) {
    const golden::Handlers handlers = {
        {"srpc_mksn_request", agrees<MakeSessionRequest>},
        {"srpc_mksn_reply", agrees<MakeSessionReply>},
        {"srpc_rmsn_request", agrees<RemoveSessionRequest>},
        {"srpc_rmsn_reply", agrees<SidReply>},
        {"srpc_join_request", agrees<JoinRequest>},
        {"srpc_join_reply", agrees<MakeSessionReply>},
        {"srpc_debug_request", agrees<DebugRequest>},
        {"srpc_debug_reply", agrees<DebugReply>},
        {"srpc_batch_request", agrees<BatchRequest>},
        {"srpc_batch_reply", agrees<BatchReply>},
        {"srpc_stat_request", agrees<StatRequest>},
        {"srpc_stat_reply", agrees<StatReply>},
        {"srpc_test_request_ping", agrees<TestRequest, PingParams>},
        {"srpc_test_request_brw_v0", agrees<TestRequest, BrwParamsV0>},
        {"srpc_test_request_brw_v1", agrees<TestRequest, BrwParamsV1>},
        {"srpc_test_reply", agrees<SidReply>},
        {"srpc_brw_request", agrees<BrwRequest>},
        {"srpc_brw_reply", agrees<StatusReply>},
        {"srpc_ping_request", ping_request},
        {"srpc_ping_reply", agrees<PingReply>},
        {"srpc_destination_list", destination_list},
        {"brw_pattern", pattern},
        {"lst_placement", placement},
        {"srpc_service", service},
    };
    EXPECT_EQ(golden::for_each("constructed/selftest.jsonl", "struct", handlers), 304u);
}

// What a capture says of a message without looking at it the way we do.
template <class... Parts> void same(std::span<const std::byte> bytes, const json& record) {
    Header header;
    std::tuple<Parts...> parts;
    std::apply([&](auto&... part) { ASSERT_TRUE(decode_message(bytes, header, part...)); }, parts);
    EXPECT_EQ(header.type, record["srpc_type"].get<u32>());
    EXPECT_EQ(header.features, record["srpc_feats"].get<u32>());
    const auto& first = std::get<0>(parts);
    if constexpr (requires { first.rpyid; }) {
        EXPECT_EQ(first.rpyid, golden::number(record["srpc_rpyid"]));
    } else {
        EXPECT_EQ(first.status, record["srpc_status"].get<u32>());
    }
    Message again;
    std::apply(
        [&](auto&... part) { encode_message(again, *message_order(bytes), header, part...); },
        parts);
    EXPECT_EQ(golden::hex(again), golden::hex(bytes));
}

void same_message(std::span<const std::byte> bytes, const json& record) {
    const bool brw = record.value("srpc_service", 0) == 11;
    switch (record["srpc_type"].get<u32>()) {
    case 0:
        same<MakeSessionRequest>(bytes, record);
        break;
    case 1:
        same<MakeSessionReply>(bytes, record);
        break;
    case 2:
        same<RemoveSessionRequest>(bytes, record);
        break;
    case 3:
        same<SidReply>(bytes, record);
        break;
    case 4:
        same<BatchRequest>(bytes, record);
        break;
    case 5:
        same<BatchReply>(bytes, record);
        break;
    case 6:
        same<StatRequest>(bytes, record);
        break;
    case 7:
        same<StatReply>(bytes, record);
        break;
    case 8:
        if (brw)
            same<TestRequest, BrwParamsV1>(bytes, record);
        else
            same<TestRequest, PingParams>(bytes, record);
        break;
    case 9:
        same<SidReply>(bytes, record);
        break;
    case 10:
        same<DebugRequest>(bytes, record);
        break;
    case 11:
        same<DebugReply>(bytes, record);
        break;
    case 12:
        same<BrwRequest>(bytes, record);
        break;
    case 13:
        same<StatusReply>(bytes, record);
        break;
    case 14:
        same<PingRequest>(bytes, record);
        break;
    case 15:
        same<PingReply>(bytes, record);
        break;
    default:
        ADD_FAILURE() << "type " << record["srpc_type"];
    }
}

TEST(SelftestWire, captures_are_reproduced) {
    std::size_t messages = 0;
    for (const char* file : {"02-lst.jsonl", "21-lst-details.jsonl"}) {
        for (const json& record : golden::load(file)) {
            if (!record.contains("srpc_type")) continue;
            SCOPED_TRACE(record["n"].dump());
            const std::vector<std::byte> frame = golden::unhex(record["bytes"].get<std::string>());
            const std::size_t start = record["hdr"].get<std::size_t>();
            ASSERT_EQ(frame.size(), start + message_bytes);
            same_message(std::span(frame).subspan(start), record);
            ++messages;
        }
    }
    EXPECT_GT(messages, 350u);
}

u32 crc32(std::span<const std::byte> bytes) {
    u32 crc = ~0u;
    for (const std::byte byte : bytes) {
        crc ^= static_cast<u32>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

// The captures keep the CRC of large payloads: what kernel nodes sent is what we would send.
TEST(SelftestWire, captured_bulk_data_is_the_pattern) {
    std::map<std::pair<u32, Check>, u32> sums;
    std::size_t compared = 0;
    for (const json& record : golden::load("02-lst.jsonl")) {
        if (!record.value("elided", false)) continue;
        const std::string step = record["step"].get<std::string>();
        const Check check =
            step.find("check=full") != std::string::npos ? Check::full : Check::simple;
        const u32 length = record["length"].get<u32>();
        const auto [sum, made] = sums.try_emplace({length, check}, 0);
        if (made) {
            std::vector<std::byte> data(length);
            fill_pattern(data, 0, check, Order::little);
            sum->second = crc32(data);
        }
        EXPECT_EQ(sum->second, golden::number(record["crc32"])) << record["n"];
        ++compared;
    }
    EXPECT_EQ(compared, 28u);
}

TEST(SelftestWire, names) {
    EXPECT_EQ(name_text(name_from("s1")), "s1");
    EXPECT_EQ(name_text(name_from("")), "");
    const std::string longest(31, 'x');
    EXPECT_EQ(name_text(name_from(longest)), longest);
    EXPECT_EQ(name_text(name_from(longest + "yz")), longest);
    NameBytes full;
    full.fill('a');
    EXPECT_EQ(name_text(full), std::string(31, 'a'));
}

TEST(SelftestWire, random_bytes_never_decode_wrongly) {
    Prng prng(7);
    for (int round = 0; round < 20000; ++round) {
        Message bytes;
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.next());
        if (round % 2 == 0) {
            const u8 magic[] = {0x0d, 0xf0, 0xb0, 0xee};
            std::memcpy(bytes.data(), magic, 4);
        }
        Header header;
        TestRequest test;
        BrwParamsV1 params;
        const bool decoded = decode_message(bytes, header, test, params);
        EXPECT_EQ(decoded, round % 2 == 0);
    }
}

// Odd sizes: whatever is filled is checked, for all lengths and starts near page ends.
TEST(SelftestPattern, fill_and_check_agree) {
    for (const Check check : {Check::simple, Check::full}) {
        for (u32 length = 8; length <= 8200; length += length < 64 ? 8 : 808) {
            for (const u32 offset : {0u, 8u, 512u, 4080u, 4088u}) {
                std::vector<std::byte> data(length);
                poison(data, offset, check);
                EXPECT_FALSE(check_pattern(data, offset, check, native_order));
                fill_pattern(data, offset, check, native_order);
                EXPECT_TRUE(check_pattern(data, offset, check, native_order));
                data.back() ^= std::byte{0x80};
                EXPECT_FALSE(check_pattern(data, offset, check, native_order));
            }
        }
    }
}

}  // namespace
}  // namespace ulnet::lst
