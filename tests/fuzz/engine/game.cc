// The steps of a program, and what is checked after it.
#include "tests/fuzz/engine/game.h"

#include <cstdio>

#include "lnet/node_impl.h"
#include "lnet/wire/acceptor.h"

namespace ulnet::fuzz {

using namespace sock;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr u64 seed = 1;
constexpr Duration step_time = microseconds(60);
constexpr Duration wait_max = seconds(60);  // of a whole program: idle time costs, too
constexpr Duration close_max = seconds(300);
constexpr u32 transaction_timeout_s = 10;
constexpr u32 frame_payload_max = 70'000;  // bytes that really follow
constexpr u32 conns_per_peer_max = 4;

}  // namespace

Game::Game(std::span<const std::byte> input)
    : program_(input), ipv6_(program_.below(8) == 7), node_first_(program_.flag()), world_(seed),
      node_(world_.add_node(draw())), adversary_(world_, ipv6_, node_.nid()), ours_(node_) {}

sim::NodeSpec Game::draw() {
    static constexpr std::array<sim::Split, 4> splits{sim::Split::whole, sim::Split::whole,
                                                      sim::Split::random, sim::Split::bytes};
    const u8 how = program_.byte(), sizes = program_.byte();
    world_.streams.params.split = splits[how % splits.size()];
    world_.streams.params.rx_buffer = 512u << (sizes & 7);
    world_.streams.params.tx_buffer = 4096u << (sizes >> 3 & 3);
    world_.model.params.latency_max = microseconds(10);
    sim::NodeSpec spec;
    spec.level = sim::Level::stream;
    spec.ipv6 = ipv6_;
    spec.cpts = how & 4 ? 2 : 1;
    spec.sched.workers_per_cpt = how & 8 ? 2 : 1;
    spec.sched.window = how & 16 ? 4 : 1;
    spec.sched.wake_up_max = {};
    spec.node.transaction_timeout_s = transaction_timeout_s;
    spec.node.messages_max = sizes & 32 ? 4 : 1024;
    spec.node.discovery = (how & 32) == 0;
    spec.peer_credits = sizes & 64 ? 1 : 8;
    spec.credits = sizes & 128 ? spec.peer_credits : 64;
    spec.tunables = {{"protocol", 1 + (program_.byte() + 2) % 4},
                     {"conns_per_peer", 1 + program_.below(conns_per_peer_max)},
                     {"typed_conns", how & 64 ? 0 : 1},
                     {"enable_csum", how & 128 ? 1 : 0},
                     {"accept", program_.below(4) == 3 ? 1 : 0},
                     {"privileged", program_.below(4) == 3 ? 0 : 1},
                     {"sock_timeout", 8},
                     {"min_reconnectms", 2000}};
    return spec;
}

void Game::must(bool holds, const char* what) {
    if (holds && !world_.failed()) return;
    std::fprintf(stderr, "CHECK failed at %s: %s %s; left: %s\n",
                 sim::to_text(world_.now()).c_str(), what, world_.failure().c_str(),
                 ours_.left_text().c_str());
    std::abort();
}

void Game::play() {
    node_.start();
    must(world_.run_until_ready(seconds(10)), "the interface comes up");
    for (u32 i = 0; i < steps_max && !program_.over(); ++i) step();
    finish();
}

void Game::run(Duration time) {
    const Instant end = world_.now() + time;
    // The adversary acts between events: it is as fast as one can be.
    while (world_.engine.step(end)) adversary_.act();
    adversary_.act();
    must(true, "");
}

void Game::step() {
    const u8 what = program_.byte();
    const Op op = static_cast<Op>((what & 0x7f) % static_cast<u8>(Op::count_));
    switch (op) {
    case Op::request:
    case Op::hello:
    case Op::frame:
    case Op::raw:
    case Op::pace:
    case Op::reading:
    case Op::shut:
    case Op::reset:
        if (Link* const link = adversary_.pick(program_.byte())) on_link(op, *link);
        break;
    case Op::open:
        adversary_.open(program_.below(Adversary::hosts), !program_.flag());
        break;
    case Op::conversation:
        open_conversation();
        break;
    case Op::break_all: {
        const u32 host = program_.below(Adversary::hosts);
        adversary_.break_all(host, program_.flag());
        break;
    }
    case Op::policy: {
        const u32 host = program_.below(Adversary::hosts);
        const auto policy = static_cast<Policy>(program_.below(static_cast<u32>(Policy::count_)));
        const u32 version = 1 + program_.below(version_max);
        adversary_.set_policy(host, policy,
                              policy == Policy::raw ? program_.bytes(program_.byte())
                                                    : std::span<const std::byte>{},
                              version);
        break;
    }
    case Op::restart:
        adversary_.restart(program_.below(Adversary::hosts));
        break;
    case Op::wait: {
        const u8 how = program_.byte();
        static constexpr std::array<Duration, 4> units{microseconds(10), milliseconds(1),
                                                       milliseconds(100), seconds(1)};
        wait(units[how >> 6] * (how & 63));
        break;
    }
    default:
        on_node(op);
    }
    // Half of the steps let the world react first.
    if ((what & 0x80) == 0) run(step_time);
}

void Game::wait(Duration time) {
    time = std::min(time, wait_max - waited_);
    waited_ += time;
    run(time);
}

void Game::on_link(Op op, Link& link) {
    switch (op) {
    case Op::request:
        return send_request(link);
    case Op::hello:
        return send_hello(link);
    case Op::frame:
        return send_frame(link);
    case Op::raw:
        return send_raw(link);
    case Op::pace:
        link.pace = program_.byte();
        return;
    case Op::reading:
        link.reads = program_.flag();
        link.stirred.tell();
        return;
    case Op::shut:
        return adversary_.shut(link);
    default:
        return adversary_.reset(link);
    }
}

// What is sent, as it should be or with some bytes changed or missing.
void Game::send_mutated(Link& link, std::vector<std::byte>& bytes) {
    const u32 mutations = program_.byte();
    for (u32 i = 0; i < mutations % 4 && !bytes.empty(); ++i) {
        const std::size_t at = program_.byte() % bytes.size();
        bytes[at] ^= static_cast<std::byte>(program_.byte());
    }
    if (mutations & 0x80) bytes.resize(program_.byte() % (bytes.size() + 1));
    adversary_.send(link, bytes);
}

Nid Game::any_nid(Link& link) {
    const u8 which = program_.byte();
    switch (which % 8) {
    case 1:
        return adversary_.nid(program_.below(Adversary::hosts));
    case 2:
        return nid_lo();
    case 3:
        return Nid::from_nid4(program_.number());
    case 4:
        return {};
    case 5:
        return adversary_.nid(link.host);
    default:
        return node_.nid();
    }
}

void Game::send_request(Link& link) {
    const u8 how = program_.byte();
    const Nid target = how & 4 ? any_nid(link) : node_.nid();
    const u32 version = how & 1 || !target.is_nid4() ? 2 : 1;
    auto bytes = encode_conn_request({version, target}, how & 2 ? Order::big : Order::little);
    send_mutated(link, bytes);
}

void Game::send_hello(Link& link) {
    const u8 how = program_.byte();
    Hello hello;
    hello.version = ipv6_ ? version_max : 1 + (how + 2) % version_max;
    hello.order = how & 4 ? Order::big : Order::little;
    hello.type = how >> 3 & 3;  // any, control, bulk in, bulk out
    hello.src_nid = adversary_.nid(link.host);
    hello.dst_nid = node_.nid();
    hello.src_incarnation = adversary_.incarnation(link.host);
    if (how & 32) {
        const Nid source = any_nid(link);
        if (hello.version == version_max || source.is_nid4()) hello.src_nid = source;
        hello.src_pid = program_.number32();
        hello.src_incarnation = program_.number();
        hello.type = program_.number32();
    }
    if (how & 64) {
        hello.nips = program_.below(hello_ips_max + 1);
        hello.ips.fill(program_.number32());
    }
    link.version = hello.version;
    link.order = hello.order;
    std::vector<std::byte> bytes(hello_bytes_max);
    bytes.resize(encode_hello(hello, std::span(bytes)));
    send_mutated(link, bytes);
}

void Game::open_conversation() {
    const u8 how = program_.byte();
    Link* const link = adversary_.open(how % Adversary::hosts, (how & 0x80) == 0);
    if (link == nullptr) return;
    adversary_.send(*link, encode_conn_request(ConnRequest::to(node_.nid())));
    Hello hello;
    hello.version = ipv6_ ? version_max : 1 + ((how >> 2) + 2) % version_max;
    hello.order = how & 16 ? Order::big : Order::little;
    hello.type = how >> 5 & 3;
    hello.src_nid = adversary_.nid(link->host);
    hello.dst_nid = node_.nid();
    hello.src_incarnation = adversary_.incarnation(link->host);
    link->version = hello.version;
    link->order = hello.order;
    std::array<std::byte, hello_bytes_max> bytes;
    adversary_.send(*link, std::span(bytes).first(encode_hello(hello, bytes)));
}

WireHandle Game::any_handle() {
    const u8 which = program_.byte();
    WireHandle handle;
    if (which < 128) return adversary_.seen(which).handle;
    if (which < 192) return handle;  // none
    handle.interface_cookie = program_.number();
    handle.object_cookie = program_.number();
    return handle;
}

// As pushes and the answers to pings carry it.
std::vector<std::byte> Game::ping_buffer(Link& link) {
    PingInfo info;
    info.features = ping_base | ping_ni_status | program_.byte();
    info.sequence = program_.byte();
    const u32 count = program_.below(6);
    for (u32 i = 0; i < count; ++i) {
        const Nid nid = any_nid(link);
        if (!nid.is_lo() && nid.valid() && !nid.any()) info.nis.push_back({nid, ni_status_up});
    }
    return encode_ping(info, link.order);
}

void Game::send_frame(Link& link) {
    const u8 how = program_.byte();
    Frame frame;
    frame.lnet = (how & 3) != 3 || link.version == 1;
    frame.head.type = static_cast<u32>(frame.lnet ? FrameType::lnet : FrameType::noop);
    if (how & 4) frame.head.checksum = program_.number32();
    if (how & 8) frame.head.cookie0 = program_.number();
    if (how & 16) frame.head.cookie1 = program_.number();
    Hdr& hdr = frame.hdr;
    std::vector<std::byte> payload;
    if (frame.lnet) {
        hdr.dest_nid = node_.nid();
        hdr.src_nid = adversary_.nid(link.host);
        if (how & 32) {
            const Nid to = any_nid(link), from = any_nid(link);
            if (link.version == version_max || to.is_nid4()) hdr.dest_nid = to;
            if (link.version == version_max || from.is_nid4()) hdr.src_nid = from;
            hdr.dest_pid = program_.number32();
            hdr.src_pid = program_.number32();
        }
        const u8 kind = program_.byte();
        hdr.type = static_cast<MsgType>(kind % 5);
        if (how & 128) payload = ping_buffer(link);
        hdr.payload_length = kind & 0x80 ? program_.number32()
                             : how & 128 ? static_cast<u32>(payload.size())
                                         : program_.byte();
        hdr.handle = any_handle();
        hdr.match_bits = program_.number();
        hdr.portal = program_.byte();
        hdr.portal = hdr.portal >= 128 ? hdr.portal - 100 : hdr.portal % Ours::portals;
        hdr.offset = program_.number32();
        hdr.sink_length = hdr.mlength = program_.number32();
        const u64 bytes = how & 64 ? program_.number() : hdr.payload_length;
        payload.resize(std::min<u64>(bytes, frame_payload_max), std::byte{0x5a});
    }
    std::vector<std::byte> bytes(frame_bytes_max);
    bytes.resize(encode_frame({link.version, link.order}, frame, std::span(bytes)));
    send_mutated(link, bytes);
    adversary_.send(link, payload);
}

// Bytes of the program as they are, or a captured frame with the NIDs of this world.
void Game::send_raw(Link& link) {
    const bool captured = program_.flag();
    const auto given = program_.bytes(program_.word());
    std::vector<std::byte> bytes(given.begin(), given.end());
    const Framing framing{link.version, link.order};
    if (captured && bytes.size() >= frame_bytes_max) {
        Result<Frame> frame =
            decode_frame({3, Order::little}, std::span(bytes).first(frame3_bytes));
        if (frame.ok() && frame->lnet) {
            frame->hdr.dest_nid = node_.nid();
            frame->hdr.src_nid = adversary_.nid(link.host);
            std::vector<std::byte> again(frame_bytes_max);
            again.resize(encode_frame(framing, *frame, std::span(again)));
            again.insert(again.end(), bytes.begin() + frame3_bytes, bytes.end());
            bytes = std::move(again);
        }
    }
    adversary_.send(link, bytes);
}

void Game::on_node(Op op) {
    const ProcessId to{op == Op::put || op == Op::get || op == Op::ping
                           ? adversary_.nid(program_.below(Adversary::hosts))
                           : Nid{},
                       pid_lustre};
    // Programs are read when their step comes, also where the node acts later.
    bool done = false;
    switch (op) {
    case Op::tune:
        return tune();
    case Op::interface:
        return toggle_interface();
    default:
        node_.control([&, op] {
            done = true;
            switch (op) {
            case Op::put:
                return ours_.put(program_, to);
            case Op::get:
                return ours_.get(program_, to);
            case Op::ping:
                return ours_.ping(to);
            case Op::attach:
                return ours_.attach(program_, adversary_.nid(program_.below(Adversary::hosts)));
            case Op::unlink:
                if (program_.flag()) return ours_.unlink_target(program_.byte());
                return ours_.unlink_operation(program_.byte());
            case Op::lazy: {
                const u32 portal = program_.below(Ours::portals);
                return ours_.set_lazy(portal, program_.flag());
            }
            case Op::drop_peer: {
                const Nid& peer = adversary_.nid(program_.below(Adversary::hosts));
                for (const auto& ni : node_.node().impl().nis)
                    if (!ni->loopback()) ni->lnd()->drop_peer(peer);
                return;
            }
            default:
                return;
            }
        });
    }
    must(world_.run_until([&] { return done; }, seconds(1), 1), "the control strand runs");
}

void Game::tune() {
    struct Choice {
        std::string_view name;
        u32 low, high;
    };
    static constexpr std::array<Choice, 8> choices{{{"conns_per_peer", 1, conns_per_peer_max},
                                                    {"typed_conns", 0, 1},
                                                    {"protocol", 1, 4},
                                                    {"enable_csum", 0, 1},
                                                    {"nonblk_zcack", 0, 1},
                                                    {"keepalive", 0, 3},
                                                    {"min_bulk", 0, 255},
                                                    {"inject_csum_error", 0, 1}}};
    const Choice& choice = choices[program_.below(choices.size())];
    const std::string value =
        std::to_string(choice.low + program_.below(choice.high - choice.low + 1));
    node_.control([this, &choice, value] {
        const Error error = set_ni_tunable(node_.node(), node_.nid(), choice.name, value);
        CHECK(error.ok() || error.status == Status(-ENOENT));  // there is no such NI now
    });
}

// Closes the interface, or opens it anew.
void Game::toggle_interface() {
    if (changing_interface_) return;
    changing_interface_ = true;
    node_.control([this] {
        if (!has_interface_) {
            has_interface_ = node_.add_interface().ok();
            changing_interface_ = false;
            return;
        }
        has_interface_ = false;
        const Error error =
            node_.node().del_ni(node_.nid(), [this] { changing_interface_ = false; });
        CHECK(error.ok());
    });
}

// Connections of a peer are bounded by what was ever allowed, and are where they can be seen.
void Game::check_limits() {
    static constexpr i64 most = 1 + 3 * conns_per_peer_max;
    bool looked = false;
    node_.control([&] {
        looked = true;
        for (const NiView& ni : inspect_nis(node_.node())) {
            const ctl::Value& peers = ni.driver_view["peers"];
            for (const ctl::Value& peer : peers.items())
                CHECK(peer["connections"].as_int() <= most);
        }
    });
    must(world_.run_until([&] { return looked; }, seconds(1), 1), "the control strand runs");
}

// Nobody plays any more: what waits must end by itself.
void Game::settle() {
    node_.control([this] { ours_.unlink_targets(); });
    run(seconds(2 * transaction_timeout_s));
    must(world_.run_until(
             [this] { return ours_.ended() && ours_.targets_left() == 0 && !changing_interface_; },
             seconds(60)),
         "every operation ends");
    run(seconds(20));
    bool looked = false;
    node_.control([&] {
        checkers_.audit(node_.node(), "our node");
        looked = true;
    });
    must(world_.run_until([&] { return looked; }, seconds(1), 1), "the control strand runs");
    must(true, "credits and messages");
}

void Game::finish() {
    check_limits();
    if (!node_first_) {
        adversary_.leave();
        settle();
    }
    // Closing does not wait for the adversary, whatever state it left things in.
    must(world_.close_all(close_max), "the node closes");
    must(ours_.ended() && ours_.targets_left() == 0, "closing ends every operation");
    adversary_.leave();
    world_.run_for(seconds(1));
    must(world_.streams.connections() == 0, "no connection is left");
}

}  // namespace ulnet::fuzz
