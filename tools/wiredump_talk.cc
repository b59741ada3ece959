// See the header.
#include "tools/wiredump_talk.h"

#include <fmt/format.h>

#include <algorithm>

#include "lnet/wire/acceptor.h"

namespace ulnet::tools {
namespace {

constexpr std::array frame_formats = {"frame-v1", "frame-v2", "frame-v3", "frame-v4"};

u32 magic_of(std::span<const std::byte> bytes, Order order) {
    u32 magic = 0;
    Reader(bytes, order).read(magic);
    return magic;
}

bool is_frame(u32 type) {
    return type == static_cast<u32>(sock::FrameType::lnet) ||
           type == static_cast<u32>(sock::FrameType::noop);
}

}  // namespace

std::string time_text(u64 start_ns, u64 time_ns) {
    const u64 past = time_ns > start_ns ? time_ns - start_ns : 0;
    return fmt::format("{}.{:06} ", past / 1'000'000'000, past % 1'000'000'000 / 1000);
}

void Talk::lose(const std::string& line, std::string& out, const std::string& why) {
    if (in_payload_) end_of_payload(out);
    out += line + why + "; the rest of this direction is not printed\n";
    stage_ = Stage::lost;
    have_.clear();
}

void Talk::bytes(std::span<const std::byte> bytes, const std::string& line, std::string& out) {
    while (!bytes.empty() && stage_ != Stage::lost) {
        if (in_payload_) {
            payload(bytes, out);
            continue;
        }
        // No more than one header at a time: what is behind it may be payload.
        const std::size_t room =
            std::max<std::size_t>(sock::frame_bytes_max, sock::hello_bytes_max);
        const std::size_t part = std::min(bytes.size(), room - std::min(room, have_.size()));
        have_.insert(have_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
        bytes = bytes.subspan(part);
        while (stage_ != Stage::lost && step(line, out)) {
            if (!in_payload_) continue;
            const std::vector<std::byte> rest = std::move(have_);
            have_.clear();
            std::span<const std::byte> view(rest);
            payload(view, out);
            have_.assign(view.begin(), view.end());
            if (in_payload_) break;
        }
        if (part == 0 && !in_payload_ && stage_ != Stage::lost)
            lose(line, out, "a header without end");
    }
}

bool Talk::step(const std::string& line, std::string& out) {
    if (have_.size() < sizeof(u32)) return false;
    switch (stage_) {
    case Stage::begin:
        return begin(line, out);
    case Stage::hello:
        return hello(line, out);
    case Stage::frames: {
        const Result<u32> need = sock::frame_bytes(framing_, have_);
        if (!need.ok()) {
            lose(line, out, "bytes that are no frame");
            return false;
        }
        if (have_.size() < *need) return false;
        if (frame(line)) return true;
        lose(line, out, "a frame that makes no sense");
        return false;
    }
    case Stage::lost:
        break;
    }
    return false;
}

bool Talk::begin(const std::string& line, std::string& out) {
    for (const Order order : {Order::little, Order::big}) {
        const u32 magic = magic_of(have_, order);
        if (magic == acceptor_magic) {
            const ConnRequestStep step = decode_conn_request(have_);
            if (step.next == ConnRequestStep::Next::more) return false;
            if (step.next != ConnRequestStep::Next::request) {
                lose(line, out, "a connection request of unknown version");
                return false;
            }
            out += line;
            find_format("acceptor")->print(out, have_, order, options_.printing);
            drop(step.used);
            stage_ = Stage::hello;
            return true;
        }
        if (magic == sock::hello_magic || magic == sock::hello_magic_v1) {
            stage_ = Stage::hello;
            return true;
        }
        if (is_frame(magic)) {
            framing_ = {options_.version, order};
            stage_ = Stage::frames;
            return true;
        }
    }
    lose(line, out, "it is not socklnd");
    return false;
}

bool Talk::hello(const std::string& line, std::string& out) {
    const Result<std::size_t> need = sock::hello_bytes(have_);
    if (need.ok() && have_.size() < *need) return false;
    const Result<sock::Hello> decoded =
        need.ok() ? sock::decode_hello(std::span(have_).first(*need)) : need.status();
    if (!decoded.ok()) {
        lose(line, out, "bytes that are no HELLO");
        return false;
    }
    out += line;
    find_format("hello")->print(out, have_, decoded->order, options_.printing);
    framing_ = {decoded->version, decoded->order};
    drop(*need);
    stage_ = Stage::frames;
    return true;
}

// The lines are kept until the payload is complete.
bool Talk::frame(const std::string& line) {
    const Result<u32> need = sock::frame_bytes(framing_, have_);
    const Result<sock::Frame> decoded = sock::decode_frame(framing_, std::span(have_).first(*need));
    if (!decoded.ok()) return false;
    told_ = line;
    const Format* const format = find_format(frame_formats[framing_.version - 1]);
    format->print(told_, std::span(have_).first(*need), framing_.order, options_.printing);
    drop(*need);
    payload_.clear();
    keep_ = payload_kept;
    payload_whole_ = payload_left_ = decoded->lnet ? decoded->hdr.payload_length : 0;
    in_payload_ = true;
    return true;
}

void Talk::payload(std::span<const std::byte>& bytes, std::string& out) {
    const std::size_t part = std::min(bytes.size(), payload_left_);
    const auto kept = bytes.first(std::min(part, keep_ - payload_.size()));
    payload_.insert(payload_.end(), kept.begin(), kept.end());
    payload_left_ -= part;
    bytes = bytes.subspan(part);
    if (payload_left_ == 0) end_of_payload(out);
}

void Talk::end_of_payload(std::string& out) {
    out += told_;
    print_payload(out, payload_, payload_whole_, options_.printing);
    in_payload_ = false;
}

void Talk::gap(u64 count, const std::string& line, std::string& out) {
    if (stage_ == Stage::lost) return;
    if (!in_payload_ || count > payload_left_) {
        lose(line, out, fmt::format("{} bytes are missing", count));
        return;
    }
    payload_left_ -= count;
    keep_ = payload_.size();  // what comes later is not behind what came before
    if (payload_left_ == 0) end_of_payload(out);
}

Talk& Talks::talk(const TcpFlow& flow) {
    const std::string key = sock::to_text(flow.from) + " > " + sock::to_text(flow.to);
    return talks_.try_emplace(key, options_).first->second;
}

std::string Talks::line(const TcpFlow& flow, u64 time_ns) const {
    return time_text(start_ns_, time_ns) + sock::to_text(flow.from) + " > " +
           sock::to_text(flow.to) + " ";
}

void Talks::opened(const TcpFlow& flow) {
    talks_.erase(sock::to_text(flow.from) + " > " + sock::to_text(flow.to));
}

void Talks::bytes(const TcpFlow& flow, u64 time_ns, std::span<const std::byte> bytes) {
    time_ns_ = time_ns;
    talk(flow).bytes(bytes, line(flow, time_ns), out_);
}

void Talks::gap(const TcpFlow& flow, u64 count) {
    talk(flow).gap(count, line(flow, time_ns_), out_);
}

}  // namespace ulnet::tools
