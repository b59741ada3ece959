// The client's side of an RPC: a reply buffer, perhaps a bulk buffer, and the request. Made once
// and used again and again by its owner (a test unit, a command of the console).
//
// Life of a use: start() ... rpc_done(). It lasts until all its MDs have ended and its timer is
// off, whatever happened before; then rpc_done() comes exactly once, and is the last touch.
#pragma once

#include <atomic>

#include "selftest/context.h"
#include "selftest/md_slot.h"
#include "selftest/wire.h"

namespace ulnet::lst {

class ClientRpc;

class RpcOwner {
 public:
    // On a worker, never from within start(). May start the RPC again or destroy it.
    virtual void rpc_done(ClientRpc&) = 0;

 protected:
    ~RpcOwner() = default;
};

enum class Bulk : u8 { none, sink, source };  // as the client sees it

struct RpcArgs {
    ProcessId to;
    Service service = Service::ping;
    Bulk bulk = Bulk::none;
    const Mem* bulk_mem = nullptr;
    u64 rpyid = 0, bulkid = 0;  // those in the request
    Duration timeout{};         // 0 = never
    // When it turns true before abort() is called, no RPC slips through between the two.
    const std::atomic<bool>* cancelled = nullptr;
};

class ClientRpc final : private Task, private Timer {
 public:
    ClientRpc(Context&, RpcOwner&, CptId);
    // Only while not in use.
    ~ClientRpc();

    Message request;  // filled by the owner before start()

    void start(const RpcArgs&);
    // Ends the use early with this status, unless it is ending already. Any thread, as long as the
    // owner keeps the object.
    void abort(Status why);

    // The outcome, from rpc_done() on. A reply that came in whole counts, whatever status it bears.
    Status status() const { return status_; }
    const Message& reply() const { return reply_; }
    // Bytes that the peer moved; 0 when it refused the request.
    u32 bulk_bytes() const { return bulk_bytes_; }

 private:
    struct Part {
        ClientRpc* rpc = nullptr;
        MdSlot slot;
        bool settled = false;  // had its message, or needs none; of the handler
    };
    static void on_request(const Event&);
    static void on_reply(const Event&);
    static void on_bulk(const Event&);
    void run() override;   // the end of a use that ended within start()
    void fire() override;  // the time-out

    void post_reply();
    void post_bulk();
    void send_request();
    void attach(Part&, u64 bits, const MdSpec&);
    void part_event(Part&, const Event&, bool its_message);
    void take_reply(const Event&);
    void fail(Status);
    bool failed() const { return failed_.load(std::memory_order_seq_cst); }
    void part_ended();
    void unref(bool post);
    void complete();

    Context& context_;
    RpcOwner& owner_;
    const CptId cpt_;
    Message reply_;
    const Mem request_mem_, reply_mem_;
    Part request_part_, reply_part_, bulk_part_;
    RpcArgs args_;

    // References: one for start(), one for each MD, one for the timer, one for each abort().
    std::atomic<u32> refs_{0};   // 0 = not in use
    std::atomic<u32> parts_{0};  // MDs alive, plus one for start()
    std::atomic<bool> failed_{false};
    std::atomic<bool> refused_{false};  // the reply says so: no bulk will come
    mutable std::mutex mutex_;          // guards status_
    Status status_;
    u32 bulk_bytes_ = 0;
};

}  // namespace ulnet::lst
