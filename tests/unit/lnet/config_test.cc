// Configuration: what is refused and how it is said; the views; tunables at run time.
#include <gmock/gmock.h>

#include <algorithm>

#include "lnet/ni_check.h"
#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

using testing::HasSubstr;

class ConfigTest : public NodeTest {
 protected:
    void refused(const NiConfig& ni, int code, const std::vector<std::string>& words) {
        Error error;
        control([&] { error = node_->add_ni(ni); });
        EXPECT_EQ(error.status.code(), code) << error.text;
        for (const std::string& word : words) EXPECT_THAT(error.text, HasSubstr(word));
    }
};

TEST_F(ConfigTest, SentencesNameKeyValueAndWhatIsAllowed) {
    start(false);
    NiConfig bad = config(1);
    bad.credits = 0;
    refused(bad, -EINVAL, {"credits", "0", "1 to 65535"});
    bad = config(1);
    bad.peer_credits = 257;
    refused(bad, -EINVAL, {"peer_credits", "257", "1 to 256"});
    bad = config(1);
    bad.peer_timeout_s = -2;
    refused(bad, -EINVAL, {"peer_timeout", "-2", "-1 to 86400"});
    bad = config(1);
    bad.cpts = {1};
    refused(bad, -EINVAL, {"CPT", "1", "0 to 0"});
    bad.cpts = {0, 0};
    refused(bad, -EINVAL, {"CPT", "twice"});
    bad = config(1);
    bad.tunables[0] = 65;
    refused(bad, -EINVAL, {"depth", "65", "1 to 64"});
    bad.tunables = {1};
    refused(bad, -EINVAL, {"tunables", "1 values", "3"});
    bad = config(1);
    bad.net = Net::of(NetType::tcp, 1);
    refused(bad, -EINVAL, {"10.77.0.1@tcp", "tcp1"});
    bad.net = Net::of(NetType::o2ib, 0);
    refused(bad, -EINVAL, {"o2ib", "test"});
    bad.net = net_lo;
    refused(bad, -EINVAL, {"lo"});
    std::array<u8, 20> raw{};
    raw[0] = 99;
    raw[1] = static_cast<u8>(NetType::tcp);
    bad = config(1);
    bad.nid = Nid::from_raw(raw);
    refused(bad, -EINVAL, {"nid"});
    lnd_.fail = "port 988 is in use";
    refused(config(1), -EADDRINUSE, {"10.77.0.1@tcp", "port 988 is in use"});
    lnd_.fail.clear();
    add(1);
    refused(config(1), -EEXIST, {"10.77.0.1@tcp"});
}

TEST_F(ConfigTest, InterfacesAreBounded) {
    start(false);
    for (u32 i = 0; i < nis_max; ++i) add(10 + i);
    refused(config(1), -ENOSPC, {"200"});
}

TEST_F(ConfigTest, ViewOfAnInterface) {
    start();
    control([&] {
        const std::vector<NiView> views = inspect_nis(*node_);
        ASSERT_EQ(views.size(), 1u);
        EXPECT_EQ(views[0].config.nid, tcp_nid(1));
        EXPECT_TRUE(views[0].up);
        EXPECT_EQ(views[0].driver, "test");
        EXPECT_EQ(views[0].tunables.size(), 3u);
        EXPECT_EQ(views[0].health, 1000);
        EXPECT_EQ(views[0].credits_free, 256);
        EXPECT_EQ(views[0].dev_cpt, -1);
        EXPECT_EQ(inspect_options(*node_).transaction_timeout_s, 150u);
    });
}

TEST_F(ConfigTest, TunablesAtRunTime) {
    start();
    const auto set = [&](const char* name, const char* value) {
        Error error;
        control([&] { error = set_ni_tunable(*node_, tcp_nid(1), name, value); });
        return error;
    };
    EXPECT_TRUE(set("depth", "9").ok());
    EXPECT_EQ(ni_->tuned.load(), 9);
    EXPECT_TRUE(set("mode", "on").ok());
    EXPECT_EQ(ni_->tuned.load(), 1);
    EXPECT_TRUE(set("health", "500").ok());
    control([&] {
        const NiView view = inspect_nis(*node_)[0];
        EXPECT_EQ(view.config.tunables, (std::vector<i64>{9, 1, 7}));
        EXPECT_EQ(view.health, 500);
    });
    EXPECT_THAT(set("depth", "65").text, HasSubstr("1 to 64"));
    EXPECT_THAT(set("depth", "9x").text, HasSubstr("'9x'"));
    EXPECT_THAT(set("depth", "").text, HasSubstr("depth"));
    EXPECT_THAT(set("mode", "up").text, HasSubstr("off, on"));
    EXPECT_THAT(set("health", "1001").text, HasSubstr("0 to 1000"));
    EXPECT_THAT(set("fixed", "1").text, HasSubstr("health, depth, mode"));
    EXPECT_THAT(set("depth", "13").text, HasSubstr("Input/output error"));
    Error error;
    control([&] { error = set_ni_tunable(*node_, tcp_nid(5), "depth", "1"); });
    EXPECT_EQ(error.status, Status(-ENOENT));
}

TEST_F(ConfigTest, ControlWorkRunsInOrderFromAnyThread) {
    start(false);
    std::vector<int> order;
    std::atomic<bool> done{false};
    for (int i = 0; i < 500; ++i) node_->control([&order, i] { order.push_back(i); });
    node_->control([&] { done.store(true); });
    ASSERT_TRUE(eventually([&] { return done.load(); }));
    ASSERT_EQ(order.size(), 500u);
    EXPECT_TRUE(std::ranges::is_sorted(order));
}

// Readers on all workers against a writer: no reader ever sees a value that was freed.
TEST(Published, OldValuesGoWhenNobodyReads) {
    ThreadSched sched(CptTable::single(4),
                      {.workers_per_cpt = 4, .pin = false, .spin = {}, .seed = 1});
    struct Value {
        explicit Value(u64 number_of_value, std::atomic<int>& alive_count)
            : number(number_of_value), alive(alive_count) {
            alive.fetch_add(1);
        }
        ~Value() {
            number = ~u64{0};
            alive.fetch_sub(1);
        }
        u64 number;
        std::atomic<int>& alive;
    };
    std::atomic<int> alive{0};
    {
        Published<Value> published(sched, std::make_unique<Value>(0, alive));
        std::atomic<bool> stop{false};
        std::atomic<u32> ended{0};
        struct Reader final : Task {
            Published<Value>* from;
            Sched* sched;
            std::atomic<bool>* stop;
            std::atomic<u32>* ended;
            u64 last = 0;
            void run() override {
                for (int i = 0; i < 100; ++i) {
                    const Published<Value>::Pin pin(*from);
                    const Published<Value>::Pin nested(*from);
                    CHECK(pin->number != ~u64{0} && pin->number >= last);
                    CHECK(nested->number >= pin->number);
                    last = pin->number;
                }
                if (stop->load())
                    ended->fetch_add(1);
                else
                    sched->post(0, *this);
            }
            ~Reader() = default;
        };
        std::array<Reader, 6> readers;
        for (Reader& reader : readers) {
            reader.from = &published;
            reader.sched = &sched;
            reader.stop = &stop;
            reader.ended = &ended;
            sched.post(0, reader);
        }
        for (u64 i = 1; i <= 300; ++i) {
            published.publish(std::make_unique<Value>(i, alive));
            published.settle();
            if (i % 3 != 0) continue;
            ASSERT_TRUE(eventually([&] {
                published.settle();
                return published.settled() == published.published();
            }));
            EXPECT_EQ(alive.load(), 1);
        }
        stop.store(true);
        ASSERT_TRUE(eventually([&] { return ended.load() == readers.size(); }));
    }
    EXPECT_EQ(alive.load(), 0);
}

}  // namespace
}  // namespace ulnet::test
