// The log front: levels, the process sink, the limit of a call site.
#include "cpt/base/log.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ulnet {
namespace {

class Kept final : public LogSink {
 public:
    explicit Kept(LogLevel level) : LogSink(level) { set_log_sink(this); }
    ~Kept() override { set_log_sink(nullptr); }
    void write(LogLevel level, std::string_view line) override {
        std::lock_guard guard(mutex);
        lines.push_back(std::string(name_of(level)) + " " + std::string(line));
    }
    std::mutex mutex;
    std::vector<std::string> lines;
};

TEST(Log, NothingWithoutASink) {
    EXPECT_FALSE(log_enabled(LogLevel::error));
    log_line(LogLevel::error, "lost");
}

TEST(Log, Levels) {
    Kept sink(LogLevel::warn);
    EXPECT_TRUE(log_enabled(LogLevel::error));
    EXPECT_FALSE(log_enabled(LogLevel::info));
    log_line(LogLevel::info, "quiet");
    log_line(LogLevel::warn, "one");
    sink.set_level(LogLevel::trace);
    log_line(LogLevel::trace, "two");
    EXPECT_EQ(sink.lines, (std::vector<std::string>{"warn one", "trace two"}));
}

TEST(Log, OneLineAnEvent) {
    Kept sink(LogLevel::info);
    log_line(LogLevel::info, "a\nb\x1b[2J");
    EXPECT_EQ(sink.lines, (std::vector<std::string>{"info a?b?[2J"}));
}

TEST(Log, LevelNames) {
    LogLevel level{};
    EXPECT_TRUE(parse_log_level("debug", level));
    EXPECT_EQ(level, LogLevel::debug);
    EXPECT_FALSE(parse_log_level("DEBUG", level));
    EXPECT_FALSE(parse_log_level("", level));
}

TEST(Log, StderrSinkWritesTheLineAsItIs) {
    const auto sink = make_stderr_sink(LogLevel::info);
    testing::internal::CaptureStderr();
    sink->write(LogLevel::warn, "100 {} %n %v");
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find(" warning 100 {} %n %v\n"), std::string::npos) << text;
}

TEST(LogLimit, SaysHowManyWereLeftOut) {
    Kept sink(LogLevel::info);
    LogLimit limit(2, std::chrono::seconds(10));
    const Instant start{std::chrono::hours(1)};
    for (int i = 0; i < 5; ++i) limit.log(start, LogLevel::info, "again");
    limit.log(start + std::chrono::seconds(10), LogLevel::info, "again");
    limit.log(start + std::chrono::seconds(11), LogLevel::info, "again");
    EXPECT_EQ(sink.lines, (std::vector<std::string>{"info again", "info again",
                                                    "info again (3 more left out)", "info again"}));
}

TEST(LogLimit, ManyThreads) {
    Kept sink(LogLevel::info);
    LogLimit limit(10, std::chrono::hours(1));
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (u32 i = 0; i < 100; ++i)
                limit.log(Instant(std::chrono::hours(1)), LogLevel::info, "x");
        });
    for (auto& thread : threads) thread.join();
    EXPECT_GE(sink.lines.size(), 10u);
    EXPECT_LE(sink.lines.size(), 20u);
}

}  // namespace
}  // namespace ulnet
