// The ping target byte for byte, pushes, and pings of our own.
#include <algorithm>

#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

class PingTest : public NodeTest {
 protected:
    Bytes ping_bytes(u32 sink = 3960, u32 offset = 0) {
        const std::size_t index = ni_->sends();
        Hdr hdr = get_hdr(portal_lnet, match_bits_lnet, sink, offset);
        hdr.dest_nid = ni_->config.nid;
        inject(hdr);
        const Sent reply = ni_->sent(index);
        EXPECT_EQ(reply.hdr.type, MsgType::reply);
        run([&] { ni_->finish_one(); });
        return reply.payload;
    }
    PingInfo info_of(std::vector<u32> nids, u32 sequence) {
        PingInfo info;
        info.features = ping_ni_status | ping_rte_disabled | ping_multi_rail | ping_discovery;
        info.sequence = sequence;
        for (const u32 last : nids) info.nis.push_back({tcp_nid(last), ni_status_up});
        return info;
    }
    // Injects a push from a NID and gives the ACK.
    Hdr push(const Bytes& bytes, u32 from) {
        Hdr hdr = put_hdr(portal_lnet, match_bits_lnet, static_cast<u32>(bytes.size()), 0, from);
        hdr.handle.interface_cookie = 0x1234;
        hdr.handle.object_cookie = 0x5678;
        const std::size_t index = ni_->sends();
        run([&] { EXPECT_TRUE(ni_->inject(hdr, process(from), bytes).status.ok()); });
        EXPECT_TRUE(eventually([&] { return ni_->sends() > index; }));
        run([&] { ni_->finish_one(); });
        return ni_->sent(index).hdr;
    }
    PeerView peer(u32 primary) {
        PeerView found{};
        control([&] {
            for (PeerView& each : inspect_peers(*node_))
                if (each.primary == tcp_nid(primary)) found = each;
        });
        return found;
    }
};

// As the kernel's answer in the golden capture: features 0x1e, sequence 2 with the first NI.
TEST_F(PingTest, BytesOfTheTarget) {
    start();
    const auto hex = [](std::initializer_list<unsigned> values) {
        Bytes bytes;
        for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
        return bytes;
    };
    const Bytes one =
        hex({0x67, 0x6e, 0x69, 0x70, 0x1e, 0, 0, 0, 0x39, 0x30, 0,    0,    2, 0, 0, 0,
             0,    0,    0,    0,    0,    0, 9, 0, 2,    0,    0,    0,    0, 0, 0, 0,
             1,    0,    0x4d, 0x0a, 0,    0, 2, 0, 0xde, 0xc0, 0xaa, 0x15, 0, 0, 0, 0});
    EXPECT_EQ(ping_bytes(), one);
    EXPECT_EQ(ping_bytes(20), Bytes(one.begin(), one.begin() + 20));
    EXPECT_EQ(ping_bytes(272, 32), Bytes(one.begin() + 32, one.end()));
    EXPECT_EQ(ping_bytes(272, 48), Bytes());
    EXPECT_EQ(ping_bytes(272, 1000), Bytes());
}

TEST_F(PingTest, FollowsTheInterfaces) {
    start();
    add(7);
    Result<PingInfo> info = decode_ping(ping_bytes());
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->sequence, 3u);
    ASSERT_EQ(info->nis.size(), 2u);
    EXPECT_EQ(info->nis[1].nid, tcp_nid(7));
    run([&] { ni_->up.ni_event(NiEvent::down); });
    ASSERT_TRUE(eventually([&] {
        u32 sequence = 0;
        control([&] { sequence = node_->impl().ping_target.sequence(); });
        return sequence == 4;
    }));
    info = decode_ping(ping_bytes());
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->sequence, 4u);
    EXPECT_EQ(info->nis[0].status, ni_status_up);
    EXPECT_EQ(info->nis[1].status, ni_status_down);
    run([&] { ni_->up.ni_event(NiEvent::down); });  // nothing new
    control([&] { EXPECT_EQ(node_->impl().ping_target.sequence(), 4u); });
}

TEST_F(PingTest, WithoutDiscoveryTheBitIsNotSet) {
    node_options_.discovery = false;
    start();
    const Result<PingInfo> info = decode_ping(ping_bytes());
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->features, 0x0eu);
}

TEST_F(PingTest, LargeNids) {
    start(false);
    NiConfig large = config(1);
    std::array<u8, 16> address{0x20, 0x01, 0x0d, 0xb8};
    address[15] = 2;
    large.nid = Nid::ipv6(large.net, address);
    add(large);
    add(1);
    Result<PingInfo> info = decode_ping(ping_bytes());
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->features, 0x7eu);
    EXPECT_EQ(info->primary(), large.nid);
    ASSERT_EQ(info->nis.size(), 2u);
    EXPECT_EQ(info->nis[0].nid, tcp_nid(1));  // nid4 entries come first
}

TEST_F(PingTest, APushMakesAMultiRailPeer) {
    start();
    inject(put_hdr(9, 1, 0, 0, 3), 3);
    const Bytes bytes = encode_ping(info_of({2, 3}, 5));
    const Hdr ack = push(bytes, 3);
    EXPECT_EQ(ack.type, MsgType::ack);
    EXPECT_EQ(ack.mlength, bytes.size());
    EXPECT_EQ(ack.match_bits, match_bits_lnet);
    EXPECT_EQ(ack.handle.object_cookie, 0x5678u);
    ASSERT_TRUE(eventually([&] { return peer(2).multi_rail; }));
    PeerView view = peer(2);
    EXPECT_EQ(view.state, 0x101u);
    ASSERT_EQ(view.nis.size(), 2u);
    EXPECT_EQ(view.nis[0].nid, tcp_nid(2));
    EXPECT_EQ(view.nis[1].nid, tcp_nid(3));
    EXPECT_EQ(node_->primary(tcp_nid(3)), tcp_nid(2));
    // The next one: NID 4 comes, NID 3 goes and is a peer of its own again.
    push(encode_ping(info_of({2, 4}, 6)), 2);
    ASSERT_TRUE(eventually([&] { return node_->primary(tcp_nid(4)) == tcp_nid(2); }));
    ASSERT_TRUE(eventually([&] { return node_->primary(tcp_nid(3)) == tcp_nid(3); }));
    EXPECT_EQ(peer(2).nis.size(), 2u);
    EXPECT_FALSE(peer(3).multi_rail);
    // A new primary NID renames the peer; events follow.
    push(encode_ping(info_of({4, 2}, 7)), 2);
    ASSERT_TRUE(eventually([&] { return peer(4).multi_rail; }));
    Target& t = target(8);
    const Md md = attach(5, any_bits(7), t.spec(accept_put));
    inject(put_hdr(5, 7, 1));
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_EQ(t.recorder.events()[0].initiator.nid, tcp_nid(4));
    EXPECT_EQ(t.recorder.events()[0].source, tcp_nid(2));
}

TEST_F(PingTest, PushesThatChangeNothing) {
    start();
    PingInfo single = info_of({2}, 1);
    single.features &= ~u32{ping_multi_rail};
    push(encode_ping(single), 2);
    push(encode_ping(info_of({8, 9}, 1)), 2);  // does not name the NID it comes from
    push(encode_ping(info_of({2, 1}, 1)), 2);  // names ours
    PingInfo shy = info_of({2, 3}, 1);
    shy.features &= ~u32{ping_discovery};
    push(encode_ping(shy), 2);
    Bytes broken = encode_ping(info_of({2, 3}, 1));
    broken[0] = std::byte{0};
    push(broken, 2);
    push({}, 2);
    control([] {});
    EXPECT_FALSE(peer(2).multi_rail);
    EXPECT_EQ(peer(2).nis.size(), 1u);
    ASSERT_TRUE(eventually([&] { return stats().errors == 2; }));
    push(encode_ping(info_of({2, 3}, 1)), 2);
    ASSERT_TRUE(eventually([&] { return peer(2).multi_rail; }));
}

TEST_F(PingTest, DiscoveryOffKeepsThePeersAsTheyAre) {
    node_options_.discovery = false;
    start();
    push(encode_ping(info_of({2, 3}, 1)), 2);
    control([] {});
    EXPECT_FALSE(peer(2).multi_rail);
}

// More peers push at once than there are buffers: portal 0 is lazy, each gets its ACK.
TEST_F(PingTest, ManyPushesAtOnce) {
    start();
    ni_->hold_receives = true;
    constexpr u32 peers = 20;
    for (u32 i = 0; i < peers; ++i) {
        const Bytes bytes = encode_ping(info_of({100 + i, 200 + i}, 1));
        Hdr hdr = put_hdr(portal_lnet, match_bits_lnet, static_cast<u32>(bytes.size()), 0, 100 + i);
        hdr.handle.interface_cookie = 1;
        run([&] { ni_->inject(hdr, process(100 + i), bytes); });
    }
    EXPECT_EQ(ni_->receiving(), PingTarget::push_buffers);
    for (u32 i = 0; i < peers; ++i) {
        ASSERT_TRUE(eventually([&] { return ni_->receiving() > 0; }));
        run([&] { ni_->finish_receive(); });
    }
    for (u32 i = 0; i < peers; ++i) {
        ASSERT_TRUE(
            eventually([&] { return node_->primary(tcp_nid(200 + i)) == tcp_nid(100 + i); }));
        ASSERT_TRUE(eventually([&] { return ni_->sends() > i; }));
        EXPECT_EQ(ni_->sent(i).hdr.type, MsgType::ack);
    }
    EXPECT_EQ(stats().drop_count, 0u);
}

TEST_F(PingTest, ATruncatedPushGrowsTheBuffer) {
    start();
    std::vector<u32> nids{2};
    for (u32 i = 0; i < 300; ++i) nids.push_back(1000 + i);
    const Bytes bytes = encode_ping(info_of(nids, 1));
    ASSERT_GT(bytes.size(), PingTarget::push_bytes_first);
    EXPECT_EQ(push(bytes, 2).mlength, PingTarget::push_bytes_first);
    control([] {});
    EXPECT_FALSE(peer(2).multi_rail);
    // Once the small ones are used up, all is received.
    for (u32 i = 1; i < PingTarget::push_buffers; ++i) {
        push(bytes, 2);
        control([] {});
    }
    EXPECT_EQ(push(bytes, 2).mlength, bytes.size());
    ASSERT_TRUE(eventually([&] { return peer(2).nis.size() == nids.size(); }));
}

TEST_F(PingTest, OursIsAnswered) {
    start();
    std::atomic<int> answers{0};
    PingInfo got;
    run([&] {
        node_->ping(process(2), {}, seconds(20), [&](Result<PingInfo> result) {
            if (result.ok()) got = *result;
            answers.fetch_add(1);
        });
    });
    ASSERT_EQ(ni_->sends(), 1u);
    const Hdr request = ni_->sent(0).hdr;
    EXPECT_EQ(request.type, MsgType::get);
    EXPECT_EQ(request.portal, 0u);
    EXPECT_EQ(request.match_bits, match_bits_lnet);
    EXPECT_EQ(request.sink_length, ping_bytes_max);
    EXPECT_EQ(request.offset, 0u);
    const Bytes bytes = encode_ping(info_of({2, 3}, 9));
    Hdr reply;
    reply.type = MsgType::reply;
    reply.dest_nid = request.src_nid;
    reply.src_nid = request.dest_nid;
    reply.handle = request.handle;
    reply.payload_length = static_cast<u32>(bytes.size());
    run([&] {
        ni_->inject(reply, process(2), bytes);
        ni_->finish_one();
    });
    ASSERT_TRUE(eventually([&] { return answers.load() > 0; }));
    EXPECT_EQ(got.sequence, 9u);
    EXPECT_EQ(got.nis.size(), 2u);
    ASSERT_TRUE(eventually([&] { return node_->impl().pings.load() == 0; }));
    EXPECT_EQ(answers.load(), 1);
    EXPECT_FALSE(peer(2).multi_rail);  // a ping does not discover
}

TEST_F(PingTest, OursThatFail) {
    start();
    std::atomic<int> answers{0};
    std::vector<Status> got(4);
    const auto keep = [&](std::size_t index) {
        return [&, index](Result<PingInfo> result) {
            got[index] = result.status();
            answers.fetch_add(1);
        };
    };
    run([&] {
        node_->ping({Nid::ipv4(Net::of(NetType::o2ib, 1), 1), pid_lustre}, {}, seconds(20),
                    keep(0));
        node_->ping({}, {}, seconds(20), keep(1));
        node_->ping(process(2), {}, milliseconds(30), keep(2));  // the driver keeps it
        node_->ping(process(3), {}, seconds(20), keep(3));
    });
    ASSERT_TRUE(eventually([&] { return answers.load() == 3; }));
    EXPECT_EQ(got[0], Status(-EHOSTUNREACH));
    EXPECT_EQ(got[1], Status(-EINVAL));
    EXPECT_EQ(got[2], Status(-ETIMEDOUT));
    EXPECT_EQ(node_->impl().pings.load(), 2u);  // the late one still has its message
    run([&] {
        ni_->finish_one();
        ni_->finish_one(Status(-ECONNREFUSED));
    });
    ASSERT_TRUE(eventually([&] { return answers.load() == 4; }));
    EXPECT_EQ(got[3], Status(-ECONNREFUSED));
    ASSERT_TRUE(eventually([&] { return node_->impl().pings.load() == 0; }));
    EXPECT_EQ(answers.load(), 4);
}

}  // namespace
}  // namespace ulnet::test
