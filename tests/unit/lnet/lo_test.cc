// A Node that talks to itself through the loopback driver.
#include <algorithm>

#include "lnds/lo/lo.h"
#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

class LoTest : public NodeTest {
 protected:
    LoTest() { more_lnds_.push_back(lo_.get()); }
    std::unique_ptr<Lnd> lo_ = make_lo_lnd();
};

TEST_F(LoTest, PutAndGet) {
    start();
    for (const ProcessId& self : {ProcessId{nid_lo(), pid_lustre}, process(1)}) {
        SCOPED_TRACE(to_text(self));
        Target& from = target(5000);
        Target& to = target(5000);
        std::ranges::copy(pattern(5000), from.bytes.begin());
        Md source = bind(from.spec({}));
        MdOptions options{.put = true, .get = true, .manage_remote = true};
        const Md sink = attach(5, any_bits(7), to.spec(options));
        run([&] {
            ASSERT_TRUE(
                node_
                    ->put(
                        source,
                        {.to = self, .portal = 5, .match_bits = 7, .hdr_data = 3, .ack = Ack::yes})
                    .ok());
        });
        ASSERT_TRUE(from.recorder.wait(2));
        ASSERT_TRUE(to.recorder.wait(1));
        EXPECT_EQ(to.bytes, from.bytes);
        const Event put = to.recorder.events()[0];
        EXPECT_EQ(put.initiator, self);
        EXPECT_EQ(put.source, self.nid);
        EXPECT_EQ(put.target, self);
        EXPECT_EQ(put.hdr_data, 3u);
        std::ranges::fill(from.bytes, std::byte{0});
        run([&] {
            ASSERT_TRUE(node_->get(source, {.to = self, .portal = 5, .match_bits = 7}).ok());
        });
        ASSERT_TRUE(from.recorder.wait(4));
        ASSERT_TRUE(to.recorder.wait(2));
        EXPECT_EQ(to.bytes, from.bytes);
        EXPECT_EQ(ni_->sends(), 0u);
    }
    EXPECT_EQ(node_->nids(), (std::vector<Nid>{nid_lo(), tcp_nid(1)}));
    control([&] {
        const std::vector<NiView> nis = inspect_nis(*node_);
        ASSERT_EQ(nis.size(), 2u);
        EXPECT_EQ(nis[0].sent.put, 2u);
        EXPECT_EQ(nis[0].sent.ack, 2u);
        EXPECT_EQ(nis[0].received.reply, 2u);
        EXPECT_TRUE(inspect_peers(*node_).empty());
    });
}

TEST_F(LoTest, PingMyself) {
    start();
    for (const ProcessId& self : {ProcessId{nid_lo(), pid_lustre}, process(1)}) {
        std::atomic<int> answers{0};
        PingInfo got;
        run([&] {
            node_->ping(self, {}, seconds(20), [&](Result<PingInfo> result) {
                if (result.ok()) got = *result;
                answers.fetch_add(1);
            });
        });
        ASSERT_TRUE(eventually([&] { return answers.load() == 1; }));
        EXPECT_EQ(got.sequence, 2u);
        EXPECT_EQ(got.primary(), tcp_nid(1));
    }
}

TEST_F(LoTest, WhatNobodyWantsIsDroppedAndLazyWaits) {
    start();
    Target& from = target(8);
    Target& to = target(8);
    Md md = bind(from.spec({}));
    const ProcessId self{nid_lo(), pid_lustre};
    run([&] { ASSERT_TRUE(node_->put(md, {.to = self, .portal = 5}).ok()); });
    ASSERT_TRUE(from.recorder.wait(1));
    EXPECT_TRUE(from.recorder.events()[0].status.ok());
    EXPECT_EQ(stats().drop_count, 1u);
    run([&] {
        ASSERT_TRUE(node_->set_lazy(6, true).ok());
        ASSERT_TRUE(node_->put(md, {.to = self, .portal = 6}).ok());
        ASSERT_TRUE(node_->put(md, {.to = self, .portal = 6}).ok());
    });
    ASSERT_TRUE(eventually(
        [&] { return node_->impl().topology.latest().nis.front()->parked.load() == 2; }));
    MdOptions options = accept_put;
    options.manage_remote = true;
    const Md sink = attach(6, any_bits(0), to.spec(options));
    ASSERT_TRUE(to.recorder.wait(2));
    ASSERT_TRUE(from.recorder.wait(3));
}

TEST_F(LoTest, ClosesWithTrafficUnderWay) {
    start();
    Target& from = target(8);
    Target& to = target(8);
    MdOptions options = accept_put;
    options.manage_remote = true;
    Md md = bind(from.spec({}));
    Md sink = attach(6, any_bits(0), to.spec(options));
    run([&] {
        ASSERT_TRUE(node_->set_lazy(7, true).ok());
        for (u32 i = 0; i < 500; ++i)
            ASSERT_TRUE(
                node_->put(md, {.to = {nid_lo(), pid_lustre}, .portal = 6 + i % 2, .ack = Ack::yes})
                    .ok());
        md.release();
        sink.release();
    });
    close();
    EXPECT_EQ(from.recorder.unlinked(), 1u);
    EXPECT_EQ(to.recorder.unlinked(), 1u);
    u32 sends = 0;
    for (const Event& event : from.recorder.events())
        if (event.kind == Event::Kind::send) ++sends;
    EXPECT_EQ(sends, 500u);
}

}  // namespace
}  // namespace ulnet::test
