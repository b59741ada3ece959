// One MD under way and the handle to end it early. Events may come before the call that made the
// MD has returned, and the slot may even be in its next use by then: hence the turn number.
#pragma once

#include <mutex>

#include "lnet/lnet.h"

namespace ulnet::lst {

class MdSlot {
 public:
    // Before the MD is made; the result goes to keep() or fail().
    u64 begin();
    // The MD exists: keeps the handle for unlink(), unless it has ended meanwhile.
    void keep(Node&, u64 turn, Md);
    // The MD could not be made.
    void fail();
    // From the handler, for the event with `unlinked`.
    void ended();
    // Any thread, any time: an MD that lives will end soon, by its event.
    void unlink(Node&);
    bool live() const;

 private:
    mutable std::mutex mutex_;  // guards the rest
    bool live_ = false;
    bool unlink_wanted_ = false;
    u64 turn_ = 0;
    Md md_;
};

}  // namespace ulnet::lst
