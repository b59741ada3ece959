// The active side of a handshake.
#include "lnds/sock/connect.h"

#include "lnds/sock/ni.h"
#include "lnds/sock/peer.h"
#include "lnet/wire/acceptor.h"

namespace ulnet::sock {

Result<Outgoing*> Outgoing::make(SockNi& ni, Peer& peer, ConnType type, u32 version) {
    const Endpoint to{Address(peer.id().nid), ni.port(type)};
    const bool low = ni.privileged() && !ni.guest();
    Origin from = ni.origin();
    from.ports = low ? LocalPort::privileged : LocalPort::any;
    auto stream = ni.os().connect(from, to);
    if (low && !stream.ok() &&
        (stream.status() == Status(-EACCES) || stream.status() == Status(-EPERM))) {
        ni.become_guest();
        from.ports = LocalPort::any;
        stream = ni.os().connect(from, to);
    }
    if (!stream.ok()) return stream.status();
    return new Outgoing(ni, peer, type, version, std::move(*stream));
}

Outgoing::Outgoing(SockNi& ni, Peer& peer, ConnType type, u32 version, std::unique_ptr<Stream> to)
    : Handshake(ni.sched(), peer.cpt(), std::move(to), ni.timeout()), ni_(ni), peer_(peer),
      type_(type), version_(version), remote_(stream()->remote()) {
    ni_.ref();
    peer_.ref();
    queue_out(encode_conn_request(ConnRequest::to(peer.id().nid)));
    Hello hello;
    hello.version = version;
    hello.src_nid = ni.nid();
    hello.dst_nid = peer.id().nid;
    hello.src_incarnation = ni.incarnation();
    hello.type = static_cast<u32>(type);
    std::array<std::byte, hello_bytes_max> bytes;
    queue_out(std::span(bytes).first(encode_hello(hello, bytes)));
}

Outgoing::~Outgoing() {
    ni_.release_peer(Ref<Peer>(&peer_));
    ni_.unref();
}

std::optional<Status> Outgoing::advance() {
    if (!connected_) {
        // Only a write tells whether the connecting is still under way.
        const auto sent = write_out();
        if (!sent) return sent;
        if (*sent == Status(-ENOTCONN)) return std::nullopt;
        if (!sent->ok()) {
            const Status status = stream()->connect_status();
            return status.ok() ? *sent : status;
        }
        connected_ = true;
        next_stage(ni_.timeout());
    }
    for (;;) {
        const Result<std::size_t> need = hello_bytes(received());
        if (!need.ok()) return Status(-EPROTO);
        if (received().size() >= *need) return check_answer();
        const auto got = read_to(*need);
        if (!got || !got->ok()) return got;
    }
}

Status Outgoing::check_answer() {
    const Result<Hello> hello = decode_hello(received());
    if (!hello.ok()) return hello.status();
    answer_ = *hello;
    const ProcessId& wanted = peer_.id();
    if (answer_.src_nid != wanted.nid || answer_.src_pid != wanted.pid) return Status(-EPROTO);
    if (answer_.type == static_cast<u32>(ConnType::none))
        return answer_.version == version_ ? Status(-EALREADY) : Status(-EPROTONOSUPPORT);
    return invert(answer_.type) == type_ ? ok_status : Status(-EPROTO);
}

void Outgoing::concluded(Status status) {
    if (status.ok()) {
        ni_.count(Count::connects);
        peer_.connected(answer_, type_, std::move(stream()));
        return;
    }
    stream().reset();
    if (status == Status(-EALREADY)) {
        ni_.count(Count::refusals_received);
        peer_.dial_refused();
        return;
    }
    if (status == Status(-EPROTONOSUPPORT)) {
        ni_.count(Count::refusals_received);
        peer_.dial_renegotiated(answer_.version);
        return;
    }
    ni_.count(Count::connect_failures);
    const char* const stage = connected_ ? ", connected, waiting for the HELLO: " : ": ";
    ni_.note("connecting to " + to_text(peer_.id().nid) + " at " + to_text(remote_) + " (" +
             std::string(to_text(type_)) + ") failed" + stage + status.text());
    peer_.dial_failed(status.code());
}

}  // namespace ulnet::sock
