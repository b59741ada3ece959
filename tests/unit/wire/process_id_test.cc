// Process ids, packed and as text, and the counters of a STAT reply.
#include "lnet/wire/process_id.h"

#include <cerrno>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lnet/wire/counters.h"
#include "tests/golden/golden.h"
#include "tests/unit/wire/random_nid.h"

namespace ulnet {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::byte>;

Order order_of(const json& record) {
    return golden::text(record, "order") == "be" ? Order::big : Order::little;
}

void check_packed(const json& record) {
    const Bytes bytes = golden::unhex(golden::text(record, "bytes"));
    const json& fields = record["fields"];
    const auto ids = decode_process_ids(bytes, order_of(record));
    ASSERT_TRUE(ids.ok());
    ASSERT_EQ(ids->size(), 1u);
    EXPECT_EQ((*ids)[0].nid.nid4(), golden::number(fields["nid"]));
    EXPECT_EQ((*ids)[0].pid, golden::number(fields["pid"]));
    EXPECT_EQ(golden::hex(encode_process_ids(*ids, order_of(record))), golden::hex(bytes));
    for (std::size_t size = 1; size < bytes.size(); ++size) {
        const auto cut = decode_process_ids(std::span(bytes).first(size), order_of(record));
        EXPECT_EQ(cut.status().code(), -EPROTO);
    }
}

void check_counters(const json& record) {
    const Bytes bytes = golden::unhex(golden::text(record, "bytes"));
    Reader reader(bytes, order_of(record));
    WireCounters counters;
    ASSERT_TRUE(reader.read(counters));
    EXPECT_EQ(reader.remaining(), 0u);
    const json& fields = record["fields"];
    std::size_t compared = 0;
    WireCounters::fields([&]<class Field>(std::string_view name, Field WireCounters::*field) {
        EXPECT_EQ(counters.*field, golden::number(fields.at(std::string(name)))) << name;
        ++compared;
    });
    EXPECT_EQ(compared, fields.size());
    Bytes encoded(wire_size<WireCounters>());
    EXPECT_TRUE(Writer(encoded, order_of(record)).write(counters));
    EXPECT_EQ(golden::hex(encoded), golden::hex(bytes));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(Reader(std::span(bytes).first(size)).read(counters));
    }
}

void check_text(const json& record) {
    const json& fields = record["fields"];
    const ProcessId id{*parse_nid(golden::text(fields, "nid")),
                       static_cast<u32>(golden::number(fields["pid"]))};
    EXPECT_EQ(to_text(id), golden::text(fields, "text"));
}

TEST(ProcessId, ConstructedVectors) {
    golden::Handlers handlers = {{"lnet_process_id_packed", check_packed},
                                 {"lnet_counters_common", check_counters},
                                 {"process_id_text", check_text}};
    for (const char* type : {"ack", "put", "get", "reply", "hello"}) {  // hdr_test.cc
        handlers[std::string("lnet_hdr_nid4_") + type] = golden::elsewhere;
        handlers[std::string("lnet_hdr_nid16_") + type] = golden::elsewhere;
    }
    EXPECT_EQ(golden::for_each("constructed/lnet_header.jsonl", "struct", handlers), 14u);
}

TEST(ProcessId, Lists) {
    Prng prng(3);
    for (std::size_t length : {0u, 1u, 2u, 341u}) {
        std::vector<ProcessId> ids;
        while (ids.size() < length) ids.push_back({random_nid4(prng), u32(prng.next())});
        for (const Order order : {Order::little, Order::big}) {
            const Bytes bytes = encode_process_ids(ids, order);
            EXPECT_EQ(bytes.size(), 12 * length);
            EXPECT_EQ(*decode_process_ids(bytes, order), ids);
        }
    }
}

}  // namespace
}  // namespace ulnet
