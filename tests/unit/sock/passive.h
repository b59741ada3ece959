// A node that a scripted peer connects to: what the tests of the passive side share.
#pragma once

#include <gtest/gtest.h>

#include "tests/unit/sock/harness.h"

namespace ulnet::sock {

// What a peer of a version reads and writes.
struct Speaker {
    u32 version;
    Order order = native_order;  // of what the peer sends

    Bytes frame(const Frame& made) const { return frame_of(made, order, version); }
    // The next frame of the driver, whose order is ours.
    Frame read(RawConn& conn) const {
        const Framing framing{version, native_order};
        Bytes bytes;
        for (;;) {
            const Result<u32> need = frame_bytes(framing, bytes);
            if (!need.ok() || bytes.size() >= *need) break;
            const Bytes more = conn.read(*need - bytes.size());
            if (more.empty()) break;
            bytes = bytes + more;
        }
        const Result<Frame> made = decode_frame(framing, bytes);
        EXPECT_TRUE(made.ok()) << bytes.size() << " bytes";
        return made.ok() ? *made : Frame{};
    }
};

class Passive : public testing::Test {
 protected:
    void make(Settings settings = {}) {
        node = std::make_unique<TestNode>(*sched, u8{2}, port, std::move(settings));
    }
    RawConn raw(u8 from = 1) { return RawConn::to(from, 2, port); }
    // After the acceptor's request.
    RawConn requested(u8 from = 1) {
        RawConn conn = raw(from);
        EXPECT_TRUE(conn.send(request_to(node->nid())));
        return conn;
    }
    RawConn open(ConnType type, u8 from = 1, u64 incarnation = 77) {
        Hello answer;
        RawConn conn = open_conn(from, *node, port, type, answer, incarnation);
        EXPECT_EQ(invert(answer.type), type);
        return conn;
    }
    // The driver still serves others.
    void expect_alive() {
        RawConn conn = open(ConnType::control, 200);
        const u32 before = node->core.held()->received_ok;
        EXPECT_TRUE(
            conn.send(frame_of(put_frame(nid_at(200), node->nid(), 5, 4)) + payload_of(5, 4)));
        EXPECT_TRUE(node->core.wait([&] { return node->core.received_ok == before + 1; }));
        conn.close();
        EXPECT_TRUE(eventually([&] {
            const ctl::Value shown = node->describe();
            for (const ctl::Value& peer : shown["peers"].items())
                if (peer["nid"].as_text() == to_text(nid_at(200))) return false;
            return true;
        }));
    }

    const u16 port = free_port();
    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    std::unique_ptr<TestNode> node;
};

}  // namespace ulnet::sock
