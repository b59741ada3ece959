// Random operations on three nodes that all know each other: messages of all sizes, cut, discarded,
// parked and answered later, peers dropped, nodes closed and opened again. Whatever happens, each
// message ends once and no byte is wrong. A failure prints its seed.
#include <gtest/gtest.h>

#include "tests/unit/sock/harness.h"

namespace ulnet::sock {
namespace {

constexpr u32 node_count = 3;
constexpr u32 operations = 300;

class Chaos : public testing::TestWithParam<u64> {
 protected:
    struct Sent {
        u32 from;
        MsgPtr msg;
    };
    void open(u32 index) {
        Settings settings{{Tunable::min_reconnect_ms, 5},
                          {Tunable::max_reconnect_ms, 20},
                          {Tunable::conns_per_peer, static_cast<i64>(1 + prng.below(3))}};
        if (prng.below(2)) settings[Tunable::tx_buffer_size] = 8192;
        settings[Tunable::protocol] = static_cast<i64>(version_min + prng.below(version_max));
        settings[Tunable::enable_csum] = static_cast<i64>(prng.below(2));
        settings[Tunable::typed_conns] = prng.below(4) > 0 ? 1 : 0;
        const u64 salt = prng.next();
        const auto decide = [salt](Core& core, const Core::Arrival& arrival) {
            const u32 len = arrival.hdr.payload_length;
            switch ((arrival.hdr.match_bits * 2654435761u + salt) % 8) {
            case 0:
                core.discard(arrival);
                break;
            case 1:
                core.accept(arrival, len / 2, 7);
                break;
            case 2:
                core.park(arrival);
                break;
            default:
                core.accept(arrival, len, 1 + len % 250);
            }
            return ok_status;
        };
        nodes[index] = std::make_unique<TestNode>(*sched, static_cast<u8>(index + 1), port,
                                                  std::move(settings), decide);
    }
    void close(u32 index) {
        nodes[index]->close();
        const std::lock_guard guard(nodes[index]->core.lock);
        for (const Sent& each : sent) {
            if (each.from != index) continue;
            EXPECT_EQ(each.msg->finished, 1u) << "message of a closed node";
        }
        wrong += nodes[index]->core.wrong_bytes;
        failed += nodes[index]->core.sent_failed;
        arrived += nodes[index]->core.arrivals.size();
    }
    void send(u32 index) {
        const u32 to = (index + 1 + static_cast<u32>(prng.below(node_count - 1))) % node_count;
        const u32 shift = static_cast<u32>(prng.below(20));
        const auto len = static_cast<u32>(prng.below(u64{2} << shift));
        sent.push_back({index, put(nodes[index]->nid(), nid_at(static_cast<u8>(to + 1)), ++ids, len,
                                   1 + static_cast<u32>(prng.below(256)))});
        nodes[index]->send(sent.back().msg);
    }
    void answer_one(u32 index) {
        Core& core = nodes[index]->core;
        Core::Arrival arrival{};
        {
            const std::lock_guard guard(core.lock);
            if (core.parked.empty()) return;
            arrival = core.parked.back();
            core.parked.pop_back();
        }
        run_on(*sched, static_cast<CptId>(prng.below(2)),
               [&] { core.accept(arrival, arrival.hdr.payload_length, 5); });
    }

    const u16 port = free_port();
    Prng prng{GetParam()};
    std::unique_ptr<ThreadSched> sched = make_sched(2, 2);
    std::vector<Sent> sent;
    std::array<std::unique_ptr<TestNode>, node_count> nodes;
    u64 ids = 0, wrong = 0, failed = 0, arrived = 0;
};

TEST_P(Chaos, EveryMessageEndsOnce) {
    for (u32 i = 0; i < node_count; ++i) open(i);
    for (u32 i = 0; i < operations; ++i) {
        const auto index = static_cast<u32>(prng.below(node_count));
        const u64 what = prng.below(100);
        if (what < 80) {
            send(index);
        } else if (what < 95) {
            answer_one(index);
        } else if (what < 98) {
            const auto other = static_cast<u8>(1 + prng.below(node_count));
            run_on(*sched, 0, [&] { nodes[index]->ni().drop_peer(nid_at(other)); });
        } else {
            close(index);
            open(index);
        }
    }
    for (u32 i = 0; i < node_count; ++i) close(i);
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(arrived, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Chaos, testing::Range(u64{1}, u64{13}));

}  // namespace
}  // namespace ulnet::sock
