// Our own node's operations: see the header. Everything here runs on one thread.
#include "tests/fuzz/engine/ours.h"

namespace ulnet::fuzz {

// Few, so that messages meet MDs; one in 256 is any.
PortalId Ours::portal_of(Program& program) {
    const u8 byte = program.byte();
    return byte == 255 ? program.number32() : byte % portals;
}

template <class Kind> Kind* Ours::live(std::list<Kind>& all, u32 number) {
    if (all.empty()) return nullptr;
    Kind& chosen = *std::next(all.begin(), number % all.size());
    return chosen.over || !chosen.md ? nullptr : &chosen;
}

Ours::Operation* Ours::make(Program& program, bool answer) {
    if (operations_.size() >= operations_max) return nullptr;
    Operation& op = operations_.emplace_back();
    op.ours = this;
    op.wants_answer = answer;
    op.bytes.resize(program.number() % (bytes_max + 1));
    op.mem = Mem(op.bytes.data(), static_cast<u32>(op.bytes.size()));
    MdSpec spec;
    spec.mem = &op.mem;
    spec.threshold = answer ? 2 : 1;
    spec.options.auto_unlink = true;
    spec.options.truncate = program.flag();
    spec.user = &op;
    spec.handler = [](const Event& event) {
        auto& its = *static_cast<Operation*>(event.user);
        its.ours->told(its, event);
    };
    Result<Md> md = node_.node().bind(spec);
    if (!md.ok()) return nullptr;
    op.md = std::move(*md);
    ++under_way_;
    return &op;
}

template <class Start> void Ours::start(Operation* op, Start call) {
    if (op == nullptr) return;
    const Status status = call(*op);
    // Refused at once: the MD is still ours.
    if (!status.ok() && op->md) node_.node().unlink(std::move(op->md));
}

void Ours::put(Program& program, const ProcessId& to) {
    const bool ack = program.flag();
    start(make(program, ack), [&](Operation& op) {
        return node_.node().put(op.md, {.to = to,
                                        .portal = portal_of(program),
                                        .match_bits = program.number(),
                                        .offset = program.number32(),
                                        .hdr_data = 7,
                                        .ack = ack ? Ack::yes : Ack::no});
    });
}

void Ours::get(Program& program, const ProcessId& to) {
    start(make(program, true), [&](Operation& op) {
        op.is_get = true;
        return node_.node().get(op.md, {.to = to,
                                        .portal = portal_of(program),
                                        .match_bits = program.number(),
                                        .offset = program.number32()});
    });
}

void Ours::ping(const ProcessId& to) {
    if (operations_.size() >= operations_max) return;
    Operation& op = operations_.emplace_back();
    op.ours = this;
    ++under_way_;
    node_.node().ping(to, {}, std::chrono::seconds(5), [&op](const Result<PingInfo>&) {
        CHECK(!op.over);
        op.over = true;
        --op.ours->under_way_;
    });
}

void Ours::told(Operation& op, const Event& event) {
    CHECK(!op.over);
    switch (event.kind) {
    case Event::Kind::send:
        CHECK(++op.sends == 1);
        break;
    case Event::Kind::ack:
    case Event::Kind::reply:
        CHECK(op.wants_answer && ++op.answers == 1);
        CHECK(op.is_get == (event.kind == Event::Kind::reply));
        CHECK(!op.is_get || event.mlength <= op.bytes.size());
        break;
    case Event::Kind::unlink:
        CHECK(event.unlinked);
        break;
    case Event::Kind::put:
    case Event::Kind::get:
        CHECK(false);
    }
    if (event.unlinked) {
        op.over = true;
        op.md.release();
        --under_way_;
    } else if (event.kind == Event::Kind::send && !event.status.ok() && op.md) {
        // No answer will come.
        node_.node().unlink(std::move(op.md));
    }
}

void Ours::attach(Program& program, const Nid& from) {
    if (targets_.size() >= targets_max) return;
    const u8 how = program.byte();
    MatchSpec match;
    if (how & 1) match.from = {from, pid_lustre};
    match.bits = program.number();
    match.ignore = program.number();
    const PortalId portal = portal_of(program);
    Result<Me> me = node_.node().attach(portal, match, how & 2 ? Unlink::retain : Unlink::with_md,
                                        how & 4 ? Place::before : Place::after);
    if (!me.ok()) return;
    const u8 options = program.byte();
    Target& target = targets_.emplace_back();
    target.ours = this;
    target.bytes.resize(program.number() % (bytes_max + 1));
    target.mem = Mem(target.bytes.data(), static_cast<u32>(target.bytes.size()));
    MdSpec spec;
    spec.mem = &target.mem;
    spec.options = {.put = (options & 1) == 0,
                    .get = (options & 2) == 0,
                    .manage_remote = (options & 4) != 0,
                    .truncate = (options & 8) != 0,
                    .ack_disable = (options & 16) != 0,
                    .auto_unlink = (options & 32) == 0,
                    .discard = (options & 64) != 0};
    spec.threshold = how & 8 ? threshold_infinite : program.byte();
    spec.max_size = how & 16 ? program.byte() : 0;
    spec.user = &target;
    spec.handler = [](const Event& event) {
        auto& its = *static_cast<Target*>(event.user);
        its.ours->told(its, event);
    };
    Result<Md> md = node_.node().attach(*me, spec);
    if (!md.ok()) {
        target.over = true;
        return;
    }
    target.md = std::move(*md);
    ++targets_left_;
}

void Ours::told(Target& target, const Event& event) {
    CHECK(!target.over && !target.in_handler);
    target.in_handler = true;
    if (event.kind == Event::Kind::put || event.kind == Event::Kind::get) {
        CHECK(event.mlength <= event.rlength);
        // A remote offset beyond the end is told as it came.
        CHECK(event.mlength == 0 || u64{event.offset} + event.mlength <= target.bytes.size());
    }
    if (event.unlinked) {
        target.over = true;
        target.md.release();
        --targets_left_;
    }
    target.in_handler = false;
}

void Ours::unlink_operation(u32 number) {
    if (Operation* op = live(operations_, number)) node_.node().unlink(std::move(op->md));
}

void Ours::unlink_target(u32 number) {
    if (Target* target = live(targets_, number)) node_.node().unlink(std::move(target->md));
}

void Ours::set_lazy(u32 portal, bool lazy) {
    static_cast<void>(node_.node().set_lazy(portal, lazy));
}

std::string Ours::left_text() const {
    std::string text = std::to_string(targets_left_) + " targets";
    for (const Operation& op : operations_) {
        if (op.over) continue;
        text += "; operation of " + std::to_string(op.bytes.size()) + " bytes, " +
                std::to_string(op.sends) + " SEND, " + std::to_string(op.answers) + " of " +
                (op.wants_answer ? "1" : "0") + " answers" + (op.md ? "" : ", MD given up");
    }
    return text;
}

void Ours::unlink_targets() {
    for (u32 i = 0; i < portals; ++i) set_lazy(i, false);
    for (Target& target : targets_)
        if (!target.over && target.md) node_.node().unlink(std::move(target.md));
}

}  // namespace ulnet::fuzz
