// Test units: what a client of a PING or BRW test does, RPC after RPC.
#include "selftest/test.h"

#include <cstdlib>

namespace ulnet::lst {

// One sequence of RPCs to one destination. Its RPC and its data are made once.
class TestUnit final : private RpcOwner, private Task {
 public:
    TestUnit(TestInstance& test, const ProcessId& to, CptId cpt)
        : test_(test), to_(to), cpt_(cpt), rpc_(test.context_, *this, cpt) {}
    bool allocate(u32 bytes);
    void run_loop() {
        left_ = test_.spec_.loop;
        test_.context_.sched.post(cpt_, *this);
    }
    void abort() { rpc_.abort(Status(-EINTR)); }

 private:
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    void run() override { next(); }
    void rpc_done(ClientRpc&) override;
    void next();
    void send_ping();
    void send_brw();
    bool good_ping() const;
    bool good_brw();
    std::span<std::byte> data() { return {data_.get(), test_.spec_.brw.length}; }

    TestInstance& test_;
    const ProcessId to_;
    const CptId cpt_;
    ClientRpc rpc_;
    std::unique_ptr<std::byte, Free> data_;
    Mem mem_;
    u32 left_ = 0;
    u32 sequence_ = 0;
    bool filled_ = false;     // data to write is in place
    bool corrupted_ = false;  // on purpose
    Instant sent_at_{};
};

bool TestUnit::allocate(u32 bytes) {
    // Untouched pages cost nothing until the unit runs.
    data_.reset(static_cast<std::byte*>(std::calloc(1, bytes)));
    if (data_) mem_ = Mem(data_.get(), bytes, cpt_);
    return data_ != nullptr;
}

void TestUnit::next() {
    if (left_ == 0 || test_.stopping_.load(std::memory_order_seq_cst)) {
        test_.unit_idle();  // the unit may be gone now
        return;
    }
    if (left_ != loop_forever) --left_;
    sent_at_ = test_.context_.sched.now();
    if (test_.spec_.service == Service::brw)
        send_brw();
    else
        send_ping();
}

void TestUnit::send_ping() {
    Context& context = test_.context_;
    const u64 rpyid = context.next_id();
    sequence_ = test_.sequence_.fetch_add(1, std::memory_order_relaxed);
    const u64 wall = context.sched.wall_ns();
    Header header;
    header.type = static_cast<u32>(Type::ping);
    header.features = test_.spec_.features;
    encode_message(rpc_.request, native_order, header,
                   PingRequest{.rpyid = rpyid,
                               .sequence = sequence_,
                               .seconds = wall / 1'000'000'000,
                               .nanoseconds = wall % 1'000'000'000});
    rpc_.start({.to = to_,
                .service = Service::ping,
                .rpyid = rpyid,
                .timeout = context.rpc_timeout(),
                .cancelled = &test_.cancelled_});
}

void TestUnit::send_brw() {
    Context& context = test_.context_;
    const BrwParams& brw = test_.spec_.brw;
    const bool write = brw.op == BrwOp::write;
    if (!write) {
        poison(data(), brw.offset, brw.check);
    } else if (!filled_) {
        fill_pattern(data(), brw.offset, brw.check, native_order);
        filled_ = true;
    }
    corrupted_ = context.inject_error();
    if (corrupted_ && write) data().front() ^= std::byte{1};
    // Discarding is the receiver's own affair; servers that do not know the word would refuse it.
    const Check told = brw.check == Check::discard ? Check::none : brw.check;
    const u64 rpyid = context.next_id();
    const u64 bulkid = context.next_id();
    Header header;
    header.type = static_cast<u32>(Type::brw);
    header.features = test_.spec_.features;
    encode_message(rpc_.request, native_order, header,
                   BrwRequest{.rpyid = rpyid,
                              .bulkid = bulkid,
                              .rw = static_cast<u32>(brw.op),
                              .length = brw.length,
                              .flags = static_cast<u32>(told)});
    rpc_.start({.to = to_,
                .service = Service::brw,
                .bulk = write ? Bulk::source : Bulk::sink,
                .bulk_mem = &mem_,
                .rpyid = rpyid,
                .bulkid = bulkid,
                .timeout = context.rpc_timeout(),
                .cancelled = &test_.cancelled_});
}

bool TestUnit::good_ping() const {
    Header header;
    PingReply body;
    return decode_message(rpc_.reply(), header, body) && body.magic == ping_data_magic &&
           body.sequence == sequence_;
}

bool TestUnit::good_brw() {
    const BrwParams& brw = test_.spec_.brw;
    Header header;
    StatusReply body;
    Result<Order> order = message_order(rpc_.reply());
    if (!order.ok() || !decode_message(rpc_.reply(), header, body) || body.status != 0)
        return false;
    if (rpc_.bulk_bytes() != brw.length) return false;
    if (brw.op == BrwOp::write) return true;
    if (corrupted_) data().front() ^= std::byte{1};
    return check_pattern(data(), brw.offset, brw.check, *order);
}

void TestUnit::rpc_done(ClientRpc&) {
    const bool brw = test_.spec_.service == Service::brw;
    const Duration took = test_.context_.sched.now() - sent_at_;
    const bool good = rpc_.status().ok() && (brw ? good_brw() : good_ping());
    if (brw && corrupted_ && test_.spec_.brw.op == BrwOp::write) data().front() ^= std::byte{1};
    // An RPC that failed because the test is being stopped is nobody's error.
    if (good || rpc_.status().ok() || !test_.stopping_.load(std::memory_order_seq_cst)) {
        test_.record(good, brw ? test_.spec_.brw.length : 0, took);
        if (!good) test_.count_error();
    }
    if (!good && test_.spec_.stop_on_error) left_ = 0;
    next();
}

TestInstance::TestInstance(Context& context, SessionErrors& errors, const TestSpec& spec,
                           std::function<void()> finished)
    : context_(context), errors_(errors), spec_(spec), finished_(std::move(finished)),
      records_(std::make_unique<Record[]>(context.sched.slots())) {}

TestInstance::~TestInstance() {
    CHECK(!running_);
}

u64 TestInstance::data_bytes(const TestSpec& spec, u32 destinations) {
    return spec.service == Service::brw && spec.is_client
               ? u64{spec.brw.length} * spec.concurrency * destinations
               : 0;
}

Status TestInstance::add_units(std::span<const ProcessId> destinations) {
    units_.reserve(destinations.size() * spec_.concurrency);
    for (const ProcessId& to : destinations) {
        for (u32 i = 0; i < spec_.concurrency; ++i) {
            auto unit = std::make_unique<TestUnit>(*this, to, context_.next_cpt());
            if (spec_.service == Service::brw && !unit->allocate(spec_.brw.length))
                return Status(-ENOMEM);
            units_.push_back(std::move(unit));
        }
    }
    return ok_status;
}

void TestInstance::run() {
    if (running_ || units_.empty()) return;
    running_ = true;
    stopping_.store(false);
    cancelled_.store(false);
    active_.store(units());
    context_.hold();
    for (const auto& unit : units_) unit->run_loop();
}

void TestInstance::stop(bool force) {
    if (!running_) return;
    stopping_.store(true, std::memory_order_seq_cst);
    if (!force) return;
    cancelled_.store(true, std::memory_order_seq_cst);
    for (const auto& unit : units_) unit->abort();
}

u32 TestInstance::active() const {
    return running_ ? std::max(1u, active_.load(std::memory_order_relaxed)) : 0;
}

// The last one to come here is the only one that still knows that the instance lives.
void TestInstance::unit_idle() {
    Context& context = context_;
    if (active_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    context.control([this] {
        Context& held = context_;
        running_ = false;
        const std::function<void()> finished = finished_;
        finished();  // may destroy this
        held.release();
    });
}

void TestInstance::record(bool good, u64 bytes, Duration latency) {
    Record& mine = records_[context_.sched.this_slot()];
    const std::lock_guard lock(mine.mutex);
    if (good) {
        ++mine.totals.rpcs;
        mine.totals.bytes += bytes;
        mine.totals.latency.add(latency);
    } else {
        ++mine.totals.errors;
    }
}

void TestInstance::count_error() {
    (spec_.service == Service::brw ? errors_.brw : errors_.ping)
        .fetch_add(1, std::memory_order_relaxed);
}

TestTotals TestInstance::totals() const {
    TestTotals sum;
    for (u32 slot = 0; slot < context_.sched.slots(); ++slot) {
        const Record& record = records_[slot];
        const std::lock_guard lock(record.mutex);
        sum.rpcs += record.totals.rpcs;
        sum.bytes += record.totals.bytes;
        sum.errors += record.totals.errors;
        sum.latency.merge(record.totals.latency);
    }
    return sum;
}

}  // namespace ulnet::lst
