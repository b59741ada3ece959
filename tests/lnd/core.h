// The core above a driver under test: checks the contract of lnet/lnd.h at every upcall, and keeps
// what happened. Upcalls call back into the driver, so that one that comes with a lock held shows.
#pragma once

#include <mutex>
#include <set>
#include <vector>

#include "tests/lnd/bench.h"

namespace ulnet::lnd_test {

using Bytes = std::vector<std::byte>;

// A message with memory of its own, filled by its number.
struct TestMsg : Msg {
    TestMsg(u64 number, u32 len, u32 fragments, bool filled);
    u32 wrong_bytes(u32 len) const;
    const u64 number;
    Bytes bytes;
    Mem mem;
    u32 ends = 0;
    Status status;
};

// The number of a message: where its type has room for one.
inline u64 number_of(const Hdr& hdr) {
    return hdr.type == MsgType::reply || hdr.type == MsgType::get ? hdr.handle.object_cookie
                                                                  : hdr.match_bits;
}

enum class Answer : u8 { take, cut, discard, park, refuse };

struct Arrival {
    Hdr hdr;
    ProcessId from;
    RxToken token;
};

class Core final : public LndUp {
 public:
    // What is done with a message: of its number (match bits). Called without a lock.
    using Decide = std::function<Answer(const Hdr&)>;
    explicit Core(Decide decide) : decide_(std::move(decide)) {}
    ~Core();

    Status arrived(const Hdr&, const ProcessId&, RxToken, RdmaGet) override;
    void finished(Msg&, Status, Health) override;
    Msg* reply_for(Msg&) override { return nullptr; }
    void peer_event(const Nid&, PeerEvent) override;
    void ni_event(NiEvent) override {}

    void attach(LndNi* ni);
    // The NI's `done` has run: nothing may come any more.
    void closed();
    void take(const Arrival&, u32 len);
    std::vector<Arrival> take_parked();
    // From now on what would be parked is thrown away; a driver that closes waits for its tokens.
    void park_no_more();

    struct Tally {
        u64 sent_ok = 0, sent_failed = 0, received_ok = 0, received_failed = 0, wrong_bytes = 0;
        u64 arrived = 0, parked = 0, refused = 0, up = 0, down = 0;
        std::vector<u64> order;  // numbers as they arrived
    };
    Tally tally();
    bool ended(const TestMsg&);
    void sending(const std::shared_ptr<TestMsg>&);

 private:
    LndNi* ni();
    const Decide decide_;
    std::mutex lock_;
    LndNi* ni_ = nullptr;
    bool open_ = true, parks_ = true;
    Tally tally_;
    std::vector<Arrival> parked_;
    std::set<std::shared_ptr<TestMsg>> out_, in_;  // with the driver
};

// A node with one NI of the driver.
class TestNode {
 public:
    TestNode(Subject&, u32 number, Core::Decide = {});
    ~TestNode();
    const Nid& nid() const { return config_.nid; }
    std::shared_ptr<TestMsg> send(const Nid& to, u64 id, u32 len, u32 fragments = 1,
                                  MsgType = MsgType::put, Duration time = {});
    void run(const std::function<void(LndNi&)>& fn);
    void close();
    Core core;

 private:
    Subject& subject_;
    const u32 number_;
    const NiConfig config_;
    const std::unique_ptr<Lnd> lnd_;
    std::unique_ptr<LndNi> ni_;
};

}  // namespace ulnet::lnd_test
