// The connection request: captured and constructed bytes, every split of them, refusals.
#include "lnet/wire/acceptor.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/golden/golden.h"
#include "tests/unit/wire/random_nid.h"

namespace ulnet {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::byte>;
using Next = ConnRequestStep::Next;

// Feeds `bytes` in pieces of at most `piece`, never more than asked for; the last step.
ConnRequestStep feed(std::span<const std::byte> bytes, std::size_t piece) {
    std::size_t have = 0;
    for (;;) {
        const Bytes so_far(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(have));
        const ConnRequestStep step = decode_conn_request(so_far);
        if (step.next != Next::more || have == bytes.size()) return step;
        EXPECT_GT(step.wanted, 0u);
        have += std::min({piece, std::size_t{step.wanted}, bytes.size() - have});
    }
}

void expect_request(std::span<const std::byte> bytes, const ConnRequest& request, Order order) {
    for (const std::size_t piece : {1u, 3u, 4u, 7u, 8u, 100u}) {
        Bytes stream(bytes.begin(), bytes.end());
        stream.resize(stream.size() + 50, std::byte{0xcc});  // the hello that follows
        const ConnRequestStep step = feed(stream, piece);
        EXPECT_EQ(step.next, Next::request);
        EXPECT_EQ(step.request, request);
        EXPECT_EQ(step.order, order);
        EXPECT_EQ(step.used, bytes.size());
        EXPECT_EQ(step.wanted, 0u);
    }
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        const ConnRequestStep step = decode_conn_request(cut);
        EXPECT_EQ(step.next, Next::more) << size;
        EXPECT_LE(size + step.wanted, bytes.size()) << "asks for bytes of the hello";
    }
    EXPECT_EQ(golden::hex(encode_conn_request(request, order)), golden::hex(bytes));
}

void expect_end(std::span<const std::byte> bytes, Next next) {
    for (const std::size_t piece : {1u, 4u, 100u}) {
        EXPECT_EQ(feed(bytes, piece).next, next);
    }
}

void check_vector(const json& record) {
    const Bytes bytes = golden::unhex(golden::text(record, "bytes"));
    const Order order = golden::text(record, "order") == "be" ? Order::big : Order::little;
    const std::string expect = golden::text(record, "expect");
    if (expect == "incomplete") return expect_end(bytes, Next::more);
    if (expect == "answer_version_1_and_close") return expect_end(bytes, Next::answer);
    if (expect == "close_without_answer") return expect_end(bytes, Next::close);
    if (expect == "answer_to_unknown_version_or_generic_magic") {
        EXPECT_EQ(golden::hex(acceptor_answer(order)), golden::hex(bytes));
    } else {
        EXPECT_EQ(expect, "");
    }
    const json& nid = record["fields"]["nid"];
    ConnRequest request{static_cast<u32>(golden::number(record["fields"]["version"])), Nid()};
    if (nid.is_string()) {
        std::array<u8, 20> raw{};
        const Bytes nid_bytes = golden::unhex(nid.get<std::string>());
        ASSERT_EQ(nid_bytes.size(), raw.size());
        std::memcpy(raw.data(), nid_bytes.data(), raw.size());
        request.target = Nid::from_raw(raw);
    } else {
        request.target = Nid::from_nid4(golden::number(nid));
    }
    expect_request(bytes, request, order);
}

TEST(Acceptor, ConstructedVectors) {
    EXPECT_EQ(golden::for_each("constructed/acceptor.jsonl", "struct",
                               {{"lnet_acceptor_connreq", check_vector},
                                {"lnet_acceptor_connreq_v2", check_vector}}),
              58u);
}

TEST(Acceptor, CapturedRequests) {
    std::size_t checked = 0;
    for (const char* file :
         {"01-lnet-ping-discovery.jsonl", "02-lst.jsonl", "14-host-process-ping.jsonl",
          "17-ipv6.jsonl", "21-lst-details.jsonl"}) {
        for (const json& record : golden::load(file)) {
            if (golden::text(record, "kind") != "connreq") continue;
            SCOPED_TRACE(std::string(file) + " n=" + record["n"].dump());
            ++checked;
            const ConnRequest request =
                ConnRequest::to(*parse_nid(golden::text(record, "target_nid")));
            EXPECT_EQ(request.version, golden::number(record["version"]));
            expect_request(golden::unhex(golden::text(record, "bytes")), request, Order::little);
        }
    }
    EXPECT_EQ(checked, 3u + 2u + 3u + 9u);
}

TEST(Acceptor, RandomRoundTrips) {
    Prng prng(988);
    for (int i = 0; i < 2000; ++i) {
        ConnRequest request = ConnRequest::to(random_nid(prng));
        if (prng.below(4) == 0) request.version = 2;
        const Order order = prng.below(2) == 0 ? Order::little : Order::big;
        const ConnRequestStep step = decode_conn_request(encode_conn_request(request, order));
        ASSERT_EQ(step.next, Next::request);
        ASSERT_EQ(step.request, request);
        ASSERT_EQ(step.order, order);
    }
}

TEST(Acceptor, DecidesEarly) {
    EXPECT_EQ(decode_conn_request({}).wanted, acceptor_v1_bytes);
    expect_end(golden::unhex("63697245"), Next::answer);  // generic magic, nothing else
    expect_end(golden::unhex("45726963"), Next::answer);
    expect_end(golden::unhex("0071ceac03000000"), Next::answer);  // version 3, no NID
    expect_end(golden::unhex("ed0dbcee"), Next::close);
    // Version 2 read as version 1 at first: 16 bytes, then the other 12.
    const Bytes v2 = encode_conn_request(ConnRequest::to(*parse_nid("::1@tcp")));
    EXPECT_EQ(decode_conn_request(std::span(v2).first(8)).wanted, 20u);
    EXPECT_EQ(decode_conn_request(std::span(v2).first(16)).wanted, 12u);
}

TEST(Acceptor, NidLongerThanOursIsRefused) {
    Bytes bytes = encode_conn_request(ConnRequest::to(*parse_nid("::1@tcp")));
    bytes[8] = std::byte{13};
    EXPECT_EQ(decode_conn_request(bytes).next, Next::close);
}

}  // namespace
}  // namespace ulnet
