// What our own node is asked to do by a program, and the record of how it ended: every operation
// has one SEND at most, one answer at most, one last event, and nothing after it.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "tests/fuzz/engine/program.h"
#include "tests/sim/world.h"

namespace ulnet::fuzz {

class Ours {
 public:
    static constexpr u32 operations_max = 64, targets_max = 32, portals = 4;
    static constexpr u32 bytes_max = 64 * 1024;

    explicit Ours(sim::SimNode& node) : node_(node) {}
    Ours(const Ours&) = delete;

    // On the node's control strand.
    void put(Program&, const ProcessId& to);
    void get(Program&, const ProcessId& to);
    void ping(const ProcessId& to);
    void attach(Program&, const Nid& from);
    void unlink_operation(u32 number);
    void unlink_target(u32 number);
    void set_lazy(u32 portal, bool lazy);
    // Nothing waits for anybody any more.
    void unlink_targets();

    // Nothing of the operations is under way.
    bool ended() const { return under_way_ == 0; }
    u32 targets_left() const { return targets_left_; }
    // What has not ended, for the message of a failure.
    std::string left_text() const;

 private:
    struct Operation {
        Ours* ours = nullptr;
        std::vector<std::byte> bytes;
        Mem mem;
        Md md;
        u32 sends = 0, answers = 0;
        bool wants_answer = false, is_get = false, over = false;
    };
    struct Target {
        Ours* ours = nullptr;
        std::vector<std::byte> bytes;
        Mem mem;
        Md md;
        bool in_handler = false, over = false;
    };
    Operation* make(Program&, bool answer);
    template <class Start> void start(Operation*, Start);
    void told(Operation&, const Event&);
    void told(Target&, const Event&);
    template <class Kind> static Kind* live(std::list<Kind>& all, u32 number);
    static PortalId portal_of(Program&);

    sim::SimNode& node_;
    std::list<Operation> operations_;
    std::list<Target> targets_;
    u32 under_way_ = 0, targets_left_ = 0;
};

}  // namespace ulnet::fuzz
