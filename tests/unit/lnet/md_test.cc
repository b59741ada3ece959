// What MDs and MEs do with what arrives: options, thresholds, offsets, handles.
#include <algorithm>

#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

class MdTest : public NodeTest {};

TEST_F(MdTest, PutLandsAtTheRunningOffset) {
    start();
    Target& t = target(100);
    const Md md = attach(5, any_bits(7), t.spec(accept_put));
    inject(put_hdr(5, 7, 30));
    inject(put_hdr(5, 7, 50));
    ASSERT_TRUE(t.recorder.wait(2));
    const std::vector<Event> events = t.recorder.events();
    EXPECT_EQ(events[0].kind, Event::Kind::put);
    EXPECT_EQ(events[0].offset, 0u);
    EXPECT_EQ(events[0].rlength, 30u);
    EXPECT_EQ(events[0].mlength, 30u);
    EXPECT_EQ(events[1].offset, 30u);
    EXPECT_EQ(events[1].mlength, 50u);
    EXPECT_EQ(Bytes(t.bytes.begin(), t.bytes.begin() + 30), pattern(30, 2));
    EXPECT_EQ(Bytes(t.bytes.begin() + 30, t.bytes.begin() + 80), pattern(50, 2));
    // 20 bytes are left: a longer one is dropped without truncate, a shorter one fits.
    inject(put_hdr(5, 7, 21));
    inject(put_hdr(5, 7, 20));
    ASSERT_TRUE(t.recorder.wait(3));
    EXPECT_EQ(t.recorder.events()[2].mlength, 20u);
    EXPECT_EQ(stats().drop_count, 1u);
    EXPECT_EQ(stats().drop_length, 21u);
}

TEST_F(MdTest, EventSaysWhoAndWhat) {
    start();
    Target& t = target(100);
    const Md md = attach(5, any_bits(7), t.spec(accept_put));
    Hdr hdr = put_hdr(5, 7, 8, 3);
    hdr.hdr_data = 0xcafe;
    hdr.src_pid = 777;
    hdr.src_nid = tcp_nid(9);  // not the hop it came from
    inject(hdr, 2);
    ASSERT_TRUE(t.recorder.wait(1));
    const Event event = t.recorder.events()[0];
    EXPECT_EQ(event.initiator, (ProcessId{tcp_nid(9), 777}));
    EXPECT_EQ(event.source, tcp_nid(9));
    EXPECT_EQ(event.sender, tcp_nid(2));
    EXPECT_EQ(event.target, process(1));
    EXPECT_EQ(event.portal, 5u);
    EXPECT_EQ(event.match_bits, 7u);
    EXPECT_EQ(event.hdr_data, 0xcafeu);
    EXPECT_EQ(event.offset, 0u);  // local offset: the message's own does not count
    EXPECT_EQ(event.msg_type, MsgType::put);
    EXPECT_TRUE(event.status.ok());
    EXPECT_FALSE(event.unlinked);
}

TEST_F(MdTest, ManageRemoteUsesTheOffsetOfTheMessage) {
    start();
    Target& t = target(100);
    MdOptions options = accept_put;
    options.manage_remote = true;
    const Md md = attach(5, any_bits(7), t.spec(options));
    inject(put_hdr(5, 7, 10, 60));
    inject(put_hdr(5, 7, 10, 20));
    ASSERT_TRUE(t.recorder.wait(2));
    EXPECT_EQ(t.recorder.events()[0].offset, 60u);
    EXPECT_EQ(t.recorder.events()[1].offset, 20u);
    EXPECT_EQ(Bytes(t.bytes.begin() + 60, t.bytes.begin() + 70), pattern(10, 2));
    // Beyond the end there is no room, whatever the offset.
    inject(put_hdr(5, 7, 1, 100));
    inject(put_hdr(5, 7, 1, 0xffffffff));
    EXPECT_EQ(stats().drop_count, 2u);
    inject(put_hdr(5, 7, 0, 0xffffffff));
    ASSERT_TRUE(t.recorder.wait(3));
    EXPECT_EQ(t.recorder.events()[2].mlength, 0u);
}

TEST_F(MdTest, TruncateCutsAndDiscardsTheRest) {
    start();
    Target& t = target(16);
    MdOptions options = accept_put;
    options.truncate = true;
    const Md md = attach(5, any_bits(7), t.spec(options));
    const Injected& injected = inject(put_hdr(5, 7, 40));
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_EQ(injected.len, 16u);
    EXPECT_EQ(t.recorder.events()[0].rlength, 40u);
    EXPECT_EQ(t.recorder.events()[0].mlength, 16u);
    inject(put_hdr(5, 7, 4));
    ASSERT_TRUE(t.recorder.wait(2));
    EXPECT_EQ(t.recorder.events()[1].mlength, 0u);
}

TEST_F(MdTest, MaxSizeBoundsEachMessageAndExhausts) {
    start();
    Target& t = target(100);
    MdOptions options = accept_put;
    options.auto_unlink = true;
    const Md md = attach(5, any_bits(7), t.spec(options, threshold_infinite, 40));
    inject(put_hdr(5, 7, 41));  // dropped: longer than max_size
    EXPECT_EQ(stats().drop_count, 1u);
    inject(put_hdr(5, 7, 40));
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_FALSE(t.recorder.events()[0].unlinked);
    inject(put_hdr(5, 7, 30));  // offset 70: less than 40 left, exhausted
    ASSERT_TRUE(t.recorder.wait(2));
    EXPECT_TRUE(t.recorder.events()[1].unlinked);
    inject(put_hdr(5, 7, 1));
    EXPECT_EQ(stats().drop_count, 2u);
    EXPECT_EQ(t.recorder.count(), 2u);
}

TEST_F(MdTest, ThresholdAndAutoUnlink) {
    start();
    Target& t = target(100);
    MdOptions options = accept_put;
    options.auto_unlink = true;
    const Md md = attach(5, any_bits(7), t.spec(options, 2));
    inject(put_hdr(5, 7, 1));
    inject(put_hdr(5, 7, 1));
    inject(put_hdr(5, 7, 1));
    ASSERT_TRUE(t.recorder.wait_unlinked());
    EXPECT_EQ(t.recorder.count(), 2u);
    EXPECT_EQ(stats().drop_count, 1u);
}

TEST_F(MdTest, ExhaustedWithoutAutoUnlinkStaysUntilUnlinked) {
    start();
    Target& t = target(100);
    Md md = attach(5, any_bits(7), t.spec(accept_put, 1));
    inject(put_hdr(5, 7, 1));
    inject(put_hdr(5, 7, 1));
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_FALSE(t.recorder.events()[0].unlinked);
    EXPECT_EQ(stats().drop_count, 1u);
    run([&] { node_->unlink(std::move(md)); });
    ASSERT_TRUE(t.recorder.wait_unlinked());
    EXPECT_EQ(t.recorder.events()[1].kind, Event::Kind::unlink);
    EXPECT_TRUE(t.recorder.events()[1].status.ok());
}

TEST_F(MdTest, AnExhaustedMdIsSkippedForTheNext) {
    start();
    Target& first = target(10);
    Target& second = target(10);
    const Md one = attach(5, any_bits(7), first.spec(accept_put, 1));
    const Md two = attach(5, any_bits(7), second.spec(accept_put, 1));
    inject(put_hdr(5, 7, 1));
    inject(put_hdr(5, 7, 1));
    ASSERT_TRUE(second.recorder.wait(1));
    EXPECT_EQ(first.recorder.count(), 1u);
}

TEST_F(MdTest, GetIsAnsweredFromMdMemory) {
    start();
    Target& t = target(100);
    std::ranges::copy(pattern(100, 5), t.bytes.begin());
    MdOptions options = accept_get;
    options.manage_remote = true;
    options.truncate = true;
    const Md md = attach(6, any_bits(3), t.spec(options));
    const Injected& injected = inject(get_hdr(6, 3, 64, 90));
    EXPECT_TRUE(injected.received);
    EXPECT_EQ(injected.into, nullptr);
    ASSERT_EQ(ni_->sends(), 1u);
    const Sent reply = ni_->sent(0);
    EXPECT_EQ(reply.hdr.type, MsgType::reply);
    EXPECT_EQ(reply.hdr.dest_nid, tcp_nid(2));
    EXPECT_EQ(reply.hdr.src_nid, tcp_nid(1));
    EXPECT_EQ(reply.hdr.payload_length, 10u);
    EXPECT_EQ(reply.hdr.handle, get_hdr(6, 3, 64).handle);
    EXPECT_EQ(reply.payload, Bytes(t.bytes.begin() + 90, t.bytes.end()));
    EXPECT_EQ(reply.next_hop.nid, tcp_nid(2));
    EXPECT_EQ(t.recorder.count(), 0u);  // the event comes when the REPLY is sent
    run([&] { EXPECT_TRUE(ni_->finish_one()); });
    ASSERT_TRUE(t.recorder.wait(1));
    const Event event = t.recorder.events()[0];
    EXPECT_EQ(event.kind, Event::Kind::get);
    EXPECT_EQ(event.rlength, 64u);
    EXPECT_EQ(event.mlength, 10u);
    EXPECT_EQ(event.offset, 90u);
    EXPECT_EQ(event.msg_type, MsgType::get);
    EXPECT_EQ(event.initiator, process(2));
}

TEST_F(MdTest, AFailedReplyIsToldByTheGetEvent) {
    start();
    Target& t = target(8);
    MdOptions options = accept_get;
    options.auto_unlink = true;
    const Md md = attach(6, any_bits(3), t.spec(options, 1));
    inject(get_hdr(6, 3, 8));
    run([&] { EXPECT_TRUE(ni_->finish_one(Status(-EIO), Health::remote_error)); });
    ASSERT_TRUE(t.recorder.wait_unlinked());
    EXPECT_EQ(t.recorder.events()[0].status, Status(-EIO));
    const StatsView view = stats();
    EXPECT_EQ(view.remote_error_count, 1u);
    EXPECT_EQ(view.errors, 1u);
}

TEST_F(MdTest, AGetThatCannotBeAnsweredEndsWithItsReason) {
    start();
    Target& t = target(8);
    const Md md = attach(6, any_bits(3), t.spec(accept_get));
    Hdr hdr = get_hdr(6, 3, 8);
    hdr.src_nid = Nid::ipv4(Net::of(NetType::o2ib, 4), 1);  // there is no way back
    inject(hdr);
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_EQ(t.recorder.events()[0].status, Status(-EHOSTUNREACH));
    EXPECT_EQ(stats().local_no_route_count, 1u);
}

TEST_F(MdTest, OpcodesAreKeptApart) {
    start();
    Target& put = target(8);
    Target& get = target(8);
    const Md one = attach(6, any_bits(3), put.spec(accept_put));
    inject(get_hdr(6, 3, 8));
    EXPECT_EQ(stats().drop_count, 1u);
    const Md two = attach(6, any_bits(3), get.spec(accept_get));
    inject(get_hdr(6, 3, 8));
    EXPECT_EQ(ni_->sends(), 1u);
    inject(put_hdr(6, 3, 8));
    ASSERT_TRUE(put.recorder.wait(1));
    run([&] { ni_->finish_one(); });
    ASSERT_TRUE(get.recorder.wait(1));
}

TEST_F(MdTest, PortalsAreTypedAtTheFirstAttach) {
    start();
    run([&] {
        const MatchSpec unique{.from = process(2), .bits = 1, .ignore = 0};
        Result<Me> me = node_->attach(10, unique, Unlink::with_md);
        ASSERT_TRUE(me.ok());
        EXPECT_EQ(node_->attach(10, any_bits(1), Unlink::with_md).status(), Status(-EPERM));
        MatchSpec ignoring = unique;
        ignoring.ignore = 1;
        EXPECT_EQ(node_->attach(10, ignoring, Unlink::with_md).status(), Status(-EPERM));
        MatchSpec any_pid = unique;
        any_pid.from.pid = pid_any;
        EXPECT_EQ(node_->attach(10, any_pid, Unlink::with_md).status(), Status(-EPERM));
        Result<Me> wild = node_->attach(11, any_bits(1), Unlink::with_md);
        ASSERT_TRUE(wild.ok());
        EXPECT_EQ(node_->attach(11, unique, Unlink::with_md).status(), Status(-EPERM));
        EXPECT_EQ(node_->attach(64, unique, Unlink::with_md).status(), Status(-EINVAL));
    });
}

TEST_F(MdTest, RefusedMds) {
    start();
    Target& t = target(100);
    run([&] {
        Result<Me> me = node_->attach(10, any_bits(1), Unlink::with_md);
        ASSERT_TRUE(me.ok());
        EXPECT_EQ(node_->attach(*me, t.spec({})).status(), Status(-EINVAL));
        // The ME went with the failure.
        EXPECT_EQ(node_->attach(*me, t.spec(accept_put)).status(), Status(-ENOENT));
        Result<Me> other = node_->attach(10, any_bits(1), Unlink::retain);
        ASSERT_TRUE(other.ok());
        EXPECT_EQ(node_->attach(*other, t.spec(accept_put, 1, 101)).status(), Status(-EINVAL));
        Result<Md> md = node_->attach(*other, t.spec(accept_put));
        ASSERT_TRUE(md.ok());
        EXPECT_EQ(node_->attach(*other, t.spec(accept_put)).status(), Status(-EBUSY));
        EXPECT_EQ(node_->bind(t.spec(accept_put)).status(), Status(-EINVAL));
        EXPECT_EQ(node_->bind(t.spec(accept_get)).status(), Status(-EINVAL));
        EXPECT_EQ(node_->bind(t.spec({}, 1, 101)).status(), Status(-EINVAL));
        Bytes big(payload_max + 1);
        const Mem mem(big.data(), payload_max + 1);
        EXPECT_EQ(node_->bind({.mem = &mem}).status(), Status(-EINVAL));
        EXPECT_TRUE(node_->bind({}).ok());
    });
}

TEST_F(MdTest, ARetainedMeTakesTheNextMd) {
    start();
    Target& first = target(8);
    Target& second = target(8);
    MdOptions options = accept_put;
    options.auto_unlink = true;
    Me me;
    run([&] {
        me = std::move(*node_->attach(5, any_bits(7), Unlink::retain));
        Result<Md> md = node_->attach(me, first.spec(options, 1));
        ASSERT_TRUE(md.ok());
        md->release();
    });
    inject(put_hdr(5, 7, 1));
    ASSERT_TRUE(first.recorder.wait_unlinked());
    inject(put_hdr(5, 7, 1));  // an ME without MD does not match
    EXPECT_EQ(stats().drop_count, 1u);
    run([&] {
        Result<Md> md = node_->attach(me, second.spec(options, 1));
        ASSERT_TRUE(md.ok());
        md->release();
    });
    inject(put_hdr(5, 7, 1));
    ASSERT_TRUE(second.recorder.wait_unlinked());
}

TEST_F(MdTest, UnlinkingTheMeEndsItsMd) {
    start();
    for (const Unlink kind : {Unlink::retain, Unlink::with_md}) {
        Target& t = target(8);
        Me me;
        Md md;
        run([&] {
            me = std::move(*node_->attach(5, any_bits(7), kind));
            md = std::move(*node_->attach(me, t.spec(accept_put)));
            node_->unlink(std::move(me));
        });
        ASSERT_TRUE(t.recorder.wait_unlinked());
        EXPECT_EQ(t.recorder.count(), 1u);
        inject(put_hdr(5, 7, 1));
        run([&] { node_->unlink(std::move(md)); });  // stale by now: nothing happens
    }
    EXPECT_EQ(stats().drop_count, 2u);
}

TEST_F(MdTest, HandlesThatGoOutOfScope) {
    start();
    Target& kept = target(8);
    Target& ended = target(8);
    run([&] {
        Md md;
        {
            Result<Me> me = node_->attach(5, any_bits(7), Unlink::with_md);
            md = std::move(*node_->attach(*me, kept.spec(accept_put)));
        }  // the ME is its MD's now
        md.release();
        Me me = std::move(*node_->attach(5, any_bits(8), Unlink::retain));
        const Md gone = std::move(*node_->attach(me, ended.spec(accept_put)));
    });
    ASSERT_TRUE(ended.recorder.wait_unlinked());
    inject(put_hdr(5, 7, 1));
    ASSERT_TRUE(kept.recorder.wait(1));
    EXPECT_FALSE(kept.recorder.events()[0].unlinked);
}

TEST_F(MdTest, StaleHandlesAreRefused) {
    start();
    Target& t = target(8);
    // The slot is used again and again; a cookie never comes back.
    std::set<u64> seen;
    for (int round = 0; round < 1000; ++round) {
        run([&] {
            Result<u64> cookie = node_->impl().bind_md({});
            ASSERT_TRUE(cookie.ok());
            EXPECT_TRUE(seen.insert(*cookie).second);
            EXPECT_TRUE(node_->impl().unlink_md(*cookie, ok_status));
            EXPECT_FALSE(node_->impl().unlink_md(*cookie, ok_status));
        });
    }
    Md md = bind(t.spec({}));
    run([&] {
        Md moved = std::move(md);
        EXPECT_FALSE(static_cast<bool>(md));  // NOLINT: moved from on purpose
        node_->unlink(std::move(moved));
        EXPECT_EQ(node_->put(moved, {.to = process(2), .portal = 1}), Status(-ENOENT));  // NOLINT
    });
    EXPECT_TRUE(t.recorder.wait_unlinked());
}

TEST_F(MdTest, GuessedCookiesFindNothing) {
    start();
    Target& t = target(64);
    const Md attached = attach(5, any_bits(7), t.spec(accept_put));
    const Md bound = bind(t.spec({}));
    Prng prng(3);
    for (int i = 0; i < 2000; ++i) {
        Hdr hdr = put_hdr(0, 0, 0);
        hdr.type = MsgType::reply;
        hdr.payload_length = 4;
        hdr.handle.interface_cookie = node_->impl().interface_cookie;
        // Small numbers hit slots that exist, with any generation but the right one.
        u64 cookie = prng.next() & 0xfffff;
        if (i % 2 == 0)
            cookie = Cookie::make(prng.below(4), 0, static_cast<u32>(prng.below(20)), 77);
        hdr.handle.object_cookie = cookie;
        run([&] { EXPECT_TRUE(ni_->inject(hdr, process(2), pattern(4)).status.ok()); });
    }
    EXPECT_EQ(stats().drop_count, 2000u);
    EXPECT_EQ(t.recorder.count(), 0u);
}

TEST_F(MdTest, FragmentsAndEmptyMds) {
    start();
    Bytes bytes(64);
    const Frag frags[] = {{bytes.data() + 32, 5}, {bytes.data(), 7}, {bytes.data() + 48, 9}};
    const Mem mem(frags);
    Target& t = target(1);
    MdSpec spec = t.spec(accept_put);
    spec.mem = &mem;
    Md md = attach(5, any_bits(7), spec);
    inject(put_hdr(5, 7, 3));
    inject(put_hdr(5, 7, 18));
    ASSERT_TRUE(t.recorder.wait(2));
    const Bytes second = pattern(18, 2);
    EXPECT_EQ(Bytes(bytes.begin() + 35, bytes.begin() + 37),
              Bytes(second.begin(), second.begin() + 2));
    EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 7),
              Bytes(second.begin() + 2, second.begin() + 9));
    EXPECT_EQ(Bytes(bytes.begin() + 48, bytes.begin() + 57),
              Bytes(second.begin() + 9, second.end()));
    Target& none = target(1);
    MdSpec empty = none.spec(accept_put);
    empty.mem = nullptr;
    const Md no_bytes = attach(5, any_bits(8), empty);
    inject(put_hdr(5, 8, 0));
    ASSERT_TRUE(none.recorder.wait(1));
    run([&] { node_->unlink(std::move(md)); });
    ASSERT_TRUE(t.recorder.wait_unlinked());  // `mem` is ours again
}

}  // namespace
}  // namespace ulnet::test
