// Rules that break things on purpose: which messages or streams, how often, and what happens to
// them. The fault drivers apply them (lnds/fault, lnds/sock/fault_stream.h), tools read and show
// them. Grammar: lnetd(8), --fault.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cpt/base/prng.h"
#include "lnet/ctl/value.h"
#include "lnet/msg.h"
#include "lnet/nidrange.h"

namespace ulnet {

enum class FaultAction : u8 {
    drop,     // is not sent, or not shown to the core
    delay,    // passes after `time`
    corrupt,  // one byte of its payload is wrong; the sender's memory is not touched
    reset,    // passes, then all connections to the peer end
    stall,    // this and all that follows between the two waits until `time` is over
    // Of connections:
    stream_duplicate,  // a second one begins with the same bytes
    stream_reset,      // ends after `after` bytes
    stream_stall,      // after `after` bytes nothing moves for `time`
    stream_corrupt,    // the byte after the first `after` is wrong
};
std::string_view to_text(FaultAction);
constexpr bool of_streams(FaultAction action) {
    return action >= FaultAction::stream_duplicate;
}
enum class FaultWay : u8 { send = 1, receive = 2, both = 3 };

struct FaultRule {
    FaultAction action = FaultAction::drop;
    NidList source, dest;  // of the header; empty = any
    NidList local, peer;   // the two interfaces; of a stream the peer's address on net tcp
    u32 messages = 0;      // bits 1 << MsgType; 0 = all
    u64 portals = 0;       // bits 1 << portal, of PUT and GET; 0 = all messages
    FaultWay way = FaultWay::both;
    u32 rate = 1;         // one of every `rate`, at random within each group; 0 = by interval
    Duration interval{};  // one in each, at a random time
    u64 count = 0;        // at most so many; 0 = without end
    Duration time{};      // of delay and stall
    u32 healths = 0;      // drop: bits 1 << Health, one of them is reported; 0 = success
    u64 after = 0;        // of streams: bytes that pass before
};
// One sentence naming key, value and what is allowed when it is refused.
Error parse_fault_rule(std::string_view text, FaultRule& out);
std::string to_text(const FaultRule&);  // parses to the same rule
// The errno that a message ends with when this is reported for it.
Status status_of(Health);

// A message as rules see it.
struct FaultSubject {
    FaultWay way;  // send or receive
    const Hdr& hdr;
    const Nid& local;
    const Nid& peer;
};

// The rules of a process, and what they did. Any thread; a leaf lock.
class FaultRules {
 public:
    explicit FaultRules(std::vector<FaultRule> rules);
    bool of_messages() const { return of_messages_; }
    bool of_streams() const { return of_streams_; }
    // The first rule that is to be applied to this message; null = none.
    const FaultRule* hit(const FaultSubject&, Instant now, Prng&);
    // All rules that are to be applied to a new stream to or from this address.
    std::vector<const FaultRule*> hit_stream(const Nid& peer, Instant now, Prng&);
    struct Counts {
        u64 matched = 0, applied = 0;
    };
    Counts counts(std::size_t index) const;
    void describe(ctl::Value&) const;  // a list

 private:
    struct Entry {
        FaultRule rule;
        Counts counts;
        u64 chosen = 0;  // by rate: the one of this group
        bool begun = false;
        Instant window{}, at{};  // by interval: when this one began, and when to apply
    };
    bool due(Entry&, Instant now, Prng&);
    mutable std::mutex lock_;  // guards: entries_ but for the rules, which never change
    std::vector<std::unique_ptr<Entry>> entries_;
    bool of_messages_ = false, of_streams_ = false;
};

}  // namespace ulnet
