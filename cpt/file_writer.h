// A file that workers write to without ever waiting: records go into a bounded queue, a thread of
// its own writes them. What finds no room is refused, never waited for. For traces; opened and
// destroyed by a thread outside the Sched (both wait for the disk), append() from anywhere.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "cpt/base/result.h"
#include "cpt/base/types.h"

namespace ulnet {

class FileWriter {
 public:
    struct Options {
        std::size_t queue_bytes = 8u << 20;
        u64 file_bytes = u64{1} << 30;  // records that would go beyond it are refused
    };
    // Makes the file or empties it. `why` gets one sentence when that fails.
    static Result<std::unique_ptr<FileWriter>> open(const std::string& path, const Options&,
                                                    std::string& why);
    // Writes what is queued and closes the file.
    ~FileWriter();
    FileWriter(const FileWriter&) = delete;

    enum class Room : u8 {
        limited,  // refused beyond the limits of queue and file
        always,   // for the few records without which the others cannot be read
    };
    // A record made of parts, whole or not at all: false when it is refused.
    bool append(std::span<const iovec> parts, Room = Room::limited);
    // Bytes accepted since open().
    u64 bytes() const { return bytes_.load(std::memory_order_relaxed); }
    enum class State : u8 { writing, full, failed };  // full: the file has reached its limit
    State state() const { return state_.load(std::memory_order_relaxed); }

 private:
    struct Impl;
    explicit FileWriter(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
    std::atomic<u64> bytes_{0};
    std::atomic<State> state_{State::writing};
};

}  // namespace ulnet
