// LNet self test of one Node: the node that others test with, and the console that drives tests.
// Everything is reached through the object `lst` of the registry (docs/wire/selftest.md).
#pragma once

#include <memory>

#include "cpt/sched.h"
#include "lnet/ctl/registry.h"
#include "lnet/lnet.h"

namespace ulnet {

struct SelftestOptions {
    u32 session_timeout_s = 100;  // of sessions on this node; 0 = never
    u32 rpc_timeout_s = 64;       // of an RPC that nobody answers; 0 = never
    u32 workitems = 2048;         // requests of one test service under way at most
    u32 brw_inject_errors = 0;    // BRW transfers of this node's clients that get a wrong byte
    u64 client_bulk_bytes_max = u64{1} << 30;  // data buffers of all test units
    u64 server_bulk_bytes_max = u64{1} << 26;  // data buffers of the BRW service
    u32 ping_interval_ms = 8000;               // how often the console looks after its nodes
};

class Selftest {
 public:
    // From a worker or before start. Registers the commands; posts the service buffers. Node and
    // registry outlive it.
    Selftest(Node&, ctl::Registry&, const SelftestOptions& = {});
    // close() must have completed.
    ~Selftest();
    Selftest(const Selftest&) = delete;
    Selftest& operator=(const Selftest&) = delete;
    // Ends sessions, tests and commands, takes the buffers back, then posts `done`. Any thread,
    // once, before the Node closes.
    void close(Task& done);

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ulnet
