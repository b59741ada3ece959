// A second connection that, once the first one is answered, says what that one said until then, and
// only reads from there on, for as long as the other end keeps it. A strand of its own, so that
// whoever owns it keeps it until over() and nobody else calls it any more. Fed by the stream that
// it repeats.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lnds/sock/stream.h"

namespace ulnet::sock {

class Duplicate final : private Strand, private StreamSink {
 public:
    static constexpr std::size_t bytes_max = 4096;  // more is said before an answer by nobody

    Duplicate(Sched& sched, CptId cpt, std::unique_ptr<Stream> stream)
        : Strand(sched, cpt), stream_(std::move(stream)) {}
    ~Duplicate() = default;
    // Not ok: it cannot be watched, and destroying it is all that is left.
    Status begin() { return stream_->watch(cpt(), *this); }
    // What it will say.
    void add(std::span<const iovec>, u64 bytes);
    void begin_to_say();
    void end();
    // The connection has ended and is closed.
    bool over() const { return over_.load(std::memory_order_acquire) && idle(); }

 private:
    class Ended final : public ulnet::Task {
     public:
        explicit Ended(Duplicate& own) : own_(own) {}
        void run() override { own_.ended(); }

     private:
        Duplicate& own_;
    };
    void ready(Readiness) override { wake(); }
    bool step(Budget&) override;
    bool write();
    bool read(Budget&);
    void ended();

    std::unique_ptr<Stream> stream_;
    std::mutex lock_;  // guards: bytes_
    std::vector<std::byte> bytes_;
    std::atomic<bool> wanted_{true}, says_{false}, over_{false};
    std::size_t written_ = 0;  // of the strand, as what follows
    bool unwatching_ = false;
    Ended ended_{*this};
};

}  // namespace ulnet::sock
