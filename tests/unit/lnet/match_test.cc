// Matching compared with a naive model: one list of MEs in order, searched from the front.
#include <algorithm>
#include <list>
#include <map>

#include "tests/unit/lnet/node_fixture.h"

namespace ulnet::test {
namespace {

// What the model knows of an ME with its MD.
struct ModelEntry {
    MatchSpec match;
    MdOptions options;
    u32 length, threshold, max_size, offset = 0;
    Target* target;
    Md md;
    bool exhausted() const {
        return threshold == 0 || (max_size > 0 && u64{offset} + max_size > length);
    }
    bool wants(const Hdr& hdr) const {
        const bool get = hdr.type == MsgType::get;
        return !exhausted() && (get ? options.get : options.put) &&
               ((match.bits ^ hdr.match_bits) & ~match.ignore) == 0 &&
               (match.from.pid == pid_any || match.from.pid == hdr.src_pid) &&
               (match.from.nid.any() || match.from.nid == hdr.src_nid);
    }
};

// Offset and length that the message gets, or neither when it must be dropped.
struct Outcome {
    ModelEntry* entry = nullptr;
    u32 offset = 0, mlength = 0;
};

struct Model {
    std::list<ModelEntry> ignoring, exact;  // MEs with ignore bits come first

    Outcome take(const Hdr& hdr) {
        const u32 length = hdr.type == MsgType::get ? hdr.sink_length : hdr.payload_length;
        for (auto* list : {&ignoring, &exact})
            for (ModelEntry& entry : *list) {
                if (!entry.wants(hdr)) continue;
                const u32 offset = entry.options.manage_remote ? hdr.offset : entry.offset;
                u32 room = offset < entry.length ? entry.length - offset : 0;
                if (entry.max_size > 0) room = std::min(room, entry.max_size);
                if (length > room && !entry.options.truncate) return {};
                const u32 moved = std::min(length, room);
                if (offset <= entry.length) entry.offset = offset + moved;
                if (entry.threshold != threshold_infinite) --entry.threshold;
                return {&entry, offset, moved};
            }
        return {};
    }
};

class MatchTest : public NodeTest {
 protected:
    ModelEntry random_entry(Prng& prng, bool unique) {
        ModelEntry entry{};
        entry.match.bits = prng.below(4);
        if (unique) {
            entry.match.from = {tcp_nid(static_cast<u32>(2 + prng.below(2))),
                                static_cast<u32>(100 + prng.below(2))};
        } else {
            if (prng.below(2) == 0) entry.match.ignore = prng.below(4);
            if (prng.below(3) == 0)
                entry.match.from.nid = tcp_nid(static_cast<u32>(2 + prng.below(2)));
            // Both given and no ignore bits would be a unique ME.
            else if (prng.below(3) == 0)
                entry.match.from.pid = static_cast<u32>(100 + prng.below(2));
        }
        entry.options.put = prng.below(4) != 0;
        entry.options.get = !entry.options.put || prng.below(2) == 0;
        entry.options.manage_remote = prng.below(3) == 0;
        entry.options.truncate = prng.below(2) == 0;
        entry.options.auto_unlink = prng.below(2) == 0;
        entry.length = static_cast<u32>(prng.below(60));
        entry.threshold =
            prng.below(3) == 0 ? threshold_infinite : static_cast<u32>(1 + prng.below(4));
        entry.max_size = prng.below(3) == 0 ? static_cast<u32>(prng.below(entry.length + 1)) : 0;
        return entry;
    }

    void attach_random(Model& model, Prng& prng, u32 portal, bool unique) {
        ModelEntry entry = random_entry(prng, unique);
        entry.target = &target(entry.length == 0 ? 1 : entry.length);
        MdSpec spec = entry.target->spec(entry.options, entry.threshold, entry.max_size);
        if (entry.length == 0) spec.mem = nullptr;
        const Place place = prng.below(2) == 0 ? Place::before : Place::after;
        entry.md = attach(portal, entry.match, spec, Unlink::with_md, place);
        auto& list = entry.match.ignore != 0 ? model.ignoring : model.exact;
        list.insert(place == Place::before ? list.begin() : list.end(), std::move(entry));
    }

    void send_random(Model& model, Prng& prng, u32 portal) {
        const u32 from = static_cast<u32>(2 + prng.below(2));
        const u32 length = static_cast<u32>(prng.below(30));
        const u32 offset = static_cast<u32>(prng.below(70));
        const u64 bits = prng.below(4);
        Hdr hdr = prng.below(2) == 0 ? put_hdr(portal, bits, length, offset, from)
                                     : get_hdr(portal, bits, length, offset, from);
        hdr.src_pid = static_cast<u32>(100 + prng.below(2));
        const Outcome expected = model.take(hdr);
        const std::size_t before = expected.entry ? expected.entry->target->recorder.count() : 0;
        const u64 dropped = stats().drop_count;
        inject(hdr, from);
        if (expected.entry == nullptr) {
            ASSERT_EQ(stats().drop_count, dropped + 1);
            return;
        }
        Recorder& recorder = expected.entry->target->recorder;
        ASSERT_TRUE(recorder.wait(before + 1));
        ASSERT_EQ(stats().drop_count, dropped);
        const Event event = recorder.events().back();
        EXPECT_EQ(event.offset, expected.offset);
        EXPECT_EQ(event.mlength, expected.mlength);
        EXPECT_EQ(event.rlength, length);
        EXPECT_EQ(event.kind, hdr.type == MsgType::get ? Event::Kind::get : Event::Kind::put);
        EXPECT_EQ(event.unlinked,
                  expected.entry->options.auto_unlink && expected.entry->exhausted());
        forget_unlinked(model);
    }

    static void forget_unlinked(Model& model) {
        for (auto* list : {&model.ignoring, &model.exact})
            list->remove_if([](const ModelEntry& entry) {
                return entry.options.auto_unlink && entry.exhausted() &&
                       entry.threshold != threshold_infinite &&
                       entry.target->recorder.unlinked() > 0;
            });
    }

    void unlink_random(Model& model, Prng& prng) {
        auto& list = prng.below(2) == 0 ? model.ignoring : model.exact;
        if (list.empty()) return;
        auto at = list.begin();
        std::advance(at, static_cast<long>(prng.below(list.size())));
        Recorder& recorder = at->target->recorder;
        run([&] { node_->unlink(std::move(at->md)); });
        ASSERT_TRUE(recorder.wait_unlinked());
        list.erase(at);
    }

    void compare(u64 seed, u32 portal, bool unique) {
        Prng prng(seed);
        Model model;
        for (int step = 0; step < 400 && !HasFatalFailure(); ++step) {
            const u64 choice = prng.below(10);
            if (choice < 3 || model.exact.size() + model.ignoring.size() < 2)
                attach_random(model, prng, portal, unique);
            else if (choice < 4)
                unlink_random(model, prng);
            else
                send_random(model, prng, portal);
        }
    }
};

TEST_F(MatchTest, WildcardPortalsAgreeWithTheModel) {
    start();
    ni_->hold_sends = false;
    for (u64 seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        compare(seed, static_cast<u32>(10 + seed), false);
    }
}

TEST_F(MatchTest, UniquePortalsAgreeWithTheModel) {
    start();
    ni_->hold_sends = false;
    for (u64 seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        compare(seed, static_cast<u32>(20 + seed), true);
    }
}

// Thousands of MEs with different bits: the table grows and finds each of them.
TEST_F(MatchTest, ManyEntries) {
    start();
    constexpr u32 count = 5000;
    std::vector<Md> mds;
    Target& t = target(4);
    MdOptions options = accept_put;
    options.manage_remote = true;
    for (const bool unique : {false, true}) {
        const u32 portal = unique ? 31 : 30;
        run([&] {
            for (u32 i = 0; i < count; ++i) {
                MatchSpec match{.from = {}, .bits = u64{i} << 32, .ignore = 0};
                if (unique) match.from = process(2);
                Result<Me> me = node_->attach(portal, match, Unlink::with_md);
                ASSERT_TRUE(me.ok());
                mds.push_back(std::move(*node_->attach(*me, t.spec(options))));
            }
        });
        const std::size_t before = t.recorder.count();
        run([&] {
            for (u32 i = 0; i < count; i += 7)
                ni_->inject(put_hdr(portal, u64{i} << 32, 1), process(2), pattern(1));
        });
        ASSERT_TRUE(t.recorder.wait(before + (count + 6) / 7));
        run([&] { mds.clear(); });
    }
    EXPECT_EQ(stats().drop_count, 0u);
}

class MatchCptTest : public NodeTest {
 protected:
    MatchCptTest() : NodeTest(1, 4) {}
};

// A message finds its MD on whatever CPT it was attached.
TEST_F(MatchCptTest, WildcardMessagesLookOnAllCpts) {
    start();
    std::vector<Md> mds;
    MdOptions options = accept_put;
    options.auto_unlink = true;
    std::vector<Target*> targets;
    for (CptId cpt = 0; cpt < 4; ++cpt) {
        targets.push_back(&target(8));
        run(
            [&] {
                Result<Me> me = node_->attach(5, any_bits(7), Unlink::with_md);
                ASSERT_TRUE(me.ok());
                mds.push_back(std::move(*node_->attach(*me, targets.back()->spec(options, 1))));
            },
            cpt);
    }
    for (u32 i = 0; i < 4; ++i) inject(put_hdr(5, 7, 1));
    for (Target* each : targets) ASSERT_TRUE(each->recorder.wait_unlinked());
    inject(put_hdr(5, 7, 1));
    EXPECT_EQ(stats().drop_count, 1u);
}

// Unique MEs are spread over the tables of all CPTs, whoever attaches them, and are found there.
TEST_F(MatchCptTest, UniqueEntriesAreSpread) {
    start();
    constexpr u32 count = 256;
    Target& t = target(4);
    MdOptions options = accept_put;
    options.manage_remote = true;
    std::vector<Md> mds;
    run([&] {
        for (u32 i = 0; i < count; ++i) {
            const MatchSpec match{.from = process(2), .bits = i};
            Result<Me> me = node_->attach(5, match, Unlink::with_md);
            ASSERT_TRUE(me.ok());
            mds.push_back(std::move(*node_->attach(*me, t.spec(options))));
        }
    });
    std::map<CptId, u32> of_cpt;
    for (const auto& table : node_->impl().portal(5)->tables_for(true)->tables) {
        EXPECT_LT(table->size(), count / 4);
        of_cpt[table->cpt] += table->size();
    }
    EXPECT_EQ(of_cpt.size(), 4u);
    for (const auto& [cpt, entries] : of_cpt) EXPECT_GT(entries, count / 16) << cpt;
    for (u32 i = 0; i < count; ++i) inject(put_hdr(5, i, 1));
    ASSERT_TRUE(t.recorder.wait(count));
    EXPECT_EQ(stats().drop_count, 0u);
}

// Wildcard MEs stay with the CPT that attached them. A peer's messages begin at one CPT, which is
// another one for other peers.
TEST_F(MatchCptTest, WildcardEntriesStayWithTheirCpt) {
    start();
    std::vector<Target*> targets;
    std::vector<Md> mds;
    for (CptId cpt = 0; cpt < 4; ++cpt) {
        targets.push_back(&target(200));
        run(
            [&] {
                Result<Me> me = node_->attach(5, any_bits(7), Unlink::with_md);
                ASSERT_TRUE(me.ok());
                mds.push_back(std::move(*node_->attach(*me, targets.back()->spec(accept_put))));
            },
            cpt);
        for (const auto& table : node_->impl().portal(5)->tables_for(false)->tables)
            EXPECT_EQ(table->size(), table->cpt <= cpt ? 1u : 0u);
    }
    constexpr u32 peers = 32, each = 3;
    for (u32 i = 0; i < peers * each; ++i) {
        const u32 from = 2 + i % peers;
        inject(put_hdr(5, 7, 1, 0, from), from);
    }
    const auto told = [&] {
        std::size_t all = 0;
        for (const Target* t : targets) all += t->recorder.count();
        return all;
    };
    ASSERT_TRUE(eventually([&] { return told() == std::size_t{peers * each}; }));
    std::map<Nid, std::set<Target*>> by_peer;
    for (Target* t : targets) {
        EXPECT_GT(t->recorder.count(), 0u);
        for (const Event& event : t->recorder.events()) by_peer[event.source].insert(t);
    }
    EXPECT_EQ(by_peer.size(), peers);
    for (const auto& [peer, at] : by_peer) EXPECT_EQ(at.size(), 1u) << to_text(peer);
}

// The NID rule of 12.3: posted for one NID of a peer, found by a message of another one.
TEST_F(MatchTest, AnotherNidOfTheSamePeerMatches) {
    start();
    inject(put_hdr(9, 0, 0));  // makes NID 2 known
    inject(put_hdr(9, 0, 0, 0, 3), 3);
    PingInfo info;
    info.features = ping_ni_status | ping_multi_rail | ping_discovery | ping_rte_disabled;
    info.nis = {{tcp_nid(2), ni_status_up}, {tcp_nid(3), ni_status_up}};
    control([&] { node_->impl().peers.learn(tcp_nid(3), info, false); });
    EXPECT_EQ(node_->primary(tcp_nid(3)), tcp_nid(2));
    Target& wild = target(8);
    Target& unique = target(8);
    const Md one = attach(5, {.from = {tcp_nid(3), pid_any}, .bits = 7}, wild.spec(accept_put));
    const Md two = attach(6, {.from = process(3), .bits = 7}, unique.spec(accept_put));
    inject(put_hdr(5, 7, 1, 0, 2), 2);
    inject(put_hdr(6, 7, 1, 0, 2), 2);
    ASSERT_TRUE(wild.recorder.wait(1));
    ASSERT_TRUE(unique.recorder.wait(1));
    EXPECT_EQ(wild.recorder.events()[0].initiator, process(2));
    inject(put_hdr(6, 7, 1, 0, 3), 3);
    ASSERT_TRUE(unique.recorder.wait(2));
    EXPECT_EQ(unique.recorder.events()[1].initiator, process(2));
    EXPECT_EQ(unique.recorder.events()[1].source, tcp_nid(3));
}

}  // namespace
}  // namespace ulnet::test
