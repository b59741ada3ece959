// LNet's mask of MD options, MDs that discard, whose answers have a deadline, a full message pool.
#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

TEST(MdOptionsMask, EachBitSetsItsOption) {
    MdOptions options;
    ASSERT_TRUE(md_options(0x0001 | 0x0004 | 0x0010 | 0x0020 | 0x4000, options).ok());
    MdOptions wanted;
    wanted.put = wanted.manage_remote = wanted.truncate = wanted.ack_disable = wanted.discard =
        true;
    EXPECT_EQ(options, wanted);
    ASSERT_TRUE(md_options(0x0002 | 0x0400, options).ok());
    wanted = {};
    wanted.get = wanted.track_response = true;
    EXPECT_EQ(options, wanted);
    ASSERT_TRUE(md_options(0x0800, options).ok());
    EXPECT_TRUE(options.no_track_response);
    // What the Mem and the MdSpec say by themselves.
    ASSERT_TRUE(md_options(0x0080 | 0x0100 | 0x0200, options).ok());
    EXPECT_EQ(options, MdOptions{});
}

TEST(MdOptionsMask, WhatIsNotThereIsRefusedByName) {
    MdOptions options;
    options.put = true;
    const struct {
        u32 mask;
        const char* word;
    } cases[] = {{0x2000, "GPU_ADDR"},      {0x1000, "GNILND"}, {0x8001, "0x8000"},
                 {0x0008, "0x8"},           {0x0040, "0x40"},   {0x80000000, "0x80000000"},
                 {0x0c00, "TRACK_RESPONSE"}};
    for (const auto& [mask, word] : cases) {
        const Error error = md_options(mask, options);
        EXPECT_EQ(error.status.code(), -EINVAL) << mask;
        EXPECT_NE(error.text.find(word), std::string::npos) << error.text;
    }
    EXPECT_TRUE(options.put) << "a refused mask changes nothing";
}

class MdOptionsTest : public NodeTest {
 protected:
    Status send(Md& md, bool as_put) {
        Status status;
        run([&] {
            status = as_put ? node_->put(md, {.to = process(2), .portal = 4, .ack = Ack::yes})
                            : node_->get(md, {.to = process(2), .portal = 4});
        });
        return status;
    }
};

TEST_F(MdOptionsTest, DiscardCountsButLeavesTheMemory) {
    start();
    Target& t = target(100);
    MdOptions options = accept_put;
    options.discard = true;
    options.get = true;
    const Md md = attach(5, any_bits(7), t.spec(options));
    const Bytes before = t.bytes;
    const Injected& first = inject(put_hdr(5, 7, 30));
    inject(put_hdr(5, 7, 50));
    ASSERT_TRUE(t.recorder.wait(2));
    EXPECT_EQ(first.len, 0u);
    EXPECT_EQ(t.recorder.events()[0].mlength, 30u);
    EXPECT_EQ(t.recorder.events()[1].offset, 30u);
    EXPECT_EQ(t.recorder.events()[1].mlength, 50u);
    EXPECT_EQ(t.bytes, before);
}

TEST_F(MdOptionsTest, BothWaysOfTrackingExcludeEachOther) {
    start();
    Target& t = target(8);
    MdOptions options;
    options.track_response = options.no_track_response = true;
    EXPECT_EQ(node_->bind(t.spec(options)).status().code(), -EINVAL);
}

struct TrackCase {
    ResponseTracking node;
    bool put, get;
};

class TrackingTest : public MdOptionsTest, public testing::WithParamInterface<TrackCase> {};

TEST_P(TrackingTest, TheNodeDecidesUnlessTheMdDoes) {
    node_options_.response_tracking = GetParam().node;
    start();
    const auto tracked_by = [&](MdOptions options, bool as_put) {
        Target& t = target(8);
        Md md = bind(t.spec(options));
        const u64 before = stats().rst_alloc;
        EXPECT_TRUE(send(md, as_put).ok());
        const bool is = stats().rst_alloc > before;
        run([&] { node_->unlink(std::move(md)); });
        run([&] { ni_->finish_one(); });
        EXPECT_TRUE(t.recorder.wait_unlinked());
        return is;
    };
    MdOptions always, never;
    always.track_response = true;
    never.no_track_response = true;
    EXPECT_EQ(tracked_by({}, true), GetParam().put);
    EXPECT_EQ(tracked_by({}, false), GetParam().get);
    for (const bool put : {true, false}) {
        EXPECT_TRUE(tracked_by(always, put));
        EXPECT_FALSE(tracked_by(never, put));
    }
}
INSTANTIATE_TEST_SUITE_P(All, TrackingTest,
                         testing::Values(TrackCase{ResponseTracking::own, false, false},
                                         TrackCase{ResponseTracking::get, false, true},
                                         TrackCase{ResponseTracking::put, true, false},
                                         TrackCase{ResponseTracking::all, true, true}));

TEST_F(MdOptionsTest, AFullMessagePoolRefusesAndDropsAndRecovers) {
    static constexpr u64 few = 8;
    node_options_.messages_max = few;
    start();
    Target& in = target(100);
    const Md in_md = attach(5, any_bits(7), in.spec(accept_put));
    Target& out = target(8);
    Md out_md = bind(out.spec({}));
    const u64 used = node_->impl().msg_pools[0]->use().now;
    u64 sent = 0;
    for (; sent + used < few; ++sent) ASSERT_TRUE(send(out_md, true).ok());
    EXPECT_EQ(send(out_md, true), Status(-ENOMEM));
    EXPECT_EQ(send(out_md, false), Status(-ENOMEM));
    inject(put_hdr(5, 7, 10));
    EXPECT_EQ(stats().drop_count, 1u);
    run([&] { ni_->finish_one(Status(-ECONNRESET)); });
    ASSERT_TRUE(out.recorder.wait(1));
    EXPECT_EQ(out.recorder.events()[0].status, Status(-ECONNRESET));
    ASSERT_TRUE(eventually([&] { return node_->impl().msg_pools[0]->use().now < few; }));
    inject(put_hdr(5, 7, 10));
    ASSERT_TRUE(in.recorder.wait(1));
}

}  // namespace
}  // namespace ulnet::test
