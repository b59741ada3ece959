// Node::ping: a GET of the peer's ping buffer with a time-out of its own. Any worker.
#include "lnet/ping.h"

#include <cerrno>

#include "lnet/node_impl.h"

namespace ulnet {
namespace {

// One ping under way. Held by its MD until the last event, by its timer until that was cancelled
// or has fired, and by start(). Whoever is first answers: the REPLY, a failure, or the timer.
class PingOp final : public Timer, public Task {
 public:
    PingOp(NodeImpl& node, Node::PingDone done)
        : node_(node), done_(std::move(done)), bytes_(ping_bytes_max),
          mem_(bytes_.data(), ping_bytes_max) {
        node_.pings.fetch_add(1);
    }
    ~PingOp() { node_.pings.fetch_sub(1); }

    void start(const ProcessId& to, const Nid& from, Duration timeout) {
        MdSpec spec;
        spec.mem = &mem_;
        spec.options.truncate = true;
        spec.options.track_response = true;
        spec.options.auto_unlink = true;
        spec.threshold = 2;
        spec.handler = [](const Event& event) {
            static_cast<PingOp*>(event.user)->on_event(event);
        };
        spec.user = this;
        const Result<u64> md = node_.bind_md(spec);
        if (!md.ok()) {
            failed_ = md.status();
            node_.sched.post(timer_cpt, *this);  // nothing else knows it yet
            return;
        }
        md_cookie_ = *md;
        // Armed before the message goes: its last event must find the timer there to cancel.
        node_.sched.arm(timer_cpt, *this, node_.sched.now() + timeout);
        const Status status = node_.get(
            *md, {.to = to, .portal = portal_lnet, .match_bits = match_bits_lnet, .from = from});
        // The unlink event then answers: never from within Node::ping.
        if (!status.ok()) node_.unlink_md(*md, status);
        release();
    }
    // There is no MD for it.
    void run() override {
        NodeImpl& node = node_;
        const Pin pin(node.topology);
        answer(failed_);
        delete this;
    }
    void fire() override {
        NodeImpl& node = node_;
        const Pin pin(node.topology);
        answer(Status(-ETIMEDOUT));
        node.unlink_md(md_cookie_, Status(-ETIMEDOUT));
        release();
    }

 private:
    static constexpr CptId timer_cpt = 0;

    void on_event(const Event& event) {
        if (event.kind == Event::Kind::reply && event.status.ok())
            answer(decode_ping(std::span<const std::byte>(bytes_).first(event.mlength)));
        else if (!event.status.ok())
            answer(event.status);
        else if (event.kind == Event::Kind::unlink)
            answer(Status(-ECANCELED));
        if (!event.unlinked) {
            // A failed send brings no REPLY that would end the MD.
            if (!event.status.ok()) node_.unlink_md(md_cookie_, event.status);
            return;
        }
        if (node_.sched.cancel(*this)) release();
        release();
    }
    void answer(Result<PingInfo> result) {
        if (!answered_.exchange(true)) done_(std::move(result));
    }
    void release() {
        if (holds_.fetch_sub(1) == 1) delete this;
    }

    NodeImpl& node_;
    const Node::PingDone done_;
    std::vector<std::byte> bytes_;
    const Mem mem_;
    u64 md_cookie_ = 0;
    Status failed_;
    std::atomic<bool> answered_{false};
    std::atomic<u32> holds_{3};  // the MD, the timer and start()
};

}  // namespace

void start_ping(NodeImpl& node, const ProcessId& to, const Nid& from, Duration timeout,
                Node::PingDone done) {
    const Pin pin(node.topology);
    auto* const op = new PingOp(node, std::move(done));  // deletes itself, see above
    op->start(to, from, timeout);
}

}  // namespace ulnet
