// Matching of fault rules, and when one is due. Text: fault_text.cc.
#include "lnet/fault_rule.h"

#include <algorithm>
#include <cerrno>

namespace ulnet {
namespace {

bool in(const NidList& list, const Nid& nid) {
    return list.empty() || list.matches(nid);
}

bool has_way(FaultWay rule, FaultWay way) {
    return (static_cast<u8>(rule) & static_cast<u8>(way)) != 0;
}

bool matches(const FaultRule& rule, const FaultSubject& subject) {
    const Hdr& hdr = subject.hdr;
    if (of_streams(rule.action) || !has_way(rule.way, subject.way)) return false;
    if (rule.messages != 0 && (rule.messages >> static_cast<u32>(hdr.type) & 1) == 0) return false;
    if (rule.portals != 0) {
        if (hdr.type != MsgType::put && hdr.type != MsgType::get) return false;
        if (hdr.portal >= 64 || (rule.portals >> hdr.portal & 1) == 0) return false;
    }
    if (rule.action == FaultAction::corrupt && hdr.payload_length == 0) return false;
    return in(rule.source, hdr.src_nid) && in(rule.dest, hdr.dest_nid) &&
           in(rule.local, subject.local) && in(rule.peer, subject.peer);
}

}  // namespace

Status status_of(Health health) {
    switch (health) {
    case Health::ok:
        return ok_status;
    case Health::local_interrupt:
        return Status(-EINTR);
    case Health::local_aborted:
        return Status(-ECANCELED);
    case Health::local_no_route:
        return Status(-EHOSTUNREACH);
    case Health::local_dropped:
    case Health::local_error:
        return Status(-EIO);
    case Health::remote_error:
    case Health::remote_dropped:
        return Status(-EHOSTDOWN);
    case Health::local_timeout:
    case Health::remote_timeout:
    case Health::network_timeout:
        break;
    }
    return Status(-ETIMEDOUT);
}

FaultRules::FaultRules(std::vector<FaultRule> rules) {
    for (FaultRule& rule : rules) {
        (ulnet::of_streams(rule.action) ? of_streams_ : of_messages_) = true;
        entries_.push_back(std::make_unique<Entry>());
        entries_.back()->rule = std::move(rule);
    }
}

// Counts the match. With the lock held.
bool FaultRules::due(Entry& entry, Instant now, Prng& prng) {
    const FaultRule& rule = entry.rule;
    const u64 number = entry.counts.matched++;
    if (rule.count != 0 && entry.counts.applied >= rule.count) return false;
    if (rule.rate > 0) {
        const u64 place = number % rule.rate;
        // Of pairs the first one, the first time: as LNet has it.
        if (place == 0) entry.chosen = number == 0 && rule.rate == 2 ? 0 : prng.below(rule.rate);
        if (place != entry.chosen) return false;
    } else {
        const auto within = [&] {
            return Duration(static_cast<i64>(prng.below(static_cast<u64>(rule.interval.count()))));
        };
        if (!entry.begun) {
            entry.begun = true;
            entry.window = now;
            entry.at = now + within();
        }
        if (now < entry.at) return false;
        entry.window = std::max(entry.window + rule.interval, now);
        entry.at = entry.window + within();
    }
    ++entry.counts.applied;
    return true;
}

const FaultRule* FaultRules::hit(const FaultSubject& subject, Instant now, Prng& prng) {
    for (const auto& entry : entries_) {
        if (!matches(entry->rule, subject)) continue;
        const std::lock_guard guard(lock_);
        if (due(*entry, now, prng)) return &entry->rule;
    }
    return nullptr;
}

std::vector<const FaultRule*> FaultRules::hit_stream(const Nid& peer, Instant now, Prng& prng) {
    std::vector<const FaultRule*> hits;
    for (const auto& entry : entries_) {
        if (!ulnet::of_streams(entry->rule.action) || !in(entry->rule.peer, peer)) continue;
        const std::lock_guard guard(lock_);
        if (due(*entry, now, prng)) hits.push_back(&entry->rule);
    }
    return hits;
}

FaultRules::Counts FaultRules::counts(std::size_t index) const {
    const std::lock_guard guard(lock_);
    return entries_[index]->counts;
}

void FaultRules::describe(ctl::Value& out) const {
    out = ctl::Value::list();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        const Counts now = counts(i);
        ctl::Value& one = out.push(ctl::Value::map());
        one.set("rule", to_text(entries_[i]->rule));
        one.set("matched", now.matched);
        one.set("applied", now.applied);
    }
}

}  // namespace ulnet
