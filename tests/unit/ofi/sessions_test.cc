// The rules of the HELLO: every order in which requests, answers, losses and restarts of two peers
// can meet ends with both naming what the other has given.
#include <gtest/gtest.h>

#include <deque>

#include "cpt/base/prng.h"
#include "lnds/ofi/peer.h"

namespace ulnet::ofi {
namespace {

// One end, and what is on its way to it.
struct End {
    u64 epoch = 0;
    Sessions sessions;
    struct Said {
        bool request;
        Hello hello;
    };
    std::deque<Said> inbox;
};

class Talk {
 public:
    explicit Talk(u64 seed) : prng(seed) {
        for (End& end : ends) end.epoch = ++numbers;
    }
    u64 fresh() { return ++numbers; }
    Hello own(const End& end) const {
        return {.epoch = end.epoch, .session = end.sessions.mine(), .credits = 8};
    }
    void ask(u32 which) {
        End& end = ends[which];
        end.sessions.ask(fresh());
        ends[1 - which].inbox.push_back({true, own(end)});
    }
    // The next of the messages to this end; any of them, when `reorder`.
    void hear(u32 which, bool reorder) {
        End& end = ends[which];
        if (end.inbox.empty()) return;
        const auto at = reorder ? prng.below(end.inbox.size()) : 0;
        const End::Said said = end.inbox[at];
        end.inbox.erase(end.inbox.begin() + static_cast<std::ptrdiff_t>(at));
        if (!said.request) {
            end.sessions.take_answer(said.hello);
            return;
        }
        const HelloVerdict verdict = end.sessions.take_request(said.hello, fresh());
        EXPECT_TRUE(verdict.answer);
        Hello answer = own(end);
        answer.answers = said.hello.session;
        ends[1 - which].inbox.push_back({false, answer});
    }
    void settle() {
        for (int round = 0; round < 100; ++round) {
            for (u32 which : {0u, 1u})
                while (!ends[which].inbox.empty()) hear(which, false);
            const bool agree = agreed();
            if (agree) return;
            // Each asks again as a node does: one that is not up at its interval, and one whose
            // messages are of no session when it is told so.
            for (u32 which : {0u, 1u}) {
                const bool named_wrong =
                    ends[which].sessions.theirs() != ends[1 - which].sessions.mine();
                if (ends[which].sessions.state() != PeerState::up || named_wrong) {
                    // The other end drops what it cannot place and asks itself.
                    ends[1 - which].sessions.state() == PeerState::up ? ask(which) : ask(1 - which);
                }
            }
        }
    }
    bool agreed() const {
        return ends[0].sessions.state() == PeerState::up &&
               ends[1].sessions.state() == PeerState::up &&
               ends[0].sessions.theirs() == ends[1].sessions.mine() &&
               ends[1].sessions.theirs() == ends[0].sessions.mine();
    }
    Prng prng;
    u64 numbers = 1000;
    std::array<End, 2> ends;
};

TEST(OfiSessions, OneAsks) {
    Talk talk(1);
    talk.ask(0);
    talk.hear(1, false);
    EXPECT_EQ(talk.ends[1].sessions.state(), PeerState::up);
    talk.hear(0, false);
    EXPECT_TRUE(talk.agreed());
    EXPECT_TRUE(talk.ends[0].inbox.empty() && talk.ends[1].inbox.empty());
}

// Row 7.1: both connect at once.
TEST(OfiSessions, Row7_1_CrossingRequests) {
    for (u64 seed = 1; seed <= 10000; ++seed) {
        Talk talk(seed);
        talk.ask(0);
        talk.ask(1);
        while (!talk.ends[0].inbox.empty() || !talk.ends[1].inbox.empty())
            talk.hear(static_cast<u32>(talk.prng.below(2)), true);
        ASSERT_TRUE(talk.agreed()) << seed;  // without asking again
    }
}

// An end that comes back anew replaces its former life, whatever is still on its way.
TEST(OfiSessions, Row7_1_RestartsAndLosses) {
    for (u64 seed = 1; seed <= 10000; ++seed) {
        Talk talk(seed);
        for (int event = 0; event < 30; ++event) {
            const u32 which = static_cast<u32>(talk.prng.below(2));
            switch (talk.prng.below(6)) {
            case 0:
                talk.ends[which].epoch = talk.fresh();  // a new life
                talk.ends[which].sessions = {};
                break;
            case 1:
                talk.ends[which].sessions.forget();
                break;
            case 2:
                if (!talk.ends[which].inbox.empty()) talk.ends[which].inbox.pop_front();
                break;
            case 3:
                if (talk.ends[which].sessions.state() != PeerState::up) talk.ask(which);
                break;
            default:
                talk.hear(which, true);
            }
        }
        talk.settle();
        ASSERT_TRUE(talk.agreed()) << seed;
    }
}

TEST(OfiSessions, AnswersOfFormerLivesDoNotCount) {
    Talk talk(1);
    talk.ask(0);
    talk.hear(1, false);
    talk.ends[0].sessions.forget();
    talk.ends[0].sessions.ask(talk.fresh());
    talk.hear(0, false);
    EXPECT_EQ(talk.ends[0].sessions.state(), PeerState::asking);
}

TEST(OfiSessions, ARepeatedRequestEndsNothing) {
    Talk talk(1);
    talk.ask(0);
    const End::Said said = talk.ends[1].inbox.front();
    talk.hear(1, false);
    talk.hear(0, false);
    const u64 mine = talk.ends[1].sessions.mine();
    const HelloVerdict verdict = talk.ends[1].sessions.take_request(said.hello, talk.fresh());
    EXPECT_TRUE(verdict.answer);
    EXPECT_FALSE(verdict.ended || verdict.began);
    EXPECT_EQ(talk.ends[1].sessions.mine(), mine);
}

}  // namespace
}  // namespace ulnet::ofi
