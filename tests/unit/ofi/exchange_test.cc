// Messages between nodes over libfabric: sizes around what travels within a message, shapes of
// memory, parking, cutting, many at once.
#include "tests/unit/ofi/pair.h"

namespace ulnet::ofi {
namespace {

class Exchange : public testing::TestWithParam<Provider> {
 protected:
    void exchange(TestNode& from, TestNode& to, u32 a, u32 b, u32 len, u32 fragments = 1) {
        const u32 before = to.core.held()->received_ok;
        const MsgPtr msg = put(a, b, ++ids, len, fragments);
        from.send(msg);
        ASSERT_TRUE(to.core.wait([&] { return to.core.received_ok == before + 1; })) << len;
        ASSERT_TRUE(from.core.wait([&] { return msg->finished == 1; })) << len;
        EXPECT_TRUE(msg->status.ok()) << msg->status.text();
        EXPECT_EQ(to.core.held()->wrong_bytes, 0u) << len;
    }
    u64 ids = 0;
};

// Row 7.10: below and above what travels within a message.
TEST_P(Exchange, Row7_10_SizesAndShapes) {
    World world(GetParam());
    const auto a = world.node(1), b = world.node(2);
    for (const u32 len : {0u, 1u, 3935u, 3936u, 3937u, 4096u, 65537u, 1u << 20}) {
        exchange(*a, *b, 1, 2, len);
        exchange(*b, *a, 2, 1, len);
    }
    for (const u32 fragments : {2u, 7u, 255u, 256u}) exchange(*a, *b, 1, 2, 1u << 20, fragments);
    EXPECT_EQ(a->describe()["sessions"].as_int(), 1);
    EXPECT_EQ(a->describe()["dropped"].as_int(), 0);
}

TEST_P(Exchange, ManyAtOnceBothWays) {
    World world(GetParam());
    const auto a = world.node(1), b = world.node(2);
    for (u32 round = 0; round < 300; ++round) {
        const u32 len = round % 3 == 0 ? 300000u : round % 3 == 1 ? 100u : 5000u;
        a->send(put(1, 2, ++ids, len, 1 + round % 5));
        b->send(put(2, 1, ++ids, len));
    }
    ASSERT_TRUE(a->core.wait([&] { return a->core.received_ok == 300; }));
    ASSERT_TRUE(b->core.wait([&] { return b->core.received_ok == 300; }));
    ASSERT_TRUE(a->core.wait([&] { return a->core.sent_finished == 300; }));
    EXPECT_EQ(a->core.held()->wrong_bytes + b->core.held()->wrong_bytes, 0u);
    EXPECT_EQ(a->core.held()->sent_failed + b->core.held()->sent_failed, 0u);
}

INSTANTIATE_TEST_SUITE_P(Providers, Exchange, testing::Values(Provider::tcp, Provider::shm),
                         [](const auto& of) { return of.param == Provider::tcp ? "tcp" : "shm"; });

}  // namespace
}  // namespace ulnet::ofi
