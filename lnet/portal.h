// A portal: its match tables, and on a lazy one the messages that came before their MD.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "lnet/match.h"

namespace ulnet {

// A portal's match tables. Unique portals spread MEs by hash, wildcard ones have a table a CPT: an
// ME goes to that of the CPT that attaches it; a message starts at the CPT of its peer and takes
// from the others when that has none.
struct PortalTables {
    bool unique;
    std::vector<std::unique_ptr<MatchTable>> tables;
    MatchTable& choose(u64 hash, CptId here) const {
        return *tables[(unique ? hash >> 40 : here) % tables.size()];
    }
};

class Portal final : public Strand {
 public:
    // Messages that wait on a lazy portal. Each holds up its connection, which bounds them long
    // before this does.
    static constexpr u32 delayed_max = 1u << 16;

    Portal(NodeImpl& node, CptId cpt);
    ~Portal();

    // Fixes the type at the first call; null when it is the other one already.
    PortalTables* tables_for(bool unique);
    // Finds the MD for an arrived PUT or GET and puts the message on it.
    Match match(CoreMsg& msg);
    bool lazy() const { return lazy_.load(); }
    void set_lazy(bool lazy);
    // Messages wait, so that a new one must queue behind them.
    bool has_delayed() const { return delayed_count_.load() > 0; }
    // The message waits for an MD; its driver has parked it. False: too many wait.
    bool delay(CoreMsg& msg);
    // The connections to this peer NI have ended: what it sent and still waits is dropped.
    void forget(const Ni& ni, const Nid& sender);
    // An MD was attached, or something else changed: those that wait are looked at anew, in order.
    void look_again();

 private:
    bool step(Budget&) override;
    NodeImpl& node_;
    std::atomic<PortalTables*> tables_{nullptr};
    std::atomic<bool> lazy_{false};
    std::atomic<u32> delayed_count_{0};
    std::atomic<u64> changes_{0};  // MDs attached and the like
    std::mutex lock_;              // guards the rest; only step() takes messages out
    std::unique_ptr<PortalTables> owned_;
    List<CoreMsg, OnQueue> delayed_;
    CoreMsg* next_ = nullptr;  // the first one not looked at since seen_
    u64 seen_ = 0;
};

}  // namespace ulnet
