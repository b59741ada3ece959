// The driver: what its NIs share, that is the event sources and the acceptors. open() is called on
// the control strand; the rest by NIs and handshakes from any worker.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "lnds/sock/listener.h"
#include "lnds/sock/ni.h"
#include "lnds/sock/refs.h"
#include "lnds/sock/stream.h"
#include "lnet/lnd.h"

namespace ulnet::sock {

using StreamOsMaker = std::function<Result<std::unique_ptr<StreamOs>>(Sched&)>;

class SockLnd final : public Lnd {
 public:
    explicit SockLnd(StreamOsMaker make_os) : make_os_(std::move(make_os)) {}
    ~SockLnd() override;
    std::string_view name() const override { return "tcp"; }
    NetType net_type() const override { return NetType::tcp; }
    LndCaps caps() const override;
    std::span<const TunableSpec> tunables() const override;
    Error check_together(std::span<const i64>) const override;
    Result<std::unique_ptr<LndNi>> open(const NiConfig&, LndUp&, Sched&, std::string& why) override;

    // The NI that has exactly this NID.
    Ref<SockNi> find_ni(const Nid&);
    // An NI closes: it is found no more, and its listeners end with their last user. The reference
    // passes on to whoever still works for it.
    void leave(SockNi&, const Listeners&);
    // The NI has quiesced and needs no events any more. False: `done` is posted when the event
    // sources, which were its alone, have gone; true: nothing to wait for.
    bool release_os(StreamOs&, Task& done);
    // After `done`: destroys them.
    void destroy_os(StreamOs&);

 private:
    struct SharedListener {
        Listener* listener;
        u32 users;
    };
    struct SharedOs {
        std::unique_ptr<StreamOs> os;
        u32 users = 0;
        bool stopping = false;
    };
    Result<StreamOs*> acquire_os(Sched&);
    void abandon_os(StreamOs&);
    SharedOs& find_os(const StreamOs&);  // with the lock held
    // Where to listen: a stream of our own, or none when another NI listens there already.
    struct Place {
        Endpoint at;
        std::unique_ptr<StreamListener> stream;
    };
    Result<Listeners> acquire_listeners(const NiConfig&, StreamOs&, Sched&, std::string& why);
    Result<Place> find_place(const NiConfig&, StreamOs&, u16 port, std::string& why);
    SharedListener* find_listener(const Endpoint&);  // with the lock held

    const StreamOsMaker make_os_;
    std::mutex lock_;  // guards: all below
    std::condition_variable os_gone_;
    std::vector<SharedOs> oses_;
    std::vector<SharedListener> listeners_;
    std::vector<SockNi*> nis_;
};

}  // namespace ulnet::sock
