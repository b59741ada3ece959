// The constructed HELLOs and frames, of all versions and both byte orders, sent to a driver over
// connections: what codec_test.cc says of the bytes is what the engine does.
#include <nlohmann/json.hpp>

#include "tests/golden/golden.h"
#include "tests/unit/sock/passive.h"

namespace ulnet::sock {
namespace {

using nlohmann::json;

Bytes bytes_of(const json& record) {
    return golden::unhex(record["bytes"].get<std::string>());
}

// Of captured frames there is only the header.
Bytes payload_left_out(const Speaker& speaker, const json& record) {
    const Bytes bytes = bytes_of(record);
    const Framing framing{speaker.version, speaker.order};
    const Result<u32> header = frame_bytes(framing, bytes);
    const Result<Frame> frame = decode_frame(framing, bytes);
    if (!header.ok() || !frame.ok() || !frame->lnet) return {};
    return Bytes(*header + frame->hdr.payload_length - bytes.size());
}

class Vectors : public Passive {
 protected:
    void hello(const json& record) {
        const std::string expect = golden::text(record, "expect");
        if (expect == "incomplete") return;  // nothing happens before accept_timeout
        RawConn conn = requested();
        const Bytes bytes = bytes_of(record);
        ASSERT_TRUE(conn.send(bytes));
        ++sent;
        const Result<Hello> said = decode_hello(bytes);
        if (expect == "answer_own_version_type_none") {
            const Hello answer = read_hello(conn);
            EXPECT_EQ(answer.version, version_default);
            EXPECT_EQ(answer.type, static_cast<u32>(ConnType::none));
            EXPECT_TRUE(conn.closed());
        } else if (!said.ok() || !invert(said->type)) {
            // NONE is for answers.
            Bytes rest;
            EXPECT_TRUE(conn.closed(&rest));
            EXPECT_TRUE(rest.empty());
        } else {
            const Hello answer = read_hello(conn);
            EXPECT_EQ(answer.version, said->version);
            EXPECT_EQ(answer.order, native_order);
            EXPECT_EQ(answer.type, static_cast<u32>(*invert(said->type)));
            EXPECT_EQ(answer.src_nid, node->nid());
            conn.close();
            ASSERT_TRUE(node->wait_connections(0));
            ++agreed;
        }
    }
    void frames(const json& record) {
        const json& fields = record["fields"];
        const Speaker speaker{fields["version"].get<u32>(),
                              record["order"] == "be" ? Order::big : Order::little};
        RawConn conn = requested();
        Hello hello = hello_from(nid_at(1), node->nid(), ConnType::bulk_out);
        hello.version = speaker.version;
        hello.order = speaker.order;
        ASSERT_TRUE(conn.send(hello_bytes_of(hello)));
        ASSERT_EQ(invert(read_hello(conn).type), ConnType::bulk_out);
        const u64 errors = node->counter("protocol_errors");
        ASSERT_TRUE(conn.send(bytes_of(record)));
        ++sent;
        // We ask for no acknowledgement, so each is one too many.
        if (record.value("error", false) || !record.value("zc_acks", json::array()).empty()) {
            EXPECT_TRUE(conn.closed());
            EXPECT_EQ(node->counter("protocol_errors"), errors + 1);
        } else {
            const Frame last = put_frame(nid_at(1), node->nid(), mark, 0);
            ASSERT_TRUE(conn.send(payload_left_out(speaker, record) + speaker.frame(last)));
            ASSERT_TRUE(node->core.wait([&] {
                const auto& all = node->core.arrivals;
                return !all.empty() && all.back().hdr.match_bits == mark;
            }));
            if (record.contains("zc_request")) {
                EXPECT_EQ(speaker.read(conn).head.cookie1, record["zc_request"].get<u64>());
            }
            ++agreed;
            ++mark;
            conn.close();
        }
        ASSERT_TRUE(node->wait_connections(0));
    }

    u64 mark = 0x6d61726b00000000;
    u32 sent = 0, agreed = 0;
};

TEST_F(Vectors, Hellos) {
    make();
    const auto check = [&](const json& record) { hello(record); };
    golden::for_each("constructed/hello.jsonl", "struct",
                     {{"ksock_hello_v1", check},
                      {"ksock_hello_v2v3", check},
                      {"ksock_hello_v4", check},
                      {"conn_type_inversion", golden::elsewhere},
                      {"conns_per_peer", golden::elsewhere}});
    EXPECT_GT(sent, 100u);
    EXPECT_GT(agreed, 50u);
    expect_alive();
}

TEST_F(Vectors, Frames) {
    make();
    const auto check = [&](const json& record) { frames(record); };
    const auto count = golden::for_each("constructed/socklnd_frame.jsonl", "struct",
                                        {{"ksock_frame_v1", check},
                                         {"ksock_frame_v2", check},
                                         {"ksock_frame_v3", check},
                                         {"ksock_frame_v4", check},
                                         {"ksock_stream_v3", golden::elsewhere},
                                         {"ksock_stream_v4", golden::elsewhere}});
    EXPECT_EQ(sent, count);
    EXPECT_GT(agreed, 50u);
    expect_alive();
}

}  // namespace
}  // namespace ulnet::sock
