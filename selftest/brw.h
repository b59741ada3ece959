// The BRW service (passive side), and what both sides check of its parameters.
#pragma once

#include "selftest/pattern.h"
#include "selftest/service.h"

namespace ulnet::lst {

struct BrwParams {
    BrwOp op = BrwOp::read;
    Check check = Check::none;
    u32 length = 0;
    u32 offset = 0;  // of the client's data within its first page
};
// What a test may ask of this node: 0 or EINVAL.
u32 brw_params_errno(const BrwParams&);

// Answers requests with data it fills or checks. On workers.
class BrwServer final : public Handler {
 public:
    explicit BrwServer(Context& context)
        : pool_(context.sched, context.options.server_bulk_bytes_max) {}
    void handle(ServerRpc&) override;
    void bulk_done(ServerRpc&, Status) override;
    void buffer_ready(ServerRpc&) override;
    u64 data_bytes(const ServerRpc&) const override;
    // Frees the buffers that are not in use.
    void trim() { pool_.trim(); }

 private:
    void start(ServerRpc&, std::byte* buffer);
    BulkPool pool_;
};

// Answers pings. On workers.
class PingServer final : public Handler {
 public:
    void handle(ServerRpc&) override;
    void bulk_done(ServerRpc&, Status) override {}
    void buffer_ready(ServerRpc&) override {}
};

}  // namespace ulnet::lst
