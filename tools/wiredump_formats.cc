// Texts of single structures; selftest bodies are in wiredump_selftest.cc.
#include "tools/wiredump_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lnds/sock/address.h"
#include "lnds/trace/wire.h"
#include "lnet/lnd.h"
#include "lnet/wire/acceptor.h"
#include "lnet/wire/fields.h"
#include "lnet/wire/ping.h"
#include "lnet/wire/process_id.h"
#include "tools/wiredump_fields.h"
#include "tools/wiredump_selftest.h"

namespace ulnet::tools {
namespace {

constexpr std::array message_names = {"ACK", "PUT", "GET", "REPLY", "HELLO"};
constexpr std::array health_names = {"ok",
                                     "local_interrupt",
                                     "local_dropped",
                                     "local_aborted",
                                     "local_no_route",
                                     "local_error",
                                     "local_timeout",
                                     "remote_error",
                                     "remote_dropped",
                                     "remote_timeout",
                                     "network_timeout"};
constexpr std::size_t nids_shown = 16;

template <class T> T decoded(ByteSpan bytes, Order order) {
    T value{};
    Reader(bytes, order).read(value);
    return value;
}

// The fields of a structure, after a line.
template <class T> void add_fields(std::string& out, ByteSpan bytes, Order order) {
    print_fields(out, decoded<T>(bytes, order));
}

const char* name_of(MsgType type) {
    const auto index = static_cast<std::size_t>(type);
    return index < message_names.size() ? message_names[index] : "?";
}

std::string status_text(int status) {
    return status == 0 ? "ok" : fmt::format("{} ({})", status, Status(status).text());
}

// --- one function a format

std::size_t print_acceptor(std::string& out, ByteSpan bytes, Order, const Printing& printing) {
    const ConnRequestStep step = decode_conn_request(bytes);
    if (step.next != ConnRequestStep::Next::request) return 0;
    out += fmt::format("connection request v{} to {}\n", step.request.version,
                       to_text(step.request.target));
    if (!printing.fields) return step.used;
    if (step.request.version == 1)
        add_fields<acceptor_fields::RequestV1>(out, bytes, step.order);
    else
        add_fields<acceptor_fields::RequestV2>(out, bytes, step.order);
    return step.used;
}

std::size_t print_hello_format(std::string& out, ByteSpan bytes, Order, const Printing& printing) {
    const Result<std::size_t> size = sock::hello_bytes(bytes);
    if (!size.ok() || bytes.size() < *size) return 0;
    const Result<sock::Hello> hello = sock::decode_hello(bytes.first(*size));
    if (!hello.ok()) return 0;
    out += summary(*hello) + "\n";
    if (printing.fields) print_hello(out, bytes, *hello);
    return *size;
}

template <u32 Version>
std::size_t print_frame(std::string& out, ByteSpan bytes, Order order, const Printing& printing) {
    const sock::Framing framing{Version, order};
    const Result<u32> size = sock::frame_bytes(framing, bytes);
    if (!size.ok() || bytes.size() < *size) return 0;
    const Result<sock::Frame> frame = sock::decode_frame(framing, bytes.first(*size));
    if (!frame.ok()) return 0;
    out += frame->lnet ? summary(frame->hdr) : "NOOP";
    if (const Result<sock::ZcAck> ack = sock::zc_ack_of(Version, *frame); ack.ok()) {
        constexpr std::array kinds = {"", " keepalive", " ack of", " ack of", " ack of range"};
        out += kinds[static_cast<std::size_t>(ack->kind)];
        if (ack->kind >= sock::ZcAck::Kind::one) out += fmt::format(" {}", ack->first);
        if (ack->kind >= sock::ZcAck::Kind::two) out += fmt::format(" {}", ack->last);
    }
    out += "\n";
    if (printing.fields) {
        if (Version > 1) print_fields(out, frame->head, "    frame.");
        if (frame->lnet) print_hdr(out, frame->hdr, Version == 4);
    }
    if (!frame->lnet) return *size;
    const ByteSpan rest = bytes.subspan(*size);
    const std::size_t payload = std::min<std::size_t>(rest.size(), frame->hdr.payload_length);
    print_payload(out, rest.first(payload), frame->hdr.payload_length, printing);
    return *size + payload;
}

template <bool Large>
std::size_t print_hdr_format(std::string& out, ByteSpan bytes, Order, const Printing& printing) {
    const Result<Hdr> hdr = Large ? decode_hdr16(bytes) : decode_hdr4(bytes);
    if (!hdr.ok()) return 0;
    out += summary(*hdr) + "\n";
    if (printing.fields) print_hdr(out, *hdr, Large);
    return Large ? hdr16_bytes : hdr4_bytes;
}

std::size_t print_ping(std::string& out, ByteSpan bytes, Order, const Printing& printing) {
    const Result<PingInfo> info = decode_ping(bytes);
    if (!info.ok()) return 0;
    out += fmt::format("ping buffer: features 0x{:x} pid {} sequence {} nids {}{}", info->features,
                       info->pid, info->sequence, info->nis.size(),
                       info->truncated ? " (truncated)" : "");
    for (std::size_t i = 0; i < std::min(info->nis.size(), nids_shown); ++i) {
        const PingInfo::Entry& entry = info->nis[i];
        out += " " + to_text(entry.nid) + (entry.status == ni_status_up ? "" : " (down)");
    }
    out += "\n";
    if (printing.fields) {
        Reader reader(bytes);
        ping_fields::Front front{};
        reader.read(front);
        if (front.magic != ping_magic) reader.set_sender(other(native_order));
        const Order order = reader.sender();
        add_fields<ping_fields::Front>(out, bytes, order);
        for (u32 i = 0; i < info->nis.size() + 1 && reader.remaining() >= ping_fields::entry_bytes;
             ++i) {
            ping_fields::Entry4 entry{};
            reader.read(entry);
            if (i > 0 && (i > info->nis.size() || !info->nis[i - 1].nid.is_nid4())) break;
            print_fields(out, entry, fmt::format("    nis[{}].", i));
        }
        for (std::size_t i = 0; i < info->nis.size(); ++i)
            if (!info->nis[i].nid.is_nid4())
                out += fmt::format("    large: {} status: 0x{:x}\n", to_text(info->nis[i].nid),
                                   info->nis[i].status);
    }
    return bytes.size();
}

std::size_t print_process_ids(std::string& out, ByteSpan bytes, Order order, const Printing&) {
    const Result<std::vector<ProcessId>> ids = decode_process_ids(bytes, order);
    if (!ids.ok() || ids->empty()) return 0;
    out += fmt::format("{} process ids:", ids->size());
    for (const ProcessId& id : *ids) out += " " + to_text(id);
    out += "\n";
    return bytes.size();
}

std::size_t print_record_format(std::string& out, ByteSpan bytes, Order, const Printing& printing) {
    return print_record(out, bytes, printing) ? bytes.size() : 0;
}

std::size_t print_selftest_format(std::string& out, ByteSpan bytes, Order,
                                  const Printing& printing) {
    return print_selftest(out, bytes, printing.fields) ? lst::message_bytes : 0;
}

// --- offsets

template <class... Parts> void offsets_of(std::string& out) {
    std::size_t base = 0;
    ((print_offsets<Parts>(out, base), base += wire_size<Parts>()), ...);
}

template <class Front> void hdr_offsets(std::string& out, std::size_t base) {
    print_offsets<Front>(out, base);
    base += wire_size<Front>();
    print_offsets<hdr_fields::Put>(out, base, "PUT.");
    print_offsets<hdr_fields::Get>(out, base, "GET.");
    print_offsets<WireHandle>(out, base, "REPLY.");
    print_offsets<hdr_fields::Ack>(out, base, "ACK.");
    print_offsets<hdr_fields::Hello>(out, base, "HELLO.");
}
template <class Front> void frame_offsets(std::string& out) {
    print_offsets<sock::FrameHead>(out);
    hdr_offsets<Front>(out, sock::frame_head_bytes);
}

constexpr std::array all_formats = {
    Format{"acceptor", "connection request of TCP networks", print_acceptor,
           [](std::string& out) {
               print_offsets<acceptor_fields::RequestV1>(out, 0, "v1.");
               print_offsets<acceptor_fields::RequestV2>(out, 0, "v2.");
           }},
    Format{"hello", "HELLO of socklnd, versions 1 to 4", print_hello_format,
           [](std::string& out) {
               print_offsets<sock::HelloV1>(out, 0, "v1.");
               print_offsets<sock::HelloV3>(out, 0, "v2-v3.");
               print_offsets<sock::HelloV4>(out, 0, "v4.");
           }},
    Format{"frame-v1", "frame of socklnd version 1", print_frame<1>,
           [](std::string& out) { hdr_offsets<hdr_fields::Front4>(out, 0); }},
    Format{"frame-v2", "frame of socklnd version 2", print_frame<2>,
           frame_offsets<hdr_fields::Front4>},
    Format{"frame-v3", "frame of socklnd version 3", print_frame<3>,
           frame_offsets<hdr_fields::Front4>},
    Format{"frame-v4", "frame of socklnd version 4", print_frame<4>,
           frame_offsets<hdr_fields::Front16>},
    Format{"hdr4", "LNet header with 8-byte NIDs", print_hdr_format<false>,
           [](std::string& out) { hdr_offsets<hdr_fields::Front4>(out, 0); }},
    Format{"hdr16", "LNet header with 20-byte NIDs", print_hdr_format<true>,
           [](std::string& out) { hdr_offsets<hdr_fields::Front16>(out, 0); }},
    Format{"ping", "ping buffer: replies and pushes", print_ping,
           [](std::string& out) {
               print_offsets<ping_fields::Front>(out);
               print_offsets<ping_fields::Entry4>(out, ping_fields::front_bytes, "nis[0].");
           }},
    Format{"selftest", "message of the self test", print_selftest_format, selftest_offsets},
    Format{"process-ids", "list of process ids of the self test", print_process_ids,
           offsets_of<PackedProcessId>},
    Format{"trace", "packet of lnetd --trace", print_record_format,
           [](std::string& out) {
               print_offsets<trace::RecordHead>(out);
               hdr_offsets<hdr_fields::Front16>(out, trace::record_head_bytes);
           }},
};

}  // namespace

std::span<const Format> formats() {
    return all_formats;
}

const Format* find_format(std::string_view name) {
    const auto at = std::ranges::find(all_formats, name, &Format::name);
    return at == all_formats.end() ? nullptr : &*at;
}

std::string summary(const Hdr& hdr) {
    std::string text =
        fmt::format("{} {} > {}", name_of(hdr.type), to_text(ProcessId{hdr.src_nid, hdr.src_pid}),
                    to_text(ProcessId{hdr.dest_nid, hdr.dest_pid}));
    if (hdr.type == MsgType::put || hdr.type == MsgType::get)
        text +=
            fmt::format(" portal {} bits 0x{:x} offset {}", hdr.portal, hdr.match_bits, hdr.offset);
    if (hdr.type == MsgType::put && !hdr.handle.none()) text += " ack wanted";
    if (hdr.type == MsgType::get) text += fmt::format(" sink {}", hdr.sink_length);
    if (hdr.type == MsgType::ack) text += fmt::format(" moved {}", hdr.mlength);
    return text + fmt::format(" length {}", hdr.payload_length);
}

std::string summary(const sock::Hello& hello) {
    const auto type = sock::invert(hello.type) || hello.type == ~0u
                          ? std::string(sock::to_text(static_cast<sock::ConnType>(hello.type)))
                          : fmt::format("type {}", hello.type);
    const std::string to = hello.version == 1 ? "" : " > " + to_text(hello.dst_nid);
    return fmt::format("HELLO v{} {}{} {} incarnation 0x{:x}", hello.version,
                       to_text(ProcessId{hello.src_nid, hello.src_pid}), to, type,
                       hello.src_incarnation);
}

void print_hello(std::string& out, ByteSpan bytes, const sock::Hello& hello) {
    if (hello.version == 1)
        add_fields<sock::HelloV1>(out, bytes, hello.order);
    else if (hello.version == 4)
        add_fields<sock::HelloV4>(out, bytes, hello.order);
    else
        add_fields<sock::HelloV3>(out, bytes, hello.order);
    for (u32 i = 0; i < std::min(hello.nips, sock::hello_ips_max); ++i)
        out += fmt::format("    ips[{}]: {}\n", i,
                           to_text(sock::Endpoint{sock::Address(hello.ips[i]), 0}));
}

// By encoding it again: what the fields list says is then what was there.
void print_hdr(std::string& out, const Hdr& hdr, bool large) {
    std::array<std::byte, hdr16_bytes> bytes{};
    ByteSpan body;
    if (large) {
        encode_hdr16(hdr, bytes);
        add_fields<hdr_fields::Front16>(out, bytes, Order::little);
        body = ByteSpan(bytes).subspan(wire_size<hdr_fields::Front16>());
    } else {
        encode_hdr4(hdr, std::span(bytes).first<hdr4_bytes>());
        add_fields<hdr_fields::Front4>(out, bytes, Order::little);
        body = ByteSpan(bytes).subspan(wire_size<hdr_fields::Front4>());
    }
    switch (hdr.type) {
    case MsgType::put:
        return add_fields<hdr_fields::Put>(out, body, Order::little);
    case MsgType::get:
        return add_fields<hdr_fields::Get>(out, body, Order::little);
    case MsgType::reply:
        return add_fields<WireHandle>(out, body, Order::little);
    case MsgType::ack:
        return add_fields<hdr_fields::Ack>(out, body, Order::little);
    case MsgType::hello:
        return add_fields<hdr_fields::Hello>(out, body, Order::little);
    }
}

void print_payload(std::string& out, ByteSpan bytes, std::size_t whole, const Printing& printing) {
    std::string text;
    if (bytes.size() == whole && print_selftest(text, bytes, printing.fields))
        out += "  " + text;
    else if (print_ping(text, bytes, native_order, printing) > 0)
        out += "  " + text;
}

bool print_record(std::string& out, ByteSpan bytes, const Printing& printing) {
    trace::RecordHead head;
    Reader reader(bytes);
    if (!reader.read(head) || head.version != trace::record_version) return false;
    const std::string peer = to_text(ProcessId{Nid::from_raw(head.peer_nid), head.peer_pid.value});
    const std::string at = to_text(Nid::from_raw(head.ni_nid));
    const auto kind = static_cast<trace::Kind>(head.kind);
    if (kind == trace::Kind::peer_event || kind == trace::Kind::ni_event) {
        constexpr std::array events = {"up", "down", "fatal"};
        const char* const event = head.detail < events.size() ? events[head.detail] : "?";
        out += kind == trace::Kind::ni_event ? fmt::format("{} is {}\n", at, event)
                                             : fmt::format("{} peer {} is {}\n", at, peer, event);
        return true;
    }
    const Result<Hdr> hdr = decode_hdr16(bytes.subspan(trace::record_head_bytes));
    if (!hdr.ok()) return false;
    const bool in = head.direction == static_cast<u8>(trace::Direction::in);
    std::string what;
    switch (kind) {
    case trace::Kind::message:
        what = in ? "arrived" : "sent";
        break;
    case trace::Kind::finished:
        what = std::string(in ? "received" : "finished") + " " + status_text(head.status) +
               (head.status.value == 0 || head.detail >= health_names.size()
                    ? ""
                    : " " + std::string(health_names[head.detail]));
        break;
    case trace::Kind::discarded:
        what = "discarded";
        break;
    case trace::Kind::parked:
        what = "parked";
        break;
    default:
        return false;
    }
    out += fmt::format("{} {} {} {}: {}\n", at, in ? "<" : ">", peer, what, summary(*hdr));
    if (printing.fields) {
        print_fields(out, head, "    record.");
        print_hdr(out, *hdr, true);
    }
    print_payload(out, bytes.subspan(trace::record_head_bytes + hdr16_bytes), head.payload_length,
                  printing);
    return true;
}

}  // namespace ulnet::tools
