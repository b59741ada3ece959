// The checks of every header that arrives: what closes the connection, what is dropped, what
// counts.
#include <nlohmann/json.hpp>

#include "tests/golden/golden.h"
#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

class ReceiveTest : public NodeTest {
 protected:
    Status arrive(const Hdr& hdr, RdmaGet rdma = {}) {
        Status status;
        run([&] {
            if (!rdma.possible) {
                status = ni_->inject(hdr, process(2), Bytes(hdr.payload_length)).status;
                return;
            }
            Injected unused;
            status = ni_->up.arrived(hdr, process(2), RxToken{&unused, 0}, rdma);
        });
        return status;
    }
    NiView ni_view() {
        NiView view{};
        control([&] { view = inspect_nis(*node_).back(); });
        return view;
    }
};

// Vectors of the protocol book: protocol errors close the connection, the rest is dropped.
TEST_F(ReceiveTest, GoldenChecks) {
    start(false);
    NiConfig of_vectors = config(1);
    of_vectors.nid = Nid::ipv4(Net::of(NetType::tcp, 0), 0xc0a80a02);  // 192.168.10.2
    add(of_vectors);
    u32 protocol_errors = 0, drops = 0;
    const auto check = [&](const nlohmann::json& record) {
        const std::string expect = golden::text(record, "expect");
        if (expect != "protocol_error" && expect != "drop") return;
        const std::vector<std::byte> bytes = golden::unhex(record.at("bytes").get<std::string>());
        const Result<Hdr> hdr = decode_hdr4(bytes);
        // Types that do not exist are refused by the decoder; the driver then closes.
        const Status status = hdr.ok() ? arrive(*hdr) : hdr.status();
        EXPECT_EQ(status.code(), expect == "drop" ? 0 : -EPROTO);
        ++(expect == "drop" ? drops : protocol_errors);
    };
    for (const nlohmann::json& record : golden::load("constructed/lnet_header.jsonl")) {
        SCOPED_TRACE(golden::text(record, "name"));
        check(record);
    }
    EXPECT_EQ(protocol_errors, 7u);
    EXPECT_EQ(drops, 2u);
    const StatsView view = stats();
    EXPECT_EQ(view.drop_count, 2u);
    EXPECT_EQ(view.drop_length, 16u);
    EXPECT_TRUE(ni_->all_received_once());
}

TEST_F(ReceiveTest, Destinations) {
    start();
    add(7);
    TestNi& here = *ni_;  // NID 7
    struct Case {
        Nid dest;
        int code;
        u64 dropped;
    };
    const Nid other_net = Nid::ipv4(Net::of(NetType::tcp, 3), 0x0a4d0007);
    const Case cases[] = {
        {tcp_nid(1), -EPROTO, 0},  // another NID of this node
        {tcp_nid(8), -EPROTO, 0},  // another NID of the net
        {nid_lo(), 0, 1},          // no loopback driver here: a net that is not ours
        {other_net, 0, 2},        {Nid(), 0, 3},
        {tcp_nid(7), 0, 4},  // for us, but there is no such portal in use
    };
    for (const Case& each : cases) {
        Hdr hdr = put_hdr(9, 0, 10);
        hdr.dest_nid = each.dest;
        run([&] {
            EXPECT_EQ(here.inject(hdr, process(2), Bytes(10)).status.code(), each.code)
                << to_text(each.dest);
        });
        EXPECT_EQ(stats().drop_count, each.dropped) << to_text(each.dest);
    }
    EXPECT_TRUE(here.all_received_once());
    EXPECT_EQ(stats().errors, 2u);
}

TEST_F(ReceiveTest, RdmaGetForAnotherNodeIsAProtocolError) {
    start();
    Hdr hdr = get_hdr(9, 0, 10);
    hdr.dest_nid = Nid::ipv4(Net::of(NetType::tcp, 3), 1);
    EXPECT_EQ(arrive(hdr, RdmaGet{true}), Status(-EPROTO));
    EXPECT_EQ(arrive(hdr), ok_status);
}

// A GET that the driver answers by RDMA ends by the REPLY that names its token, or, when that does
// not get as far as the driver, by receive().
TEST_F(ReceiveTest, RdmaGetIsAnsweredByTheReplyThatNamesIt) {
    peer_credits_ = 1;
    start();
    Target& t = target(64);
    MdOptions options;
    options.get = options.manage_remote = true;
    const Md md = attach(5, any_bits(7), t.spec(options));
    ni_->hold_sends = true;
    Injected answered, cancelled, unmatched;
    const auto ask = [&](Injected& get, u64 bits) {
        run([&] {
            const Hdr hdr = get_hdr(5, bits, 48);
            EXPECT_EQ(ni_->up.arrived(hdr, process(2), RxToken{&get, 3}, RdmaGet{true}), ok_status);
        });
    };
    ask(answered, 7);
    EXPECT_EQ(answered.calls, 0);
    ASSERT_EQ(ni_->pending(), 1u);
    const Msg& reply = *ni_->sent(0).msg;
    EXPECT_EQ(reply.answers.driver, &answered);
    EXPECT_EQ(reply.answers.id, 3u);
    EXPECT_EQ(reply.payload.len, 48u);
    ask(cancelled, 7);  // waits for the credit
    EXPECT_EQ(cancelled.calls, 0);
    ask(unmatched, 8 << 8);
    EXPECT_EQ(unmatched.calls, 1);
    EXPECT_EQ(unmatched.into, nullptr);
    close();
    EXPECT_EQ(cancelled.calls, 1);
    EXPECT_EQ(cancelled.into, nullptr);
    EXPECT_EQ(answered.calls, 0);
}

TEST_F(ReceiveTest, LimitOfThePayload) {
    start();
    Target& t = target(payload_max);
    MdOptions options = accept_put;
    options.manage_remote = true;
    const Md md = attach(5, any_bits(7), t.spec(options));
    EXPECT_EQ(arrive(put_hdr(5, 7, payload_max)), ok_status);
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_EQ(arrive(put_hdr(5, 7, payload_max + 1)), Status(-EPROTO));
    Hdr reply = put_hdr(0, 0, payload_max + 1);
    reply.type = MsgType::reply;
    EXPECT_EQ(arrive(reply), Status(-EPROTO));
}

TEST_F(ReceiveTest, DropsCount) {
    start();
    inject(put_hdr(9, 1, 100));
    inject(put_hdr(9999, 1, 50));
    inject(get_hdr(9, 1, 100));
    inject(get_hdr(64, 1, 100));
    Hdr ack = put_hdr(0, 0, 0);
    ack.type = MsgType::ack;
    inject(ack);
    Hdr reply = put_hdr(0, 0, 25);
    reply.type = MsgType::reply;
    inject(reply);
    Hdr nobody = put_hdr(9, 1, 1);
    nobody.src_nid = Nid();
    inject(nobody);
    const StatsView view = stats();
    EXPECT_EQ(view.drop_count, 7u);
    EXPECT_EQ(view.drop_length, 176u);
    EXPECT_EQ(view.recv_count, 0u);
    const NiView ni = ni_view();
    EXPECT_EQ(ni.drop_count, 7u);
    EXPECT_EQ(ni.dropped.put, 3u);
    EXPECT_EQ(ni.dropped.get, 2u);
    EXPECT_EQ(ni.dropped.ack, 1u);
    EXPECT_EQ(ni.dropped.reply, 1u);
    EXPECT_EQ(ni.received.put, 2u);
    control([&] {
        const std::vector<PeerView> peers = inspect_peers(*node_);
        ASSERT_EQ(peers.size(), 1u);
        EXPECT_EQ(peers[0].nis[0].nid, tcp_nid(2));
        EXPECT_EQ(peers[0].nis[0].dropped.put, 3u);
        EXPECT_EQ(peers[0].nis[0].received.get, 2u);
        reset_stats(*node_);
    });
    EXPECT_EQ(stats().drop_count, 0u);
    EXPECT_EQ(stats().drop_length, 0u);
    EXPECT_TRUE(ni_->all_received_once());
}

TEST_F(ReceiveTest, AcksOnlyWhatWasReceivedWell) {
    start();
    Target& t = target(100);
    MdOptions quiet = accept_put;
    quiet.ack_disable = true;
    const Md md = attach(5, any_bits(7), t.spec(accept_put));
    const Md none = attach(5, any_bits(8), t.spec(quiet));
    Hdr hdr = put_hdr(5, 7, 30);
    hdr.handle.interface_cookie = 0xabc;
    hdr.handle.object_cookie = 0xdef;
    ni_->hold_receives = true;
    inject(hdr);
    EXPECT_EQ(ni_->sends(), 0u);
    run([&] { ni_->finish_receive(); });
    ASSERT_EQ(ni_->pending(), 1u);
    const Hdr ack = ni_->sent(0).hdr;
    EXPECT_EQ(ack.type, MsgType::ack);
    EXPECT_EQ(ack.handle, hdr.handle);
    EXPECT_EQ(ack.match_bits, 7u);
    EXPECT_EQ(ack.mlength, 30u);
    EXPECT_EQ(ack.dest_nid, tcp_nid(2));
    EXPECT_EQ(ack.src_nid, tcp_nid(1));
    EXPECT_EQ(ack.payload_length, 0u);
    inject(hdr);
    run([&] { ni_->finish_receive(Status(-ECONNRESET), Health::remote_error); });
    ASSERT_TRUE(t.recorder.wait(2));
    EXPECT_EQ(t.recorder.events()[1].status, Status(-ECONNRESET));
    EXPECT_EQ(ni_->pending(), 1u);
    hdr.match_bits = 8;
    inject(hdr);
    run([&] { ni_->finish_receive(); });
    ASSERT_TRUE(t.recorder.wait(3));
    EXPECT_EQ(ni_->pending(), 1u);
    // A PUT that names no handle wants none.
    inject(put_hdr(5, 7, 30));
    run([&] { ni_->finish_receive(); });
    ASSERT_TRUE(t.recorder.wait(4));
    EXPECT_EQ(ni_->pending(), 1u);
    EXPECT_EQ(stats().errors, 1u);
    EXPECT_EQ(stats().remote_error_count, 1u);
}

TEST_F(ReceiveTest, AnAbortedMdReportsATimeOutAndSendsNoAck) {
    start();
    Target& t = target(100);
    Md md = attach(5, any_bits(7), t.spec(accept_put));
    Hdr hdr = put_hdr(5, 7, 30);
    hdr.handle.interface_cookie = 0xabc;
    ni_->hold_receives = true;
    inject(hdr);
    run([&] { node_->unlink(std::move(md)); });
    EXPECT_EQ(t.recorder.count(), 0u);
    run([&] { ni_->finish_receive(); });
    ASSERT_TRUE(t.recorder.wait_unlinked());
    EXPECT_EQ(t.recorder.count(), 1u);
    EXPECT_EQ(t.recorder.events()[0].kind, Event::Kind::put);
    EXPECT_EQ(t.recorder.events()[0].status, Status(-ETIMEDOUT));
    EXPECT_EQ(ni_->sends(), 0u);
    ASSERT_TRUE(quiet());
}

// The answer goes to the NID in the header, whoever the hop was.
TEST_F(ReceiveTest, AnswersGoToTheSourceOfTheHeader) {
    start();
    Target& t = target(8);
    const Md md = attach(5, any_bits(7), t.spec(accept_get));
    inject(get_hdr(5, 7, 8, 0, 44), 2);
    ASSERT_EQ(ni_->pending(), 1u);
    EXPECT_EQ(ni_->sent(0).hdr.dest_nid, tcp_nid(44));
    EXPECT_EQ(ni_->sent(0).next_hop.nid, tcp_nid(44));
    run([&] { ni_->finish_one(); });
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_EQ(t.recorder.events()[0].sender, tcp_nid(2));
    EXPECT_EQ(t.recorder.events()[0].source, tcp_nid(44));
}

}  // namespace
}  // namespace ulnet::test
