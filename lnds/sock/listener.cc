// The acceptor.
#include "lnds/sock/listener.h"

#include "lnds/sock/incoming.h"
#include "lnds/sock/lnd.h"
#include "lnds/sock/ni.h"

namespace ulnet::sock {

Listener::Listener(SockLnd& lnd, Sched& sched, CptId cpt, std::unique_ptr<StreamListener> stream,
                   const Endpoint& wanted, Rules rules)
    : lnd_(lnd), sched_(sched), stream_(std::move(stream)), wanted_(wanted), rules_(rules),
      strand_(sched, cpt, *this) {}

Listener::~Listener() = default;

void Listener::close(Ref<SockNi> last_user) {
    last_user_ = std::move(last_user);
    closing_.store(true, std::memory_order_release);
    strand_.wake();
}

void Listener::tick(Instant now) {
    if (starved_.load(std::memory_order_relaxed)) strand_.wake();
    std::vector<Ref<Incoming>> all;
    {
        const std::lock_guard guard(lock_);
        for (Incoming& incoming : half_open_) all.push_back(Ref<Incoming>::of(incoming));
    }
    for (const Ref<Incoming>& incoming : all) incoming->tick(now);
}

bool Listener::step(Budget& budget) {
    if (over_) return false;
    if (closing_.load(std::memory_order_acquire)) {
        over_ = true;
        std::vector<Ref<Incoming>> all;
        {
            const std::lock_guard guard(lock_);
            for (Incoming& incoming : half_open_) all.push_back(Ref<Incoming>::of(incoming));
        }
        for (const Ref<Incoming>& incoming : all) incoming->cancel(-ESHUTDOWN);
        if (watched_)
            stream_->unwatch(unwatched_);
        else
            sched_.post(cpt(), unwatched_);
        return false;
    }
    if (!watched_) {
        watched_ = stream_->watch(cpt(), *this).ok();
        starved_.store(!watched_, std::memory_order_relaxed);
        if (!watched_) return false;
    }
    while (budget.left()) {
        auto stream = stream_->accept();
        if (!stream.ok()) {
            const int error = stream.status().code();
            if (error == -EAGAIN) {
                starved_.store(false, std::memory_order_relaxed);
                return false;
            }
            // Short of descriptors or memory: the reaper comes back to it. Other errors belong to
            // the one connection.
            const bool starved =
                error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
            starved_.store(starved, std::memory_order_relaxed);
            if (starved) {
                shortages_.fetch_add(1, std::memory_order_relaxed);
                shortage_lines_.log(sched_.now(), LogLevel::warn,
                                    "socklnd: cannot accept connections on " + to_text(wanted_) +
                                        ": " + stream.status().text() +
                                        " (ulimit -n, LimitNOFILE=)");
                return false;
            }
            budget.take(1, 0);
            continue;
        }
        budget.take(1, 0);
        take(std::move(*stream));
    }
    return true;
}

void Listener::take(std::unique_ptr<Stream> stream) {
    // Closed without a word, as the kernel does it.
    if (rules_.accept == Accept::secure && stream->remote().port > privileged_high) {
        dropped_.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    auto* const incoming = new Incoming(*this, std::move(stream));
    bool full = false;
    {
        const std::lock_guard guard(lock_);
        full = half_open_.size() >= half_open_max;
        if (!full) {
            half_open_.push_back(*incoming);
            incoming->ref();
        }
    }
    if (full) {
        dropped_.fetch_add(1, std::memory_order_relaxed);
        incoming->unref();
        return;
    }
    incoming->start();
}

void Listener::forget(Incoming& incoming) {
    {
        const std::lock_guard guard(lock_);
        half_open_.remove(incoming);
    }
    incoming.unref();
}

void Listener::unwatched() {
    stream_.reset();
    unref();
}

void Listener::last_ref() {
    sched_.post(cpt(), destroy_);
}

void Listener::destroy() {
    if (!strand_.idle()) {
        sched_.post(cpt(), destroy_);
        return;
    }
    const Ref<SockNi> user = std::move(last_user_);
    delete this;
}

}  // namespace ulnet::sock
