// The log front and the sink for the standard error; the only file that knows spdlog.
#include "cpt/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <string>

namespace ulnet {

namespace {

constexpr std::array<std::string_view, 5> level_names = {"error", "warn", "info", "debug", "trace"};

std::atomic<LogSink*> process_sink{nullptr};

spdlog::level::level_enum spdlog_level(LogLevel level) {
    switch (level) {
    case LogLevel::error:
        return spdlog::level::err;
    case LogLevel::warn:
        return spdlog::level::warn;
    case LogLevel::info:
        return spdlog::level::info;
    case LogLevel::debug:
        return spdlog::level::debug;
    case LogLevel::trace:
        return spdlog::level::trace;
    }
    return spdlog::level::info;
}

class StderrSink final : public LogSink {
 public:
    explicit StderrSink(LogLevel level)
        : LogSink(level), logger_("", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
        logger_.set_level(spdlog::level::trace);
        logger_.set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    }
    void write(LogLevel level, std::string_view line) override {
        logger_.log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
    }

 private:
    spdlog::logger logger_;
};

}  // namespace

std::string_view name_of(LogLevel level) {
    return level_names[static_cast<std::size_t>(level)];
}

bool parse_log_level(std::string_view name, LogLevel& out) {
    for (std::size_t i = 0; i < level_names.size(); ++i) {
        if (level_names[i] != name) continue;
        out = static_cast<LogLevel>(i);
        return true;
    }
    return false;
}

std::unique_ptr<LogSink> make_stderr_sink(LogLevel level) {
    return std::make_unique<StderrSink>(level);
}

void set_log_sink(LogSink* sink) {
    process_sink.store(sink, std::memory_order_release);
}

bool log_enabled(LogLevel level) {
    const LogSink* sink = process_sink.load(std::memory_order_acquire);
    return sink != nullptr && sink->takes(level);
}

void log_line(LogLevel level, std::string_view line) {
    LogSink* sink = process_sink.load(std::memory_order_acquire);
    if (sink == nullptr || !sink->takes(level)) return;
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
    if (std::none_of(line.begin(), line.end(), is_control)) {
        sink->write(level, line);
        return;
    }
    // Bytes from outside must not make a second line or steer a terminal.
    std::string clean(line);
    std::replace_if(clean.begin(), clean.end(), is_control, '?');
    sink->write(level, clean);
}

void LogLimit::log(Instant now, LogLevel level, std::string_view line) {
    if (!log_enabled(level)) return;
    const i64 now_ns = now.time_since_epoch().count();
    i64 window = window_ns_.load(std::memory_order_relaxed);
    if (window == 0 || now_ns - window >= interval_.count()) {
        // Whoever moves the window opens it; the others count in it.
        if (window_ns_.compare_exchange_strong(window, now_ns)) lines_ = 0;
    }
    if (lines_.fetch_add(1) >= burst_) {
        left_out_.fetch_add(1);
        return;
    }
    const u64 left_out = left_out_.exchange(0);
    if (left_out == 0)
        log_line(level, line);
    else
        log_line(level, std::string(line) + " (" + std::to_string(left_out) + " more left out)");
}

}  // namespace ulnet
