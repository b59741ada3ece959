// What portal 0 offers: the ping buffer and the buffers that peers push theirs into.
#include <algorithm>

#include "lnet/node_impl.h"

namespace ulnet {

struct PingTarget::Buffer {
    PingTarget& target;
    std::vector<std::byte> bytes;
    Mem mem;
    Buffer(PingTarget& its_target, std::vector<std::byte> its_bytes)
        : target(its_target), bytes(std::move(its_bytes)),
          mem(bytes.data(), static_cast<u32>(bytes.size())) {
        target.buffers_.fetch_add(1);
    }
    ~Buffer() { target.buffers_.fetch_sub(1); }
    Buffer(const Buffer&) = delete;
};

PingInfo PingTarget::describe() const {
    PingInfo info;
    info.features = ping_ni_status | ping_rte_disabled | ping_multi_rail;
    if (node_.options.discovery) info.features |= ping_discovery;
    info.sequence = sequence_;
    bool first = true;
    for (const Ni* ni : node_.topology.latest().nis) {
        if (ni->loopback()) continue;
        if (first && !ni->nid().is_nid4()) info.features |= ping_primary_large;
        first = false;
        info.nis.push_back({ni->nid(), ni->up() ? ni_status_up : ni_status_down});
    }
    std::stable_partition(info.nis.begin(), info.nis.end(),
                          [](const PingInfo::Entry& entry) { return entry.nid.is_nid4(); });
    return info;
}

bool PingTarget::post(std::unique_ptr<Buffer> buffer, MdSpec spec, Place place, u64* cookie) {
    const MatchSpec any{.from = {}, .bits = match_bits_lnet, .ignore = 0};
    const Result<u64> me = node_.attach_me(portal_lnet, any, Unlink::with_md, place);
    if (!me.ok()) return false;
    spec.mem = &buffer->mem;
    spec.options.truncate = true;
    spec.user = buffer.get();
    const Result<u64> md = node_.attach_md(*me, spec);
    if (!md.ok()) return false;
    if (cookie != nullptr) *cookie = *md;
    buffer.release();  // its last event deletes it
    return true;
}

void PingTarget::start() {
    node_.make_portal(portal_lnet).set_lazy(true);
    rebuild();
    for (u32 i = 0; i < push_buffers; ++i) post_push_buffer();
}

void PingTarget::rebuild() {
    ++sequence_;
    MdSpec spec;
    spec.options.get = true;
    spec.options.manage_remote = true;
    spec.handler = on_get;
    u64 cookie = 0;
    if (!post(std::make_unique<Buffer>(*this, encode_ping(describe())), spec, Place::before,
              &cookie))
        return;  // the Node closes
    // The old one after the new one is there: no ping finds none.
    if (md_cookie_ != 0) node_.unlink_md(md_cookie_, ok_status);
    md_cookie_ = cookie;
}

void PingTarget::on_get(const Event& event) {
    if (event.unlinked) delete static_cast<Buffer*>(event.user);
}

void PingTarget::post_push_buffer() {
    MdSpec spec;
    spec.options.put = true;
    spec.options.auto_unlink = true;
    spec.threshold = 1;
    spec.handler = on_push;
    post(std::make_unique<Buffer>(*this, std::vector<std::byte>(push_bytes_)), spec, Place::after,
         nullptr);
}

void PingTarget::on_push(const Event& event) {
    // The threshold is one: every event is the last one of its buffer.
    CHECK(event.unlinked);
    std::unique_ptr<Buffer> buffer(static_cast<Buffer*>(event.user));
    if (event.kind != Event::Kind::put) return;
    PingTarget& target = buffer->target;
    const auto bytes = std::span<const std::byte>(buffer->bytes).first(event.mlength);
    Result<PingInfo> info = event.status.ok() ? decode_ping(bytes) : Result<PingInfo>(event.status);
    if (!info.ok()) target.node_.counters.add(Count::errors);
    target.node_.control.queue([&target, info = std::move(info), source = event.source,
                                rlength = event.rlength,
                                truncated = event.mlength < event.rlength] {
        if (truncated)
            target.push_bytes_ = std::max(target.push_bytes_, std::min(rlength, push_bytes_max));
        if (info.ok()) target.node_.peers.learn(source, *info, truncated);
        target.post_push_buffer();
    });
}

}  // namespace ulnet
