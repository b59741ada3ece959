// A connection that somebody opened to us, until it is known whose it is: acceptor's request and
// HELLO. Made by the Listener; runs in a strand on the listener's CPT.
#pragma once

#include "lnds/sock/handshake.h"
#include "lnds/sock/wire.h"

namespace ulnet::sock {

class Listener;
class SockNi;

class Incoming final : public ListHook<Incoming>, public Handshake {
 public:
    Incoming(Listener&, std::unique_ptr<Stream>);

 private:
    enum class Stage : u8 { request, hello };
    ~Incoming() override;
    std::optional<Status> advance() override;
    void concluded(Status) override;
    std::optional<Status> take_request();
    Status take_hello();
    void refuse(std::unique_ptr<Stream>, std::span<const std::byte>);
    static Hello own_hello(const SockNi&);
    void offer(SockNi&, std::unique_ptr<Stream>);

    Listener& listener_;
    Nid target_;  // the NI that was asked for; looked up again at the end, it may have gone
    Stage stage_ = Stage::request;
    Hello hello_;
};

}  // namespace ulnet::sock
