#include "tests/lnd/core.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lnet/ctl/value.h"

namespace ulnet::lnd_test {
namespace {

std::byte pattern(u64 number, u32 at) {
    return static_cast<std::byte>((number * 37 + at * 11 + (at >> 9)) & 0xff);
}

}  // namespace

TestMsg::TestMsg(u64 its_number, u32 len, u32 fragments, bool filled)
    : number(its_number), bytes(len) {
    // The first and the last of one byte, the others uneven.
    std::vector<Frag> frags;
    u32 at = 0;
    fragments = std::max(1u, std::min(fragments, len));
    for (u32 i = 0; i < fragments && at < len; ++i) {
        u32 size = i == 0 && fragments > 1 ? 1 : std::max(1u, len / fragments + i % 3 - 1);
        const u32 behind = fragments - 1 - i;
        size = i + 1 == fragments ? len - at : std::min(size, len - at - behind);
        frags.push_back({bytes.data() + at, size});
        at += size;
    }
    if (len > 0) mem = Mem(frags);
    payload = {&mem, 0, len};
    for (u32 i = 0; filled && i < len; ++i) bytes[i] = pattern(number, i);
}

u32 TestMsg::wrong_bytes(u32 len) const {
    u32 wrong = 0;
    for (u32 i = 0; i < len; ++i) wrong += bytes[i] != pattern(number, i) ? 1 : 0;
    return wrong;
}

Core::~Core() {
    EXPECT_TRUE(out_.empty()) << "messages that the driver never finished sending";
    EXPECT_TRUE(in_.empty()) << "messages that the driver never finished receiving";
}

LndNi* Core::ni() {
    const std::lock_guard guard(lock_);
    return ni_;
}

void Core::attach(LndNi* ni) {
    const std::lock_guard guard(lock_);
    ni_ = ni;
}

void Core::closed() {
    const std::lock_guard guard(lock_);
    open_ = false;
    ni_ = nullptr;
    EXPECT_TRUE(out_.empty() && in_.empty()) << "closed with messages";
}

Status Core::arrived(const Hdr& hdr, const ProcessId& from, RxToken token, RdmaGet) {
    const Arrival arrival{hdr, from, token};
    bool parks = true;
    LndNi* own = nullptr;
    {
        const std::lock_guard guard(lock_);
        EXPECT_TRUE(open_) << "a message after the end";
        ++tally_.arrived;
        tally_.order.push_back(number_of(hdr));
        parks = parks_;
        own = ni_;
    }
    // An NI may show messages before its opener holds it.
    if (own == nullptr) return Status(-ENETDOWN);
    ctl::Value shown;
    own->describe(shown);
    Answer answer = decide_ ? decide_(hdr) : Answer::take;
    if (answer == Answer::park && !parks) answer = Answer::discard;
    switch (answer) {
    case Answer::take:
        take(arrival, hdr.payload_length);
        break;
    case Answer::cut:
        take(arrival, hdr.payload_length / 2);
        break;
    case Answer::discard:
        own->receive(token, nullptr, 0);
        break;
    case Answer::park: {
        EXPECT_TRUE(own->park(token).ok());
        const std::lock_guard guard(lock_);
        ++tally_.parked;
        parked_.push_back(arrival);
        break;
    }
    case Answer::refuse: {
        const std::lock_guard guard(lock_);
        ++tally_.refused;
        return Status(-EPROTO);
    }
    }
    return ok_status;
}

void Core::take(const Arrival& arrival, u32 len) {
    auto msg = std::make_shared<TestMsg>(number_of(arrival.hdr), len, 1 + len % 9, false);
    LndNi* own = nullptr;
    {
        const std::lock_guard guard(lock_);
        in_.insert(msg);
        own = ni_;
    }
    ASSERT_NE(own, nullptr);
    own->receive(arrival.token, msg.get(), len);
}

void Core::finished(Msg& msg, Status status, Health health) {
    auto& own = static_cast<TestMsg&>(msg);
    if (LndNi* const ni_now = ni()) {
        ctl::Value shown;
        ni_now->describe(shown);
    }
    EXPECT_EQ(status.ok(), health == Health::ok) << status.text();
    const std::lock_guard guard(lock_);
    EXPECT_TRUE(open_) << "an end after the end";
    EXPECT_EQ(++own.ends, 1u) << "a message ended twice";
    own.status = status;
    const auto is = [&](const auto& each) { return each.get() == &own; };
    const auto sent = std::find_if(out_.begin(), out_.end(), is);
    if (sent != out_.end()) {
        ++(status.ok() ? tally_.sent_ok : tally_.sent_failed);
        out_.erase(sent);
        return;
    }
    const auto received = std::find_if(in_.begin(), in_.end(), is);
    ASSERT_NE(received, in_.end()) << "a message that the driver does not have";
    ++(status.ok() ? tally_.received_ok : tally_.received_failed);
    if (status.ok()) tally_.wrong_bytes += own.wrong_bytes(own.payload.len);
    in_.erase(received);
}

void Core::peer_event(const Nid&, PeerEvent event) {
    const std::lock_guard guard(lock_);
    EXPECT_TRUE(open_);
    ++(event == PeerEvent::up ? tally_.up : tally_.down);
}

std::vector<Arrival> Core::take_parked() {
    const std::lock_guard guard(lock_);
    return std::exchange(parked_, {});
}

void Core::park_no_more() {
    std::vector<Arrival> left;
    LndNi* own = nullptr;
    {
        const std::lock_guard guard(lock_);
        parks_ = false;
        left.swap(parked_);
        own = ni_;
    }
    for (const Arrival& arrival : left)
        if (own != nullptr) own->receive(arrival.token, nullptr, 0);
}

Core::Tally Core::tally() {
    const std::lock_guard guard(lock_);
    return tally_;
}

bool Core::ended(const TestMsg& msg) {
    const std::lock_guard guard(lock_);
    return msg.ends == 1;
}

void Core::sending(const std::shared_ptr<TestMsg>& msg) {
    const std::lock_guard guard(lock_);
    out_.insert(msg);
}

// --- a node

TestNode::TestNode(Subject& subject, u32 number, Core::Decide decide)
    : core(std::move(decide)), subject_(subject), number_(number), config_(subject.config(number)),
      lnd_(subject.make_lnd()) {
    subject_.bench().run(number_, [&] {
        std::string why;
        auto opened = lnd_->open(config_, core, subject_.bench().sched(number_), why);
        ASSERT_TRUE(opened.ok()) << why;
        ni_ = std::move(*opened);
        core.attach(ni_.get());
    });
}

TestNode::~TestNode() {
    close();
}

std::shared_ptr<TestMsg> TestNode::send(const Nid& to, u64 id, u32 len, u32 fragments, MsgType type,
                                        Duration time) {
    auto msg = std::make_shared<TestMsg>(id, len, fragments, true);
    msg->hdr.type = type;
    msg->hdr.src_nid = config_.nid;
    msg->hdr.dest_nid = to;
    msg->hdr.payload_length = len;
    msg->hdr.match_bits = id;
    msg->hdr.handle.interface_cookie = 1;
    msg->hdr.handle.object_cookie = id;
    msg->next_hop = {to, pid_lustre};
    core.sending(msg);
    subject_.bench().run(number_, [&] {
        if (time != Duration{}) msg->deadline = subject_.bench().sched(number_).now() + time;
        ni_->send(*msg);
    });
    return msg;
}

void TestNode::run(const std::function<void(LndNi&)>& fn) {
    subject_.bench().run(number_, [&] { fn(*ni_); });
}

void TestNode::close() {
    if (ni_ == nullptr) return;
    // Under way to the core's answer: asked again until the driver has closed.
    std::atomic<bool> done{false};
    FnTask closed([&] { done = true; });
    subject_.bench().run(number_, [&] { ni_->close(closed); });
    EXPECT_TRUE(subject_.bench().wait([&] {
        if (!done) subject_.bench().run(number_, [&] { core.park_no_more(); });
        return done.load();
    }));
    core.closed();
    subject_.bench().run(number_, [&] { ni_.reset(); });
}

}  // namespace ulnet::lnd_test
