// An attempt to open one connection to a peer: connect, acceptor's request, HELLO, the answer.
// Made by Peer, which it tells how it ended; runs in a strand on the peer's CPT.
#pragma once

#include "lnds/sock/handshake.h"
#include "lnds/sock/wire.h"

namespace ulnet::sock {

class Peer;
class SockNi;

class Outgoing final : public Handshake {
 public:
    // Begins to connect. ok: start() the result; else the attempt has failed with this error.
    static Result<Outgoing*> make(SockNi&, Peer&, ConnType, u32 version);

 private:
    Outgoing(SockNi&, Peer&, ConnType, u32 version, std::unique_ptr<Stream>);
    ~Outgoing() override;
    std::optional<Status> advance() override;
    void concluded(Status) override;
    Status check_answer();

    SockNi& ni_;
    Peer& peer_;
    const ConnType type_;
    const u32 version_;
    const Endpoint remote_;
    bool connected_ = false;
    Hello answer_;
};

}  // namespace ulnet::sock
