// The program `sim`: runs seeds in child processes, prints a line for each that fails with the
// command that replays it, and ends with "N passed, N failed, N skipped".
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <vector>

#include "tests/sim/scenarios.h"

namespace {

using namespace ulnet;
using namespace ulnet::sim;

struct Options {
    u64 seeds = 10, from = 1, operations = 0;
    std::string scenario = "swarm";
    u32 nodes = 0, jobs = 1;
    bool trace = false, twice = false, verbose = false, hashes = false;
};

std::string replay_command(const Options& options, u64 seed) {
    std::string command = "sim --seed " + std::to_string(seed);
    if (options.scenario != "swarm") command += " --scenario " + options.scenario;
    if (options.nodes > 0) command += " --nodes " + std::to_string(options.nodes);
    if (options.operations > 0) command += " --operations " + std::to_string(options.operations);
    if (options.twice) command += " --twice";
    return command;
}

double cpu_seconds() {
    timespec spec{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spec);
    return static_cast<double>(spec.tv_sec) + static_cast<double>(spec.tv_nsec) * 1e-9;
}

// One seed in this process. True: passed.
bool run_seed(const Options& options, u64 seed) {
    Plan plan = make_plan(*find_scenario(options.scenario), seed, options.nodes);
    if (options.operations > 0) plan.traffic.operations = options.operations;
    const double begin = cpu_seconds();
    Outcome outcome = run(seed, plan, options.trace ? stderr : nullptr);
    const double spent = cpu_seconds() - begin;
    if (outcome.failure.empty() && options.twice) {
        const Outcome again = run(seed, plan);
        if (again.hash != outcome.hash || again.events != outcome.events)
            outcome.failure = "the second run differs from the first";
    }
    if (!outcome.failure.empty())
        std::printf("FAILED %s: %s (%s)\n", replay_command(options, seed).c_str(),
                    outcome.failure.c_str(), to_text(plan).c_str());
    if (options.hashes)
        std::printf("seed %llu hash %016llx\n", static_cast<unsigned long long>(seed),
                    static_cast<unsigned long long>(outcome.hash));
    if (options.verbose)
        std::printf("seed %llu: %s; %llu operations, %llu succeeded, %llu faults, %llu events, "
                    "%llu messages, %llu bytes, %.3f s virtual, %.3f s CPU\n",
                    static_cast<unsigned long long>(seed), to_text(plan).c_str(),
                    static_cast<unsigned long long>(outcome.operations),
                    static_cast<unsigned long long>(outcome.succeeded),
                    static_cast<unsigned long long>(outcome.faults),
                    static_cast<unsigned long long>(outcome.events),
                    static_cast<unsigned long long>(outcome.messages),
                    static_cast<unsigned long long>(outcome.bytes),
                    std::chrono::duration<double>(outcome.virtual_time).count(), spent);
    std::fflush(stdout);
    return outcome.failure.empty();
}

// A child process that runs every jobs-th seed and reports each by a record on a pipe.
struct Report {
    u64 seed;
    u32 done, passed;  // done 0: begins
};
struct Child {
    pid_t process = 0;
    int pipe = -1;
    u64 next = 0;  // the seed it runs, or runs next
    bool running = false;
};

void child_main(const Options& options, u64 first, int out) {
    for (u64 seed = first; seed < options.from + options.seeds; seed += options.jobs) {
        Report report{seed, 0, 0};
        if (write(out, &report, sizeof report) != sizeof report) _exit(1);
        report.passed = run_seed(options, seed) ? 1 : 0;
        report.done = 1;
        if (write(out, &report, sizeof report) != sizeof report) _exit(1);
    }
    _exit(0);
}

bool spawn(const Options& options, Child& child) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    std::fflush(stdout);
    child.process = fork();
    if (child.process < 0) return false;
    if (child.process == 0) {
        close(ends[0]);
        child_main(options, child.next, ends[1]);
    }
    close(ends[1]);
    child.pipe = ends[0];
    child.running = true;
    return true;
}

class Parent {
 public:
    explicit Parent(const Options& options) : options_(options), children_(options.jobs) {}
    int run() {
        for (u32 i = 0; i < options_.jobs; ++i) {
            children_[i].next = options_.from + i;
            start(children_[i]);
        }
        std::vector<pollfd> fds;
        for (;;) {
            fds.clear();
            for (const Child& child : children_)
                if (child.running) fds.push_back({child.pipe, POLLIN, 0});
            if (fds.empty()) break;
            const int ready = ::poll(fds.data(), fds.size(), seed_limit_ms);
            if (ready < 0 && errno != EINTR) return 2;
            if (ready == 0) end_stuck();
            for (Child& child : children_)
                for (const pollfd& fd : fds)
                    if (child.running && fd.fd == child.pipe && fd.revents != 0) hear(child);
        }
        std::printf("%llu passed, %llu failed, 0 skipped\n",
                    static_cast<unsigned long long>(passed_),
                    static_cast<unsigned long long>(failed_));
        return failed_ == 0 ? 0 : 1;
    }

 private:
    // No seed takes a second; one that does not end at all is stuck at one instant.
    static constexpr int seed_limit_ms = 120'000;

    void end_stuck() {
        for (const Child& child : children_)
            if (child.running) kill(child.process, SIGKILL);
    }
    void start(Child& child) {
        if (child.next >= options_.from + options_.seeds) return;
        if (!spawn(options_, child)) {
            std::perror("sim: cannot start a process");
            std::exit(2);
        }
    }
    void hear(Child& child) {
        Report report{};
        if (read(child.pipe, &report, sizeof report) == sizeof report) {
            if (report.done == 0) {
                child.next = report.seed;
                return;
            }
            ++(report.passed != 0 ? passed_ : failed_);
            child.next = report.seed + options_.jobs;
            return;
        }
        close(child.pipe);
        child.running = false;
        int status = 0;
        waitpid(child.process, &status, 0);
        if (child.next >= options_.from + options_.seeds) return;
        // It died within this seed.
        std::printf("FAILED %s: the process died (%s %d)\n",
                    replay_command(options_, child.next).c_str(),
                    WIFSIGNALED(status) ? "signal" : "exit code",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        ++failed_;
        child.next += options_.jobs;
        start(child);
    }

    const Options options_;
    std::vector<Child> children_;
    u64 passed_ = 0, failed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Options options;
    u64 seed = 0;
    CLI::App app("Runs ulnet's core and drivers in a simulated world, one seed after the other.");
    app.add_option("--seeds", options.seeds, "how many seeds")->capture_default_str();
    app.add_option("--from", options.from, "the first seed")->capture_default_str();
    auto* one = app.add_option("--seed", seed, "one seed, in this process, with its figures");
    std::string names;
    for (const Scenario& scenario : scenarios())
        names += "\n  " + std::string(scenario.name) + ": " + std::string(scenario.help);
    app.add_option("--scenario", options.scenario, "what to run:" + names)->capture_default_str();
    app.add_option("--nodes", options.nodes, "nodes, 0 = as the seed draws");
    app.add_option("--operations", options.operations, "of a round, 0 = as the scenario says");
    app.add_option("--jobs", options.jobs, "processes")->check(CLI::Range(1, 256));
    app.add_flag("--twice", options.twice, "each seed twice, and the traces must be equal");
    app.add_flag("--verbose", options.verbose, "figures of each seed");
    app.add_flag("--trace", options.trace, "what happens, as text on stderr");
    app.add_flag("--hashes", options.hashes, "prints each seed's trace hash");
    CLI11_PARSE(app, argc, argv);
    if (find_scenario(options.scenario) == nullptr) {
        std::fprintf(stderr, "sim: --scenario %s: one of%s\n", options.scenario.c_str(),
                     names.c_str());
        return 2;
    }
    if (one->count() > 0) {
        options.verbose = true;
        const bool passed = run_seed(options, seed);
        std::printf("%d passed, %d failed, 0 skipped\n", passed ? 1 : 0, passed ? 0 : 1);
        return passed ? 0 : 1;
    }
    return Parent(options).run();
}
