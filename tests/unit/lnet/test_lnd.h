// A driver in memory that does what the test says: captures what is sent, injects headers and
// payloads, and decides when each message is finished. Any thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "lnet/lnd.h"

namespace ulnet::test {

using Bytes = std::vector<std::byte>;

// One message that the core gave to send().
struct Sent {
    Msg* msg;
    Hdr hdr;
    Bytes payload;
    ProcessId next_hop;
};
// What became of an injected header.
struct Injected {
    Bytes payload;
    Status status;  // of arrived()
    bool parked = false;
    bool received = false;  // receive() was called...
    Msg* into = nullptr;    // ...with this
    u32 len = 0;
    int calls = 0;  // of receive(); more than one is an error
};

// All that was injected; outlives the NIs.
class Records {
 public:
    Injected& add(Bytes payload) {
        const std::lock_guard guard(lock_);
        all_.emplace_back();
        all_.back().payload = std::move(payload);
        return all_.back();
    }
    // Every arrived() that was accepted got exactly one receive().
    bool all_received_once() const {
        const std::lock_guard guard(lock_);
        for (const Injected& each : all_)
            if (each.calls != (each.status.ok() ? 1 : 0)) return false;
        return true;
    }

 private:
    mutable std::mutex lock_;
    std::deque<Injected> all_;
};

class TestNi final : public LndNi {
 public:
    TestNi(const NiConfig& ni_config, LndUp& core, Sched& its_sched, Records& records, bool hold)
        : hold_sends(hold), config(ni_config), up(core), sched_(its_sched), records_(records) {}

    // How messages end: at once by a task, or when the test says.
    std::atomic<bool> hold_sends, hold_receives{false};
    std::atomic<bool> refuse_park{false};

    void send(Msg& msg) override {
        Sent sent{&msg, msg.hdr, Bytes(msg.payload.len), msg.next_hop};
        msg.payload.copy_out(0, sent.payload);
        const bool finish = !hold_sends;
        {
            const std::lock_guard guard(lock_);
            all_.push_back(sent);
            if (!closing_ && !finish) {
                pending_.push_back(&msg);
                return;
            }
        }
        end_later(msg, closing_ ? Status(-ESHUTDOWN) : ok_status);
    }
    void receive(RxToken token, Msg* into, u32 len) override {
        auto& injected = *static_cast<Injected*>(token.driver);
        bool finish = false;
        {
            const std::lock_guard guard(lock_);
            ++injected.calls;
            injected.received = true;
            injected.into = into;
            injected.len = len;
            if (into != nullptr) {
                CHECK(into->payload.len == len);
                CHECK(len <= injected.payload.size());
                into->payload.copy_in(0, std::span(injected.payload).first(len));
                finish = !hold_receives || closing_;
                if (!finish) receiving_.push_back(into);
            }
        }
        if (finish) end_later(*into, closing_ ? Status(-ESHUTDOWN) : ok_status);
    }
    Status park(RxToken token) override {
        if (refuse_park) return Status(-EBUSY);
        const std::lock_guard guard(lock_);
        static_cast<Injected*>(token.driver)->parked = true;
        return ok_status;
    }
    void drop_peer(const Nid&) override {}
    void describe(ctl::Value&) const override {}
    Status tune(std::size_t, i64 value) override {
        tuned.store(value);
        return value == 13 ? Status(-EIO) : ok_status;
    }
    void close(Task& done) override {
        std::vector<Msg*> ended;
        begun();  // none of the endings below is the last one before all of them have begun
        {
            const std::lock_guard guard(lock_);
            closing_ = true;
            done_ = &done;
            ended.assign(pending_.begin(), pending_.end());
            ended.insert(ended.end(), receiving_.begin(), receiving_.end());
            pending_.clear();
            receiving_.clear();
        }
        for (Msg* msg : ended) end_later(*msg, Status(-ESHUTDOWN));
        this->ended();
    }

    // From a worker. The result stays valid as long as the driver.
    Injected& inject(const Hdr& hdr, const ProcessId& from, Bytes payload = {}) {
        Injected& injected = records_.add(std::move(payload));
        injected.status = up.arrived(hdr, from, RxToken{&injected, 0}, {});
        return injected;
    }
    // Ends the message that was sent longest ago and is not ended, as the driver.
    bool finish_one(Status status = ok_status, Health health = Health::ok) {
        Msg* msg;
        {
            const std::lock_guard guard(lock_);
            if (pending_.empty()) return false;
            msg = pending_.front();
            pending_.pop_front();
        }
        up.finished(*msg, status, health);
        return true;
    }
    bool finish_receive(Status status = ok_status, Health health = Health::ok) {
        Msg* msg;
        {
            const std::lock_guard guard(lock_);
            if (receiving_.empty()) return false;
            msg = receiving_.front();
            receiving_.pop_front();
        }
        up.finished(*msg, status, health);
        return true;
    }
    std::size_t sends() const {
        const std::lock_guard guard(lock_);
        return all_.size();
    }
    std::size_t pending() const {
        const std::lock_guard guard(lock_);
        return pending_.size();
    }
    std::size_t receiving() const {
        const std::lock_guard guard(lock_);
        return receiving_.size();
    }
    Sent sent(std::size_t index) const {
        const std::lock_guard guard(lock_);
        CHECK(index < all_.size());
        return all_[index];
    }
    bool all_received_once() const { return records_.all_received_once(); }

    const NiConfig config;
    LndUp& up;
    std::atomic<i64> tuned{0};

 private:
    // Calls finished() from a task, as a driver does that is not in the middle of a call.
    struct Ending final : Task {
        Ending(TestNi& its_ni, Msg& its_msg, Status its_status)
            : ni(its_ni), msg(its_msg), status(its_status) {}
        ~Ending() = default;
        void run() override {
            TestNi& of_ending = ni;
            ni.up.finished(msg, status, Health::ok);
            delete this;
            of_ending.ended();
        }
        TestNi& ni;
        Msg& msg;
        Status status;
    };
    void end_later(Msg& msg, Status status) {
        begun();
        sched_.post(msg.cpt, *new Ending(*this, msg, status));
    }
    void begun() {
        const std::lock_guard guard(lock_);
        ++endings_;
    }
    // Under the lock, so that whoever is not the last touches nothing afterwards.
    void ended() {
        Task* done = nullptr;
        {
            const std::lock_guard guard(lock_);
            if (--endings_ == 0) done = std::exchange(done_, nullptr);
        }
        if (done != nullptr) sched_.post(0, *done);
    }
    Sched& sched_;
    Records& records_;
    std::atomic<bool> closing_{false};
    mutable std::mutex lock_;
    std::vector<Sent> all_;
    std::deque<Msg*> pending_, receiving_;
    u64 endings_ = 0;
    Task* done_ = nullptr;
};

class TestLnd final : public Lnd {
 public:
    explicit TestLnd(NetType type = NetType::tcp) : type_(type) {}
    std::string_view name() const override { return "test"; }
    NetType net_type() const override { return type_; }
    LndCaps caps() const override { return caps_; }
    std::span<const TunableSpec> tunables() const override { return specs_; }
    Result<std::unique_ptr<LndNi>> open(const NiConfig& config, LndUp& up, Sched& sched,
                                        std::string& why) override {
        if (!fail.empty()) {
            why = fail;
            return Status(-EADDRINUSE);
        }
        auto ni = std::make_unique<TestNi>(config, up, sched, records_, hold_sends);
        last = ni.get();
        return std::unique_ptr<LndNi>(std::move(ni));
    }
    LndCaps caps_{.timeout = std::chrono::seconds(50)};
    std::string fail;
    bool hold_sends = true;  // of the NIs that will be opened
    TestNi* last = nullptr;  // of the last open()

 private:
    static constexpr std::string_view words_[] = {"off", "on"};
    static constexpr TunableSpec specs_[] = {
        {"depth", 4, 1, 64, {}, "", true, "how deep"},
        {"mode", 0, 0, 1, words_, "", true, "which mode"},
        {"fixed", 7, 0, 9, {}, "s", false, "not at run time"},
    };
    const NetType type_;
    Records records_;
};

}  // namespace ulnet::test
