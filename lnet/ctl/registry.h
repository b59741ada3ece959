// The command table of a process that holds a Node: every module registers what it can be asked;
// the control socket, lnetd's config file and tests call it the same way.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lnet/ctl/value.h"

namespace ulnet::ctl {

enum class Access : u8 { read, write };

// One request under way. Exactly one of reply() and fail() ends it; progress() may come before, any
// number of times. All may be called from any worker. Destroying an unanswered Call fails it with
// ECANCELED. alive() turns false when the asker has gone: long operations then stop.
class Call {
 public:
    virtual ~Call() = default;
    virtual const Value& args() const = 0;
    virtual void reply(Value result) = 0;
    virtual void fail(Error error) = 0;
    virtual void progress(Value part) = 0;
    virtual bool alive() const = 0;
    // Runs `fn` once, on the control strand, when the asker goes away (soon, when it has gone); not
    // any more once the call has ended, as long as that happens on the control strand too.
    virtual void on_gone(std::function<void()> fn) = 0;
};
using CallPtr = std::unique_ptr<Call>;

struct Command {
    std::string object;  // "net", "lst"
    std::string verb;    // "add", "show"
    Access access;
    std::string help;
    // Runs on the Node's control strand; must not block; may keep the Call and answer later.
    std::function<void(CallPtr)> run;
};

// Filled before the control socket opens, then read-only.
class Registry {
 public:
    void add(Command command);
    const Command* find(std::string_view object, std::string_view verb) const;
    const std::vector<Command>& commands() const { return commands_; }

 private:
    std::vector<Command> commands_;
};

}  // namespace ulnet::ctl
