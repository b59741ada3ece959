// The workload: random puts and gets among the nodes of a World, with random MD options on both
// ends. It runs in handlers and tasks of the nodes and in events of the engine.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "tests/sim/checkers.h"

namespace ulnet::sim {

struct TrafficParams {
    u64 operations = 1000;                             // a round
    u32 outstanding_max = 32;                          // at a time, of all nodes
    Duration gap_max = std::chrono::microseconds(20);  // between two
    u32 bytes_max = 64 * 1024;
    u32 huge_percent = 0;     // of 1 MiB
    u32 refused_percent = 0;  // that the target does not take; costs a response time-out each
    u32 cancelled_percent = 0;
    u32 slow_post_percent = 0;   // receiving buffers posted late: messages wait on lazy portals
    bool messages_lack = false;  // the core may have none left to send with
    bool check_order = false;    // the driver promises order between two nodes
    u32 order_bytes_max = 0xffffffff;  // larger messages may pass each other
    Duration liveness = std::chrono::seconds(400);
};

class Traffic {
 public:
    Traffic(World&, Checkers&, const TrafficParams&);
    ~Traffic();
    Traffic(const Traffic&) = delete;

    // A node has come up: posts its buffers. It has gone (or closes): lets go of its handles.
    void node_up(SimNode&);
    void node_gone(SimNode&);
    // Begins `operations` more of them; round_over() once all have ended.
    void begin_round();
    bool round_over() const { return left_ == 0 && outstanding_ == 0; }
    // The id of the first operation of the round.
    u64 round_id() const { return round_id_; }
    u64 skipped() const { return skipped_; }

    static constexpr PortalId portal_rolling = 10, portal_slow = 11, portal_source = 12,
                              portal_meeting = 13;

 private:
    struct Op;
    struct Rolling;
    struct Home;
    // A buffer of the target; kept for a while when it has ended, so that late events are seen.
    static constexpr std::size_t quarantine = 64;
    static constexpr u32 rolling_max = 4096;  // largest message there

    bool offers(u32 node) const;
    bool alive(u32 node, u64 life) const;
    void generate();
    void plan(Op&);
    void plan_meeting(Op&);
    u32 draw_bytes(u32 most);
    void start(Op&);
    void prepare(Op&);
    void launch(Op&);
    void never_started(Op&);
    void forget_closed();
    void op_event(Op&, const Event&);
    void meeting_event(Op&, const Event&);
    void post_cancel(Op&);
    void cancel(Op&);
    void post_clean_up(Op&);
    void clean_up(Op&);
    void finish(Op&);
    void post_rolling(Home&, PortalId);
    void attach_rolling(Rolling&);
    void rolling_event(Rolling&, const Event&);
    static void source_event(const Event&);
    std::vector<std::byte>* take_buffer(u32 bytes);
    void give_buffer(std::vector<std::byte>*& buffer);

    World& world_;
    Checkers& checkers_;
    Engine& engine_;
    const TrafficParams params_;
    const u32 source_bytes_;  // what a node offers for GETs
    u64 left_ = 0, outstanding_ = 0, round_id_ = 1, skipped_ = 0;
    std::deque<std::unique_ptr<Op>> ops_;
    std::vector<Op*> open_;  // not ended on both sides, when last looked at
    std::size_t forget_at_ = 1024;
    std::vector<std::unique_ptr<Home>> homes_;
    std::deque<std::unique_ptr<Rolling>> rolling_;
    std::deque<Rolling*> rolling_free_;
    std::vector<std::unique_ptr<std::vector<std::byte>>> buffers_;
    std::array<std::vector<std::vector<std::byte>*>, 32> free_buffers_;
    std::vector<Home*> current_;  // by node
    EventOf<Traffic, &Traffic::generate> generate_{*this};
};

}  // namespace ulnet::sim
