// The passive side of a handshake. Nothing of it can cost more than this one connection: bytes are
// read as they come, into a buffer of fixed size, within a fixed time.
#include "lnds/sock/incoming.h"

#include "lnds/sock/listener.h"
#include "lnds/sock/lnd.h"
#include "lnds/sock/ni.h"
#include "lnds/sock/peer.h"
#include "lnds/sock/proto.h"
#include "lnet/wire/acceptor.h"

namespace ulnet::sock {
namespace {

constexpr u16 privileged_high = 1023;
constexpr u32 discard_max = 64 * 1024;

}  // namespace

Incoming::Incoming(Listener& listener, std::unique_ptr<Stream> from)
    : Handshake(listener.sched(), listener.cpt(), std::move(from), listener.patience()),
      listener_(listener) {
    listener_.ref();
}

Incoming::~Incoming() {
    listener_.unref();
}

std::optional<Status> Incoming::advance() {
    if (stage_ == Stage::request) {
        const auto result = take_request();
        if (!result || !result->ok()) return result;
        stage_ = Stage::hello;
        forget_received();
        next_stage(listener_.patience());
    }
    for (;;) {
        const Result<std::size_t> need = hello_bytes(received());
        if (!need.ok()) return need.status();
        if (received().size() >= *need) return take_hello();
        const auto got = read_to(*need);
        if (!got || !got->ok()) return got;
    }
}

// EBADMSG: the acceptor's answer is due.
std::optional<Status> Incoming::take_request() {
    for (;;) {
        const ConnRequestStep step = decode_conn_request(received());
        switch (step.next) {
        case ConnRequestStep::Next::answer:
            return Status(-EBADMSG);
        case ConnRequestStep::Next::close:
            return Status(-EPROTO);
        case ConnRequestStep::Next::request:
            target_ = step.request.target;
            return listener_.lnd().find_ni(target_) ? ok_status : Status(-EPERM);
        case ConnRequestStep::Next::more:
            break;
        }
        const auto got = read_to(received().size() + step.wanted);
        if (!got || !got->ok()) return got;
    }
}

Status Incoming::take_hello() {
    const Result<Hello> hello = decode_hello(received());
    if (!hello.ok()) return hello.status();
    hello_ = *hello;
    return invert(hello_.type) ? ok_status : Status(-EPROTO);
}

Hello Incoming::own_hello(const SockNi& ni) {
    Hello own;
    own.version = ni.protocol();
    own.src_nid = ni.nid();
    own.dst_nid = ni.nid();
    own.src_incarnation = ni.incarnation();
    own.type = static_cast<u32>(ConnType::none);
    return own;
}

void Incoming::concluded(Status status) {
    listener_.forget(*this);
    auto from = std::move(stream());
    if (status == Status(-EBADMSG)) {
        refuse(std::move(from), acceptor_answer());
        return;
    }
    // A version that nobody knows, or that cannot say our NID, is answered with ours, so that the
    // peer comes again with it.
    if (!status.ok() && status != Status(-EPROTONOSUPPORT)) return;
    const Ref<SockNi> ni = listener_.lnd().find_ni(target_);
    if (!ni) return;
    if (status.ok() && proto_of(hello_.version).carries(ni->nid())) {
        offer(*ni, std::move(from));
        return;
    }
    std::array<std::byte, hello_bytes_max> bytes;
    ni->count(Count::refusals_sent);
    refuse(std::move(from), std::span(bytes).first(encode_hello(own_hello(*ni), bytes)));
}

// Whose connection it is, is settled: the peer decides whether it wants it.
void Incoming::offer(SockNi& ni, std::unique_ptr<Stream> from) {
    const Endpoint remote = from->remote();
    ProcessId id{hello_.src_nid, hello_.src_pid};
    if (ni.privileged() && remote.port > privileged_high)
        id = {remote.address.nid(ni.nid().net()), remote.port | pid_user_flag};
    Hello reply = own_hello(ni);
    reply.version = hello_.version;
    reply.dst_nid = id.nid;
    reply.dst_pid = hello_.dst_pid;
    reply.dst_incarnation = hello_.dst_incarnation;
    const ConnType type = *invert(hello_.type);
    reply.type = static_cast<u32>(type);
    std::array<std::byte, hello_bytes_max> bytes;
    const std::size_t size = encode_hello(reply, bytes);
    if (Ref<Peer> peer = ni.find_or_add_peer(id)) {
        from = peer->admit(hello_, type, std::move(from), std::span(bytes).first(size));
        ni.release_peer(std::move(peer));
    }
    if (from == nullptr) return;
    reply.type = static_cast<u32>(ConnType::none);
    ni.count(Count::refusals_sent);
    refuse(std::move(from), std::span(bytes).first(encode_hello(reply, bytes)));
}

// Says why and closes. Nothing waits for a peer that does not read; what it has sent is thrown away
// first, so that the close does not overtake the answer as a reset.
void Incoming::refuse(std::unique_ptr<Stream> to, std::span<const std::byte> answer) {
    const iovec from{const_cast<std::byte*>(answer.data()), answer.size()};
    static_cast<void>(to->writev(std::span(&from, 1)));
    std::array<std::byte, 1024> thrown_away;
    const iovec into{thrown_away.data(), thrown_away.size()};
    for (u32 bytes = 0; bytes < discard_max; bytes += thrown_away.size())
        if (to->readv(std::span(&into, 1)) <= 0) break;
    to->shutdown();
}

}  // namespace ulnet::sock
