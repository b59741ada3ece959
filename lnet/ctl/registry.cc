// The command table. Filled at start, then read by the control socket's server and by lnetd.
#include "lnet/ctl/registry.h"

namespace ulnet::ctl {

void Registry::add(Command command) {
    CHECK(find(command.object, command.verb) == nullptr);
    CHECK(command.run != nullptr);
    commands_.push_back(std::move(command));
}

const Command* Registry::find(std::string_view object, std::string_view verb) const {
    for (const Command& command : commands_)
        if (command.object == object && command.verb == verb) return &command;
    return nullptr;
}

}  // namespace ulnet::ctl
