// Who plays against our node: hosts of a simulated network that open connections to it, answer
// those that it opens, and send what a program says. What our node sends is read as a peer would
// read it: it must be the protocol, whatever it was sent.
#pragma once

#include <array>
#include <list>
#include <vector>

#include "lnds/sock/wire.h"
#include "tests/fuzz/engine/program.h"
#include "tests/sim/world.h"

namespace ulnet::fuzz {

// A message of our node that may be answered, or a handle to guess by.
struct Seen {
    WireHandle handle;
    u64 match_bits = 0;
};

// What a host does with connections that our node opens.
enum class Policy : u8 {
    honest,
    silent,        // reads, says nothing
    refuses,       // NONE, as in a race
    renegotiates,  // NONE, in another version
    wrong_nid,
    wrong_type,
    restarts,  // another incarnation each time
    other_version,
    closes,  // after the request
    resets,
    raw,     // answers bytes of the program
    absent,  // accepts nothing
    count_,
};

class Adversary;

// Notes that there is something to do, here and so for the adversary.
struct Stirred final : sim::Notice {
    explicit Stirred(bool& for_all) : any(for_all) { tell(); }
    void tell() override { now = any = true; }
    bool take() { return std::exchange(now, false); }
    bool now = false;
    bool& any;
};

// One connection, as the adversary sees it.
struct Link {
    explicit Link(bool& any) : stirred(any) {}
    Stirred stirred;
    sim::Side* side = nullptr;
    u32 host = 0;
    bool dialed_by_us = false;  // by our node
    u32 version = sock::version_default;
    Order order = native_order;
    std::vector<std::byte> out;  // not written yet
    u32 pace = 0;                // bytes a step; 0 = all there are
    bool reads = true;
    bool answered = false;  // a link that our node opened
    bool spoke = false;     // something was sent
    // Of what our node sends.
    enum class Expect : u8 { request, hello, frames, nothing } expect = Expect::hello;
    sock::Framing framing;
    u64 payload_left = 0;
    std::vector<std::byte> in;
};

class Adversary {
 public:
    static constexpr u32 hosts = 3;  // one below our node's address, two above
    static constexpr u32 links_max = 48;

    Adversary(sim::World&, bool ipv6, const Nid& ours);
    ~Adversary();
    Adversary(const Adversary&) = delete;

    const Nid& nid(u32 host) const { return hosts_[host].nid; }
    void set_policy(u32 host, Policy, std::span<const std::byte> raw, u32 version);
    // Null: as many as there may be.
    Link* open(u32 host, bool privileged);
    // Of those that are there, or null.
    Link* pick(u32 number);
    void send(Link& link, std::span<const std::byte> bytes) {
        link.spoke = link.spoke || !bytes.empty();
        if (link.out.size() < out_max) link.out.insert(link.out.end(), bytes.begin(), bytes.end());
        link.stirred.tell();
    }
    void shut(Link&);   // its sending direction
    void reset(Link&);  // and forgets it
    // Breaks all between our node and that host.
    void break_all(u32 host, bool silently);
    // Accepts, reads, writes: after everything that may have changed something.
    void act();
    void leave();  // all connections are reset; listens no more
    const Seen& seen(u32 number) const { return seen_[number % seen_.size()]; }
    u64 incarnation(u32 host) const { return hosts_[host].incarnation; }
    void restart(u32 host) { ++hosts_[host].incarnation; }

 private:
    static constexpr std::size_t out_max = 256 * 1024;
    struct Host {
        explicit Host(bool& any) : stirred(any) {}
        sock::Address address;
        Nid nid;
        u64 incarnation = 1000;
        Policy policy = Policy::honest;
        std::vector<std::byte> raw;
        u32 version = sock::version_default;
        sim::ListenSocket* socket = nullptr;
        Stirred stirred;
    };
    Link& add(sim::Side&, u32 host);
    void accept(u32 host);
    bool act(Link&);  // false: it is over
    void read(Link&);
    void understand(Link&);
    std::size_t take(Link&);
    std::size_t take_hello(Link&);
    std::size_t take_frame(Link&);
    void answer(Link&, const sock::Hello&);

    sim::World& world_;
    const Nid ours_;
    bool stirred_ = false;  // something is
    std::array<Host, hosts> hosts_{Host(stirred_), Host(stirred_), Host(stirred_)};
    List<sim::Side, sim::OnHost> sides_;
    std::list<Link> links_;
    std::array<Seen, 16> seen_{};
    u32 seen_next_ = 0;
};

}  // namespace ulnet::fuzz
