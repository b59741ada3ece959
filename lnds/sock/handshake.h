// What both ends of a handshake have in common: a stream watched by one strand, bytes read exactly
// as far as they are needed, and an end that happens once. Incoming and Outgoing add the protocol.
//
// Life: start() once; ends by itself, by cancel() or by an error of the stream; concluded() is then
// called with nobody watching the stream any more, and the object goes when all references have.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "lnds/sock/refs.h"
#include "lnds/sock/stream.h"

namespace ulnet::sock {

class Handshake : public StreamSink, public RefCounted {
 public:
    void start() { strand_.wake(); }
    // Ends it with this error (a negative errno), unless it has ended.
    void cancel(int error);
    // Cancels with -ETIMEDOUT when the time for the present stage is over.
    void tick(Instant now);
    void ready(Readiness) override { strand_.wake(); }

 protected:
    Handshake(Sched&, CptId, std::unique_ptr<Stream>, Duration patience);
    virtual ~Handshake() = default;
    // Goes on as far as the stream permits: nothing = wait, else the result.
    virtual std::optional<Status> advance() = 0;
    // On a worker of the CPT; stream() is free to be passed on.
    virtual void concluded(Status) = 0;

    // Nothing: wait; else ok once `need` bytes are in received(), or an error.
    std::optional<Status> read_to(std::size_t need);
    std::optional<Status> write_out();
    void queue_out(std::span<const std::byte>);
    void next_stage(Duration patience);
    std::span<const std::byte> received() const { return std::span(in_).first(in_used_); }
    void forget_received() { in_used_ = 0; }
    std::unique_ptr<Stream>& stream() { return stream_; }
    Sched& sched() const { return sched_; }
    CptId cpt() const { return strand_.cpt(); }

 private:
    bool step(Budget&);
    void unwatched();
    void destroy();
    void last_ref() override;

    Sched& sched_;
    std::unique_ptr<Stream> stream_;
    StrandOf<Handshake, &Handshake::step> strand_;
    TaskOf<Handshake, &Handshake::unwatched> unwatched_{*this};
    TaskOf<Handshake, &Handshake::destroy> destroy_{*this};
    std::atomic<int> cancelled_{0};
    std::atomic<i64> deadline_;
    bool watched_ = false, over_ = false;
    Status result_;
    std::array<std::byte, 160> in_;
    std::size_t in_used_ = 0;
    std::array<std::byte, 192> out_;
    std::size_t out_used_ = 0, out_sent_ = 0;
};

}  // namespace ulnet::sock
