// The byte-stream seam of lnds/sock over the simulated TCP of a World: one StreamOs an incarnation
// of a node. What the driver sees of it is what kernel TCP shows.
#pragma once

#include <memory>

#include "tests/sim/sim_sched.h"
#include "tests/sim/stream_net.h"

namespace ulnet::sim {

struct SimOsParams {
    bool privileged = true;   // may use ports below 1024
    Duration per_call{500};   // what a read or write costs
    u64 bytes_per_us = 8000;  // how fast the node copies
};

class SimListener;

// What the operating system of one incarnation of a node knows. Outlives every SimStreamOs on it.
class SimKernel {
 public:
    SimKernel(StreamNet&, SimSched&, const SimOsParams&);
    ~SimKernel();
    SimKernel(const SimKernel&) = delete;

    // The process ends now: the peers see resets, or nothing when its host goes with it. What it
    // does from here on reaches nobody.
    void cut(bool silently);
    u64 open_streams() const { return streams_; }

 private:
    friend class SimStreamOs;
    friend class SimStream;
    friend class SimListener;
    StreamNet& net_;
    SimSched& sched_;
    const SimOsParams params_;
    List<Side, OnHost> sides_;
    List<SimListener> listeners_;
    u64 streams_ = 0;
    bool watched_ = false;  // something was, once
    bool cut_ = false;
};

class SimStreamOs final : public sock::StreamOs {
 public:
    explicit SimStreamOs(SimKernel& kernel) : kernel_(kernel) {}
    ~SimStreamOs() override;

    Result<std::unique_ptr<sock::StreamListener>> listen(const Endpoint&, u32 backlog,
                                                         const std::string& interface) override;
    Result<std::unique_ptr<sock::Stream>> connect(const sock::Origin&, const Endpoint& to) override;
    bool started() const override;
    void stop(Task& done) override;

 private:
    SimKernel& kernel_;
};

}  // namespace ulnet::sim
