// See the header.
#include "tools/wiredump_dump.h"

#include <fmt/format.h>

#include <cerrno>

#include "lnds/trace/wire.h"
#include "tools/wiredump_capture.h"

namespace ulnet::tools {
namespace {

int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::string statistics_text(const CaptureReader& reader) {
    std::string text;
    for (const CaptureInterface& on : reader.interfaces())
        if (on.counted)
            text += fmt::format("interface {}: {} packets, {} of them dropped\n", on.name,
                                on.received, on.dropped);
    return text;
}

}  // namespace

Error dump_capture(ByteSpan file, const TalkOptions& options,
                   const std::function<void(std::string_view)>& write) {
    std::string out;
    CaptureReader reader(file);
    Talks talks(options, out);
    TcpStreams streams(talks);
    u64 start_ns = 0, others = 0;
    bool first = true;
    for (CapturePacket packet; reader.next(packet);) {
        if (first) start_ns = packet.time_ns;
        if (first) talks.start(start_ns);
        first = false;
        if (packet.link_type == trace::link_type) {
            std::string text;
            if (print_record(text, packet.bytes, options.printing))
                out += time_text(start_ns, packet.time_ns) + text;
            else
                ++others;
        } else if (!streams.packet(packet.link_type, packet.time_ns, packet.bytes)) {
            ++others;
        }
        write(out);
        out.clear();
    }
    streams.end();
    if (others > 0) out += fmt::format("{} packets of another kind\n", others);
    out += statistics_text(reader);
    write(out);
    if (reader.error().empty()) return {};
    return {Status(-EPROTO), reader.error()};
}

Error read_hex(std::string_view text, std::vector<std::byte>& out) {
    out.clear();
    int high = -1;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (high < 0 && c == '0' && i + 1 < text.size() && (text[i + 1] | 0x20) == 'x') {
            ++i;
            continue;
        }
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ':' || c == ',') continue;
        const int digit = digit_of(c);
        if (digit < 0)
            return {Status(-EINVAL), fmt::format("character {} is no hexadecimal digit", i + 1)};
        if (high >= 0) out.push_back(static_cast<std::byte>(high * 16 + digit));
        high = high >= 0 ? -1 : digit;
    }
    if (high >= 0) return {Status(-EINVAL), "the last byte has one digit only"};
    return {};
}

Error dump_as(const Format& format, ByteSpan bytes, Order order, const Printing& printing,
              std::string& out) {
    std::size_t at = 0;
    do {
        const std::size_t used = format.print(out, bytes.subspan(at), order, printing);
        if (used == 0)
            return {Status(-EPROTO), fmt::format("what is at byte {} of {} is no {}", at,
                                                 bytes.size(), format.name)};
        at += used;
    } while (at < bytes.size());
    return {};
}

}  // namespace ulnet::tools
