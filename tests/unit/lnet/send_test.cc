// The initiator's side: PUT, ACK, GET, REPLY, their events, and what happens when they fail.
#include <algorithm>

#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

class SendTest : public NodeTest {
 protected:
    Status put(Md& md, Ack ack, u32 to = 2, Nid from = {}) {
        Status status;
        run([&] {
            status = node_->put(md, {.to = process(to),
                                     .portal = 28,
                                     .match_bits = 0x1122334455667788,
                                     .offset = 5,
                                     .hdr_data = 0xcafe,
                                     .ack = ack,
                                     .from = from});
        });
        return status;
    }
    Status get(Md& md, u32 to = 2) {
        Status status;
        run([&] {
            status = node_->get(md, {.to = process(to), .portal = 8, .match_bits = 3, .offset = 6});
        });
        return status;
    }
    Hdr response(MsgType type, const Hdr& request, u32 length = 0) {
        Hdr hdr;
        hdr.type = type;
        hdr.dest_nid = request.src_nid;
        hdr.src_nid = request.dest_nid;
        hdr.handle = request.handle;
        hdr.match_bits = request.match_bits;
        hdr.payload_length = type == MsgType::reply ? length : 0;
        hdr.mlength = type == MsgType::ack ? length : 0;
        return hdr;
    }
};

TEST_F(SendTest, PutWithoutAck) {
    start();
    Target& t = target(300);
    std::ranges::copy(pattern(300), t.bytes.begin());
    MdOptions options;
    options.auto_unlink = true;
    Md md = bind(t.spec(options, 1));
    ASSERT_TRUE(put(md, Ack::no).ok());
    ASSERT_EQ(ni_->sends(), 1u);
    const Sent sent = ni_->sent(0);
    EXPECT_EQ(sent.hdr.type, MsgType::put);
    EXPECT_EQ(sent.hdr.dest_nid, tcp_nid(2));
    EXPECT_EQ(sent.hdr.src_nid, tcp_nid(1));
    EXPECT_EQ(sent.hdr.dest_pid, pid_lustre);
    EXPECT_EQ(sent.hdr.src_pid, pid_lustre);
    EXPECT_TRUE(sent.hdr.handle.none());
    EXPECT_EQ(sent.hdr.portal, 28u);
    EXPECT_EQ(sent.hdr.match_bits, 0x1122334455667788u);
    EXPECT_EQ(sent.hdr.hdr_data, 0xcafeu);
    EXPECT_EQ(sent.hdr.offset, 5u);
    EXPECT_EQ(sent.hdr.payload_length, 300u);
    EXPECT_EQ(sent.payload, t.bytes);
    EXPECT_EQ(sent.next_hop, process(2));
    EXPECT_EQ(put(md, Ack::no), Status(-ENOENT));  // its threshold is used up
    run([&] { ni_->finish_one(); });
    ASSERT_TRUE(t.recorder.wait_unlinked());
    ASSERT_EQ(t.recorder.count(), 1u);
    const Event event = t.recorder.events()[0];
    EXPECT_EQ(event.kind, Event::Kind::send);
    EXPECT_EQ(event.target, process(2));
    EXPECT_TRUE(event.initiator.nid.any());
    EXPECT_EQ(event.initiator.pid, pid_lustre);
    EXPECT_TRUE(event.source.any());
    EXPECT_TRUE(event.sender.any());
    EXPECT_EQ(event.rlength, 300u);
    EXPECT_EQ(event.mlength, 300u);
    EXPECT_EQ(event.offset, 5u);
    EXPECT_EQ(event.hdr_data, 0xcafeu);
    EXPECT_EQ(event.msg_type, MsgType::put);
    const StatsView view = stats();
    EXPECT_EQ(view.send_count, 1u);
    EXPECT_EQ(view.send_length, 300u);
    EXPECT_EQ(view.msgs_alloc, 0u);
    EXPECT_EQ(view.msgs_max, 2u);  // the refused put had one for a moment
    EXPECT_EQ(put(md, Ack::no), Status(-ENOENT));
}

TEST_F(SendTest, PutWithAckInEitherOrder) {
    start();
    for (const bool ack_first : {false, true}) {
        Target& t = target(16);
        MdOptions options;
        options.auto_unlink = true;
        Md md = bind(t.spec(options, 2));
        ASSERT_TRUE(put(md, Ack::yes).ok());
        const Sent sent = ni_->sent(ni_->sends() - 1);
        EXPECT_EQ(sent.hdr.handle.interface_cookie, node_->impl().interface_cookie);
        const Hdr ack = response(MsgType::ack, sent.hdr, 9);
        if (!ack_first) run([&] { ni_->finish_one(); });
        inject(ack);
        if (ack_first) run([&] { ni_->finish_one(); });
        ASSERT_TRUE(t.recorder.wait_unlinked());
        const std::vector<Event> events = t.recorder.events();
        ASSERT_EQ(events.size(), 2u);
        const Event& told = events[ack_first ? 0 : 1];
        EXPECT_EQ(told.kind, Event::Kind::ack);
        EXPECT_EQ(told.mlength, 9u);
        EXPECT_EQ(told.match_bits, 0x1122334455667788u);
        EXPECT_EQ(told.initiator, process(2));
        EXPECT_EQ(told.source, tcp_nid(2));
        EXPECT_EQ(told.target, process(1));
        EXPECT_EQ(told.msg_type, MsgType::ack);
        inject(ack);  // once more: the MD is gone
    }
    const StatsView view = stats();
    EXPECT_EQ(view.drop_count, 2u);
    EXPECT_EQ(view.rst_alloc, 0u);
}

// A peer can answer what it was not asked: the operation goes on to wait for its own answer.
TEST_F(SendTest, AnswersOfTheWrongKindAreDropped) {
    start();
    MdOptions options;
    options.auto_unlink = true;
    Target& got = target(40);
    Md get_md = bind(got.spec(options, 2));
    ASSERT_TRUE(get(get_md).ok());
    const Hdr asked = ni_->sent(0).hdr;
    inject(response(MsgType::ack, asked, 9));
    run([&] { ni_->finish_one(); });
    ASSERT_TRUE(got.recorder.wait(1));
    inject(response(MsgType::ack, asked, 9));
    EXPECT_EQ(stats().drop_count, 2u);
    Target& put_to = target(16);
    Md put_md = bind(put_to.spec(options, 2));
    ASSERT_TRUE(put(put_md, Ack::yes).ok());
    run([&] { ni_->finish_one(); });
    inject(response(MsgType::reply, ni_->sent(1).hdr, 0));
    EXPECT_EQ(stats().drop_count, 3u);
    EXPECT_EQ(got.recorder.events().size(), 1u);
    inject(response(MsgType::reply, asked, 0));
    inject(response(MsgType::ack, ni_->sent(1).hdr, 9));
    ASSERT_TRUE(got.recorder.wait_unlinked());
    ASSERT_TRUE(put_to.recorder.wait_unlinked());
}

TEST_F(SendTest, GetAndItsReply) {
    start();
    for (const bool reply_first : {false, true}) {
        Target& t = target(40);
        MdOptions options;
        options.auto_unlink = true;
        Md md = bind(t.spec(options, 2));
        ASSERT_TRUE(get(md).ok());
        const Sent sent = ni_->sent(ni_->sends() - 1);
        EXPECT_EQ(sent.hdr.type, MsgType::get);
        EXPECT_EQ(sent.hdr.payload_length, 0u);
        EXPECT_EQ(sent.hdr.sink_length, 40u);
        EXPECT_EQ(sent.hdr.offset, 6u);
        EXPECT_EQ(stats().rst_alloc, 1u);
        if (!reply_first) run([&] { ni_->finish_one(); });
        const Injected& reply = inject(response(MsgType::reply, sent.hdr, 30));
        EXPECT_EQ(reply.len, 30u);
        if (reply_first) run([&] { ni_->finish_one(); });
        ASSERT_TRUE(t.recorder.wait_unlinked());
        const std::vector<Event> events = t.recorder.events();
        ASSERT_EQ(events.size(), 2u);
        const auto told = std::ranges::find(events, Event::Kind::reply, &Event::kind);
        ASSERT_NE(told, events.end());
        EXPECT_EQ(told->rlength, 30u);
        EXPECT_EQ(told->mlength, 30u);
        EXPECT_EQ(told->offset, 0u);
        EXPECT_EQ(told->initiator, process(2));
        const auto send = std::ranges::find(events, Event::Kind::send, &Event::kind);
        ASSERT_NE(send, events.end());
        EXPECT_EQ(send->rlength, 40u);
        EXPECT_EQ(send->msg_type, MsgType::get);
        EXPECT_EQ(send->hdr_data, 0u);
        EXPECT_EQ(Bytes(t.bytes.begin(), t.bytes.begin() + 30), pattern(30, 2));
    }
    EXPECT_EQ(stats().recv_length, 60u);
}

TEST_F(SendTest, RepliesThatDoNotFit) {
    start();
    Target& t = target(10);
    Md md = bind(t.spec({}));
    ASSERT_TRUE(get(md).ok());
    const Hdr request = ni_->sent(0).hdr;
    inject(response(MsgType::reply, request, 11));
    EXPECT_EQ(stats().drop_count, 1u);
    EXPECT_EQ(stats().drop_length, 11u);
    MdOptions truncate;
    truncate.truncate = true;
    Md cut = bind(t.spec(truncate));
    ASSERT_TRUE(get(cut).ok());
    inject(response(MsgType::reply, ni_->sent(1).hdr, 11));
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_EQ(t.recorder.events()[0].rlength, 11u);
    EXPECT_EQ(t.recorder.events()[0].mlength, 10u);
    // Another instance's cookie, and an MD that is attached.
    Hdr other = response(MsgType::reply, request, 1);
    other.handle.interface_cookie = 1;
    inject(other);
    const Md attached = attach(5, any_bits(7), t.spec(accept_put));
    Hdr guess = response(MsgType::reply, request, 1);
    guess.handle.object_cookie = node_->impl().mds[0]->cookie_of(*node_->impl().mds[0]->at(0));
    for (u32 slot = 0; slot < 8; ++slot) {
        const MdImpl& each = *node_->impl().mds[0]->at(slot);
        if (each.me != nullptr) guess.handle.object_cookie = each.cookie.load();
    }
    inject(guess);
    EXPECT_EQ(stats().drop_count, 3u);
}

TEST_F(SendTest, NoWay) {
    start();
    Target& t = target(8);
    // Never from within the call: another worker may well be faster than the call's end.
    thread_local bool calling = false;
    const auto within = std::make_shared<std::atomic<bool>>(false);
    t.recorder.then = [within](const Event&) {
        if (calling) *within = true;
    };
    Md md = bind(t.spec({}));
    run([&] {
        EXPECT_EQ(node_->put(md, {.to = process(2), .portal = 64}), Status(-EINVAL));
        EXPECT_EQ(node_->get(md, {.to = {}, .portal = 1}), Status(-EINVAL));
        const ProcessId far{Nid::ipv4(Net::of(NetType::o2ib, 0), 5), pid_lustre};
        calling = true;
        EXPECT_TRUE(node_->put(md, {.to = far, .portal = 1}).ok());
        calling = false;
    });
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_EQ(t.recorder.events()[0].kind, Event::Kind::send);
    EXPECT_EQ(t.recorder.events()[0].status, Status(-EHOSTUNREACH));
    EXPECT_EQ(put(md, Ack::no, 2, tcp_nid(9)), ok_status);  // not a NID of ours
    ASSERT_TRUE(t.recorder.wait(2));
    EXPECT_EQ(t.recorder.events()[1].status, Status(-EINVAL));
    run([&] {
        calling = true;
        EXPECT_TRUE(node_->put(md, {.to = {nid_lo(), pid_lustre}, .portal = 1}).ok());
        EXPECT_TRUE(node_->put(md, {.to = process(1), .portal = 1}).ok());
        calling = false;
    });
    ASSERT_TRUE(t.recorder.wait(4));  // no loopback driver here
    EXPECT_FALSE(*within);
    EXPECT_EQ(t.recorder.events()[2].status, Status(-EHOSTUNREACH));
    EXPECT_EQ(t.recorder.events()[3].status, Status(-EHOSTUNREACH));
    EXPECT_EQ(stats().local_no_route_count, 4u);
    EXPECT_EQ(stats().errors, 4u);
}

TEST_F(SendTest, SourceAndDestinationChooseTheNi) {
    start();
    TestNi* const first = ni_;
    TestNi& second = add(7);
    Target& t = target(8);
    Md md = bind(t.spec({}));
    for (u32 i = 0; i < 8; ++i) ASSERT_TRUE(put(md, Ack::no, 20 + i, tcp_nid(7)).ok());
    EXPECT_EQ(second.sends(), 8u);
    EXPECT_EQ(second.sent(0).hdr.src_nid, tcp_nid(7));
    // Without a source each peer gets one NI, always the same; peers spread over both.
    for (u32 i = 0; i < 64; ++i) ASSERT_TRUE(put(md, Ack::no, 100 + i % 32).ok());
    EXPECT_EQ(first->sends() + second.sends(), 72u);
    EXPECT_EQ(first->sends() % 2, 0u);
    EXPECT_GT(first->sends(), 10u);
    EXPECT_GT(second.sends(), 18u);
    // An NI that is down comes last.
    run([&] { first->up.ni_event(NiEvent::down); });
    const std::size_t before = first->sends();
    for (u32 i = 0; i < 32; ++i) ASSERT_TRUE(put(md, Ack::no, 200 + i).ok());
    EXPECT_EQ(first->sends(), before);
}

TEST_F(SendTest, ADriverErrorIsTheSendEvent) {
    start();
    Target& t = target(8);
    MdOptions options;
    options.auto_unlink = true;
    Md md = bind(t.spec(options, 2));
    ASSERT_TRUE(get(md).ok());
    run([&] { ni_->finish_one(Status(-ECONNREFUSED), Health::remote_error); });
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_EQ(t.recorder.events()[0].status, Status(-ECONNREFUSED));
    EXPECT_FALSE(t.recorder.events()[0].unlinked);
    EXPECT_EQ(stats().rst_alloc, 0u);  // no REPLY is awaited any more
    run([&] { node_->unlink(std::move(md)); });
    ASSERT_TRUE(t.recorder.wait_unlinked());
}

TEST_F(SendTest, AResponseThatDoesNotComeEndsTheMd) {
    node_options_.transaction_timeout_s = 1;
    start();
    Target& idle = target(8);
    Target& busy = target(8);
    Target& answered = target(8);
    Md one = bind(idle.spec({}));
    Md two = bind(busy.spec({}));
    Md three = bind(answered.spec({}));
    ASSERT_TRUE(put(one, Ack::yes).ok());
    run([&] { ni_->finish_one(); });
    ASSERT_TRUE(get(two).ok());  // stays with the driver
    ASSERT_TRUE(get(three).ok());
    inject(response(MsgType::reply, ni_->sent(2).hdr, 8));
    EXPECT_EQ(stats().rst_alloc, 2u);
    ASSERT_TRUE(idle.recorder.wait_unlinked());
    const Event event = idle.recorder.events()[1];
    EXPECT_EQ(event.kind, Event::Kind::unlink);
    EXPECT_EQ(event.status, Status(-ETIMEDOUT));
    ASSERT_TRUE(eventually([&] { return stats().response_timeout_count == 2; }));
    EXPECT_EQ(busy.recorder.count(), 0u);
    run([&] { EXPECT_EQ(node_->put(two, {.to = process(2), .portal = 1}), Status(-ENOENT)); });
    run([&] { ni_->finish_one(); });
    ASSERT_TRUE(busy.recorder.wait_unlinked());
    EXPECT_EQ(busy.recorder.events()[0].kind, Event::Kind::send);
    EXPECT_EQ(busy.recorder.events()[0].status, Status(-ETIMEDOUT));
    EXPECT_EQ(answered.recorder.unlinked(), 0u);
    inject(response(MsgType::ack, ni_->sent(0).hdr, 8));  // too late
    EXPECT_EQ(stats().drop_count, 1u);
}

TEST_F(SendTest, UnlinkOfABusyMdWaitsForItsMessages) {
    start();
    Target& t = target(8);
    Md md = bind(t.spec({}));
    ASSERT_TRUE(put(md, Ack::no).ok());
    ASSERT_TRUE(put(md, Ack::no).ok());
    run([&] { node_->unlink(std::move(md)); });
    EXPECT_EQ(t.recorder.count(), 0u);
    run([&] { ni_->finish_one(); });
    ASSERT_TRUE(t.recorder.wait(1));
    EXPECT_FALSE(t.recorder.events()[0].unlinked);
    EXPECT_EQ(t.recorder.events()[0].status, Status(-ETIMEDOUT));
    run([&] { ni_->finish_one(Status(-EIO)); });
    ASSERT_TRUE(t.recorder.wait_unlinked());
    EXPECT_EQ(t.recorder.count(), 2u);
    EXPECT_EQ(t.recorder.events()[1].status, Status(-EIO));
}

TEST_F(SendTest, ReplyThatTheDriverFetchesItself) {
    start();
    Target& t = target(32);
    MdOptions options;
    options.auto_unlink = true;
    Md md = bind(t.spec(options, 2));
    ASSERT_TRUE(get(md).ok());
    run([&] {
        Msg& request = *ni_->sent(0).msg;
        Msg* const reply = ni_->up.reply_for(request);
        ASSERT_NE(reply, nullptr);
        EXPECT_EQ(reply->payload.len, 32u);
        EXPECT_EQ(ni_->up.reply_for(request), nullptr);  // the threshold is used up
        reply->payload.copy_in(0, pattern(20));
        reply->payload.len = 20;
        ni_->up.finished(*reply, ok_status, Health::ok);
        ni_->finish_one();
    });
    ASSERT_TRUE(t.recorder.wait_unlinked());
    EXPECT_EQ(t.recorder.events()[0].kind, Event::Kind::reply);
    EXPECT_EQ(t.recorder.events()[0].mlength, 20u);
    EXPECT_EQ(t.recorder.events()[0].source, tcp_nid(2));
}

TEST_F(SendTest, MessageTimeOuts) {
    lnd_.caps_.timeout = seconds(10);
    node_options_.retry_count = 3;
    start();
    EXPECT_EQ(node_->impl().topology.latest().nis.front()->message_timeout(), seconds(41));
    lnd_.caps_.timeout = {};
    add(7);
    EXPECT_EQ(node_->impl().topology.latest().nis.back()->message_timeout(), seconds(150));
}

}  // namespace
}  // namespace ulnet::test
