// Nodes with self test on a LinkNet, driven through their registries as the tool does it. For the
// test's own thread, which is outside the Sched.
#pragma once

#include <gtest/gtest.h>

#include "cpt/threads.h"
#include "lnet/ctl/registry.h"
#include "selftest/selftest.h"
#include "selftest/wire_session.h"
#include "selftest/wire_test.h"
#include "tests/unit/selftest/link_lnd.h"

namespace ulnet::lst {

using ctl::Value;

// What came of a command.
struct Answer {
    bool done = false;
    Error error;
    Value value;
    std::vector<Value> parts;
    bool ok() const { return done && error.ok(); }
    int code() const { return error.status.code(); }
};

// A command under way.
class Pending {
 public:
    struct Shared;
    explicit Pending(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
    Answer wait();
    bool done() const;
    std::size_t parts() const;
    void leave();  // the asker goes away

 private:
    std::shared_ptr<Shared> shared_;
};

// Waits until the condition holds; false after 30 s.
bool eventually(const std::function<bool()>& condition);

class Rig;

class Host {
 public:
    // Null options: a Node alone, without self test.
    Host(Rig&, const Nid&, const SelftestOptions*);
    ~Host();
    const Nid& nid() const { return nid_; }
    std::string text() const { return to_text(nid_); }
    Node& node() { return *node_; }
    Pending start(std::string_view verb, Value args = Value::map());
    Answer call(std::string_view verb, Value args = Value::map());
    // As call(), and it must succeed.
    Value must(std::string_view verb, Value args = Value::map());
    void close_selftest();
    Sched& sched();

 private:
    Rig& rig_;
    const Nid nid_;
    std::unique_ptr<Lnd> lo_;
    LinkLnd link_;
    ctl::Registry registry_;
    std::unique_ptr<Node> node_;
    std::unique_ptr<Selftest> selftest_;
};

class Rig {
 public:
    explicit Rig(u32 workers = 3);
    ~Rig();
    // The NID is 10.0.0.0@tcp plus the number.
    Host& add(u32 number, const SelftestOptions& options = {}, const NodeOptions& node = {});
    Host& add_bare(u32 number, const NodeOptions& node = {});
    Host& operator[](std::size_t index) { return *hosts_[index]; }
    // Ends the index-th host as a crash would: it is cut off first.
    void kill(std::size_t index);

    LinkNet net;
    NodeOptions node_options;
    Sched& sched() { return *sched_; }

 private:
    friend class Host;
    Host& add_host(u32 number, const SelftestOptions*, const NodeOptions&);
    std::unique_ptr<ThreadSched> sched_;
    std::vector<std::unique_ptr<Host>> hosts_;
};

// {"a", 1} pairs to a map; a list of texts.
Value map(Value::Map members);
Value texts(std::initializer_list<std::string> items);

}  // namespace ulnet::lst
