// The front of logging: one line an event, a level, and a limit for call sites that could repeat.
// Not for the hot path. Text is put together by the caller, who asks log_enabled() first when that
// is costly. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "cpt/base/types.h"

namespace ulnet {

enum class LogLevel : u8 { error, warn, info, debug, trace };
std::string_view name_of(LogLevel);
// False when there is no level of that name.
bool parse_log_level(std::string_view name, LogLevel& out);

class LogSink {
 public:
    explicit LogSink(LogLevel level) : level_(level) {}
    virtual ~LogSink() = default;
    LogSink(const LogSink&) = delete;
    LogSink& operator=(const LogSink&) = delete;
    // A line without its end. Called from any thread, also at the same time.
    virtual void write(LogLevel level, std::string_view line) = 0;
    bool takes(LogLevel level) const { return level <= level_.load(std::memory_order_relaxed); }
    void set_level(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

 private:
    std::atomic<LogLevel> level_;
};

// Time, level, line on the standard error.
std::unique_ptr<LogSink> make_stderr_sink(LogLevel level);

// The sink of the process, set by tools when they start and reset before it goes; the single
// exception from "no globals". None at first: then nothing is logged.
void set_log_sink(LogSink* sink);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view line);

// The limit of one call site, kept by the object that logs: `burst` lines each `interval`; the next
// line let through says how many were left out.
class LogLimit {
 public:
    explicit LogLimit(u32 burst = 10, Duration interval = std::chrono::seconds(10))
        : burst_(burst), interval_(interval) {}
    void log(Instant now, LogLevel level, std::string_view line);

 private:
    const u32 burst_;
    const Duration interval_;
    std::atomic<i64> window_ns_{0};  // when the current interval began; 0 = never
    std::atomic<u32> lines_{0};      // in the current interval
    std::atomic<u64> left_out_{0};
};

}  // namespace ulnet
