// ThreadSched: starts and ends the workers and sends each call to the CPT it concerns. What happens
// within a CPT is in cpt_workers.cc, cpt_sleep.cc and cpt_pollers.cc.
#include "cpt/threads.h"

#include <pthread.h>
#include <sched.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <random>

#include "cpt/cpt_workers.h"

namespace ulnet {

struct ThreadSched::Impl {
    CptTable table;
    u64 seed = 0;
    Instant started{};
    Drain drain;
    std::vector<std::unique_ptr<CptWorkers>> cpts;
    std::vector<std::unique_ptr<Worker>> workers;
    bool stopped = false;

    explicit Impl(const CptTable& cpt_table) : table(cpt_table) {}
    // The calling worker, if it is one of this Sched.
    Worker* self() const {
        Worker* worker = Worker::current;
        return worker != nullptr && worker->sched == this ? worker : nullptr;
    }
    Worker* self_of(CptId cpt) const {
        Worker* worker = self();
        return worker != nullptr && worker->cpt == cpt ? worker : nullptr;
    }
    bool quiet() const;
};

namespace {

u64 entropy() {
    std::random_device device;
    return u64{device()} << 32 | device();
}

void pin_to(const std::vector<u32>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const u32 cpu : cpus)
        if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    // Refused when none of the CPUs exists here (a table made for tests): the worker then floats.
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void name_thread(CptId cpt, u32 index) {
    char name[16];
    std::snprintf(name, sizeof name, "lnet_%02u_%02u", cpt % 100, index % 100);
    pthread_setname_np(pthread_self(), name);
}

// Workers leave the signals of the process to the thread that started them.
class SignalsBlocked {
 public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
    sigset_t before_;
};

}  // namespace

ThreadSched::ThreadSched(const CptTable& table, const ThreadSchedOptions& options)
    : impl_(std::make_unique<Impl>(table)) {
    Impl& impl = *impl_;
    impl.seed = options.seed != 0 ? options.seed : entropy();
    impl.started = monotonic_now();
    Prng seeds(impl.seed);
    for (CptId cpt = 0; cpt < table.size(); ++cpt) {
        const u32 count = options.workers_per_cpt != 0 ? options.workers_per_cpt
                                                       : static_cast<u32>(table[cpt].cpus.size());
        CHECK(count > 0);
        impl.cpts.push_back(std::make_unique<CptWorkers>(count, options.spin, impl.drain));
        for (u32 index = 0; index < count; ++index) {
            const u32 slot = static_cast<u32>(impl.workers.size());
            impl.workers.push_back(std::make_unique<Worker>(&impl, cpt, slot, index, seeds.next()));
        }
    }
    const SignalsBlocked blocked;
    for (const auto& worker : impl.workers) {
        Worker& self = *worker;
        self.thread = std::thread([&impl, &self, pin = options.pin] {
            name_thread(self.cpt, self.index);
            if (pin) pin_to(impl.table[self.cpt].cpus);
            impl.cpts[self.cpt]->run(self);
        });
    }
}

ThreadSched::~ThreadSched() {
    stop();
}

bool ThreadSched::Impl::quiet() const {
    std::vector<std::unique_lock<std::mutex>> locks;
    for (const auto& cpt : cpts) locks.push_back(cpt->lock());
    for (const auto& cpt : cpts)
        if (!cpt->quiet_locked()) return false;
    return true;
}

void ThreadSched::stop() {
    Impl& impl = *impl_;
    CHECK(impl.self() == nullptr);
    if (impl.stopped) return;
    impl.stopped = true;
    {
        std::unique_lock lock(impl.drain.mutex);
        impl.drain.draining = true;
        impl.drain.changed.wait(lock, [&] { return impl.quiet(); });
    }
    for (const auto& cpt : impl.cpts) cpt->exit();
    for (const auto& worker : impl.workers) worker->thread.join();
}

const CptTable& ThreadSched::cpts() const {
    return impl_->table;
}

void ThreadSched::post(CptId cpt, Task& task) {
    DCHECK(cpt < impl_->cpts.size());
    impl_->cpts[cpt]->post(task, impl_->self_of(cpt));
}

bool ThreadSched::worth_handing_off(CptId cpt, Duration work) const {
    return impl_->cpts[cpt]->worth_handing_off(work, impl_->self_of(cpt));
}

Instant ThreadSched::now() const {
    const Worker* worker = impl_->self();
    return worker != nullptr ? worker->now : monotonic_now();
}

u64 ThreadSched::wall_ns() const {
    return wall_clock_ns();
}

void ThreadSched::arm(CptId cpt, Timer& timer, Instant deadline) {
    // Only then can it be on another wheel: see the contract in sched.h.
    if (timer.cpt_.load(std::memory_order_relaxed) != cpt) {
        cancel(timer);
        timer.cpt_.store(cpt, std::memory_order_relaxed);
    }
    impl_->cpts[cpt]->arm(timer, deadline);
}

bool ThreadSched::cancel(Timer& timer) {
    if (!timer.armed_.load(std::memory_order_acquire)) return false;
    return impl_->cpts[timer.cpt_.load(std::memory_order_relaxed)]->cancel(timer);
}

Prng& ThreadSched::prng() {
    if (Worker* worker = impl_->self()) return worker->prng;
    thread_local Prng outside(entropy());
    return outside;
}

void ThreadSched::add_poller(CptId cpt, Poller& poller) {
    impl_->cpts[cpt]->add_poller(poller);
}

void ThreadSched::remove_poller(CptId cpt, Poller& poller, Task& done) {
    impl_->cpts[cpt]->remove_poller(poller, done);
}

u32 ThreadSched::slots() const {
    return static_cast<u32>(impl_->workers.size()) + 1;
}

u32 ThreadSched::this_slot() const {
    const Worker* worker = impl_->self();
    return worker != nullptr ? worker->slot : slots() - 1;
}

CptId ThreadSched::this_cpt() const {
    const Worker* worker = impl_->self();
    return worker != nullptr ? worker->cpt : 0;
}

std::vector<WorkerStats> ThreadSched::worker_stats() const {
    std::vector<WorkerStats> stats;
    const u64 total_ns = static_cast<u64>((monotonic_now() - impl_->started).count());
    for (const auto& worker : impl_->workers) {
        const auto value = [](const std::atomic<u64>& counter) {
            return counter.load(std::memory_order_relaxed);
        };
        stats.push_back({.cpt = worker->cpt,
                         .worker = worker->index,
                         .busy_ns = value(worker->busy_ns),
                         .total_ns = total_ns,
                         .tasks = value(worker->tasks),
                         .hand_offs = value(worker->hand_offs),
                         .wakeups = value(worker->wakeups)});
    }
    return stats;
}

std::vector<CptStats> ThreadSched::cpt_stats() const {
    std::vector<CptStats> stats;
    for (CptId cpt = 0; cpt < impl_->cpts.size(); ++cpt)
        stats.push_back({.cpt = cpt,
                         .queue_length = impl_->cpts[cpt]->queue_length(),
                         .queue_max = impl_->cpts[cpt]->queue_max()});
    return stats;
}

void run_on(Sched& sched, CptId cpt, const std::function<void()>& fn) {
    CHECK(sched.this_slot() + 1 == sched.slots());
    std::mutex mutex;
    std::condition_variable changed;
    bool finished = false;
    FnTask task([&] {
        fn();
        // Under the lock: the waiter must not destroy the condition while it is being notified.
        std::lock_guard guard(mutex);
        finished = true;
        changed.notify_one();
    });
    sched.post(cpt, task);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return finished; });
}

}  // namespace ulnet
