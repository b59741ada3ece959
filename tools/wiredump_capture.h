// Reads capture files: pcap of both resolutions and pcap-ng, in either byte order, also a file that
// ends in the middle of a packet. The bytes stay where they are; they outlive the reader and what
// it gives. One thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cpt/base/wire.h"

namespace ulnet::tools {

struct CapturePacket {
    u64 time_ns = 0;  // since 1970
    u32 link_type = 0;
    u32 interface = 0;
    u32 original = 0;  // bytes that it had
    std::span<const std::byte> bytes;
};

struct CaptureInterface {
    u32 link_type = 0;
    std::string name;
    u8 resolution = 6;  // as in pcap-ng
    bool counted = false;
    u64 received = 0, dropped = 0;
};

class CaptureReader {
 public:
    explicit CaptureReader(std::span<const std::byte> file);
    // False: no more, or an error.
    bool next(CapturePacket&);
    // What is wrong with the file; empty: nothing.
    const std::string& error() const { return error_; }
    // Of all sections, in order of coming.
    const std::vector<CaptureInterface>& interfaces() const { return interfaces_; }

 private:
    enum class Kind : u8 { none, pcap, pcapng };
    bool open_pcap();
    bool next_pcap(CapturePacket&);
    bool next_block(CapturePacket&, bool& is_packet);
    bool section(std::span<const std::byte> body);
    bool interface(std::span<const std::byte> body);
    bool packet(std::span<const std::byte> body, CapturePacket&);
    bool simple_packet(std::span<const std::byte> body, CapturePacket&);
    void statistics(std::span<const std::byte> body);
    bool fail(const std::string& why);

    std::span<const std::byte> rest_;
    const std::size_t whole_;
    Kind kind_ = Kind::none;
    Order order_ = native_order;
    u32 nanoseconds_a_tick_ = 1000;  // pcap
    std::vector<CaptureInterface> interfaces_;
    std::size_t first_ = 0;  // interface 0 of this section
    std::string error_;
};

}  // namespace ulnet::tools
