// A peer made of bare PUTs and buffers, for tests at the level of messages: sends what it is told,
// right or wrong, and shows what comes back.
#pragma once

#include <condition_variable>
#include <deque>
#include <optional>

#include "tests/unit/selftest/rig.h"

namespace ulnet::lst {

// Buffers on a portal of a bare host, and PUTs from it. For the test's own thread.
class Raw {
 public:
    // One thing that happened to a buffer.
    struct Arrival {
        u64 match_bits;
        Event event;
        std::vector<std::byte> bytes;
    };

    explicit Raw(Host& host);
    ~Raw();
    // Posts a buffer of `size` bytes for one message (PUT) on the portal.
    void post(PortalId, u64 match_bits, u32 size, const Nid& from = Nid());
    // Posts bytes that the peer may GET once.
    void offer(u64 match_bits, std::span<const std::byte> bytes, const Nid& from);
    // Sends bytes; does not wait.
    void put(const Nid& to, PortalId, u64 match_bits, std::span<const std::byte> bytes);
    // Fetches bytes; the result arrives under `match_bits`.
    void get(const Nid& to, u64 match_bits, u32 size);
    // The next arrival with these match bits (a PUT, a GET served, a REPLY).
    std::optional<Arrival> next(u64 match_bits, Duration within = std::chrono::seconds(30));
    bool seen(u64 match_bits);

    // Sends a request and waits for its reply; nothing when none comes `within` the time.
    std::optional<Message> ask(const Nid& to, Service, const Message& request,
                               Duration within = std::chrono::seconds(30));

 private:
    struct Buffer;
    static void handler(const Event&);
    void started();
    void run(const std::function<void()>& fn) { run_on(host_.sched(), 0, fn); }

    Host& host_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Arrival> arrivals_;
    std::vector<std::unique_ptr<Buffer>> buffers_;
    u32 live_ = 0;
};

// A request of the type that the body belongs to.
template <class... Parts>
Message request_of(Type type, Order order, u32 features, const Parts&... parts) {
    Header header;
    header.type = static_cast<u32>(type);
    header.features = features;
    Message out;
    encode_message(out, order, header, parts...);
    return out;
}

// Decodes a reply that must be there and of that type.
template <class Body>
Body reply_of(Type type, const std::optional<Message>& reply, u32* features = nullptr) {
    Header header;
    Body body;
    EXPECT_TRUE(reply.has_value());
    if (!reply) return body;
    EXPECT_TRUE(decode_message(*reply, header, body));
    EXPECT_EQ(header.type, reply_type(type));
    EXPECT_EQ(header.version, message_version);
    if (features) *features = header.features;
    return body;
}

}  // namespace ulnet::lst
