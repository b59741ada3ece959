// Opening NIs, and what they share.
#include "lnds/sock/lnd.h"

#include <algorithm>

#include "cpt/cpt.h"
#include "lnds/sock/fault_stream.h"
#include "lnds/sock/link.h"
#include "lnds/sock/ni.h"
#include "lnds/sock/sock.h"
#include "lnds/sock/wire.h"

namespace ulnet::sock {
namespace {

i64 configured(const NiConfig& config, Tunable which) {
    const auto index = static_cast<std::size_t>(which);
    return index < config.tunables.size() ? config.tunables[index] : tunable_specs()[index].def;
}

std::string explain(const Endpoint& at, Status status) {
    std::string why = "tcp: cannot listen on " + to_text(at) + ": ";
    switch (-status.code()) {
    case EADDRINUSE:
        return why + "the port is in use; set accept_port (accept_port_bulk) to a free one on all "
                     "nodes, or end what "
                     "listens there";
    case EADDRNOTAVAIL:
        return why + "this machine does not have the address; name an interface that has it";
    case ENODEV:
        return why + "cannot be bound to the interface; bind_interface=0 leaves it to the routes";
    case EACCES:
    case EPERM:
        return why + "not permitted; ports below 1024 need CAP_NET_BIND_SERVICE, accept_port may "
                     "be 1 to 65535, and accept=none does not listen";
    default:
        return why + status.text();
    }
}

// What is wrong with the NID of an NI; empty: nothing.
std::string wrong_nid(const NiConfig& config) {
    const Address address(config.nid);
    if (config.net.type() != NetType::tcp || config.nid.any() || config.nid.net() != config.net ||
        !(address.ipv4() || address.ipv6()))
        return " is not an IPv4 or IPv6 address on " + to_text(config.net);
    if (address.link_local())
        return " is link-local, which no NID of another node can be reached by; use a global "
               "address or one of fd00::/8";
    return {};
}

Listener::Rules rules_of(const NiConfig& config) {
    return {static_cast<Accept>(configured(config, Tunable::accept)),
            std::chrono::seconds(configured(config, Tunable::accept_timeout))};
}

// NIs with one address, on different nets, share a listener, so what it goes by must be the same.
std::string explain_rules(const Endpoint& at, const Listener::Rules& there,
                          const Listener::Rules& wanted) {
    const auto word = [](const Listener::Rules& rules) {
        return std::string(tunable_specs()[static_cast<std::size_t>(Tunable::accept)]
                               .words[static_cast<std::size_t>(rules.accept)]);
    };
    const auto seconds = [](const Listener::Rules& rules) {
        return std::to_string(
            std::chrono::duration_cast<std::chrono::seconds>(rules.patience).count());
    };
    const bool by_accept = there.accept != wanted.accept;
    const std::string key = by_accept ? "accept" : "accept_timeout";
    return "tcp: " + key + ": '" + (by_accept ? word(wanted) : seconds(wanted)) +
           "' is not allowed; allowed: '" + (by_accept ? word(there) : seconds(there)) +
           "', as on the other net that listens on " + to_text(at);
}

}  // namespace

// From a thread outside the Sched. Waits only for what a failed open() has left behind.
SockLnd::~SockLnd() {
    std::unique_lock lock(lock_);
    CHECK(nis_.empty());
    CHECK(listeners_.empty());
    os_gone_.wait(lock, [this] { return oses_.empty(); });
}

LndCaps SockLnd::caps() const {
    const auto index = static_cast<std::size_t>(Tunable::sock_timeout);
    return {.timeout = std::chrono::seconds(tunable_specs()[index].def), .checksums = true};
}

std::span<const TunableSpec> SockLnd::tunables() const {
    return tunable_specs();
}

Error SockLnd::check_together(std::span<const i64> values) const {
    const auto value = [&](Tunable which) { return values[static_cast<std::size_t>(which)]; };
    if (values.size() != tunable_count) return {};
    const i64 first = value(Tunable::min_reconnect_ms), last = value(Tunable::max_reconnect_ms);
    if (first <= last) return {};
    return {Status(-ERANGE), "min_reconnectms: '" + std::to_string(first) +
                                 "' is not allowed; allowed: 1 ... " + std::to_string(last) +
                                 " ms (max_reconnectms)"};
}

Result<std::unique_ptr<LndNi>> SockLnd::open(const NiConfig& config, LndUp& up, Sched& sched,
                                             std::string& why) {
    if (const std::string wrong = wrong_nid(config); !wrong.empty()) {
        why = "tcp: the NID " + to_text(config.nid) + wrong;
        return Status(-EINVAL);
    }
    for (const CptId cpt : config.cpts) {
        if (cpt < sched.cpts().size()) continue;
        why = "tcp: CPT " + std::to_string(cpt) + " does not exist, there are " +
              std::to_string(sched.cpts().size());
        return Status(-EINVAL);
    }
    const Result<StreamOs*> os = acquire_os(sched);
    if (!os.ok()) {
        why = std::string("tcp: no event source: ") + os.status().text();
        return os.status();
    }
    auto ni = std::make_unique<SockNi>(config, up, sched, SockNi::Shared{*this, **os},
                                       conns_per_peer_of(link_speed(config.interface)));
    const Result<Listeners> listeners = acquire_listeners(config, **os, sched, why);
    if (!listeners.ok()) {
        abandon_os(**os);
        return listeners.status();
    }
    {
        const std::lock_guard guard(lock_);
        nis_.push_back(ni.get());
    }
    ni->start(*listeners);
    return std::unique_ptr<LndNi>(std::move(ni));
}

Result<StreamOs*> SockLnd::acquire_os(Sched& sched) {
    {
        const std::lock_guard guard(lock_);
        for (SharedOs& shared : oses_) {
            if (shared.stopping) continue;
            ++shared.users;
            return shared.os.get();
        }
    }
    auto made = make_os_(sched);
    if (!made.ok()) return made.status();
    StreamOs* const os = made->get();
    const std::lock_guard guard(lock_);
    oses_.push_back({std::move(*made), 1, false});
    return os;
}

bool SockLnd::release_os(StreamOs& os, Task& done) {
    {
        const std::lock_guard guard(lock_);
        SharedOs& shared = find_os(os);
        if (--shared.users > 0) return true;
        shared.stopping = true;
    }
    os.stop(done);
    return false;
}

// After a failed open(): there is no NI to wait for the end of event sources, if they have begun at
// all. They have when the last NI that used them closed in the meantime.
void SockLnd::abandon_os(StreamOs& os) {
    struct Gone final : Task {
        Gone(SockLnd& owner, StreamOs& which) : lnd(owner), gone(which) {}
        void run() override {
            lnd.destroy_os(gone);
            delete this;
        }
        SockLnd& lnd;
        StreamOs& gone;
    };
    {
        const std::lock_guard guard(lock_);
        SharedOs& shared = find_os(os);
        if (--shared.users > 0) return;
        shared.stopping = true;
    }
    if (os.started())
        os.stop(*new Gone(*this, os));
    else
        destroy_os(os);
}

SockLnd::SharedOs& SockLnd::find_os(const StreamOs& os) {
    const auto it = std::find_if(oses_.begin(), oses_.end(),
                                 [&](const SharedOs& shared) { return shared.os.get() == &os; });
    CHECK(it != oses_.end());
    return *it;
}

void SockLnd::destroy_os(StreamOs& os) {
    std::unique_ptr<StreamOs> gone;
    const std::lock_guard guard(lock_);
    SharedOs& shared = find_os(os);
    gone = std::move(shared.os);
    oses_.erase(oses_.begin() + (&shared - oses_.data()));
    // Under the lock: the destructor must not end while this is being notified.
    os_gone_.notify_all();
}

SockLnd::SharedListener* SockLnd::find_listener(const Endpoint& at) {
    for (SharedListener& shared : listeners_)
        if (shared.listener->wanted() == at) return &shared;
    return nullptr;
}

// Two NIs with one address, on different nets, share a listener.
Result<SockLnd::Place> SockLnd::find_place(const NiConfig& config, StreamOs& os, u16 port,
                                           std::string& why) {
    const Endpoint at{Address(config.nid), port};
    const Listener::Rules rules = rules_of(config);
    {
        const std::lock_guard guard(lock_);
        if (const SharedListener* const shared = find_listener(at)) {
            if (shared->listener->rules() == rules) return Place{at, nullptr};
            why = explain_rules(at, shared->listener->rules(), rules);
            return Status(-EINVAL);
        }
    }
    auto stream = os.listen(
        at, static_cast<u32>(configured(config, Tunable::accept_backlog)),
        configured(config, Tunable::bind_interface) != 0 ? config.interface : std::string());
    if (!stream.ok()) {
        why = explain(at, stream.status());
        return stream.status();
    }
    return Place{at, std::move(*stream)};
}

// All of them or none: a listener that works cannot be taken back without an NI.
Result<Listeners> SockLnd::acquire_listeners(const NiConfig& config, StreamOs& os, Sched& sched,
                                             std::string& why) {
    Listeners listeners{};
    if (configured(config, Tunable::accept) == static_cast<i64>(Accept::none)) return listeners;
    const auto port = static_cast<u16>(configured(config, Tunable::accept_port));
    const auto bulk = static_cast<u16>(configured(config, Tunable::accept_port_bulk));
    std::vector<Place> places;
    for (const u16 wanted : {port, bulk}) {
        if (wanted == 0 || (!places.empty() && wanted == port)) continue;
        auto place = find_place(config, os, wanted, why);
        if (!place.ok()) return place.status();
        places.push_back(std::move(*place));
    }
    const std::lock_guard guard(lock_);
    for (const Place& place : places) {
        if (place.stream != nullptr || find_listener(place.at) != nullptr) continue;
        why = "tcp: the other net that listened on " + to_text(place.at) + " has just closed";
        return Status(-EAGAIN);
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
        Place& place = places[i];
        if (place.stream == nullptr) {
            SharedListener& shared = *find_listener(place.at);
            ++shared.users;
            listeners[i] = shared.listener;
            continue;
        }
        listeners[i] = new Listener(*this, sched, config.cpts.empty() ? 0 : config.cpts.front(),
                                    std::move(place.stream), place.at, rules_of(config));
        listeners_.push_back({listeners[i], 1});
    }
    return listeners;
}

Ref<SockNi> SockLnd::find_ni(const Nid& nid) {
    const std::lock_guard guard(lock_);
    for (SockNi* const ni : nis_)
        if (ni->nid() == nid) return Ref<SockNi>::of(*ni);
    return {};
}

void SockLnd::leave(SockNi& ni, const Listeners& listeners) {
    Listeners last{};
    {
        const std::lock_guard guard(lock_);
        std::erase(nis_, &ni);
        for (std::size_t i = 0; i < listeners.size(); ++i) {
            const auto it = std::find_if(
                listeners_.begin(), listeners_.end(),
                [&](const SharedListener& shared) { return shared.listener == listeners[i]; });
            if (it == listeners_.end() || --it->users > 0) continue;
            last[i] = listeners[i];
            listeners_.erase(it);
        }
    }
    for (Listener* const listener : last)
        if (listener != nullptr) listener->close(Ref<SockNi>::of(ni));
}

std::unique_ptr<Lnd> make_sock_lnd(SockBackEnd back_end, FaultRules* faults) {
    const StreamOsMaker make_os = back_end == SockBackEnd::io_uring ? make_uring_os : make_epoll_os;
    if (faults == nullptr) return std::make_unique<SockLnd>(make_os);
    return std::make_unique<SockLnd>([make_os, faults](Sched& sched) {
        auto os = make_os(sched);
        if (os.ok()) os = make_fault_os(std::move(*os), sched, *faults);
        return os;
    });
}

}  // namespace ulnet::sock
