// Fuzz target: the messages of the libfabric driver. What is decoded is encoded and decoded to the
// same.
#include <vector>

#include "lnds/ofi/wire.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {
namespace {

using namespace ofi;
using Bytes = std::span<const std::byte>;

void immediate(const Head& head, Bytes bytes) {
    Bytes payload, again_payload;
    const Result<Hdr> hdr = decode_immediate(bytes, payload);
    if (!hdr.ok()) return;
    std::vector<std::byte> copy(payload.begin(), payload.end());
    const Mem mem(copy.data(), static_cast<u32>(copy.size()));
    std::vector<std::byte> again(immediate_bytes + copy.size());
    CHECK(encode_immediate(head, *hdr, {&mem, 0, mem.size()}, again) == bytes.size());
    CHECK(*decode_immediate(again, again_payload) == *hdr);
    CHECK(again_payload.size() == payload.size());
}

template <class Body>
void there_and_back(const Head& head, Bytes bytes, const Result<Body>& body,
                    Result<Body> (*decode)(Bytes)) {
    if (!body.ok()) return;
    std::vector<std::byte> again(message_bytes_max);
    const u32 size = encode(head, *body, again);
    CHECK(size <= bytes.size());
    CHECK(*decode(std::span(again).first(size)) == *body);
}

}  // namespace

FUZZ_TARGET(ofi)(std::span<const std::byte> input) {
    const Result<Head> head = decode_head(input);
    if (!head.ok()) return;
    CHECK(head->length >= head_bytes && head->length <= input.size());
    const Bytes bytes = input.first(head->length);
    switch (head->type) {
    case Type::hello_request:
    case Type::hello_answer:
        return there_and_back<Hello>(*head, bytes, decode_hello(bytes), decode_hello);
    case Type::immediate:
        return immediate(*head, bytes);
    case Type::bulk: {
        const Result<Bulk> bulk = decode_bulk(bytes);
        u64 total = 0;
        if (bulk.ok())
            for (const Segment& segment : bulk->segments) total += segment.len;
        CHECK(!bulk.ok() || bulk->segments.empty() || total == bulk->hdr.payload_length);
        CHECK(!bulk.ok() || bulk->segments.size() <= segments_max);
        return;
    }
    case Type::ready: {
        const Result<Ready> ready = decode_ready(bytes);
        CHECK(!ready.ok() || (!ready->segments.empty() && ready->segments.size() <= segments_max));
        return;
    }
    case Type::done:
        return there_and_back<Done>(*head, bytes, decode_done(bytes), decode_done);
    case Type::fin:
    case Type::written:
        return there_and_back<Fin>(*head, bytes, decode_fin(bytes), decode_fin);
    case Type::credits:
    case Type::bye:
        return;
    }
}

}  // namespace ulnet
