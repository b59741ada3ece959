// The object config: apply and export configuration files. Control strand.
#include "lnet/ctl/config.h"

#include "lnet/ctl/objects_detail.h"

namespace ulnet::ctl {
namespace {

void config_export(Objects& objects, CallPtr call) {
    call->reply(
        export_config(inspect_nis(objects.node), inspect_options(objects.node), objects.cpts()));
}

bool same_options(const NodeOptions& a, const NodeOptions& b) {
    return a.discovery == b.discovery && a.retry_count == b.retry_count &&
           a.transaction_timeout_s == b.transaction_timeout_s &&
           a.response_tracking == b.response_tracking;
}

}  // namespace

NiContext ni_context(Node& node, const ObjectsOptions& options) {
    NiContext context;
    context.lnds = options.lnds;
    context.addresses = options.addresses();
    context.cpts = node.sched().cpts().size();
    return context;
}

void apply_config(Node& node, const ObjectsOptions& options, const Value& tree,
                  std::function<void(Error, std::string)> done) {
    std::vector<NiConfig> existing;
    for (const NiView& ni : inspect_nis(node)) existing.push_back(ni.config);
    ConfigPlan plan;
    Error error =
        plan_config(tree, ni_context(node, options), existing, inspect_options(node), plan);
    if (error.ok() && !same_options(plan.options, inspect_options(node)))
        error = {Status(-EPERM), place_of(tree["global"]) +
                                     "global: these settings can only change when the node starts "
                                     "(lnetd --config)"};
    if (!error.ok()) return done(std::move(error), {});
    add_all_or_none(node, std::move(plan.nis),
                    [done = std::move(done), note = std::move(plan.note)](Error failed) {
                        done(std::move(failed), note);
                    });
}

namespace {

// Takes a tree, so the table does not apply; positions in errors come from the YAML text, which the
// caller sends along as it is.
void config_apply(Objects& objects, CallPtr call) {
    const std::string& text = call->args()["yaml"].as_text();
    std::string why;
    const Result<Value> tree = parse_yaml(text, why);
    if (!tree.ok()) return call->fail({tree.status(), why});
    apply_config(
        objects.node, objects.options, *tree,
        [call = std::shared_ptr<Call>(std::move(call))](Error error, const std::string& note) {
            if (!error.ok()) return call->fail(std::move(error));
            Value reply = Value::map();
            if (!note.empty()) reply.set("note", note);
            call->reply(std::move(reply));
        });
}

}  // namespace

void register_config(const ObjectsPtr& objects, Registry& registry) {
    registry.add({"config", "export", Access::read, "the node as a configuration file",
                  [objects](CallPtr call) { config_export(*objects, std::move(call)); }});
    registry.add({"config", "apply", Access::write, "add what a configuration file asks for",
                  [objects](CallPtr call) { config_apply(*objects, std::move(call)); }});
}

}  // namespace ulnet::ctl
