// The network of the message-level driver (lnds/sim) in a World: latency, the width of interfaces,
// partitions, loss, hosts that go. Loss-free until told otherwise.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "lnds/sim/sim_net.h"
#include "tests/sim/net_model.h"

namespace ulnet::sim {

class MessageNet final : public SimNet {
 public:
    // A message that finds no way ends after this long.
    static constexpr Duration timeout = std::chrono::seconds(50);

    explicit MessageNet(NetModel& model) : model_(model), engine_(model.engine()) {}
    ~MessageNet() override;

    Status attach(const Nid&, Sched&, SimPort&) override;
    void detach(SimPort&) override;
    SimFrame& make() override;
    void free(SimFrame&) override;
    void transmit(SimPort& from, SimFrame&) override;
    void cut(SimPort& from, const Nid& to) override;

    // The host is gone from the network: its ports reach nobody and their NIDs may be attached
    // anew.
    void unplug(u32 host);
    // A connection between two hosts breaks, both ways.
    void reset(u32 host, u32 other);

    u64 delivered() const { return delivered_; }
    u64 frames_out() const { return frames_.size() - free_.size(); }

 private:
    struct Port;
    struct Link;
    struct OnLink;
    enum class Phase : u8 { leaving, stalled, travelling };
    // Recycled with its payload's memory.
    struct Flight final : SimFrame, Happening, ListHook<OnLink> {
        explicit Flight(MessageNet& owner) : net(owner) {}
        ~Flight() = default;
        void happen() override { net.happened(*this); }
        MessageNet& net;
        Link* link = nullptr;
        Phase phase = Phase::leaving;
        u32 attempt = 0;
        u64 to_port = 0;  // which incarnation it was sent to
        Instant give_up{};
    };
    // One way between a port and a NID.
    struct Link {
        Port* from = nullptr;
        Nid to;
        u32 to_host = 0;
        Instant last_arrival{};
        List<Flight, OnLink> flights;
    };
    struct Port {
        u64 id = 0;
        Nid nid;
        u32 host = 0;
        SimPort* port = nullptr;
        bool unplugged = false;
        Instant wire_free{};  // when its interface has sent what it was given
        std::map<Nid, std::unique_ptr<Link>> links;
    };
    Port& port_of(SimPort& port);
    Link& link(Port& from, const Nid& to);
    void happened(Flight&);
    void leave(Flight&);
    void depart(Flight&, u64 to_port);
    void arrive(Flight&);
    void told(Flight&, Status, Health);
    void drop(Link&, Status);
    void lose_way(Port& at, const Nid& peer);

    NetModel& model_;
    Engine& engine_;
    std::unordered_map<SimPort*, std::unique_ptr<Port>> ports_;  // never walked: addresses differ
    std::map<Nid, Port*> by_nid_;
    std::vector<std::unique_ptr<Flight>> frames_;
    std::vector<Flight*> free_;
    u64 next_port_ = 0;
    u64 delivered_ = 0;
};

}  // namespace ulnet::sim
