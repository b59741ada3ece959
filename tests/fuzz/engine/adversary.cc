// The adversary: see the header.
#include "tests/fuzz/engine/adversary.h"

#include "lnet/wire/acceptor.h"

namespace ulnet::fuzz {

using namespace sock;

namespace {

constexpr std::array<u32, Adversary::hosts> tails{9u << 24 | 1, 10u << 24 | 200, 11u << 24 | 1};
constexpr u16 port = acceptor_port;
constexpr u32 backlog = 16;
constexpr std::size_t in_max = 64 * 1024;

}  // namespace

Adversary::Adversary(sim::World& world, bool ipv6, const Nid& ours) : world_(world), ours_(ours) {
    for (u32 i = 0; i < hosts; ++i) {
        hosts_[i].nid = sim::world_nid(tails[i], ipv6);
        hosts_[i].address = Address(hosts_[i].nid);
        hosts_[i].socket = *world_.streams.listen({hosts_[i].address, port}, backlog, sides_);
        hosts_[i].socket->notice = &hosts_[i].stirred;
    }
}

Adversary::~Adversary() {
    leave();
}

void Adversary::set_policy(u32 host, Policy policy, std::span<const std::byte> raw, u32 version) {
    hosts_[host].policy = policy;
    hosts_[host].raw.assign(raw.begin(), raw.end());
    hosts_[host].version = version;
    hosts_[host].stirred.tell();
}

Link* Adversary::open(u32 host, bool privileged) {
    if (links_.size() >= links_max) return nullptr;
    const auto side = world_.streams.connect(hosts_[host].address, privileged,
                                             {Address(ours_), port}, sides_, world_.now());
    if (!side.ok()) return nullptr;
    return &add(**side, host);
}

Link& Adversary::add(sim::Side& side, u32 host) {
    Link& link = links_.emplace_back(stirred_);
    link.side = &side;
    link.host = host;
    side.notice = &link.stirred;
    if (!nid(host).is_nid4()) link.version = version_max;
    return link;
}

Link* Adversary::pick(u32 number) {
    if (links_.empty()) return nullptr;
    return &*std::next(links_.begin(), number % links_.size());
}

void Adversary::shut(Link& link) {
    if (link.side->state == sim::Side::State::open)
        world_.streams.shutdown(*link.side, world_.now());
}

void Adversary::reset(Link& link) {
    world_.streams.cut(*link.side, false);
    world_.streams.release(*link.side, world_.now());
    links_.remove_if([&](const Link& each) { return &each == &link; });
}

void Adversary::break_all(u32 host, bool silently) {
    world_.streams.break_all(hosts_[host].address.tail(), Address(ours_).tail(), silently);
}

void Adversary::leave() {
    while (!links_.empty()) reset(links_.front());
    for (Host& host : hosts_)
        if (host.socket != nullptr)
            world_.streams.close(*std::exchange(host.socket, nullptr), false);
}

void Adversary::act() {
    if (!std::exchange(stirred_, false)) return;
    for (u32 host = 0; host < hosts; ++host)
        if (hosts_[host].stirred.take()) accept(host);
    for (auto link = links_.begin(); link != links_.end();) {
        const auto next = std::next(link);
        if (link->stirred.take() && !act(*link)) reset(*link);
        link = next;
    }
}

void Adversary::accept(u32 host) {
    while (hosts_[host].policy != Policy::absent && hosts_[host].socket != nullptr &&
           links_.size() < links_max) {
        const auto side = world_.streams.accept(*hosts_[host].socket);
        if (!side.ok()) return;
        Link& link = add(**side, host);
        link.dialed_by_us = true;
        link.expect = Link::Expect::request;
        if (hosts_[host].policy == Policy::resets) reset(link);
    }
}

bool Adversary::act(Link& link) {
    if (link.reads) read(link);
    if (link.side->broken) return false;
    while (!link.out.empty()) {
        const std::size_t most = link.pace > 0 ? link.pace : link.out.size();
        const iovec from{link.out.data(), std::min(most, link.out.size())};
        const i64 sent = world_.streams.write(*link.side, std::span(&from, 1), world_.now());
        if (sent <= 0) return sent == -EAGAIN;
        link.out.erase(link.out.begin(), link.out.begin() + sent);
        if (link.pace == 0) continue;
        if (!link.out.empty()) link.stirred.tell();  // goes on after the next event
        break;
    }
    // The answer of who closes after the request has been "nothing".
    return !(link.answered && hosts_[link.host].policy == Policy::closes && link.out.empty());
}

void Adversary::read(Link& link) {
    std::array<std::byte, 4096> bytes;
    const iovec to{bytes.data(), bytes.size()};
    for (;;) {
        const i64 got = world_.streams.read(*link.side, std::span(&to, 1), world_.now());
        if (got <= 0) return;
        if (link.expect == Link::Expect::nothing) continue;
        link.in.insert(link.in.end(), bytes.begin(), bytes.begin() + got);
        understand(link);
    }
}

void Adversary::understand(Link& link) {
    std::size_t used = 0;
    do {
        used = take(link);
        link.in.erase(link.in.begin(), link.in.begin() + static_cast<std::ptrdiff_t>(used));
    } while (used > 0 && !link.in.empty());
    CHECK(link.in.size() <= in_max);
    if (link.expect == Link::Expect::nothing) link.in.clear();
}

std::size_t Adversary::take(Link& link) {
    switch (link.expect) {
    case Link::Expect::request: {
        const ConnRequestStep step = decode_conn_request(link.in);
        if (step.next == ConnRequestStep::Next::more) return 0;
        CHECK(step.next == ConnRequestStep::Next::request);
        CHECK(step.request.target == nid(link.host));
        link.expect = Link::Expect::hello;
        return step.used;
    }
    case Link::Expect::hello:
        return take_hello(link);
    case Link::Expect::frames:
        return take_frame(link);
    case Link::Expect::nothing:
        break;
    }
    return 0;
}

std::size_t Adversary::take_hello(Link& link) {
    const std::vector<std::byte> refusal = acceptor_answer();
    const std::size_t same = std::min(refusal.size(), link.in.size());
    if (!link.dialed_by_us &&
        std::equal(refusal.begin(), refusal.begin() + static_cast<long>(same), link.in.begin())) {
        if (same == refusal.size()) link.expect = Link::Expect::nothing;
        return same == refusal.size() ? same : 0;
    }
    const Result<std::size_t> need = hello_bytes(link.in);
    CHECK(need.ok());
    if (link.in.size() < *need) return 0;
    const Result<Hello> hello = decode_hello(std::span(link.in).first(*need));
    CHECK(hello.ok());
    CHECK(hello->src_nid == ours_);
    link.framing = {hello->version, hello->order};
    link.expect = Link::Expect::frames;
    if (hello->type == static_cast<u32>(ConnType::none)) {
        CHECK(!link.dialed_by_us);
        link.expect = Link::Expect::nothing;
    }
    if (link.dialed_by_us) {
        CHECK(hello->dst_nid == nid(link.host) || hello->version == 1);
        answer(link, *hello);
    }
    return *need;
}

void Adversary::answer(Link& link, const Hello& hello) {
    Host& host = hosts_[link.host];
    link.answered = true;
    // What a program said before was the answer: nobody knows what it made of the connection.
    if (link.spoke) link.expect = Link::Expect::nothing;
    link.version = hello.version;
    Hello own;
    own.version = hello.version;
    own.order = link.order;
    own.src_nid = host.nid;
    own.dst_nid = ours_;
    own.src_incarnation = host.incarnation;
    own.dst_incarnation = hello.src_incarnation;
    CHECK(invert(hello.type));
    own.type = static_cast<u32>(*invert(hello.type));
    const bool large = !host.nid.is_nid4();
    switch (host.policy) {
    case Policy::honest:
        break;
    case Policy::restarts:
        own.src_incarnation = ++host.incarnation;
        break;
    case Policy::refuses:
        own.type = static_cast<u32>(ConnType::none);
        break;
    case Policy::renegotiates:
        own.type = static_cast<u32>(ConnType::none);
        [[fallthrough]];
    case Policy::other_version:
        own.version = large ? version_max : host.version;
        break;
    case Policy::wrong_nid:
        own.src_nid = ours_;
        break;
    case Policy::wrong_type:
        own.type = host.version;
        break;
    case Policy::raw:
        send(link, host.raw);
        [[fallthrough]];
    case Policy::silent:
    case Policy::closes:
    case Policy::resets:
    case Policy::absent:
    case Policy::count_:
        link.expect = Link::Expect::nothing;  // who knows what a program answers
        return;
    }
    link.version = link.framing.version = own.version;  // the answer names the version
    std::array<std::byte, hello_bytes_max> bytes;
    send(link, std::span(bytes).first(encode_hello(own, bytes)));
}

std::size_t Adversary::take_frame(Link& link) {
    if (link.payload_left > 0) {
        const std::size_t part = std::min<u64>(link.payload_left, link.in.size());
        link.payload_left -= part;
        return part;
    }
    const Result<u32> need = frame_bytes(link.framing, link.in);
    CHECK(need.ok());
    if (link.in.size() < *need) return 0;
    const Result<Frame> frame = decode_frame(link.framing, std::span(link.in).first(*need));
    CHECK(frame.ok());
    if (!frame->lnet) return *need;
    CHECK(frame->hdr.payload_length <= payload_max);
    link.payload_left = frame->hdr.payload_length;
    if (frame->hdr.type == MsgType::put || frame->hdr.type == MsgType::get)
        seen_[seen_next_++ % seen_.size()] = {frame->hdr.handle, frame->hdr.match_bits};
    return *need;
}

}  // namespace ulnet::fuzz
