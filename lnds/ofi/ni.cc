// An NI of contexts: which one a peer belongs to, and the end of all of them.
#include "lnds/ofi/ni.h"

#include <cerrno>

#include "cpt/cpt.h"

namespace ulnet::ofi {
namespace {

constexpr std::size_t contexts_max = 256;

std::vector<CptId> cpts_of(const NiConfig& config, Sched& sched) {
    std::vector<CptId> cpts = config.cpts;
    for (CptId cpt = 0; cpts.size() < sched.cpts().size() && config.cpts.empty(); ++cpt)
        cpts.push_back(cpt);
    if (cpts.size() > contexts_max) cpts.resize(contexts_max);
    return cpts;
}

}  // namespace

OfiNi::OfiNi(const NiConfig& config, LndUp& up, Sched& sched, std::function<void()> gone)
    : sched_(sched), gone_(std::move(gone)), cpt_(config.cpts.empty() ? 0 : config.cpts.front()),
      tunables_(config.tunables),
      book_(config, tunables_.provider(), tunables_.get_u32(Tunable::service)) {
    const std::vector<CptId> cpts = cpts_of(config, sched);
    const u64 epoch = sched.wall_ns();
    for (std::size_t i = 0; i < cpts.size(); ++i)
        contexts_.push_back(
            std::make_unique<Context>(ContextSetup{.index = static_cast<u32>(i),
                                                   .count = static_cast<u32>(cpts.size()),
                                                   .cpt = cpts[i],
                                                   .nid = config.nid,
                                                   .epoch = epoch,
                                                   .credits = std::max(config.peer_credits, 1u)},
                                      book_, tunables_, up, sched, contexts_));
}

OfiNi::~OfiNi() {
    contexts_.clear();
    gone_();
}

Status OfiNi::open(std::string& why) {
    for (const auto& context : contexts_)
        if (const Status status = context->open(why); !status.ok()) return status;
    open_.store(contexts_.size(), std::memory_order_relaxed);
    for (const auto& context : contexts_) context->start();
    return ok_status;
}

Context& OfiNi::home(const Nid& nid) const {
    return *contexts_[nid.hash() % contexts_.size()];
}

void OfiNi::send(Msg& msg) {
    home(msg.next_hop.nid).send(msg);
}

void OfiNi::receive(RxToken token, Msg* into, u32 len) {
    Rx& rx = *static_cast<Rx*>(token.driver);
    rx.context->receive(rx, into, len);
}

Status OfiNi::park(RxToken token) {
    Rx& rx = *static_cast<Rx*>(token.driver);
    return rx.context->park(rx);
}

void OfiNi::drop_peer(const Nid& nid) {
    home(nid).drop_peer(nid);
}

void OfiNi::describe(ctl::Value& out) const {
    if (!out.is_map()) out = ctl::Value::map();
    out.set("provider", std::string(name_of(tunables_.provider())));
    out.set("contexts", static_cast<u64>(contexts_.size()));
    constexpr std::string_view names[] = {"sent",     "received", "read_bytes",
                                          "sessions", "lost",     "dropped"};
    for (std::size_t i = 0; i < std::size(names); ++i) {
        u64 sum = 0;
        for (const auto& context : contexts_) sum += context->count(static_cast<Count>(i));
        out.set(names[i], sum);
    }
    ctl::Value& peers = out.set("peers", ctl::Value::list());
    for (const auto& context : contexts_) context->describe(peers);
}

Status OfiNi::tune(std::size_t index, i64 value) {
    return tunables_.set(index, value);
}

void OfiNi::close(Task& done) {
    done_ = &done;
    for (std::size_t i = 0; i < contexts_.size(); ++i)
        closed_.push_back(std::make_unique<Closed>(*this));
    for (std::size_t i = 0; i < contexts_.size(); ++i) contexts_[i]->close(*closed_[i]);
}

void OfiNi::Closed::run() {
    if (ni_.open_.fetch_sub(1, std::memory_order_acq_rel) == 1)
        ni_.sched_.post(ni_.cpt_, *ni_.done_);
}

}  // namespace ulnet::ofi
