// Random operations on three nodes against a model: what was sent ends once; what a node took has
// the bytes that were sent, and no message is taken twice. The seed is printed, and may be set:
// ULNET_SEED.
#include <cstdlib>
#include <set>

#include "cpt/base/prng.h"
#include "tests/lnd/suite.h"

namespace ulnet::lnd_test {
namespace {

class Random : public Suite {};

u64 seed_of_run() {
    const char* const given = std::getenv("ULNET_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10)
                            : static_cast<u64>(testing::UnitTest::GetInstance()->random_seed()) + 7;
}

void check_at_the_end(TestNode& node) {
    node.close();
    const Core::Tally tally = node.core.tally();
    EXPECT_EQ(tally.wrong_bytes, 0u);
    const std::set<u64> once(tally.order.begin(), tally.order.end());
    EXPECT_EQ(once.size(), tally.order.size()) << "a message came twice";
}

TEST_P(Random, Operations) {
    const u64 seed = seed_of_run();
    SCOPED_TRACE("ULNET_SEED=" + std::to_string(seed));
    Prng prng(seed);
    const u32 count = std::min(3u, subject->nodes);
    const u64 salt = prng.next();
    const auto decide = [salt](const Hdr& hdr) {
        switch ((number_of(hdr) * 2654435761u + salt) % 16) {
        case 0:
            return Answer::discard;
        case 1:
            return Answer::cut;
        case 2:
            return Answer::park;
        default:
            return Answer::take;
        }
    };
    std::vector<std::unique_ptr<TestNode>> nodes;
    for (u32 i = 0; i < count; ++i) nodes.push_back(node(i, decide));
    const auto settle_parked = [&] {
        for (const auto& each : nodes)
            for (const Arrival& arrival : each->core.take_parked())
                each->run([&](LndNi& ni) {
                    if (number_of(arrival.hdr) % 2)
                        each->core.take(arrival, arrival.hdr.payload_length);
                    else
                        ni.receive(arrival.token, nullptr, 0);
                });
    };
    u64 sent = 0;
    for (u32 i = 0; i < subject->operations; ++i) {
        const auto what = static_cast<u32>(prng.below(1000));
        const auto from = static_cast<u32>(prng.below(count));
        if (what == 0 && count > 1) {
            nodes[from]->run([&](LndNi& ni) { ni.drop_peer(nodes[(from + 1) % count]->nid()); });
        } else if (what < 20) {
            settle_parked();
        } else {
            const u32 to =
                count == 1 ? 0 : (from + 1 + static_cast<u32>(prng.below(count - 1))) % count;
            const u32 len = what < 30    ? static_cast<u32>(prng.below((1u << 20) + 1))
                            : what < 200 ? static_cast<u32>(prng.below(20000))
                                         : static_cast<u32>(prng.below(200));
            const MsgType type = what % 2 ? MsgType::put : MsgType::reply;
            nodes[from]->send(nodes[to]->nid(), ++ids, len, 1 + static_cast<u32>(prng.below(8)),
                              type);
            ++sent;
        }
        // Not too many at once, or the test holds all memory there is.
        if (i % 500 != 499) continue;
        const bool settled = wait([&] {
            settle_parked();
            u64 over = 0;
            for (const auto& each : nodes) {
                const Core::Tally tally = each->core.tally();
                over += tally.sent_ok + tally.sent_failed;
            }
            return over == sent;
        });
        if (!settled)
            for (const auto& each : nodes) describe({each.get()});
        ASSERT_TRUE(settled) << i;
    }
    for (const auto& each : nodes) check_at_the_end(*each);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Random, testing::ValuesIn(makers()),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace ulnet::lnd_test
