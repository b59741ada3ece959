// Registers the commands of the core's objects. Before the control socket opens.
#include "lnet/ctl/objects.h"

#include "lnet/ctl/objects_detail.h"

namespace ulnet::ctl {

void add_command(const ObjectsPtr& objects, Registry& registry, std::string_view object,
                 std::string_view verb, CommandFn fn) {
    const Object* found = find_object(object);
    CHECK(found != nullptr);
    const Verb* table = find_verb(*found, verb);
    CHECK(table != nullptr);
    registry.add({std::string(object), std::string(verb), table->access, std::string(table->help),
                  [objects, table, fn](CallPtr call) {
                      Value args;
                      if (Error error = validate(*table, call->args(), args); !error.ok())
                          return call->fail(std::move(error));
                      fn(*objects, std::move(call), args);
                  }});
}

void register_objects(Node& node, Registry& registry, const ObjectsOptions& options) {
    const auto objects = std::make_shared<Objects>(Objects{node, options});
    register_config(objects, registry);
    register_net(objects, registry);
    register_peer(objects, registry);
    register_ping(objects, registry);
}

void register_cpt(const ThreadSched& sched, Registry& registry) {
    registry.add({"cpt", "show", Access::read, "show the load of every partition and worker",
                  [&sched](CallPtr call) {
                      call->reply(show_cpts(sched.cpts(), sched.cpt_stats(), sched.worker_stats()));
                  }});
}

}  // namespace ulnet::ctl
