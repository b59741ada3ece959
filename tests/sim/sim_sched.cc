// SimSched: virtual workers on the engine's one thread.
#include "tests/sim/sim_sched.h"

#include <algorithm>

namespace ulnet {

using sim::Trace;

namespace {

constexpr bool pollers_simulated = false;

}  // namespace

SimSched::SimSched(sim::Engine& engine, const CptTable& table, const SimSchedOptions& options)
    : engine_(engine), table_(table), options_(options), index_(engine.enter(*this)),
      prng_(engine.scheduling.next()) {
    CHECK(table.size() < 1u << cpt_bits);
    CHECK(options.workers_per_cpt > 0);
    CHECK(options.window > 0);
    for (CptId cpt = 0; cpt < table.size(); ++cpt) {
        queues_.push_back(std::make_unique<Queue>());
        queues_[cpt]->idle_workers = options.workers_per_cpt;
        for (u32 i = 0; i < options.workers_per_cpt; ++i)
            workers_.push_back(std::make_unique<Worker>(*this, cpt));
    }
    running_ = static_cast<u32>(workers_.size());
}

SimSched::~SimSched() {
    CHECK(idle());
    for (const auto& queue : queues_) CHECK(queue->due.empty());
    // Workers that were woken and found nothing to do yet.
    for (const auto& worker : workers_) engine_.withdraw(*worker);
    engine_.leave(index_);
}

void SimSched::post(CptId cpt, Task& task) {
    CHECK(cpt < queues_.size());
    CHECK(!task.linked());
    if (running_ + 1 == slots()) {
        enqueue(cpt, task);
    } else {
        posted_.push_back({&task, cpt, spent_});
    }
}

bool SimSched::worth_handing_off(CptId cpt, Duration work) const {
    static constexpr Duration wake_up{10'000};
    if (queues_[cpt]->idle_workers == 0) return false;
    return work > wake_up || sim::chance(prng_, options_.hand_off_percent);
}

u64 SimSched::wall_ns() const {
    return options_.wall_ns + static_cast<u64>((now().time_since_epoch() + wall_offset_).count());
}

void SimSched::arm(CptId cpt, Timer& timer, Instant deadline) {
    CHECK(cpt < queues_.size());
    cancel(timer);
    timer.cpt_.store(index_ << cpt_bits | cpt, std::memory_order_relaxed);
    engine_.arm(timer, deadline);
}

// An expired timer that has not fired yet is on the due list of its CPT, marked by a deadline that
// no armed timer has.
bool SimSched::cancel(Timer& timer) {
    if (!timer.armed_.load(std::memory_order_relaxed)) return false;
    CHECK(sched_of(timer) == index_);
    if (timer.deadline_ != Instant::min()) return engine_.cancel(timer);
    const CptId cpt = timer.cpt_.load(std::memory_order_relaxed) & ((1u << cpt_bits) - 1);
    queues_[cpt]->due.remove(timer);
    timer.armed_.store(false, std::memory_order_relaxed);
    --queued_;
    return true;
}

void SimSched::expired(Timer& timer) {
    const CptId cpt = timer.cpt_.load(std::memory_order_relaxed) & ((1u << cpt_bits) - 1);
    timer.deadline_ = Instant::min();
    timer.armed_.store(true, std::memory_order_relaxed);
    queues_[cpt]->due.push_back(timer);
    ++queued_;
    kick(cpt);
}

void SimSched::add_poller(CptId, Poller&) {
    CHECK(pollers_simulated);
}
void SimSched::remove_poller(CptId, Poller&, Task&) {
    CHECK(pollers_simulated);
}

void SimSched::charge(Duration time) {
    if (running_ + 1 != slots()) spent_ += time;
}

void SimSched::pause() {
    paused_ = true;
}

void SimSched::resume() {
    paused_ = false;
    for (CptId cpt = 0; cpt < queues_.size(); ++cpt)
        for (u32 i = 0; i < options_.workers_per_cpt; ++i) kick(cpt);
}

std::vector<Duration> SimSched::busy() const {
    std::vector<Duration> all;
    for (const auto& worker : workers_) all.push_back(worker->busy);
    return all;
}

void SimSched::enqueue(CptId cpt, Task& task) {
    CHECK(!task.linked());
    queues_[cpt]->tasks.push_back(task);
    ++queued_;
    kick(cpt);
}

// Wakes an idle worker, when there is one and it has something to do.
void SimSched::kick(CptId cpt) {
    Queue& queue = *queues_[cpt];
    if (queue.idle_workers == 0 || paused_ || (queue.tasks.empty() && queue.due.empty())) return;
    const u32 first = cpt * options_.workers_per_cpt;
    for (u32 i = first; i < first + options_.workers_per_cpt; ++i) {
        Worker& worker = *workers_[i];
        if (!worker.idle) continue;
        worker.idle = false;
        --queue.idle_workers;
        engine_.schedule(worker,
                         engine_.now() + sim::between(prng_, Duration{}, options_.wake_up_max));
        return;
    }
}

// A worker has come or has ended its task: it takes the next one.
void SimSched::turn(Worker& worker) {
    release_tail(worker);
    Queue& queue = *queues_[worker.cpt];
    const u32 outside = slots() - 1;
    if (paused_ || (queue.due.empty() && queue.tasks.empty())) {
        worker.idle = true;
        ++queue.idle_workers;
        return;
    }
    running_ = worker.cpt * options_.workers_per_cpt;
    while (workers_[running_].get() != &worker) ++running_;
    spent_ = options_.task_cost + sim::between(prng_, Duration{}, options_.task_cost_spread);
    --queued_;
    ++tasks_run_;
    ++busy_;
    run_one(queue);
    --busy_;
    const Duration spent = std::exchange(spent_, Duration{});
    running_ = outside;
    worker.busy += spent;
    engine_.schedule(worker, engine_.now() + spent);
    flush(worker, spent);
    kick(worker.cpt);  // what this worker leaves
}

void SimSched::run_one(Queue& queue) {
    if (!queue.due.empty() && (queue.tasks.empty() || sim::chance(prng_, 75))) {
        Timer& timer = *queue.due.pop_front();
        timer.armed_.store(false, std::memory_order_relaxed);
        engine_.trace(Trace::timer, index_, running_);
        timer.fire();
        return;
    }
    Task& task = choose(queue.tasks);
    engine_.trace(Trace::task, index_, running_);
    task.run();
}

Task& SimSched::choose(List<Task>& tasks) {
    const u64 window = std::min<u64>(options_.window, tasks.size());
    auto at = tasks.begin();
    if (window > 1)
        for (u64 skip = prng_.below(window); skip > 0; --skip) ++at;
    Task& task = *at;
    tasks.remove(task);
    return task;
}

// The posts of the task that has just run.
void SimSched::flush(Worker& worker, Duration spent) {
    for (const Posted& post : posted_) {
        ++staged_;
        if (post.at == spent) {
            worker.tail.push_back(post);
            continue;
        }
        if (free_stages_.empty()) {
            stages_.push_back(std::make_unique<Staged>(*this));
            free_stages_.push_back(stages_.back().get());
        }
        Staged& stage = *free_stages_.back();
        free_stages_.pop_back();
        stage.task = post.task;
        stage.cpt = post.cpt;
        engine_.schedule(stage, engine_.now() + post.at);
    }
    posted_.clear();
}

// What its last task posted at its end, which this worker would be the first to see.
void SimSched::release_tail(Worker& worker) {
    for (const Posted& post : worker.tail) {
        --staged_;
        if (post.cpt != worker.cpt) {
            enqueue(post.cpt, *post.task);
            continue;
        }
        CHECK(!post.task->linked());
        queues_[post.cpt]->tasks.push_back(*post.task);
        ++queued_;
    }
    worker.tail.clear();
}

void SimSched::release(Staged& stage) {
    Task& task = *stage.task;
    free_stages_.push_back(&stage);
    --staged_;
    enqueue(stage.cpt, task);
}

}  // namespace ulnet
