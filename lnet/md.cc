// MDs and MEs: made, attached, unlinked. Any worker; one home's lock at a time.
#include "lnet/md.h"

#include <cerrno>

#include "lnet/node_impl.h"

namespace ulnet {
namespace {

constexpr Status invalid{-EINVAL};
constexpr Status closed{-ESHUTDOWN};

u32 bytes_of(const MdSpec& spec) {
    return spec.mem != nullptr ? spec.mem->size() : 0;
}

bool valid(const MdSpec& spec) {
    return spec.max_size <= bytes_of(spec) &&
           !(spec.options.track_response && spec.options.no_track_response);
}

// Fills a fresh slot. The cookie is stored last, under the home's lock.
void fill(MdImpl& md, NodeImpl& node, const MdSpec& spec) {
    md.node = &node;
    md.options = spec.options;
    md.mem = spec.mem;
    md.length = bytes_of(spec);
    md.max_size = spec.max_size;
    md.handler = spec.handler;
    md.user = spec.user;
    md.threshold = spec.threshold;
    md.offset = md.busy = md.responses_due = md.acks_due = md.replies_due = 0;
    md.floats = nullptr;
    md.aborted = md.cancelling = md.told_last = md.delivering = md.tracked = false;
    md.why = ok_status;
    md.me = nullptr;
}

}  // namespace

Result<u64> NodeImpl::bind_md(const MdSpec& spec) {
    if (!valid(spec) || spec.options.put || spec.options.get || bytes_of(spec) > payload_max)
        return invalid;
    const Pin pin(topology);
    if (pin->closing) return closed;
    const CptId cpt =
        spec.mem != nullptr && spec.mem->home() < cpts() ? spec.mem->home() : sched.this_cpt();
    MdImpl* const md = mds[cpt]->take();
    if (md == nullptr) return Status(-ENOMEM);
    FloatHome& home = *homes[cpt * homes_a_cpt + md->slot % homes_a_cpt];
    const u64 cookie = mds[cpt]->cookie_of(*md);
    const std::lock_guard guard(home.lock);
    fill(*md, *this, spec);
    md->floats = &home;
    md->home.store(&home);
    md->cookie.store(cookie);
    return cookie;
}

Result<u64> NodeImpl::attach_me(PortalId id, const MatchSpec& spec, Unlink unlink, Place place) {
    if (id >= portals_max) return invalid;
    const Pin pin(topology);
    if (pin->closing) return closed;
    const bool unique = spec.ignore == 0 && !spec.from.nid.any() && spec.from.pid != pid_any;
    Portal& at = make_portal(id);
    PortalTables* const tables = at.tables_for(unique);
    if (tables == nullptr) return Status(-EPERM);
    const Nid primary = spec.from.nid.any() ? spec.from.nid : peers.primary(spec.from.nid);
    const u64 hash = unique ? MatchTable::hash_unique(spec.bits, {primary, spec.from.pid})
                            : MatchTable::hash_wildcard(spec.bits);
    MatchTable& table = tables->choose(hash, sched.this_cpt());
    MeImpl* const me = mes[table.cpt]->take();
    if (me == nullptr) return Status(-ENOMEM);
    const u64 cookie = mes[table.cpt]->cookie_of(*me);
    {
        const std::lock_guard guard(table.lock);
        me->nid = spec.from.nid;
        me->primary = primary;
        me->pid = spec.from.pid;
        me->bits = spec.bits;
        me->ignore = spec.ignore;
        me->hash = hash;
        me->with_md = unlink == Unlink::with_md;
        me->md = nullptr;
        me->table = &table;
        me->portal = &at;
        table.insert(*me, place);
        me->home.store(&table);
        me->cookie.store(cookie);
    }
    table.grow_if_crowded();
    return cookie;
}

Result<u64> NodeImpl::attach_md(u64 me_cookie, const MdSpec& spec) {
    const Pin pin(topology);
    if (Cookie::kind(me_cookie) != Cookie::kind_me || Cookie::cpt(me_cookie) >= cpts())
        return Status(-ENOENT);
    MeImpl* const me = mes[Cookie::cpt(me_cookie)]->at(Cookie::slot(me_cookie));
    MdHome* const home = me != nullptr ? me->home.load() : nullptr;
    if (home == nullptr) return Status(-ENOENT);
    const bool good = valid(spec) && (spec.options.put || spec.options.get);
    MdImpl* const md = good && !pin->closing ? mds[home->cpt]->take() : nullptr;
    if (md == nullptr) {
        unlink_me(me_cookie, UnlinkMe::failed_attach);
        return pin->closing ? closed : !good ? invalid : Status(-ENOMEM);
    }
    const u64 cookie = mds[home->cpt]->cookie_of(*md);
    Portal* at = nullptr;
    bool stale;
    {
        const std::lock_guard guard(home->lock);
        stale = me->cookie.load() != me_cookie || me->home.load() != home;
        if (!stale && me->md == nullptr) {
            fill(*md, *this, spec);
            md->me = me;
            me->md = md;
            md->home.store(home);
            md->cookie.store(cookie);
            at = me->portal;
        }
    }
    if (at == nullptr) {
        mds[home->cpt]->give(*md);
        return Status(stale ? -ENOENT : -EBUSY);
    }
    if (at->has_delayed()) at->look_again();
    return cookie;
}

LockedMd NodeImpl::lock_md(u64 cookie) {
    if (Cookie::kind(cookie) != Cookie::kind_md || Cookie::cpt(cookie) >= cpts()) return {};
    MdImpl* const md = mds[Cookie::cpt(cookie)]->at(Cookie::slot(cookie));
    MdHome* const home = md != nullptr ? md->home.load() : nullptr;
    if (home == nullptr) return {};
    std::unique_lock lock(home->lock);
    // A slot in its next use may have another home. A peer may have guessed its cookie, so the home
    // is looked at again: it is stored before the cookie.
    if (md->cookie.load() != cookie || md->home.load() != home) return {};
    return {std::move(lock), md};
}

Aftermath NodeImpl::begin_unlink(MdImpl& md, Status why) {
    Aftermath after;
    md.cookie.store(0);
    if (md.tracked) {
        md.floats->tracked.remove(md);
        md.tracked = false;
    }
    if (MeImpl* const me = md.me) {
        md.me = nullptr;
        me->md = nullptr;
        if (me->with_md) {
            me->table->remove(*me);
            me->cookie.store(0);
            after.dead_me = me;
        }
    }
    if (md.busy > 0) {
        md.aborted = true;
        md.why = why;
        md.cancelling = true;
        after.cancel = true;
    }
    return after;
}

void NodeImpl::queue_unlink_event(MdImpl& md, Status why, Aftermath& after) {
    if (md.busy > 0) return;
    md.unlink_event.event = Event{};
    md.unlink_event.event.kind = Event::Kind::unlink;
    md.unlink_event.event.status = why;
    md.unlink_event.event.unlinked = true;
    md.unlink_event.event.user = md.user;
    md.events.push_back(md.unlink_event);
    after.deliver = !md.delivering;
    md.delivering = true;
}

void NodeImpl::settle(MdImpl& md, MdHome& home, const Aftermath& after) {
    if (after.dead_me != nullptr) mes[after.dead_me->slot_cpt]->give(*after.dead_me);
    if (after.deliver) sched.post(home.cpt, md);
    if (!after.cancel) return;
    // Each message once: those asked go to the end of the list, so the first one that was asked
    // already ends the loop. `cancelling` keeps the slot while the lock is released.
    for (;;) {
        CoreMsg* msg;
        bool gone;
        {
            const std::lock_guard guard(home.lock);
            msg = md.messages.empty() ? nullptr : &md.messages.front();
            if (msg == nullptr || msg->cancel_asked) {
                msg = nullptr;
                md.cancelling = false;
                gone = md.told_last;
            } else {
                msg->cancel_asked = true;
                md.messages.remove(*msg);
                md.messages.push_back(*msg);
                msg->refs.fetch_add(1);
            }
        }
        if (msg == nullptr) {
            if (gone) mds[md.slot_cpt]->give(md);
            return;
        }
        cancel(*msg, Status(-ECANCELED));
        unref(*msg);
    }
}

bool NodeImpl::unlink_md(u64 cookie, Status why) {
    const Pin pin(topology);
    LockedMd locked = lock_md(cookie);
    if (locked.md == nullptr) return false;
    MdImpl& md = *locked.md;
    MdHome& home = *md.home.load();
    Aftermath after = begin_unlink(md, why);
    queue_unlink_event(md, why, after);
    locked.lock.unlock();
    settle(md, home, after);
    return true;
}

void NodeImpl::unlink_me(u64 cookie, UnlinkMe reason) {
    const Pin pin(topology);
    if (Cookie::kind(cookie) != Cookie::kind_me || Cookie::cpt(cookie) >= cpts()) return;
    MeImpl* const me = mes[Cookie::cpt(cookie)]->at(Cookie::slot(cookie));
    MdHome* const home = me != nullptr ? me->home.load() : nullptr;
    if (home == nullptr) return;
    std::unique_lock lock(home->lock);
    if (me->cookie.load() != cookie || me->home.load() != home) return;
    MdImpl* const md = me->md;
    if (reason == UnlinkMe::handle_gone && me->with_md && md != nullptr) return;
    if (reason == UnlinkMe::failed_attach && (!me->with_md || md != nullptr)) return;
    Aftermath after;
    if (md != nullptr) {
        after = begin_unlink(*md, ok_status);
        queue_unlink_event(*md, ok_status, after);
    }
    if (after.dead_me == nullptr) {
        me->table->remove(*me);
        me->cookie.store(0);
        after.dead_me = me;
    }
    lock.unlock();
    if (md != nullptr)
        settle(*md, *home, after);
    else
        mes[me->slot_cpt]->give(*me);
}

void NodeImpl::unlink_all(Status why) {
    for (const auto& table : mds)
        for (u32 slot = 0; slot < table->slots(); ++slot)
            if (MdImpl* const md = table->at(slot))
                if (const u64 cookie = md->cookie.load()) unlink_md(cookie, why);
    for (const auto& table : mes)
        for (u32 slot = 0; slot < table->slots(); ++slot)
            if (MeImpl* const me = table->at(slot))
                if (const u64 cookie = me->cookie.load()) unlink_me(cookie, UnlinkMe::asked);
}

u64 NodeImpl::mds_in_use() const {
    u64 total = 0;
    for (const auto& table : mds) total += table->in_use();
    return total;
}

u64 NodeImpl::mes_in_use() const {
    u64 total = 0;
    for (const auto& table : mes) total += table->in_use();
    return total;
}

u64 NodeImpl::tracked() const {
    u64 total = 0;
    for (const auto& home : homes) {
        const std::lock_guard guard(home->lock);
        total += home->tracked.size();
    }
    return total;
}

}  // namespace ulnet
