// The bare peer of tests.
#include "tests/unit/selftest/raw.h"

namespace ulnet::lst {

struct Raw::Buffer {
    Raw* raw;
    u64 match_bits;
    std::vector<std::byte> bytes;
    Mem mem;
    Md md;
};

Raw::Raw(Host& host) : host_(host) {}

Raw::~Raw() {
    run([&] {
        for (const auto& buffer : buffers_)
            if (buffer->md) host_.node().unlink(std::move(buffer->md));
    });
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return live_ == 0; }));
}

void Raw::handler(const Event& event) {
    Buffer& buffer = *static_cast<Buffer*>(event.user);
    Raw& raw = *buffer.raw;
    const std::lock_guard lock(raw.mutex_);
    const bool tells = event.kind == Event::Kind::put || event.kind == Event::Kind::get ||
                       event.kind == Event::Kind::reply;
    if (tells) {
        Arrival arrival{buffer.match_bits, event, {}};
        if (event.kind != Event::Kind::get)
            arrival.bytes.assign(buffer.bytes.begin(),
                                 buffer.bytes.begin() + static_cast<i64>(event.mlength));
        raw.arrivals_.push_back(std::move(arrival));
    }
    if (event.unlinked) --raw.live_;
    raw.changed_.notify_all();
}

void Raw::started() {
    const std::lock_guard lock(mutex_);
    ++live_;
}

void Raw::post(PortalId portal, u64 match_bits, u32 size, const Nid& from) {
    buffers_.push_back(std::make_unique<Buffer>());
    Buffer& buffer = *buffers_.back();
    buffer.raw = this;
    buffer.match_bits = match_bits;
    buffer.bytes.resize(size);
    buffer.mem = Mem(buffer.bytes.data(), size);
    started();
    run([&] {
        Result<Me> me = host_.node().attach(
            portal, {.from = {from, from.any() ? pid_any : pid_lustre}, .bits = match_bits},
            Unlink::with_md);
        ASSERT_TRUE(me.ok());
        Result<Md> md = host_.node().attach(*me, {.mem = &buffer.mem,
                                                  .options = {.put = true, .auto_unlink = true},
                                                  .threshold = 1,
                                                  .handler = handler,
                                                  .user = &buffer});
        ASSERT_TRUE(md.ok());
        buffer.md = std::move(*md);
    });
}

void Raw::offer(u64 match_bits, std::span<const std::byte> bytes, const Nid& from) {
    buffers_.push_back(std::make_unique<Buffer>());
    Buffer& buffer = *buffers_.back();
    buffer.raw = this;
    buffer.match_bits = match_bits;
    buffer.bytes.assign(bytes.begin(), bytes.end());
    buffer.mem = Mem(buffer.bytes.data(), static_cast<u32>(bytes.size()));
    started();
    run([&] {
        Result<Me> me = host_.node().attach(
            portal_reply, {.from = {from, pid_lustre}, .bits = match_bits}, Unlink::with_md);
        ASSERT_TRUE(me.ok());
        Result<Md> md = host_.node().attach(*me, {.mem = &buffer.mem,
                                                  .options = {.get = true, .auto_unlink = true},
                                                  .threshold = 1,
                                                  .handler = handler,
                                                  .user = &buffer});
        ASSERT_TRUE(md.ok());
        buffer.md = std::move(*md);
    });
}

void Raw::put(const Nid& to, PortalId portal, u64 match_bits, std::span<const std::byte> bytes) {
    buffers_.push_back(std::make_unique<Buffer>());
    Buffer& buffer = *buffers_.back();
    buffer.raw = this;
    buffer.match_bits = match_bits;
    buffer.bytes.assign(bytes.begin(), bytes.end());
    buffer.mem = Mem(buffer.bytes.data(), static_cast<u32>(bytes.size()));
    started();
    run([&] {
        Result<Md> md = host_.node().bind({.mem = &buffer.mem,
                                           .options = {.auto_unlink = true},
                                           .threshold = 1,
                                           .handler = handler,
                                           .user = &buffer});
        ASSERT_TRUE(md.ok());
        const PutArgs args{.to = {to, pid_lustre}, .portal = portal, .match_bits = match_bits};
        ASSERT_TRUE(host_.node().put(*md, args).ok());
        buffer.md = std::move(*md);
    });
}

void Raw::get(const Nid& to, u64 match_bits, u32 size) {
    buffers_.push_back(std::make_unique<Buffer>());
    Buffer& buffer = *buffers_.back();
    buffer.raw = this;
    buffer.match_bits = match_bits;
    buffer.bytes.resize(size);
    buffer.mem = Mem(buffer.bytes.data(), size);
    started();
    run([&] {
        Result<Md> md = host_.node().bind({.mem = &buffer.mem,
                                           .options = {.auto_unlink = true},
                                           .threshold = 2,
                                           .handler = handler,
                                           .user = &buffer});
        ASSERT_TRUE(md.ok());
        const GetArgs args{
            .to = {to, pid_lustre}, .portal = portal_reply, .match_bits = match_bits};
        ASSERT_TRUE(host_.node().get(*md, args).ok());
        buffer.md = std::move(*md);
    });
}

std::optional<Raw::Arrival> Raw::next(u64 match_bits, Duration within) {
    std::unique_lock lock(mutex_);
    auto found = arrivals_.end();
    changed_.wait_for(lock, within, [&] {
        found = std::find_if(arrivals_.begin(), arrivals_.end(),
                             [&](const Arrival& each) { return each.match_bits == match_bits; });
        return found != arrivals_.end();
    });
    if (found == arrivals_.end()) return std::nullopt;
    Arrival out = std::move(*found);
    arrivals_.erase(found);
    return out;
}

bool Raw::seen(u64 match_bits) {
    const std::lock_guard lock(mutex_);
    return std::any_of(arrivals_.begin(), arrivals_.end(),
                       [&](const Arrival& each) { return each.match_bits == match_bits; });
}

std::optional<Message> Raw::ask(const Nid& to, Service service, const Message& request,
                                Duration within) {
    u64 rpyid = 0;
    Header header;
    if (!decode_message(request, header, rpyid)) {
        ADD_FAILURE() << "not a request";
        return std::nullopt;
    }
    post(portal_reply, rpyid, message_bytes, to);
    put(to, portal_of(service), static_cast<u64>(service), request);
    const std::optional<Arrival> arrival = next(rpyid, within);
    if (!arrival) return std::nullopt;
    EXPECT_EQ(arrival->bytes.size(), message_bytes);
    Message reply{};
    std::copy_n(arrival->bytes.begin(), std::min(arrival->bytes.size(), message_bytes),
                reply.begin());
    return reply;
}

}  // namespace ulnet::lst
