// The network in memory. Each Delivery and Sent is a task of its own, so messages may overtake each
// other as they do between several connections.
#include "tests/unit/selftest/link_lnd.h"

namespace ulnet::lst {

void LinkNet::set_hook(Hook hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
}

void LinkNet::cut(const Nid& nid, bool silent) {
    const std::lock_guard lock(mutex_);
    cuts_[nid] = silent ? Cut::silent : Cut::loud;
}

void LinkNet::heal(const Nid& nid) {
    const std::lock_guard lock(mutex_);
    cuts_.erase(nid);
}

void LinkNet::keep_sent(bool keep) {
    std::vector<std::function<void()>> go;
    {
        const std::lock_guard lock(mutex_);
        keeps_sent_ = keep;
        if (!keep) go.swap(kept_);
    }
    for (const auto& each : go) each();
}

LinkNet::Cut LinkNet::cut_of(const Nid& a, const Nid& b) {
    for (const Nid& nid : {a, b}) {
        const auto found = cuts_.find(nid);
        if (found != cuts_.end()) return found->second;
    }
    return Cut::no;
}

LinkNi::LinkNi(LinkNet& net, const NiConfig& config, LndUp& up, Sched& sched)
    : net_(net), up_(up), sched_(sched), nid_(config.nid) {
    const std::lock_guard lock(net_.mutex_);
    net_.nis_[nid_] = this;
}

LinkNi::~LinkNi() = default;

void LinkNi::send(Msg& msg) {
    auto* sent = new Sent;
    sent->ni = this;
    sent->msg = &msg;
    hold();
    auto delivery = std::make_unique<Delivery>();
    delivery->hdr = msg.hdr;
    delivery->from = {nid_, msg.hdr.src_pid};
    delivery->payload.resize(msg.hdr.payload_length);
    msg.payload.copy_out(0, delivery->payload);
    {
        const std::lock_guard lock(net_.mutex_);
        const auto peer = net_.nis_.find(msg.next_hop.nid);
        const LinkNet::Cut cut = net_.cut_of(nid_, msg.next_hop.nid);
        if (cut == LinkNet::Cut::loud || (cut == LinkNet::Cut::no && peer == net_.nis_.end())) {
            sent->status = Status(-EHOSTUNREACH);
        } else if (cut == LinkNet::Cut::no &&
                   (!net_.hook_ || net_.hook_(delivery->hdr, delivery->payload) == Fate::deliver)) {
            delivery->to = peer->second;
            delivery->to->hold();
            sched_.post(msg.cpt, *delivery.release());
        }
        if (net_.keeps_sent_) {
            net_.kept_.push_back([this, sent, cpt = msg.cpt] { sched_.post(cpt, *sent); });
            return;
        }
    }
    sched_.post(msg.cpt, *sent);
}

void LinkNi::Sent::run() {
    ni->up_.finished(*msg, status, status.ok() ? Health::ok : Health::remote_error);
    ni->let_go();
    delete this;
}

void LinkNi::Delivery::run() {
    LinkNi& ni = *to;
    if (!shown) {
        shown = true;
        if (ni.up_.arrived(hdr, from, {this, 0}, {}).ok()) return;  // receive() takes over
    } else if (into) {
        ni.up_.finished(*into, ok_status, Health::ok);
    }
    delete this;
    ni.let_go();
}

void LinkNi::receive(RxToken token, Msg* into, u32 len) {
    auto& delivery = *static_cast<Delivery*>(token.driver);
    delivery.into = into;
    delivery.len = len;
    if (into) {
        CHECK(len <= delivery.payload.size() && into->payload.len == len);
        into->payload.copy_in(0, std::span<const std::byte>(delivery.payload).first(len));
    }
    sched_.post(0, delivery);
}

void LinkNi::close(Task& done) {
    {
        const std::lock_guard lock(net_.mutex_);
        net_.nis_.erase(nid_);
    }
    done_.store(&done);
    let_go();
}

void LinkNi::let_go() {
    if (held_.fetch_sub(1) == 1) sched_.post(0, *done_.load());
}

}  // namespace ulnet::lst
