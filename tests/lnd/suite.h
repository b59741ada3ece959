// What the cases of the suite share: one Subject, made anew for each case.
#pragma once

#include <gtest/gtest.h>

#include "lnet/ctl/value.h"
#include "tests/lnd/core.h"

namespace ulnet::lnd_test {

class Suite : public testing::TestWithParam<Maker> {
 protected:
    std::unique_ptr<TestNode> node(u32 number, Core::Decide decide = {}) {
        return std::make_unique<TestNode>(*subject, number, std::move(decide));
    }
    bool wait(const std::function<bool()>& condition) { return subject->bench().wait(condition); }
    // Whom node 0 talks to: lo has nobody but itself.
    bool alone() const { return subject->nodes == 1; }
    bool ended(TestNode& of, const std::shared_ptr<TestMsg>& msg) {
        return wait([&] { return of.core.ended(*msg); });
    }
    // Until a message gets from one to the other; it may be lost with a connection that ends.
    void reaches(TestNode& from, TestNode& to, u32 len) {
        EXPECT_TRUE(wait([&] {
            const u64 before = to.core.tally().received_ok;
            const auto msg = from.send(to.nid(), ++ids, len);
            return ended(from, msg) && msg->status.ok() &&
                   subject->bench().wait([&] { return to.core.tally().received_ok > before; },
                                         std::chrono::milliseconds(200));
        }));
        EXPECT_EQ(to.core.tally().wrong_bytes, 0u);
        if (HasFailure()) describe({&from, &to});
    }
    // What the drivers say of themselves when something went wrong.
    static void describe(std::initializer_list<TestNode*> nodes) {
        for (TestNode* const node : nodes) {
            ctl::Value shown;
            node->run([&](LndNi& ni) { ni.describe(shown); });
            ADD_FAILURE() << ctl::to_json(shown);
        }
    }
    const std::unique_ptr<Subject> subject = GetParam().make();
    u64 ids = 0;
};

// For drivers with one node: said once, in the words of the capability.
#define NEEDS_PEERS()                                                                              \
    if (alone()) return  // NOLINT: a node of this driver talks to itself only

#define NEEDS_COMING_BACK()                                                                        \
    NEEDS_PEERS();                                                                                 \
    if (!subject->comes_back) return  // NOLINT: see Subject::comes_back

}  // namespace ulnet::lnd_test
