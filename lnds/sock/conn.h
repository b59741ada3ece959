// An open connection: a receive half and a transmit half, each a strand, so that any worker of the
// CPT runs either and no thread owns the connection.
//
// Life: made by Peer (admit, connected), listed there, ended by fail() from anywhere. Each half
// then cleans up in its own strand; the object goes when both have, when nobody watches the stream
// and when the core has answered the message it was told of.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lnds/sock/proto.h"
#include "lnds/sock/refs.h"
#include "lnds/sock/stream.h"
#include "lnet/lnd.h"

namespace ulnet::sock {

class Peer;
class SockNi;

class Conn final : public ListHook<Conn>, public StreamSink, public RefCounted {
 public:
    struct Setup {
        ConnType type = ConnType::none;  // as this side sees it
        u32 version = version_default;
        Order peer_order = native_order;
        bool active = false;  // this side connected
        std::unique_ptr<Stream> stream;
    };
    // `greeting` (the HELLO of a passive side) goes out before everything else.
    Conn(SockNi&, Peer&, Setup, std::span<const std::byte> greeting);
    ~Conn();

    // Begins to work; once, after it is listed.
    void start();
    // Ends the connection with this error (a negative errno); only the first call counts. The
    // caller holds a reference and has taken the connection off its peer's list.
    void fail(int error);
    // Never started and never listed: gives the stream back and destroys the connection.
    std::unique_ptr<Stream> undo();

    // With the peer's lock held, while listed.
    void push(Msg&);
    void push_keepalive() { keepalive_due_ = true; }
    // False: too many are owed already.
    bool push_ack(u64 cookie);
    bool nothing_queued() { return queued_bytes() == 0 && acks_.empty() && !keepalive_due_; }
    Instant oldest_queued();

    void wake_tx() { tx_.wake(); }
    // The core's answer to arrived(), from any worker.
    void receive(u64 id, Msg* into, u32 len);

    void ready(Readiness) override;

    // For choosing, timing out and describing; any thread.
    ConnType type() const { return type_; }
    const Proto& proto() const { return proto_; }
    u64 frame_bytes_of(const Msg& msg) const {
        return proto_.header_bytes() + u64{msg.hdr.payload_length};
    }
    bool active() const { return active_; }
    u64 queued_bytes() const { return queued_bytes_.load(std::memory_order_relaxed); }
    u64 last_used = 0;  // guarded by the peer's lock
    Instant last_rx() const { return Instant(Duration(rx_progress_.load(relaxed))); }
    bool rx_stuck(Instant before) const;
    bool tx_stuck(Instant before) const;
    // For the log: which connection it is and what it still has to do.
    std::string outstanding_text() const;
    void describe(ctl::Value&) const;

 private:
    static constexpr auto relaxed = std::memory_order_relaxed;
    static constexpr u32 buffer_bytes = 16 * 1024;
    static constexpr u32 read_bytes_min = 4096;  // less room than this is not worth a read
    static constexpr u32 rx_iov_max = 64;
    static constexpr u32 tx_iov_max = 128;
    static constexpr u32 window_max = 32;  // frames being sent at a time
    static constexpr u32 write_bytes_max = 256 * 1024;
    static constexpr u32 acks_max = 4096;  // runs of owed acknowledgements

    // Where the receive half is with a message. announced: arrived() is being called; waiting: it
    // has returned and the core owes a receive().
    enum class RxState : u8 { frame, announced, waiting, assigned };
    enum class Fill : u8 { more, drained, failed };
    struct AckRun {
        u64 first, last;
    };
    struct Slot {
        std::array<std::byte, frame_bytes_max> header;
        Msg* msg = nullptr;  // null: a NOOP or the greeting
        u32 header_bytes = 0;
        u32 payload_bytes = 0;
        u32 bytes() const { return header_bytes + payload_bytes; }
    };

    // rx.cc: only from the receive strand.
    bool rx_step(Budget&);
    bool rx_begin();
    void rx_end();
    u32 missing() const;
    bool take_frame(Budget&, bool& drained);
    bool take_noop(const Frame&);
    bool announce();
    bool take_payload(Budget&, bool& drained);
    void take_buffered();
    Fill read_payload(Budget&);
    Fill read_buffer(Budget&);
    Fill after_read(i64 got, u64 asked, Budget&);
    static u32 crc_update_view(u32 crc, const MemView&, u32 at, u32 bytes);
    bool complete();
    void owe_ack(u64 cookie);
    void protocol_error(int error, const char* what);
    void finish_received(int error);
    std::span<std::byte> buffered() const { return {buffer_.get() + begin_, end_ - begin_}; }

    // tx.cc: only from the transmit strand.
    bool tx_step(Budget&);
    void tx_end();
    bool fill_window();
    Slot& next_slot();
    void encode(Slot&, Frame);
    void add_noop(u64 cookie0, u64 cookie1);
    void add_msg(Msg&, u64 cookie1);
    u64 take_ack();
    void add_ack_noop();
    bool acks_left() const { return acks_at_ < acks_sending_.size(); }
    u32 acks_room(u32 room) const;
    unsigned gather(std::array<iovec, tx_iov_max>&, u64& total);
    void advance(u64 moved, Budget&);

    void count_queued(u64 bytes);
    void broken(int error);
    void unwatched() { unref(); }
    void destroy();
    void last_ref() override;

    SockNi& ni_;
    Peer& peer_;
    std::unique_ptr<Stream> stream_;
    const ConnType type_;
    const Proto& proto_;
    const Framing rx_framing_, tx_framing_;
    const bool active_;
    const Endpoint local_, remote_;
    const Instant opened_;
    std::atomic<int> error_{0};
    std::atomic<bool> ended_{false};  // the peer ends: read on until the end of the stream
    StrandOf<Conn, &Conn::rx_step> rx_;
    StrandOf<Conn, &Conn::tx_step> tx_;
    TaskOf<Conn, &Conn::unwatched> unwatched_{*this};
    TaskOf<Conn, &Conn::destroy> destroy_{*this};

    // Receive strand.
    std::unique_ptr<std::byte[]> buffer_;
    u32 begin_ = 0, end_ = 0;
    bool watched_ = false, rx_over_ = false;
    Frame frame_;
    u32 got_ = 0;  // payload bytes consumed
    u32 crc_ = crc_seed;
    u64 token_ = 0;
    std::atomic<RxState> rx_state_{RxState::frame};
    Msg* into_ = nullptr;  // published by rx_state_ = assigned
    u32 want_ = 0;

    // Guarded by the peer's lock.
    List<Msg> queue_;
    std::vector<AckRun> acks_;
    bool keepalive_due_ = false;

    // Transmit strand.
    std::array<Slot, window_max> window_;
    u32 window_begin_ = 0, window_count_ = 0;
    u32 sent_of_front_ = 0;
    std::vector<AckRun> acks_sending_;  // from acks_at_ on
    std::size_t acks_at_ = 0;
    bool tx_over_ = false;
    std::atomic<bool> want_write_{false};

    // Written by one half, read by others.
    std::atomic<u64> queued_bytes_{0};
    std::atomic<i64> rx_progress_, tx_progress_, tx_oldest_{0};
    std::atomic<u32> rx_missing_{0};  // bytes of a frame that has come in part, as far as known
    std::atomic<u64> rx_bytes_{0}, tx_bytes_{0}, rx_msgs_{0}, tx_msgs_{0};
};

}  // namespace ulnet::sock
