// What a context knows of a peer NI, and the rules of the HELLO: pure, so that every order of
// events can be tested. Used by the peer's context alone, one thread at a time.
//
// A session is one direction's: a number that the receiver gave; a message that names another one
// is of a former life of either end and is dropped. The epoch tells lives of a peer's NI apart.
#pragma once

#include "cpt/base/list.h"
#include "lnds/ofi/wire.h"
#include "lnet/msg.h"

namespace ulnet::ofi {

enum class PeerState : u8 {
    idle,    // nothing was said yet, or all was forgotten
    asking,  // a request is under way
    up,
};

// What follows from a HELLO.
struct HelloVerdict {
    bool answer = false;  // send one
    bool ended = false;   // a session that was up is over: end what belongs to it, first
    bool began = false;   // a session is up now
};

// The sessions with one peer. No time, no input or output.
class Sessions {
 public:
    PeerState state() const { return state_; }
    u64 mine() const { return mine_; }      // what the peer names
    u64 theirs() const { return theirs_; }  // what we name; 0 = not known
    const Hello& hello() const { return hello_; }

    // Asks for a session, with a number never used before. Again: the same one.
    void ask(u64 fresh) {
        if (mine_ == 0) mine_ = fresh;
        state_ = PeerState::asking;
    }
    HelloVerdict take_request(const Hello& hello, u64 fresh) {
        HelloVerdict verdict{.answer = true};
        if (hello.epoch == hello_.epoch && hello.session == theirs_) {
            verdict.began = state_ != PeerState::up;  // we had asked as well
            state_ = PeerState::up;
            return verdict;
        }
        // Another life of the peer, or it has forgotten us.
        verdict.ended = state_ == PeerState::up;
        if (verdict.ended || mine_ == 0) mine_ = fresh;
        begin(hello);
        verdict.began = true;
        return verdict;
    }
    HelloVerdict take_answer(const Hello& hello) {
        HelloVerdict verdict;
        if (mine_ == 0 || hello.answers != mine_) return verdict;  // to a request of a former life
        if (state_ == PeerState::up) {
            // Crossing requests: the session is up by the peer's own.
            if (hello.epoch == hello_.epoch && hello.session == theirs_) return verdict;
            verdict.ended = true;
        }
        begin(hello);
        verdict.began = true;
        return verdict;
    }
    // Whatever the peer still sends is not meant for what comes next.
    void forget() {
        state_ = PeerState::idle;
        mine_ = theirs_ = 0;
        hello_ = {};
    }

 private:
    void begin(const Hello& hello) {
        hello_ = hello;
        theirs_ = hello.session;
        state_ = PeerState::up;
    }
    PeerState state_ = PeerState::idle;
    u64 mine_ = 0, theirs_ = 0;
    Hello hello_;
};

constexpr u64 no_place = ~u64{0};

// Kept from the first word on, so that others may point to it.
struct Peer {
    explicit Peer(const Nid& of) : nid(of) {}
    const Nid nid;
    Sessions sessions;
    u64 door = no_place;   // its first context: takes requests
    u64 place = no_place;  // its context for us, while up
    u32 credits = 0;       // messages that it has room for
    u32 owed = 0;          // credits that it has not got back
    u32 granted = 0;       // messages that it may still send
    Instant ask_at{};      // again, while asking
    Instant tell_until{};  // asks so long though nothing waits: the peer does not know yet
    List<Msg> waiting;     // not sent yet
};

}  // namespace ulnet::ofi
