// Traffic: see the header.
#include "tests/sim/traffic.h"

#include <algorithm>
#include <bit>

namespace ulnet::sim {

namespace {

constexpr u64 source_pattern(u32 node) {
    return (u64{1} << 40) + node;
}

}  // namespace

struct Traffic::Op {
    explicit Op(Traffic& owner) : traffic(owner) {}
    template <void (Traffic::*Run)(Op&)> struct Step final : Task {
        explicit Step(Op& owner) : op(owner) {}
        ~Step() = default;
        void run() override { (op.traffic.*Run)(op); }
        Op& op;
    };
    template <void (Traffic::*Run)(Op&)> struct Later final : Happening {
        explicit Later(Op& owner) : op(owner) {}
        ~Later() = default;
        void happen() override { (op.traffic.*Run)(op); }
        Op& op;
    };

    Traffic& traffic;
    OpRecord* record = nullptr;
    u64 from_life = 0, to_life = 0;
    PortalId portal = 0;
    u32 offset = 0;  // asked for
    bool meeting = false;
    // The initiator's side.
    std::vector<std::byte>* buffer = nullptr;
    Mem mem;
    Md md;
    // The target's side of a meeting.
    MdOptions options;
    u32 room = 0, threshold = 1;
    std::vector<std::byte>* target_buffer = nullptr;
    Mem target_mem;
    Md target_md;
    MdRecord target;
    bool target_posted = false, target_over = false, finished = false;
    Step<&Traffic::prepare> prepare_task{*this};
    Step<&Traffic::launch> launch_task{*this};
    Step<&Traffic::cancel> cancel_task{*this};
    Step<&Traffic::clean_up> clean_up_task{*this};
    Later<&Traffic::start> start_event{*this};
    Later<&Traffic::post_cancel> cancel_event{*this};
    Later<&Traffic::post_clean_up> clean_up_event{*this};
};

struct Traffic::Rolling {
    explicit Rolling(Traffic& owner) : traffic(owner) {}
    struct Post final : Task {
        explicit Post(Rolling& owner) : rolling(owner) {}
        ~Post() = default;
        void run() override { rolling.traffic.attach_rolling(rolling); }
        Rolling& rolling;
    };
    struct Later final : Timer {
        explicit Later(Rolling& owner) : rolling(owner) {}
        ~Later() = default;
        void fire() override { rolling.traffic.attach_rolling(rolling); }
        Rolling& rolling;
    };
    Traffic& traffic;
    Home* home = nullptr;
    SimNode::Life* life = nullptr;
    PortalId portal = 0;
    std::vector<std::byte> bytes = std::vector<std::byte>(32 * 1024);
    Mem mem{bytes.data(), static_cast<u32>(bytes.size())};
    MdRecord record;
    OrderRecord order;
    Post post{*this};
    Later later{*this};
};

// What one incarnation of a node offers.
struct Traffic::Home {
    Home(Traffic& owner, SimNode& its_node)
        : traffic(owner), node(its_node), life(its_node.life()), source(owner.source_bytes_) {
        fill_pattern(source, source_pattern(node.index()), 0);
    }
    struct Begin final : Task {
        explicit Begin(Home& owner) : home(owner) {}
        ~Begin() = default;
        void run() override { home.begin(); }
        Home& home;
    };
    void begin();
    Traffic& traffic;
    SimNode& node;
    SimNode::Life& life;
    std::vector<std::byte> source;
    Mem source_mem{source.data(), static_cast<u32>(source.size())};
    Md source_md;
    MdRecord source_record;
    bool gone = false, begun = false;
    Begin begin_task{*this};
};

Traffic::Traffic(World& world, Checkers& checkers, const TrafficParams& params)
    : world_(world), checkers_(checkers), engine_(world.engine), params_(params),
      source_bytes_(params.huge_percent > 0
                        ? payload_max
                        : std::min(2 * std::bit_ceil(params.bytes_max), payload_max)) {}

Traffic::~Traffic() {
    engine_.withdraw(generate_);
    for (const auto& op : ops_) {
        engine_.withdraw(op->start_event);
        engine_.withdraw(op->cancel_event);
        engine_.withdraw(op->clean_up_event);
    }
}

bool Traffic::alive(u32 node, u64 life) const {
    SimNode& at = world_.node(node);
    return at.up() && at.life().number == life;
}

std::vector<std::byte>* Traffic::take_buffer(u32 bytes) {
    const auto shelf = static_cast<std::size_t>(std::bit_width(std::max(bytes, 64u) - 1));
    auto& free = free_buffers_[shelf];
    if (free.empty()) {
        buffers_.push_back(std::make_unique<std::vector<std::byte>>(std::size_t{1} << shelf));
        return buffers_.back().get();
    }
    std::vector<std::byte>* const buffer = free.back();
    free.pop_back();
    return buffer;
}

void Traffic::give_buffer(std::vector<std::byte>*& buffer) {
    if (buffer == nullptr) return;
    free_buffers_[static_cast<std::size_t>(std::bit_width(buffer->size() - 1))].push_back(
        std::exchange(buffer, nullptr));
}

// Targets.

void Traffic::node_up(SimNode& node) {
    homes_.push_back(std::make_unique<Home>(*this, node));
    current_.resize(std::max<std::size_t>(current_.size(), node.index() + 1));
    current_[node.index()] = homes_.back().get();
    node.life().sched.post(0, homes_.back()->begin_task);
}

void Traffic::Home::begin() {
    if (life.closing) return;
    Node& at = *life.node;
    CHECK(at.set_lazy(portal_rolling, true).ok());
    CHECK(at.set_lazy(portal_slow, true).ok());
    static constexpr u32 buffers = 3;
    for (u32 i = 0; i < buffers; ++i) traffic.post_rolling(*this, portal_rolling);
    traffic.post_rolling(*this, portal_slow);
    Result<Me> me =
        at.attach(portal_source, {.from = {}, .bits = 0, .ignore = ~u64{0}}, Unlink::with_md);
    if (!me.ok()) return traffic.world_.fail("no ME for the source");
    MdSpec spec;
    spec.mem = &source_mem;
    spec.options = {.get = true, .manage_remote = true, .truncate = true};
    spec.handler = &Traffic::source_event;
    spec.user = this;
    Result<Md> md = at.attach(*me, spec);
    if (!md.ok()) return traffic.world_.fail("no MD for the source");
    source_md = std::move(*md);
    begun = true;
}

bool Traffic::offers(u32 node) const {
    return node < current_.size() && current_[node] != nullptr && current_[node]->begun &&
           world_.node(node).ready();
}

void Traffic::source_event(const Event& event) {
    Home& home = *static_cast<Home*>(event.user);
    Checkers& checkers = home.traffic.checkers_;
    if (!checkers.md_event(home.source_record, event)) return;
    if (event.kind == Event::Kind::get) checkers.target_event(event, {}, OpKind::get);
    checkers.md_event_over(home.source_record);
}

void Traffic::post_rolling(Home& home, PortalId portal) {
    if (rolling_free_.size() <= quarantine) {
        rolling_.push_back(std::make_unique<Rolling>(*this));
        rolling_free_.push_back(rolling_.back().get());
    }
    Rolling& rolling = *rolling_free_.front();
    rolling_free_.pop_front();
    rolling.home = &home;
    rolling.life = &home.life;
    rolling.portal = portal;
    rolling.record = {};
    SimSched& sched = home.life.sched;
    if (portal == portal_slow && chance(engine_.workload, params_.slow_post_percent)) {
        sched.arm(0, rolling.later,
                  sched.now() +
                      between(engine_.workload, Duration{}, std::chrono::milliseconds(50)));
        return;
    }
    sched.post(static_cast<CptId>(engine_.workload.below(sched.cpts().size())), rolling.post);
}

void Traffic::attach_rolling(Rolling& rolling) {
    if (rolling.life->closing) return;
    Node& node = *rolling.life->node;
    const bool first = chance(engine_.workload, 20);
    Result<Me> me =
        node.attach(rolling.portal, {.from = {}, .bits = 0, .ignore = ~u64{0}}, Unlink::with_md,
                    first && !params_.check_order ? Place::before : Place::after);
    if (!me.ok()) {
        if (!rolling.life->closing) world_.fail("no ME for a rolling buffer");
        return;
    }
    MdSpec spec;
    spec.mem = &rolling.mem;
    spec.options = {.put = true, .truncate = chance(engine_.workload, 50), .auto_unlink = true};
    spec.max_size = rolling_max;
    if (chance(engine_.workload, 30))
        spec.threshold = static_cast<u32>(between(engine_.workload, 1, 20));
    spec.handler = [](const Event& event) {
        Rolling& at = *static_cast<Rolling*>(event.user);
        at.traffic.rolling_event(at, event);
    };
    spec.user = &rolling;
    Result<Md> md = node.attach(*me, spec);
    if (!md.ok()) {
        if (!rolling.life->closing) world_.fail("no MD for a rolling buffer");
        return;
    }
    md->release();
}

void Traffic::rolling_event(Rolling& rolling, const Event& event) {
    if (!checkers_.md_event(rolling.record, event)) return;
    if (event.kind == Event::Kind::put) {
        checkers_.target_event(event, std::span(rolling.bytes).subspan(event.offset, event.mlength),
                               OpKind::put);
        if (const OpRecord* op = checkers_.find(event.match_bits);
            op != nullptr && params_.check_order && op->from != op->to &&
            op->bytes <= params_.order_bytes_max)
            rolling.order.add(event.offset, op->from, op->sent_as);
    }
    checkers_.md_event_over(rolling.record);
    if (!event.unlinked) return;
    if (params_.check_order) checkers_.order(rolling.order);
    rolling_free_.push_back(&rolling);
    if (!rolling.life->closing) post_rolling(*rolling.home, rolling.portal);
}

void Traffic::node_gone(SimNode& node) {
    for (const auto& home : homes_) {
        if (&home->life != &node.life()) continue;
        home->gone = true;
        home->begun = false;
        home->source_md.release();
        for (const auto& rolling : rolling_)
            if (rolling->life == &home->life) home->life.sched.cancel(rolling->later);
    }
    const u64 life = node.life().number;
    forget_closed();
    for (Op* op : open_) {
        if (op->record->from == node.index() && op->from_life == life) op->md.release();
        if (op->record->to == node.index() && op->to_life == life) op->target_md.release();
    }
    for (Op* op : open_) {
        const bool initiator = op->record->from == node.index() && op->from_life == life;
        const bool target = op->record->to == node.index() && op->to_life == life;
        if (!op->finished && (initiator || target)) op->record->excused = true;
    }
}

// Operations.

void Traffic::begin_round() {
    CHECK(round_over());
    left_ = params_.operations;
    round_id_ = ops_.size() + 1;
    engine_.schedule(generate_, engine_.now());
}

u32 Traffic::draw_bytes(u32 most) {
    Prng& prng = engine_.workload;
    u64 bytes = 0;
    switch (prng.below(8)) {
    case 0:
        bytes = prng.below(3);
        break;
    case 1:
    case 2:
    case 3:
        bytes = prng.below(512);
        break;
    case 4:
    case 5:
        bytes = prng.below(4097);
        break;
    case 6:
        bytes = most;
        break;
    default:
        bytes = prng.below(u64{most} + 1);
        break;
    }
    if (most > 4096 && chance(prng, params_.huge_percent)) return payload_max;
    return static_cast<u32>(std::min<u64>(bytes, most));
}

void Traffic::generate() {
    Prng& prng = engine_.workload;
    checkers_.check_liveness(params_.liveness);
    if (left_ > 0 && outstanding_ < params_.outstanding_max) {
        const u32 from = static_cast<u32>(prng.below(world_.nodes()));
        const u32 to = static_cast<u32>(prng.below(world_.nodes()));
        if (offers(from) && offers(to)) {
            --left_;
            ++outstanding_;
            ops_.push_back(std::make_unique<Op>(*this));
            Op& op = *ops_.back();
            open_.push_back(&op);
            if (open_.size() > 2 * forget_at_) forget_closed();
            const auto kind = static_cast<OpKind>(prng.below(3));
            op.record = &checkers_.begin(kind, from, to, 0);
            op.from_life = world_.node(from).life().number;
            op.to_life = world_.node(to).life().number;
            plan(op);
        } else {
            ++skipped_;
        }
    }
    const bool idle = left_ == 0;
    const Duration gap =
        idle ? Duration(std::chrono::seconds(1)) : between(prng, Duration{}, params_.gap_max);
    if (left_ > 0 || outstanding_ > 0) engine_.schedule(generate_, engine_.now() + gap);
}

void Traffic::plan(Op& op) {
    Prng& prng = engine_.workload;
    OpRecord& record = *op.record;
    record.cancelled = chance(prng, params_.cancelled_percent);
    const u64 way = prng.below(3);
    if (record.kind == OpKind::get && way > 0) {
        op.portal = portal_source;
        record.bytes = record.fits = draw_bytes(params_.bytes_max);
        op.offset = static_cast<u32>(prng.below(source_bytes_ - record.bytes + 1));
    } else if (record.kind != OpKind::get && way > 0) {
        op.portal = way == 1 ? portal_rolling : portal_slow;
        record.bytes = record.fits = draw_bytes(std::min(rolling_max, params_.bytes_max));
    } else {
        return plan_meeting(op);
    }
    start(op);
}

// An ME and MD for this operation alone, with options of their own.
void Traffic::plan_meeting(Op& op) {
    Prng& prng = engine_.workload;
    OpRecord& record = *op.record;
    op.portal = portal_meeting;
    op.meeting = true;
    record.bytes = record.fits = draw_bytes(params_.bytes_max);
    op.room = record.bytes + (chance(prng, 30) ? static_cast<u32>(prng.below(1000)) : 0);
    op.options = {.put = record.kind != OpKind::get, .get = record.kind == OpKind::get};
    op.options.auto_unlink = chance(prng, 70);
    if (chance(prng, 20)) op.threshold = threshold_infinite;
    if (chance(prng, 10)) op.options.put = op.options.get = true;
    if (chance(prng, 30)) {
        op.options.manage_remote = true;
        op.offset = static_cast<u32>(prng.below(op.room - record.bytes + 1));
    }
    if (chance(prng, 30) && record.bytes > 1) {
        op.options.truncate = true;
        op.room = static_cast<u32>(1 + prng.below(record.bytes));
        op.offset = 0;
        record.fits = std::min(record.bytes, op.room);
    }
    if (chance(prng, params_.refused_percent)) {
        record.refused = true;
        if (record.kind == OpKind::put_ack && chance(prng, 50)) {
            op.options.ack_disable = true;
        } else if (record.bytes > 1) {
            op.options.truncate = false;
            op.options.manage_remote = false;
            op.offset = 0;
            op.room = record.bytes - 1;
            record.fits = 0;
        } else {
            record.refused = false;
        }
    }
    world_.node(record.to).life().sched.post(0, op.prepare_task);
}

// On the target.
void Traffic::prepare(Op& op) {
    OpRecord& record = *op.record;
    SimNode& at = world_.node(record.to);
    if (!alive(record.to, op.to_life) || !at.ready()) return never_started(op);
    op.target_buffer = take_buffer(op.room);
    op.target_mem = Mem(op.target_buffer->data(), op.room);
    if (record.kind == OpKind::get)
        fill_pattern(std::span(*op.target_buffer).first(op.room), source_pattern(record.to), 0);
    Result<Me> me =
        at.node().attach(op.portal, {.from = world_.node(record.from).process(), .bits = record.id},
                         Unlink::with_md);
    if (!me.ok()) return world_.fail("no ME for a meeting");
    MdSpec spec;
    spec.mem = &op.target_mem;
    spec.options = op.options;
    spec.threshold = op.threshold;
    spec.handler = [](const Event& event) {
        Op& its = *static_cast<Op*>(event.user);
        its.traffic.meeting_event(its, event);
    };
    spec.user = &op;
    Result<Md> md = at.node().attach(*me, spec);
    if (!md.ok()) return world_.fail("no MD for a meeting");
    op.target_posted = true;
    op.target_md = std::move(*md);
    engine_.schedule(op.start_event, at.life().sched.now() + world_.model.latency());
}

// Hands it to the initiator.
void Traffic::start(Op& op) {
    if (!alive(op.record->from, op.from_life)) return never_started(op);
    SimSched& sched = world_.node(op.record->from).life().sched;
    sched.post(static_cast<CptId>(engine_.workload.below(sched.cpts().size())), op.launch_task);
}

// On the initiator.
void Traffic::launch(Op& op) {
    OpRecord& record = *op.record;
    SimNode& at = world_.node(record.from);
    if (!alive(record.from, op.from_life) || !at.ready()) return never_started(op);
    op.buffer = take_buffer(record.bytes);
    op.mem = Mem(op.buffer->data(), record.bytes);
    if (record.kind != OpKind::get)
        fill_pattern(std::span(*op.buffer).first(record.bytes), record.id, 0);
    MdSpec spec;
    spec.mem = &op.mem;
    spec.options.auto_unlink = true;
    spec.options.track_response = record.kind != OpKind::put;
    spec.threshold = record.kind == OpKind::put ? 1 : 2;
    spec.handler = [](const Event& event) {
        Op& its = *static_cast<Op*>(event.user);
        its.traffic.op_event(its, event);
    };
    spec.user = &op;
    Result<Md> md = at.node().bind(spec);
    if (!md.ok()) return world_.fail("no MD to send from");
    op.md = std::move(*md);
    checkers_.start(record);
    const ProcessId to = world_.node(record.to).process();
    Status status;
    if (record.kind == OpKind::get) {
        status = at.node().get(
            op.md, {.to = to, .portal = op.portal, .match_bits = record.id, .offset = op.offset});
    } else {
        status = at.node().put(op.md, {.to = to,
                                       .portal = op.portal,
                                       .match_bits = record.id,
                                       .offset = op.offset,
                                       .hdr_data = ~record.id,
                                       .ack = record.kind == OpKind::put_ack ? Ack::yes : Ack::no});
    }
    if (params_.messages_lack && status == Status(-ENOMEM)) {
        at.node().unlink(std::move(op.md));
        return;
    }
    if (!status.ok()) return world_.fail("an operation was refused: " + std::string(status.text()));
    if (!record.cancelled) return;
    engine_.schedule(op.cancel_event,
                     at.life().sched.now() +
                         between(engine_.workload, Duration{}, std::chrono::microseconds(200)));
}

void Traffic::forget_closed() {
    static constexpr std::size_t few = 1024;
    std::erase_if(open_, [](const Op* op) {
        return op->finished && (op->target_over || !op->target_posted);
    });
    forget_at_ = std::max(open_.size(), few);
}

// An end of it went away before it began.
void Traffic::never_started(Op& op) {
    checkers_.never_began(*op.record);
    finish(op);
}

void Traffic::post_cancel(Op& op) {
    if (!alive(op.record->from, op.from_life)) return;
    world_.node(op.record->from).life().sched.post(0, op.cancel_task);
}

void Traffic::cancel(Op& op) {
    if (!alive(op.record->from, op.from_life)) return;
    if (op.md) world_.node(op.record->from).node().unlink(std::move(op.md));
}

void Traffic::op_event(Op& op, const Event& event) {
    OpRecord& record = *op.record;
    const bool meeting_get = op.meeting && record.kind == OpKind::get;
    checkers_.initiator_event(record, event, std::span(*op.buffer).first(record.bytes),
                              source_pattern(record.to),
                              meeting_get && !op.options.manage_remote ? 0 : op.offset);
    if (world_.failed()) return;
    if (event.unlinked) {
        op.md.release();
        finish(op);
        return;
    }
    // No answer will come: the MD is left to us.
    if (event.kind == Event::Kind::send && !event.status.ok() && op.md)
        world_.node(record.from).node().unlink(std::move(op.md));
}

void Traffic::meeting_event(Op& op, const Event& event) {
    if (!checkers_.md_event(op.target, event)) return;
    if (event.kind == Event::Kind::put || event.kind == Event::Kind::get) {
        const bool put = event.kind == Event::Kind::put;
        const auto bytes = std::span(*op.target_buffer).subspan(event.offset, event.mlength);
        checkers_.target_event(event, put ? bytes : std::span<std::byte>{},
                               put ? OpKind::put : OpKind::get);
    }
    checkers_.md_event_over(op.target);
    if (!event.unlinked) return;
    op.target_over = true;
    op.target_md.release();
    give_buffer(op.target_buffer);
}

// The initiator has nothing more to come. What the target still offers goes a little later, since
// the message may be on its way.
void Traffic::finish(Op& op) {
    CHECK(!op.finished);
    op.finished = true;
    --outstanding_;
    give_buffer(op.buffer);
    if (op.target_posted && !op.target_over)
        engine_.schedule(op.clean_up_event, engine_.now() + std::chrono::seconds(1));
}

void Traffic::post_clean_up(Op& op) {
    if (op.target_over || !alive(op.record->to, op.to_life)) return;
    world_.node(op.record->to).life().sched.post(0, op.clean_up_task);
}

void Traffic::clean_up(Op& op) {
    if (op.target_over || !alive(op.record->to, op.to_life)) return;
    if (op.target_md) world_.node(op.record->to).node().unlink(std::move(op.target_md));
}

}  // namespace ulnet::sim
