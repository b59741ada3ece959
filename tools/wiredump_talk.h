// What two nodes say to each other on a TCP connection, as lines: requests, HELLOs, frames with
// their payloads. Both directions are followed for themselves; a capture may begin anywhere between
// two frames. Appends to a text; one thread.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tools/wiredump_formats.h"
#include "tools/wiredump_tcp.h"

namespace ulnet::tools {

struct TalkOptions {
    Printing printing;
    u32 version = sock::version_default;  // of connections whose HELLO is not there
};

// One direction.
class Talk {
 public:
    explicit Talk(const TalkOptions& options) : options_(options) {}
    // `line` begins each line: who to whom. Text goes to `out`.
    void bytes(std::span<const std::byte>, const std::string& line, std::string& out);
    void gap(u64 count, const std::string& line, std::string& out);

 private:
    static constexpr std::size_t payload_kept = 4096;
    enum class Stage : u8 { begin, hello, frames, lost };
    // False: more bytes are needed, or the direction is lost.
    bool step(const std::string& line, std::string& out);
    bool begin(const std::string& line, std::string& out);
    bool hello(const std::string& line, std::string& out);
    bool frame(const std::string& line);
    void payload(std::span<const std::byte>& bytes, std::string& out);
    void end_of_payload(std::string& out);
    void lose(const std::string& line, std::string& out, const std::string& why);
    void drop(std::size_t count) {
        have_.erase(have_.begin(), have_.begin() + static_cast<std::ptrdiff_t>(count));
    }

    const TalkOptions options_;
    Stage stage_ = Stage::begin;
    sock::Framing framing_;
    std::vector<std::byte> have_;     // not yet understood; less than a header
    std::string told_;                // of a message whose payload is not complete
    std::vector<std::byte> payload_;  // its beginning
    std::size_t keep_ = 0, payload_whole_ = 0, payload_left_ = 0;
    bool in_payload_ = false;
};

// All connections of a capture.
class Talks final : public TcpSink {
 public:
    Talks(const TalkOptions& options, std::string& out) : options_(options), out_(out) {}
    void start(u64 time_ns) { start_ns_ = time_ns; }
    void opened(const TcpFlow&) override;
    void bytes(const TcpFlow&, u64 time_ns, std::span<const std::byte>) override;
    void gap(const TcpFlow&, u64 count) override;

 private:
    Talk& talk(const TcpFlow&);
    std::string line(const TcpFlow&, u64 time_ns) const;

    const TalkOptions options_;
    std::string& out_;
    u64 start_ns_ = 0, time_ns_ = 0;
    std::map<std::string, Talk> talks_;
};

// "12.345678 ": seconds between two times.
std::string time_text(u64 start_ns, u64 time_ns);

}  // namespace ulnet::tools
