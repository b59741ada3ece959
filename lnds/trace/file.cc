// Blocks of pcap-ng, each appended whole.
#include <algorithm>
#include <array>

#include "lnds/trace/trace.h"
#include "lnds/trace/wire.h"

namespace ulnet {
namespace {

using namespace trace;

constexpr u32 snap_pieces_max = 64;  // of a payload in memory; what lies in later ones is cut

// A block put together in place: everything but the bytes of a packet.
class Block {
 public:
    explicit Block(u32 type) : type_(type) { writer_.write(BlockHead{}); }
    template <class T> void write(const T& value) { writer_.write(value); }
    void option(u16 code, std::span<const std::byte> value) {
        writer_.write(OptionHead{code, static_cast<u16>(value.size())});
        for (const std::byte byte : value) writer_.write(static_cast<u8>(byte));
        writer_.zeros(padded(value.size()) - value.size());
    }
    void option(u16 code, std::string_view text) { option(code, std::as_bytes(std::span(text))); }
    template <std::integral T> void option(u16 code, T value) {
        option(code, std::as_bytes(std::span(&value, 1)));
    }
    // Ends a block that is complete in here.
    std::span<const std::byte> end() {
        option(end_of_options, std::string_view());
        close(writer_.size() + sizeof(u32));
        return std::span(bytes_).first(writer_.size());
    }
    // The total length, at both ends.
    void close(std::size_t total) {
        const auto length = static_cast<u32>(total);
        Writer(std::span(bytes_).first(wire_size<BlockHead>())).write(BlockHead{type_, length});
        writer_.write(length);
    }
    std::span<const std::byte> bytes() const { return std::span(bytes_).first(writer_.size()); }
    std::size_t size() const { return writer_.size(); }

 private:
    const u32 type_;
    std::array<std::byte, 256> bytes_;
    Writer writer_{bytes_};
};

iovec piece(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<std::unique_ptr<TraceFile>> TraceFile::open(const TraceOptions& options, std::string& why) {
    auto writer = FileWriter::open(options.path, options.writer, why);
    if (!writer.ok()) return writer.status();
    Block block(section_block);
    block.write(SectionBody{section_magic, 1, 0, ~u64{0}});
    block.option(section_application, "ulnet");
    const iovec part = piece(block.end());
    (*writer)->append({&part, 1}, FileWriter::Room::always);
    return std::unique_ptr<TraceFile>(new TraceFile(options, std::move(*writer)));
}

u32 TraceFile::add_interface(const std::string& name) {
    Block block(interface_block);
    block.write(InterfaceBody{link_type, 0, record_head_bytes + hdr16_bytes + options_.snap});
    block.option(interface_name, std::string_view(name));
    block.option(interface_resolution, nanoseconds);
    const iovec part = piece(block.end());
    const std::lock_guard guard(lock_);
    writer_->append({&part, 1}, FileWriter::Room::always);
    return interfaces_++;
}

bool TraceFile::add(const Packet& packet) {
    constexpr std::array<std::byte, 4> padding{};
    MemView kept = packet.payload;
    kept.len = std::min({kept.len, packet.payload_length, options_.snap});
    std::array<iovec, snap_pieces_max + 4> parts;
    const unsigned pieces = kept.gather(0, std::span(parts).subspan(2, snap_pieces_max));
    std::size_t payload = 0;
    for (unsigned i = 0; i < pieces; ++i) payload += parts[2 + i].iov_len;
    const std::size_t captured = packet.head.size() + payload;

    Block front(packet_block);
    front.write(PacketBody{packet.interface, static_cast<u32>(packet.time_ns >> 32),
                           static_cast<u32>(packet.time_ns), static_cast<u32>(captured),
                           static_cast<u32>(packet.head.size()) + packet.payload_length});
    const std::size_t front_bytes = front.size();
    front.option(packet_flags, packet.flags);
    front.option(end_of_options, std::string_view());
    front.close(front.size() + padded(captured) + sizeof(u32));

    parts[0] = piece(front.bytes().first(front_bytes));
    parts[1] = piece(packet.head);
    std::size_t count = 2 + pieces;
    parts[count++] = piece(std::span(padding).first(padded(captured) - captured));
    parts[count++] = piece(front.bytes().subspan(front_bytes));
    return writer_->append(std::span(parts).first(count));
}

void TraceFile::add_statistics(u32 interface, u64 time_ns, u64 received, u64 dropped) {
    Block block(statistics_block);
    block.write(
        StatisticsBody{interface, static_cast<u32>(time_ns >> 32), static_cast<u32>(time_ns)});
    block.option(statistics_received, received);
    block.option(statistics_dropped, dropped);
    const iovec part = piece(block.end());
    writer_->append({&part, 1}, FileWriter::Room::always);
}

void TraceFile::describe(ctl::Value& out) const {
    constexpr std::string_view states[] = {"writing", "full", "failed"};
    out.set("file", options_.path);
    out.set("state", states[static_cast<std::size_t>(writer_->state())]);
    out.set("bytes", writer_->bytes());
    out.set("snap_length", options_.snap);
}

}  // namespace ulnet
