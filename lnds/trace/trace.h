// TraceLnd: records what passes between the core and a driver. For composition roots: open a
// TraceFile, wrap the drivers; the file outlives them and is closed by its destructor.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "cpt/file_writer.h"
#include "lnet/lnd.h"

namespace ulnet {

struct TraceOptions {
    static constexpr u32 snap_default = 256, snap_max = 65536;
    std::string path;
    u32 snap = snap_default;  // bytes of payload that are kept of each message
    FileWriter::Options writer;
};

// A pcap-ng file that any number of NIs write to, from any worker and without waiting.
class TraceFile {
 public:
    static Result<std::unique_ptr<TraceFile>> open(const TraceOptions&, std::string& why);

    struct Packet {
        u32 interface;
        u64 time_ns;                      // since 1970
        u32 flags;                        // which way: trace::flag_inbound...; 0 = neither
        std::span<const std::byte> head;  // our record head and the LNet header
        MemView payload;                  // the first `snap` bytes are kept
        u32 payload_length;               // of the message
    };
    // The number of a new interface.
    u32 add_interface(const std::string& name);
    // False: no room, it is lost.
    bool add(const Packet&);
    void add_statistics(u32 interface, u64 time_ns, u64 received, u64 dropped);
    u32 snap() const { return options_.snap; }
    void describe(ctl::Value&) const;

 private:
    TraceFile(const TraceOptions& options, std::unique_ptr<FileWriter> writer)
        : options_(options), writer_(std::move(writer)) {}
    const TraceOptions options_;
    const std::unique_ptr<FileWriter> writer_;
    std::mutex lock_;  // guards: interfaces_, and that its blocks come in this order
    u32 interfaces_ = 0;
};

// `file` outlives the driver.
std::unique_ptr<Lnd> make_trace_lnd(std::unique_ptr<Lnd> inner, TraceFile& file);

}  // namespace ulnet
