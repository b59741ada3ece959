// Chaos: see the header.
#include "tests/sim/chaos.h"

#include <array>

#include "lnds/sock/lnd.h"
#include "lnds/sock/ni.h"
#include "lnet/node_impl.h"

namespace ulnet::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::array names{"pause",   "long pause",  "crash",       "power loss",    "partition",
                           "one-way", "reset",       "half-open",   "clock jump",    "slow",
                           "retune",  "slow reader", "no messages", "no connections"};
static_assert(names.size() == static_cast<std::size_t>(Fault::count_));

}  // namespace

std::string ChaosParams::text() const {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i)
        if (has(static_cast<Fault>(i))) text += (text.empty() ? "" : ", ") + std::string(names[i]);
    return text.empty() ? "none" : text;
}

Chaos::Chaos(World& world, const ChaosParams& params)
    : world_(world), prng_(world.engine.faults), params_(params) {
    for (u8 i = 0; i < static_cast<u8>(Fault::count_); ++i)
        if (params.has(static_cast<Fault>(i))) kinds_.push_back(static_cast<Fault>(i));
}

Chaos::~Chaos() {
    world_.engine.withdraw(strike_);
    for (const auto& healing : healings_) world_.engine.withdraw(*healing);
}

void Chaos::begin() {
    if (!kinds_.empty())
        world_.engine.schedule(strike_, world_.now() + between(prng_, Duration{}, params_.gap_max));
}

void Chaos::stop() {
    world_.engine.withdraw(strike_);
    for (const auto& healing : healings_) {
        if (!healing->scheduled()) continue;
        world_.engine.withdraw(*healing);
        healing->happen();
    }
    world_.model.heal_all();
}

SimNode& Chaos::any_node() {
    return world_.node(prng_.below(world_.nodes()));
}

void Chaos::later(Duration least, Duration most, std::function<void()> heal) {
    std::erase_if(healings_, [](const auto& healing) { return !healing->scheduled(); });
    healings_.push_back(std::make_unique<Healing>(std::move(heal)));
    world_.engine.schedule(*healings_.back(), world_.now() + between(prng_, least, most));
}

void Chaos::strike() {
    const Fault fault = kinds_[prng_.below(kinds_.size())];
    apply(fault);
    world_.engine.schedule(strike_, world_.now() + between(prng_, Duration{}, params_.gap_max));
}

// Somebody changes what the socket driver goes by, while it works.
void Chaos::retune(SimNode& node) {
    struct Choice {
        std::string_view name;
        u64 low, high;
    };
    static constexpr std::array<Choice, 5> choices{{{"conns_per_peer", 1, 4},
                                                    {"typed_conns", 0, 1},
                                                    {"protocol", 1, 4},
                                                    {"enable_csum", 0, 1},
                                                    {"nonblk_zcack", 0, 1}}};
    const Choice& choice = choices[prng_.below(choices.size())];
    const std::string value = std::to_string(between(prng_, choice.low, choice.high));
    Node& of_now = node.node();
    node.control([this, &of_now, name = choice.name, value, nid = node.nid()] {
        const Error error = set_ni_tunable(of_now, nid, name, value);
        // The NI is not there yet, or not any more.
        if (!error.ok() && error.status != Status(-ENOENT)) world_.fail(error.text);
    });
}

void Chaos::read_slowly(u32 host) {
    static constexpr std::array<u64, 4> paces{1, 16, 256, 4096};  // bytes a millisecond
    world_.model.slow_reader(host, paces[prng_.below(paces.size())]);
    later(milliseconds(1), seconds(chance(prng_, 10) ? 120 : 5),
          [this, host] { world_.model.slow_reader(host, 0); });
}

// Somebody else has all messages of the core but a few.
void Chaos::take_messages(SimNode& node) {
    // The ghost of a node that crashes cannot close, and so not go, before they are back.
    SimNode::Life* const life = &node.life();
    const u64 few = between(prng_, 0, 3);
    const auto taken = std::make_shared<std::vector<CoreMsg*>>();
    const auto over = std::make_shared<bool>(false);
    life->node->control([life, taken, over, few] {
        NodeImpl& impl = life->node->impl();
        if (*over || life->closing) return;
        for (CptId cpt = 0; cpt < impl.cpts(); ++cpt) {
            const std::size_t before = taken->size();
            while (CoreMsg* const msg = impl.new_msg(cpt)) {
                msg->set_state(MsgState::routing);
                taken->push_back(msg);
            }
            for (u64 i = 0; i < few && taken->size() > before; ++i) {
                impl.unref(*taken->back());
                taken->pop_back();
            }
        }
    });
    later(milliseconds(1), seconds(2), [life, taken, over] {
        *over = true;
        if (taken->empty()) return;
        life->node->control([life, taken] {
            for (CoreMsg* const msg : *taken) life->node->impl().unref(*msg);
        });
    });
}

// Somebody else has all connections that the driver may have.
void Chaos::take_connections(SimNode& node) {
    SimNode::Life& life = node.life();
    if (life.sock == nullptr) return;
    const auto ni = std::make_shared<sock::Ref<sock::SockNi>>(life.sock->find_ni(node.nid()));
    if (!*ni) return;
    u32 taken = 0;
    while ((*ni)->add_conn()) ++taken;
    later(milliseconds(1), seconds(2), [ni, taken] {
        for (u32 i = 0; i < taken; ++i) (*ni)->drop_conn();
        ni->reset();
    });
}

void Chaos::apply(Fault fault) {
    SimNode& node = any_node();
    SimNode& other = any_node();
    if (!node.up()) return;
    const u32 a = node.address(), b = other.address();
    world_.engine.trace(Trace::fault, static_cast<u64>(fault), node.index(), other.index());
    ++faults_;
    switch (fault) {
    case Fault::pause:
    case Fault::long_pause: {
        const bool long_one = fault == Fault::long_pause;
        if (long_one && !chance(prng_, 10)) return;
        node.life().sched.pause();
        const u64 life = node.life().number;
        later(long_one ? seconds(10) : milliseconds(1), long_one ? seconds(90) : seconds(2),
              [&node, life] {
                  if (node.up() && node.life().number == life) node.life().sched.resume();
              });
        return;
    }
    case Fault::crash:
    case Fault::power_loss:
        if (!chance(prng_, 20)) return;
        node.crash(fault == Fault::power_loss);
        later(milliseconds(1), seconds(chance(prng_, 20) ? 60 : 3), [&node] {
            if (!node.up()) node.start();
        });
        return;
    case Fault::partition:
    case Fault::one_way:
        if (a == b) return;
        world_.model.block(a, b);
        if (fault == Fault::partition) world_.model.block(b, a);
        later(milliseconds(1), seconds(chance(prng_, 10) ? 120 : 2), [this, a, b] {
            world_.model.heal(a, b);
            world_.model.heal(b, a);
        });
        return;
    case Fault::reset:
    case Fault::half_open:
        if (a == b) return;
        if (fault == Fault::half_open && !chance(prng_, 20)) return;
        world_.streams.break_all(a, b, fault == Fault::half_open);
        if (fault == Fault::reset) world_.messages.reset(a, b);
        return;
    case Fault::clock_jump:
        node.life().sched.jump_wall(between(prng_, -seconds(3600), seconds(3600)));
        return;
    case Fault::slow: {
        world_.model.slow(a, static_cast<u32>(between(prng_, 2, 2000)));
        later(milliseconds(1), seconds(5), [this, a] { world_.model.slow(a, 1); });
        return;
    }
    case Fault::retune:
        retune(node);
        return;
    case Fault::slow_reader:
        read_slowly(a);
        return;
    case Fault::no_messages:
        take_messages(node);
        return;
    case Fault::no_connections:
        take_connections(node);
        return;
    case Fault::count_:
        CHECK(false);
    }
}

}  // namespace ulnet::sim
