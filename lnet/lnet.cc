// The user's side of a Node: handles and calls, each a line that leads inside. Any worker.
#include "lnet/lnet.h"

#include <utility>

#include "lnet/node_impl.h"

namespace ulnet {

Me::Me(Me&& other) noexcept : node_(std::exchange(other.node_, nullptr)), cookie_(other.cookie_) {}

Me& Me::operator=(Me&& other) noexcept {
    if (this == &other) return *this;
    Me old(std::move(*this));
    node_ = std::exchange(other.node_, nullptr);
    cookie_ = other.cookie_;
    return *this;
}

Me::~Me() {
    if (node_ != nullptr) node_->unlink_me(cookie_, NodeImpl::UnlinkMe::handle_gone);
}

Md::Md(Md&& other) noexcept : node_(std::exchange(other.node_, nullptr)), cookie_(other.cookie_) {}

Md& Md::operator=(Md&& other) noexcept {
    if (this == &other) return *this;
    Md old(std::move(*this));
    node_ = std::exchange(other.node_, nullptr);
    cookie_ = other.cookie_;
    return *this;
}

Md::~Md() {
    if (node_ != nullptr) node_->unlink_md(cookie_, ok_status);
}

Node::Node(Sched& sched, std::span<Lnd* const> lnds, const NodeOptions& options)
    : impl_(std::make_unique<NodeImpl>(sched, lnds, options)) {}

Node::~Node() = default;

Sched& Node::sched() {
    return impl_->sched;
}

void Node::control(std::function<void()> fn) {
    impl_->control.queue(std::move(fn));
}

void Node::close(Task& done) {
    impl_->close(done);
}

Error Node::add_ni(const NiConfig& config) {
    return impl_->add_ni(config);
}

Error Node::del_ni(const Nid& nid, std::function<void()> done) {
    return impl_->del_ni(nid, std::move(done));
}

Status Node::set_lazy(PortalId portal, bool lazy) {
    if (portal >= portals_max) return Status(-EINVAL);
    const Pin pin(impl_->topology);
    if (pin->closing) return Status(-ESHUTDOWN);
    impl_->make_portal(portal).set_lazy(lazy);
    return ok_status;
}

Result<Me> Node::attach(PortalId portal, const MatchSpec& spec, Unlink unlink, Place place) {
    const Result<u64> cookie = impl_->attach_me(portal, spec, unlink, place);
    if (!cookie.ok()) return cookie.status();
    Me me;
    me.node_ = impl_.get();
    me.cookie_ = *cookie;
    return me;
}

Result<Md> Node::attach(Me& me, const MdSpec& spec) {
    if (me.node_ != impl_.get()) return Status(-ENOENT);
    const Result<u64> cookie = impl_->attach_md(me.cookie_, spec);
    if (!cookie.ok()) return cookie.status();
    Md md;
    md.node_ = impl_.get();
    md.cookie_ = *cookie;
    return md;
}

Result<Md> Node::bind(const MdSpec& spec) {
    const Result<u64> cookie = impl_->bind_md(spec);
    if (!cookie.ok()) return cookie.status();
    Md md;
    md.node_ = impl_.get();
    md.cookie_ = *cookie;
    return md;
}

// A released handle still names its MD, so only the cookie decides.
Status Node::put(Md& md, const PutArgs& args) {
    return impl_->put(md.cookie_, args);
}
Status Node::get(Md& md, const GetArgs& args) {
    return impl_->get(md.cookie_, args);
}

void Node::unlink(Md&& md) {
    md.node_ = nullptr;
    impl_->unlink_md(md.cookie_, ok_status);
}

void Node::unlink(Me&& me) {
    me.node_ = nullptr;
    impl_->unlink_me(me.cookie_, NodeImpl::UnlinkMe::asked);
}

std::vector<Nid> Node::nids() const {
    std::vector<Nid> nids;
    const Pin pin(impl_->topology);
    for (const Ni* ni : pin->nis) nids.push_back(ni->nid());
    return nids;
}

Nid Node::primary(const Nid& nid) const {
    return impl_->peers.primary(nid);
}

void Node::ping(const ProcessId& to, const Nid& from, Duration timeout, PingDone done) {
    start_ping(*impl_, to, from, timeout, std::move(done));
}

}  // namespace ulnet
