// A test on this node: an entry of a batch. As a client it has units, each of which sends one RPC
// at a time to one destination; as a server it only counts.
//
// run(), stop(), destruction: control strand. Units work on any worker. The last unit to become
// idle tells the owner, on the control strand; until then the instance is running and must live.
#pragma once

#include <memory>
#include <vector>

#include "selftest/brw.h"
#include "selftest/rpc.h"

namespace ulnet::lst {

constexpr u32 loop_forever = 0xffffffff;

struct TestSpec {
    Service service = Service::ping;
    bool is_client = false;
    bool stop_on_error = false;
    u32 loop = 1;
    u32 concurrency = 1;
    u32 features = features_known;
    BrwParams brw;  // of BRW tests
};

// Errors of a session, as STAT tells them.
struct SessionErrors {
    std::atomic<u32> brw{0}, ping{0};
};

struct TestTotals {
    u64 rpcs = 0, bytes = 0, errors = 0;  // good RPCs, their payload, bad ones
    Histogram latency;                    // of good RPCs
};

class TestUnit;

class TestInstance {
 public:
    TestInstance(Context&, SessionErrors&, const TestSpec&, std::function<void()> finished);
    ~TestInstance();
    // Makes `concurrency` units for each destination. ENOMEM.
    Status add_units(std::span<const ProcessId> destinations);
    static u64 data_bytes(const TestSpec&, u32 destinations);

    void run();
    void stop(bool force);
    bool running() const { return running_; }
    // Units not idle; at least 1 while running.
    u32 active() const;
    u32 units() const { return static_cast<u32>(units_.size()); }
    const TestSpec& spec() const { return spec_; }
    TestTotals totals() const;

 private:
    friend class TestUnit;
    // One a worker, so that recording does not contend; the lock is for those who read.
    struct alignas(64) Record {
        mutable std::mutex mutex;
        TestTotals totals;
    };
    void record(bool good, u64 bytes, Duration latency);
    void count_error();
    void unit_idle();

    Context& context_;
    SessionErrors& errors_;
    const TestSpec spec_;
    const std::function<void()> finished_;
    std::vector<std::unique_ptr<TestUnit>> units_;
    std::unique_ptr<Record[]> records_;
    std::atomic<u32> sequence_{0};  // of pings
    std::atomic<u32> active_{0};
    std::atomic<bool> stopping_{false}, cancelled_{false};
    bool running_ = false;
};

}  // namespace ulnet::lst
