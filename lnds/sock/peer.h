// A peer NI as the driver knows it: its connections, the messages that wait for one, and the
// connecting. Any worker calls; one leaf lock guards it all, also the queues of its connections.
#pragma once

#include <mutex>

#include "lnds/sock/conn.h"
#include "lnds/sock/refs.h"

namespace ulnet::sock {

class Outgoing;
class SockNi;

class Peer final : public RefCounted {
 public:
    Peer(SockNi&, const ProcessId&, CptId);
    ~Peer();

    const ProcessId& id() const { return id_; }
    CptId cpt() const { return cpt_; }
    // Known only by the source port of its connection: cannot be dialled.
    bool guest() const { return (id_.pid & pid_user_flag) != 0; }

    // Queues the message on a connection, or until there is one; a refusal comes as finished().
    void send(Msg&);

    // A HELLO came in on this stream: takes it as a connection, or gives it back to be refused with
    // type NONE.
    std::unique_ptr<Stream> admit(const Hello&, ConnType, std::unique_ptr<Stream>,
                                  std::span<const std::byte> reply);
    // How our own attempts end. connected() goes on to the next connection that is missing.
    void connected(const Hello& reply, ConnType, std::unique_ptr<Stream>);
    void dial_refused();
    // Refused by a peer that speaks this version: tried again with it at once.
    void dial_renegotiated(u32 version);
    void dial_failed(int error);

    // Ends all connections and what waits for one, with this error; connecting too.
    void drop(int error);
    // As drop(), and nothing new from now on.
    void close();
    // One connection broke: it and its siblings end.
    void conn_broken(Conn&, int error);

    // The reaper's visit: time-outs, keepalives, the next attempt.
    void tick(Instant now);
    // Nothing is connected, waiting or being tried. Only for the one who holds all references.
    bool idle(Instant now) const;
    void describe(ctl::Value& peers, ctl::Value& connections);

    std::mutex& lock() { return lock_; }

 private:
    friend class Conn;
    // Names everything that ends together, so that it can be ended without the lock.
    struct Doomed {
        List<Conn> conns;
        List<Msg> pending;
        Ref<Outgoing> outgoing;
    };

    // With the lock held.
    Conn* choose(const Msg&);
    Conn* choose_for_noop(bool apart);
    Conn& choose_for_ack(Conn& of_data);
    u32 count(ConnType);
    u32 bulk_max();
    u32 most_of_each();
    ConnType next_type();
    bool may_dial(Instant now);
    bool restarted(const Hello&);
    bool speaks_otherwise(const Hello&);
    void list_conn(Conn&, const Hello&);
    void take_conns(Doomed&);
    Conn* stuck_conn(Instant before);
    Conn* keepalive_due(Instant now);
    void take_overdue(Instant now, List<Msg>&);

    void dial(ConnType);
    void fail_conns(Doomed&, int error, const std::string& why = {});
    void fail_pending(Doomed&, int error);
    void last_ref() override;

    SockNi& ni_;
    const ProcessId id_;
    const CptId cpt_;
    std::mutex lock_;  // guards: everything below, and the queues of the connections
    List<Conn> conns_;
    List<Msg> pending_;
    Outgoing* outgoing_ = nullptr;  // holds a reference
    bool dialing_ = false;          // an attempt is under way, or about to be
    bool route_ = false;            // we wanted this peer: missing connections are ours to open
    bool closed_ = false;
    int cancel_ = 0;        // the attempt that is about to begin must end with this
    u32 bulk_agreed_ = 0;   // what the peer lets us have of each bulk type; 0 = not known
    u32 bulk_wanted_ = 0;   // conns_per_peer when that was found out
    u32 refusals_ = 0;      // in a row
    bool refused_ = false;  // the last attempt was refused: the peer's own may be coming
    u64 incarnation_ = 0;
    u32 version_ = 0;         // what the peer speaks; 0 = not known
    u32 renegotiations_ = 0;  // in a row
    Instant next_attempt_{};
    Duration interval_{};
    int dial_error_ = 0;  // of the last attempt, until one succeeds: what ends messages meanwhile
    Instant keepalive_sent_{};
    u64 use_count_ = 0;  // clock of least recently used
};

}  // namespace ulnet::sock
