// Where the suite runs a driver: on real threads, or in the simulator. Called by the test's thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lnet/lnd.h"

namespace ulnet::lnd_test {

class Bench {
 public:
    virtual ~Bench() = default;
    virtual Sched& sched(u32 node) = 0;
    // On a worker; returns once it has run.
    virtual void run(u32 node, const std::function<void()>& fn) = 0;
    // Until the condition holds; false: not in time. It is asked on the test's thread.
    virtual bool wait(const std::function<bool()>& condition, Duration time = patience) = 0;
    static constexpr Duration patience = std::chrono::seconds(30);
};

// A driver under test. Nodes are numbered from 0; all use one Bench.
class Subject {
 public:
    virtual ~Subject() = default;
    virtual Bench& bench() = 0;
    virtual std::unique_ptr<Lnd> make_lnd() = 0;
    virtual NiConfig config(u32 node) = 0;

    u32 nodes = 4;            // that can talk to each other; lo: 1, to itself
    u32 threshold = 0;        // bytes at which it changes how payload travels; 0 = never
    u32 operations = 20'000;  // of the random test
    // Nodes of one process may close and come back while others go on. Not with libfabric 1.17's
    // shm, which keeps pointers into the memory of endpoints of its own process: there it is
    // processes that come and go (tests/net/test_kfi.py).
    bool comes_back = true;
};

struct Maker {
    const char* name;
    std::unique_ptr<Subject> (*make)();
};
// All drivers and back ends of this build that this machine can run: drivers.cc, the one place that
// names them.
std::vector<Maker> makers();

}  // namespace ulnet::lnd_test
