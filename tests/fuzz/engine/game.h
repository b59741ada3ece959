// A program played: our node with the real core and socket driver in a simulated world, against
// the adversary. One thread, virtual time; the same input gives the same run.
#pragma once

#include "tests/fuzz/engine/adversary.h"
#include "tests/fuzz/engine/ours.h"
#include "tests/sim/checkers.h"

namespace ulnet::fuzz {

class Game {
 public:
    explicit Game(std::span<const std::byte> input);
    // CHECKs what must hold after every program.
    void play();

    static constexpr u32 steps_max = 400;

    // What a step does; its byte is first of a step. Seeds (seeds.py) know these numbers.
    enum class Op : u8 {
        open,
        request,
        hello,
        frame,
        raw,
        conversation,  // open, request and HELLO as they should be
        pace,
        reading,
        shut,
        reset,
        break_all,
        policy,
        wait,
        put,
        get,
        ping,
        attach,
        unlink,
        lazy,
        tune,
        drop_peer,
        interface,
        restart,
        count_
    };

 private:
    struct Rules;  // drawn from the first bytes
    sim::NodeSpec draw();
    void step();
    void on_link(Op, Link&);
    void on_node(Op);
    void open_conversation();
    void send_request(Link&);
    void send_hello(Link&);
    void send_frame(Link&);
    void send_raw(Link&);
    void send_mutated(Link&, std::vector<std::byte>&);
    Nid any_nid(Link&);
    WireHandle any_handle();
    std::vector<std::byte> ping_buffer(Link&);
    void wait(Duration);
    void tune();
    void toggle_interface();
    void run(Duration);
    void settle();
    void check_limits();
    void finish();
    void must(bool, const char* what);

    Program program_;
    const bool ipv6_, node_first_;
    sim::World world_;
    sim::Checkers checkers_{world_};
    sim::SimNode& node_;
    Adversary adversary_;
    Ours ours_;
    Duration waited_{};
    bool has_interface_ = true, changing_interface_ = false;
};

}  // namespace ulnet::fuzz
