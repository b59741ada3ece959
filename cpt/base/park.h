// A place where one thread sleeps until another signals it. A signal that comes first is kept.
#pragma once

#include <atomic>

#include "cpt/base/types.h"

namespace ulnet {

class Park {
 public:
    static constexpr Duration forever = Duration::max();
    // By one thread at a time. True: signalled, and the signal is taken. False: `timeout` passed.
    bool wait(Duration timeout);
    // Any thread.
    void signal();

 private:
    std::atomic<u32> signal_{0};
};

}  // namespace ulnet
