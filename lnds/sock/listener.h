// The acceptor on one address and port, shared by the NIs there. Runs in a strand on the CPT of the
// NI that opened it.
#pragma once

#include <mutex>

#include "cpt/base/log.h"
#include "lnds/sock/refs.h"
#include "lnds/sock/stream.h"
#include "lnds/sock/tunables.h"

namespace ulnet::sock {

class Incoming;
class SockLnd;
class SockNi;

class Listener final : public StreamSink, public RefCounted {
 public:
    struct Rules {
        Accept accept;
        Duration patience;
        bool operator==(const Rules&) const = default;
    };
    Listener(SockLnd&, Sched&, CptId, std::unique_ptr<StreamListener>, const Endpoint& wanted,
             Rules);
    void start() { strand_.wake(); }
    // Ends listening and all handshakes; the NI's reference is given up when all has gone.
    void close(Ref<SockNi> last_user);
    // Ends handshakes that take too long, and accepts again after a shortage of descriptors.
    void tick(Instant now);
    void ready(Readiness) override { strand_.wake(); }

    // For the handshakes.
    SockLnd& lnd() const { return lnd_; }
    Sched& sched() const { return sched_; }
    CptId cpt() const { return strand_.cpt(); }
    Duration patience() const { return rules_.patience; }
    void forget(Incoming&);

    const Endpoint& wanted() const { return wanted_; }
    const Rules& rules() const { return rules_; }
    // Times that accept() could not for want of descriptors or memory.
    u64 shortages() const { return shortages_.load(std::memory_order_relaxed); }
    u64 dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
    // Connections whose handshake is not finished; one more is closed at once.
    static constexpr std::size_t half_open_max = 512;
    static constexpr u16 privileged_high = 1023;
    ~Listener();
    bool step(Budget&);
    void take(std::unique_ptr<Stream>);
    void unwatched();
    void destroy();
    void last_ref() override;

    SockLnd& lnd_;
    Sched& sched_;
    std::unique_ptr<StreamListener> stream_;
    const Endpoint wanted_;
    const Rules rules_;
    StrandOf<Listener, &Listener::step> strand_;
    TaskOf<Listener, &Listener::unwatched> unwatched_{*this};
    TaskOf<Listener, &Listener::destroy> destroy_{*this};
    std::atomic<bool> closing_{false};
    std::atomic<bool> starved_{false};
    std::atomic<u64> dropped_{0}, shortages_{0};
    LogLimit shortage_lines_{1, std::chrono::seconds(60)};
    bool watched_ = false, over_ = false;
    Ref<SockNi> last_user_;
    std::mutex lock_;  // guards: half_open_, with a reference to each
    List<Incoming> half_open_;
};

}  // namespace ulnet::sock
