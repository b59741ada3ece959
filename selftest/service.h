// The server's side of RPCs: requests wait for buffers on the lazy portals 50 and 51; each buffer
// is a ServerRpc that carries its request through handler, bulk and reply and is then posted again.
// What is under way is thus bounded by the ServerRpcs that exist. One peer has half of them at
// most, and half of the memory for data: what it asks beyond waits here until its own requests end,
// so that a peer that does not read or answer holds up nobody but itself.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "selftest/bulk_pool.h"
#include "selftest/context.h"
#include "selftest/md_slot.h"
#include "selftest/wire.h"

namespace ulnet::lst {

class ServerRpc;

// What a service does with a request. handle() comes on the worker of the event; it, or something
// later, ends the request by exactly one reply() or drop(); one bulk transfer may come before.
class Handler {
 public:
    virtual void handle(ServerRpc&) = 0;
    // The bulk transfer has ended.
    virtual void bulk_done(ServerRpc&, Status) = 0;
    // The data buffer that ServerRpc::waiter waited for is there.
    virtual void buffer_ready(ServerRpc&) = 0;
    // Bytes of memory that the request will take from what all share.
    virtual u64 data_bytes(const ServerRpc&) const { return 0; }

 protected:
    ~Handler() = default;
};

constexpr u32 waiting_per_peer_max = 8192;  // requests beyond a peer's share; more are dropped
constexpr u32 waiting_max = 65536;          // of all peers of a service
constexpr u32 shares_max = 1024;            // of peers without a request that are remembered

// A request as it arrived.
struct Arrived {
    Message message;
    Header header;
    Order order = native_order;
    Event event{};
};

// A service id with its posted buffers.
class ServiceQueue {
 public:
    ServiceQueue(Context&, Service, Handler&);
    ~ServiceQueue();
    // Makes and posts buffers until there are `count`. Control strand.
    void grow(u32 count);
    // Takes all buffers back; requests under way end.
    void close();

 private:
    friend class ServerRpc;
    struct Waiting {
        Arrived in;
        u64 bytes;
        Instant since;
    };
    struct Share {
        u32 held = 0;   // ServerRpcs with requests of this peer
        u64 bytes = 0;  // of data that these need
        std::deque<Waiting> waiting;
    };
    enum class Turn : u8 { now, later, never };
    // Whether a request is served now; later: it is kept, and the ServerRpc is free again.
    Turn admit(ServerRpc&);
    // The request of `rpc` has ended. True: it has the next one of the same peer.
    bool next(ServerRpc& rpc);
    bool fits(const Share&, u64 bytes) const;
    void begin(Share&, ServerRpc&, u64 bytes);
    void drop_stale(Share&);
    bool take_first(Share&, ServerRpc&);

    Context& context_;
    const Service service_;
    Handler& handler_;
    std::vector<std::unique_ptr<ServerRpc>> rpcs_;  // of the control strand
    std::atomic<u32> count_{0};                     // of rpcs_
    std::mutex mutex_;                              // guards: the rest; a leaf
    std::map<Nid, Share> shares_;
    u32 waiting_ = 0;
};

class ServerRpc final : private Task {
 public:
    ServerRpc(Context&, ServiceQueue&, CptId);

    // The request, valid from handle() to the end.
    const Message& request() const { return in_.message; }
    const Header& header() const { return in_.header; }
    Order order() const { return in_.order; }
    const Event& arrival() const { return in_.event; }
    CptId cpt() const { return cpt_; }

    // Moves data from (put) or to (get) `memory` at the peer; ends in bulk_done(). The memory lives
    // until then.
    void bulk_put(u64 bulkid, const Mem& memory) { start_bulk(bulkid, memory, true); }
    void bulk_get(u64 bulkid, const Mem& memory) { start_bulk(bulkid, memory, false); }
    u32 bulk_bytes() const { return bulk_bytes_; }

    // Ends the request: `parts` after a header of the right type.
    template <class... Parts> void reply(u32 features, const Parts&... parts) {
        Header header;
        header.type = reply_type(static_cast<Type>(in_.header.type));
        header.features = features;
        encode_message(reply_, native_order, header, parts...);
        send_reply();
    }
    // Ends it without an answer.
    void drop();

    // For a handler: memory that it keeps for the time of the request.
    Mem bulk_mem;
    BulkPool::Waiter waiter;
    std::vector<std::byte> list;

 private:
    friend class ServiceQueue;
    // Runs buffer_ready().
    struct Resume final : Task {
        explicit Resume(ServerRpc& of) : rpc(of) {}
        void run() override;
        ServerRpc& rpc;
    };

    static void on_request(const Event&);
    static void on_bulk(const Event&);
    static void on_reply(const Event&);
    void run() override;
    void post();
    bool attach_buffer(u64 turn);
    void take_request();
    void serve();
    void start_bulk(u64 bulkid, const Mem&, bool put);
    void bulk_event(const Event&);
    void send_reply();
    void operate(u64 match_bits, const MdSpec&, bool put);
    void retire() { unref(); }
    void unref();

    Context& context_;
    ServiceQueue& queue_;
    const CptId cpt_;
    Resume resume_{*this};
    Arrived in_;
    Message reply_;
    const Mem request_mem_, reply_mem_;
    MdSlot slot_;  // request, bulk and reply come one after the other
    // One for the life of the buffer, one for each call that is making an MD: the events of that
    // MD may have led to the end of everything before the call returns.
    std::atomic<u32> refs_{1};
    bool arrived_ = false;
    bool admitted_ = false;  // counts in its peer's share
    bool resumed_ = false;   // has a request that had waited, to be served by run()
    u64 data_bytes_ = 0;     // of the share
    bool bulk_put_ = false, bulk_moved_ = false;
    u32 bulk_bytes_ = 0;
    Status bulk_status_;
};

}  // namespace ulnet::lst
