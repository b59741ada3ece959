// The drivers under test, and where they run.
#include <gtest/gtest.h>
#include <liburing.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "lnds/lo/lo.h"
#ifdef ULNET_WITH_OFI
#include "lnds/ofi/ofi.h"
#include "lnds/ofi/tunables.h"
#endif
#include "lnds/sim/sim_lnd.h"
#include "lnds/sock/sock.h"
#include "tests/lnd/bench.h"
#include "tests/sim/world.h"
#include "tests/unit/sock/harness.h"

namespace ulnet::lnd_test {
namespace {

class ThreadBench final : public Bench {
 public:
    Sched& sched(u32) override { return *sched_; }
    void run(u32, const std::function<void()>& fn) override { run_on(*sched_, 0, fn); }
    bool wait(const std::function<bool()>& condition, Duration time) override {
        const Instant end = sched_->now() + time;
        while (!condition()) {
            if (sched_->now() >= end) return false;
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        return true;
    }

 private:
    const std::unique_ptr<ThreadSched> sched_ = sock::make_sched(1, 2);
};

// Nodes on one virtual clock.
class SimBench final : public Bench {
 public:
    explicit SimBench(sim::Engine& engine) : engine_(engine) {
        for (auto& sched : scheds_)
            sched = std::make_unique<SimSched>(engine, table_, SimSchedOptions{});
    }
    Sched& sched(u32 node) override { return *scheds_[node]; }
    void run(u32 node, const std::function<void()>& fn) override {
        bool over = false;
        FnTask task([&] {
            fn();
            over = true;
        });
        scheds_[node]->post(0, task);
        EXPECT_TRUE(wait([&] { return over; }, patience));
    }
    bool wait(const std::function<bool()>& condition, Duration time) override {
        const Instant limit = engine_.now() + 10 * time;
        while (!condition())
            if (!engine_.step(limit)) return condition();
        return true;
    }

 private:
    sim::Engine& engine_;
    const CptTable table_ = CptTable::single(2);
    std::array<std::unique_ptr<SimSched>, 4> scheds_;
};

NiConfig with_defaults(std::span<const TunableSpec> tunables, const Nid& nid) {
    NiConfig config;
    config.net = nid.net();
    config.nid = nid;
    for (const TunableSpec& spec : tunables) config.tunables.push_back(spec.def);
    return config;
}

class LoSubject final : public Subject {
 public:
    LoSubject() { nodes = 1; }
    Bench& bench() override { return bench_; }
    std::unique_ptr<Lnd> make_lnd() override { return make_lo_lnd(); }
    NiConfig config(u32) override { return with_defaults({}, nid_lo()); }

 private:
    ThreadBench bench_;
};

class SimSubject final : public Subject {
 public:
    Bench& bench() override { return bench_; }
    std::unique_ptr<Lnd> make_lnd() override { return make_sim_lnd(messages_); }
    NiConfig config(u32 node) override {
        return with_defaults(make_lnd()->tunables(), sim::world_nid(10u << 24 | (node + 1), false));
    }

 private:
    sim::Engine engine_{static_cast<u64>(testing::UnitTest::GetInstance()->random_seed()) + 1};
    sim::NetModel model_{engine_};
    sim::MessageNet messages_{model_};
    SimBench bench_{engine_};
};

class SockSubject final : public Subject {
 public:
    explicit SockSubject(sock::SockBackEnd back_end) : back_end_(back_end) {}
    Bench& bench() override { return bench_; }
    std::unique_ptr<Lnd> make_lnd() override { return sock::make_sock_lnd(back_end_); }
    NiConfig config(u32 node) override {
        return sock::ni_config(
            static_cast<u8>(node + 1), port_,
            {{sock::Tunable::min_reconnect_ms, 10}, {sock::Tunable::max_reconnect_ms, 50}});
    }

 private:
    const sock::SockBackEnd back_end_;
    const u16 port_ = sock::free_port();
    ThreadBench bench_;
};

#ifdef ULNET_WITH_OFI
class OfiSubject final : public Subject {
 public:
    explicit OfiSubject(ofi::Provider provider) : provider_(provider) {
        threshold = 3936;
        comes_back = provider != ofi::Provider::shm;
    }
    Bench& bench() override { return bench_; }
    std::unique_ptr<Lnd> make_lnd() override { return ofi::make_ofi_lnd(); }
    NiConfig config(u32 node) override {
        const auto nid = [](u32 number) { return Nid::ipv4(Net::of(NetType::kfi, 0), number + 1); };
        NiConfig config = with_defaults(ofi::tunable_specs(), nid(node));
        const auto set = [&](ofi::Tunable which, i64 value) {
            config.tunables[static_cast<std::size_t>(which)] = value;
        };
        set(ofi::Tunable::provider, static_cast<i64>(provider_));
        set(ofi::Tunable::hello_interval, 20);
        // A message may be lost with a connection that ends; its sender notices by this.
        set(ofi::Tunable::timeout, 3);
        for (u32 each = 0; each < nodes; ++each) {
            const std::string host = "127.0.0." + std::to_string(each + 1) + ":";
            const std::string name = "ulnet-suite-" + std::to_string(::getpid()) + "-";
            config.addresses.emplace_back(nid(each), provider_ == ofi::Provider::shm
                                                         ? name + std::to_string(port_) + "-" +
                                                               std::to_string(each)
                                                         : host + std::to_string(port_));
        }
        return config;
    }

 private:
    const ofi::Provider provider_;
    const u16 port_ = sock::free_port();
    ThreadBench bench_;
};
#endif

// Containers often forbid it.
bool has_io_uring() {
    io_uring ring;
    if (::io_uring_queue_init(4, &ring, 0) != 0) return false;
    ::io_uring_queue_exit(&ring);
    return true;
}

constexpr Maker all[] = {
    {"lo", []() -> std::unique_ptr<Subject> { return std::make_unique<LoSubject>(); }},
    {"sim", []() -> std::unique_ptr<Subject> { return std::make_unique<SimSubject>(); }},
    {"sock_epoll",
     []() -> std::unique_ptr<Subject> {
         return std::make_unique<SockSubject>(sock::SockBackEnd::epoll);
     }},
    {"sock_io_uring",
     []() -> std::unique_ptr<Subject> {
         return std::make_unique<SockSubject>(sock::SockBackEnd::io_uring);
     }},
#ifdef ULNET_WITH_OFI
    {"ofi_tcp",
     []() -> std::unique_ptr<Subject> { return std::make_unique<OfiSubject>(ofi::Provider::tcp); }},
    {"ofi_shm",
     []() -> std::unique_ptr<Subject> { return std::make_unique<OfiSubject>(ofi::Provider::shm); }},
#endif
};

}  // namespace

std::vector<Maker> makers() {
    std::vector<Maker> here;
    for (const Maker& maker : all)
        if (std::string_view(maker.name) != "sock_io_uring" || has_io_uring())
            here.push_back(maker);
    return here;
}

}  // namespace ulnet::lnd_test
