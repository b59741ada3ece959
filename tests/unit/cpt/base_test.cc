// List, Park, Budget, Status: the small things everything stands on.
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "cpt/base/list.h"
#include "cpt/base/park.h"
#include "cpt/base/result.h"
#include "cpt/sched.h"

namespace ulnet {
namespace {

struct Second;
struct Item : ListHook<Item>, ListHook<Second> {
    explicit Item(int v) : value(v) {}
    int value;
};

template <class L> std::vector<int> values(L& list) {
    std::vector<int> all;
    for (Item& item : list) all.push_back(item.value);
    return all;
}

TEST(List, OrderAndRemoval) {
    Item a(1), b(2), c(3), d(4);
    List<Item> list;
    List<Item, Second> by_second_hook;
    list.push_back(b);
    list.push_front(a);
    list.push_back(d);
    list.insert_before(d, c);
    by_second_hook.push_back(c);
    EXPECT_EQ(values(list), (std::vector<int>{1, 2, 3, 4}));
    list.remove(b);
    EXPECT_EQ(list.size(), 3u);
    EXPECT_EQ(list.front().value, 1);
    List<Item> other;
    other.push_back(b);
    other.splice_back(list);
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(values(other), (std::vector<int>{2, 1, 3, 4}));
    while (other.pop_front() != nullptr) {
    }
    EXPECT_EQ(other.pop_front(), nullptr);
    EXPECT_EQ(by_second_hook.pop_front(), &c);
}

TEST(Park, KeepsASignalThatComesFirst) {
    Park park;
    park.signal();
    park.signal();
    EXPECT_TRUE(park.wait(Park::forever));
    EXPECT_FALSE(park.wait(std::chrono::milliseconds(1)));
}

TEST(Park, WakesASleeper) {
    Park here, there;
    std::thread other([&] {
        for (int i = 0; i < 2000; ++i) {
            EXPECT_TRUE(there.wait(Park::forever));
            here.signal();
        }
    });
    for (int i = 0; i < 2000; ++i) {
        there.signal();
        EXPECT_TRUE(here.wait(std::chrono::seconds(30)));
    }
    other.join();
}

TEST(Budget, EndsWithEither) {
    Budget budget(2, 100);
    EXPECT_TRUE(budget.take(1, 99));
    EXPECT_FALSE(budget.take(0, 5));
    EXPECT_EQ(budget.bytes(), 0u);
    EXPECT_EQ(budget.messages(), 1u);
    EXPECT_FALSE(Budget(1, 100).take(7, 0));
}

TEST(Status, Errors) {
    EXPECT_TRUE(ok_status.ok());
    EXPECT_EQ(Status(-EIO).code(), -EIO);
    const Result<int> none = Status(-ENOENT);
    EXPECT_FALSE(none.ok());
    EXPECT_EQ(none.status(), Status(-ENOENT));
    EXPECT_EQ(*Result<int>(5), 5);
}

TEST(Check, FailsLoudly) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    EXPECT_DEATH(CHECK(1 + 1 == 3), "base_test.cc:[0-9]+: CHECK failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace ulnet
