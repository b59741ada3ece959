// What the command files share; not for others.
#pragma once

#include <memory>

#include "lnet/ctl/ni_config.h"
#include "lnet/ctl/objects.h"
#include "lnet/ctl/schema.h"

namespace ulnet::ctl {

// Shared by all commands of one registry; immutable.
struct Objects {
    Node& node;
    ObjectsOptions options;
    u32 cpts() const { return node.sched().cpts().size(); }
};
using ObjectsPtr = std::shared_ptr<Objects>;
using CommandFn = void (*)(Objects&, CallPtr, const Value& args);

// Registers a verb of the tables: its arguments reach `fn` validated.
void add_command(const ObjectsPtr&, Registry&, std::string_view object, std::string_view verb,
                 CommandFn fn);

// What naming an NI of this node is checked against, without the NIDs that are taken.
NiContext ni_context(Node&, const ObjectsOptions&);

void register_config(const ObjectsPtr&, Registry&);
void register_net(const ObjectsPtr&, Registry&);
void register_peer(const ObjectsPtr&, Registry&);
void register_ping(const ObjectsPtr&, Registry&);

}  // namespace ulnet::ctl
