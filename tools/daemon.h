// A node with its control socket, as lnetd runs it: everything that is started, and ended in the
// reverse order. Used by the main thread only.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpt/threads.h"
#include "lnet/ctl/config.h"
#include "lnet/ctl/server.h"
#include "selftest/selftest.h"
#include "tools/drivers.h"

namespace ulnet::tools {

struct DaemonOptions {
    std::string name, socket;
    ctl::Value config;  // a configuration tree, null = none
    std::string cpu_pattern;
    u32 cpu_npartitions = 0;
    ThreadSchedOptions sched;
    SelftestOptions selftest;
    bool sock_uring = false;
    std::vector<FaultRule> faults;
    std::optional<TraceOptions> trace;
};

class Daemon {
 public:
    explicit Daemon(DaemonOptions options);
    ~Daemon();  // stop() is called when it was not
    // Checks the configuration, then opens everything; when something fails all is closed again.
    Error start();
    // Clients, self test, NIs, threads, in this order. False: something did not end in time.
    bool stop();
    std::vector<Nid> nids();
    // After start(), until stop().
    Node& node() { return *node_; }
    // What the configuration asks for and is not applied; mostly empty.
    const std::string& note() const { return plan_.note; }

 private:
    Error make_lnds();
    Error check_config(const CptTable&);
    Error open_nis();
    Error open_server();

    const DaemonOptions options_;
    ctl::ConfigPlan plan_;
    std::unique_ptr<FaultRules> faults_;
    std::unique_ptr<TraceFile> trace_;
    std::vector<std::unique_ptr<Lnd>> drivers_;
    std::vector<Lnd*> lnds_;
    std::unique_ptr<ThreadSched> sched_;
    ctl::Registry registry_;
    std::unique_ptr<Node> node_;
    std::unique_ptr<Selftest> selftest_;
    std::unique_ptr<ctl::Server> server_;
};

}  // namespace ulnet::tools
