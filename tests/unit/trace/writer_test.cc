// The file of a trace, byte by byte, and its limits.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "lnds/trace/trace.h"
#include "lnds/trace/wire.h"
#include "tests/golden/golden.h"
#include "tests/unit/trace/files.h"

namespace ulnet {
namespace {

using trace_test::contents;
using trace_test::TemporaryFile;

std::unique_ptr<TraceFile> open_trace(const TemporaryFile& file, u32 snap,
                                      FileWriter::Options limits = {}) {
    std::string why;
    auto trace = TraceFile::open({file.path(), snap, limits}, why);
    EXPECT_TRUE(trace.ok()) << why;
    return std::move(*trace);
}

TEST(TraceFile, Bytes) {
    if (native_order != Order::little) GTEST_FAIL() << "written for a little-endian machine";
    const TemporaryFile file;
    {
        const auto trace = open_trace(file, 5);
        EXPECT_EQ(trace->add_interface("1@tcp"), 0u);
        std::array<std::byte, 7> payload{};
        for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = std::byte(0xa0 + i);
        const Frag frags[] = {{payload.data(), 3}, {payload.data() + 3, 4}};
        const Mem mem(frags);
        const std::array head = {std::byte{1}, std::byte{2}};
        EXPECT_TRUE(
            trace->add({0, 0x1122334455667788, trace::flag_inbound, head, {&mem, 0, 7}, 7}));
        trace->add_statistics(0, 1, 2, 3);
    }
    const std::string wanted =
        // section: magic, version 1.0, unknown length; application; end
        "0a0d0d0a2c0000004d3c2b1a01000000ffffffffffffffff"
        "04000500756c6e6574000000"
        "000000002c000000"
        // interface: link type 147, snap length 5 + 152; name, resolution; end
        "010000002c000000930000009d000000"
        "0200050031407463700000000900010009000000"
        "000000002c000000"
        // packet: interface 0, time, 7 bytes of 9; the bytes, padded; flags; end
        "0600000034000000000000004433221188776655"
        "07000000090000000102a0a1a2a3a4000200040001000000"
        "0000000034000000"
        // statistics: interface, time; received, dropped; end
        "0500000034000000000000000000000001000000"
        "0400080002000000000000000500080003000000000000000000000034000000";
    EXPECT_EQ(golden::hex(contents(file.path())), wanted);
}

TEST(TraceFile, CannotBeOpened) {
    std::string why;
    EXPECT_EQ(TraceFile::open({"/nowhere/at/all", 0, {}}, why).status(), Status(-ENOENT));
    EXPECT_NE(why.find("'/nowhere/at/all' cannot be opened"), std::string::npos) << why;
}

TEST(FileWriter, StopsAtItsLimitAndSaysSo) {
    const TemporaryFile file;
    std::string why;
    std::string data(100, 'x');
    const iovec part{data.data(), data.size()};
    {
        auto writer = FileWriter::open(file.path(), {1 << 20, 1050}, why);
        ASSERT_TRUE(writer.ok()) << why;
        for (int i = 0; i < 10; ++i) EXPECT_TRUE((*writer)->append({&part, 1}));
        EXPECT_EQ((*writer)->state(), FileWriter::State::writing);
        EXPECT_FALSE((*writer)->append({&part, 1}));
        EXPECT_EQ((*writer)->state(), FileWriter::State::full);
        // Once full it stays so: what follows in a trace is not full of holes.
        const iovec little{data.data(), 1};
        EXPECT_FALSE((*writer)->append({&little, 1}));
        EXPECT_TRUE((*writer)->append({&little, 1}, FileWriter::Room::always));
        EXPECT_EQ((*writer)->bytes(), 1001u);
    }
    EXPECT_EQ(contents(file.path()).size(), 1001u);
}

// Nobody waits: what the queue cannot take is refused, whole; what it took is in the file.
TEST(FileWriter, RefusesWhatFindsNoRoom) {
    const TemporaryFile file;
    std::string why;
    auto writer = FileWriter::open(file.path(), {1000, 1 << 30}, why);
    ASSERT_TRUE(writer.ok()) << why;
    std::string big(1001, 'y');
    const iovec part{big.data(), big.size()};
    EXPECT_FALSE((*writer)->append({&part, 1}));
    EXPECT_EQ((*writer)->state(), FileWriter::State::writing);
    std::atomic<u64> taken{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            std::string record(10, static_cast<char>('a' + t));
            const iovec own{record.data(), record.size()};
            for (int i = 0; i < 20000; ++i) taken += (*writer)->append({&own, 1}) ? 1 : 0;
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ((*writer)->bytes(), taken * 10);
    writer->reset();
    const std::vector<std::byte> all = contents(file.path());
    ASSERT_EQ(all.size(), taken * 10);
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], all[i / 10 * 10]);
}

TEST(FileWriter, ADiskThatTakesNoMore) {
    std::string why;
    auto writer = FileWriter::open("/dev/full", {}, why);
    ASSERT_TRUE(writer.ok()) << why;
    std::string data = "z";
    const iovec part{data.data(), 1};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while ((*writer)->append({&part, 1}) && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
    EXPECT_EQ((*writer)->state(), FileWriter::State::failed);
}

}  // namespace
}  // namespace ulnet
