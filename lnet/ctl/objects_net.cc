// The commands of the object net. Control strand.
#include <algorithm>

#include "lnet/ctl/objects.h"
#include "lnet/ctl/objects_detail.h"

namespace ulnet::ctl {
namespace {

Error two_ways() {
    return {Status(-EINVAL), "nid: not together with net and if; allowed: one of the two ways to "
                             "name an interface"};
}

void net_add(Objects& objects, CallPtr call, const Value& args) {
    if (args.has("nid") && (args.has("net") || args.has("if"))) return call->fail(two_ways());
    NiContext context = ni_context(objects.node, objects.options);
    context.taken = objects.node.nids();
    std::vector<NiConfig> configs;
    if (Error error = make_ni_configs(args, context, configs); !error.ok())
        return call->fail(std::move(error));
    // add_all_or_none wants a callback that can be copied.
    add_all_or_none(objects.node, std::move(configs),
                    [call = std::shared_ptr<Call>(std::move(call))](Error error) {
                        if (error.ok())
                            call->reply(Value::map());
                        else
                            call->fail(std::move(error));
                    });
}

Error no_such_net(const Value& net) {
    return {Status(-ESRCH), "this node has no network '" + net.as_text() + "'"};
}

bool names_interface(const Value& interfaces, const std::string& interface) {
    const auto& items = interfaces.items();
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& item) { return item.as_text() == interface; });
}

// The NIs that `net del` names; every NID, interface and net must name at least one.
Error nis_to_delete(Objects& objects, const Value& args, std::vector<Nid>& out) {
    const std::vector<NiView> nis = inspect_nis(objects.node);
    if (args.has("nid") && (args.has("net") || args.has("if"))) return two_ways();
    if (args.has("nid")) {
        for (const Value& item : args["nid"].items()) {
            const Result<Nid> nid = parse_nid(item.as_text());
            const bool found = nid.ok() && !nid->is_lo() &&
                               std::any_of(nis.begin(), nis.end(),
                                           [&](const NiView& ni) { return ni.config.nid == *nid; });
            if (!found)
                return {Status(-ENODEV), "cannot del LNet NI: this node has no NI '" +
                                             item.as_text() + "' to remove"};
            if (std::find(out.begin(), out.end(), *nid) == out.end()) out.push_back(*nid);
        }
        return {};
    }
    if (!args.has("net"))
        return {Status(-EINVAL),
                "missing mandatory parameters in NI config: 'network'; allowed: net, or nid"};
    const Net net = *parse_net(args["net"].as_text());
    if (net == net_lo) return {Status(-EINVAL), "cannot del network: 'lo' is part of every node"};
    bool has_net = false;
    for (const NiView& ni : nis) {
        if (ni.config.net != net) continue;
        has_net = true;
        if (!args.has("if") || names_interface(args["if"], ni.config.interface))
            out.push_back(ni.config.nid);
    }
    if (!has_net) return no_such_net(args["net"]);
    // A wrong name takes nothing along with it.
    for (const Value& item : args["if"].items()) {
        const bool found = std::any_of(nis.begin(), nis.end(), [&](const NiView& ni) {
            return ni.config.net == net && ni.config.interface == item.as_text();
        });
        if (!found)
            return {Status(-ENODEV), "cannot del LNet NI: network '" + args["net"].as_text() +
                                         "' is not on interface '" + item.as_text() + "'"};
    }
    return {};
}

void net_del(Objects& objects, CallPtr call, const Value& args) {
    std::vector<Nid> nids;
    if (Error error = nis_to_delete(objects, args, nids); !error.ok())
        return call->fail(std::move(error));
    struct Removal {
        CallPtr call;
        std::size_t left;
        Error error;
    };
    // Shared by the callbacks of the removals, the last of which answers.
    auto removal = std::make_shared<Removal>(Removal{std::move(call), nids.size(), {}});
    const auto one_done = [removal] {
        if (--removal->left > 0) return;
        if (removal->error.ok())
            removal->call->reply(Value::map());
        else
            removal->call->fail(std::move(removal->error));
    };
    for (const Nid& nid : nids) {
        Error error = objects.node.del_ni(nid, one_done);
        if (error.ok()) continue;
        if (removal->error.ok()) removal->error = std::move(error);
        one_done();
    }
}

void net_show(Objects& objects, CallPtr call, const Value& args) {
    const Net only = args.has("net") ? *parse_net(args["net"].as_text()) : net_any;
    Value shown =
        show_nets(inspect_nis(objects.node), only, args["verbose"].as_int(), objects.cpts());
    if (shown["net"].size() == 0) return call->fail(no_such_net(args["net"]));
    call->reply(std::move(shown));
}

// Which NIs `net set` changes.
Error nis_to_set(const Value& args, std::vector<NiView>& nis) {
    const int ways = int{args.has("nid")} + int{args.has("net")} + int{args["all"].as_bool()};
    if (ways != 1) return {Status(-EINVAL), "net set needs one of nid, net and all"};
    const Net net = args.has("net") ? *parse_net(args["net"].as_text()) : net_any;
    const Nid nid = args.has("nid") ? *parse_nid(args["nid"].as_text()) : Nid();
    std::erase_if(nis, [&](const NiView& ni) {
        if (ni.config.net == net_lo) return true;
        return (args.has("net") && ni.config.net != net) ||
               (args.has("nid") && ni.config.nid != nid);
    });
    if (!nis.empty()) return {};
    if (args.has("net") && net != net_lo) return no_such_net(args["net"]);
    const std::string which = args.has("nid")   ? " '" + args["nid"].as_text() + "'"
                              : args.has("net") ? " on '" + args["net"].as_text() + "'"
                                                : "";
    return {Status(-ENODEV), "this node has no NI" + which + " to set values on"};
}

Error check_settable(const Objects& objects, const NiView& ni, const Value& tunables) {
    std::vector<i64> values = ni.config.tunables;
    for (const auto& [name, value] : tunables.members()) {
        const TunableSpec* spec = find_tunable(ni.tunables, name);
        if (spec == nullptr || !spec->per_ni)
            return {Status(-EINVAL),
                    "tunable '" + name + "' of " + to_text(ni.config.nid) +
                        (spec == nullptr ? " is not known" : " is fixed while the NI runs") +
                        "; allowed: " + tunable_names(ni.tunables, true)};
        i64 number = 0;
        if (Error error = parse_tunable(*spec, value, number); !error.ok()) return error;
        const auto index = static_cast<std::size_t>(spec - ni.tunables.data());
        if (index < values.size()) values[index] = number;
    }
    for (const Lnd* lnd : objects.options.lnds)
        if (lnd->net_type() == ni.config.net.type()) return lnd->check_together(values);
    return {};
}

// All values are checked for all NIs before the first one changes.
void net_set(Objects& objects, CallPtr call, const Value& args) {
    std::vector<NiView> nis = inspect_nis(objects.node);
    if (Error error = nis_to_set(args, nis); !error.ok()) return call->fail(std::move(error));
    const Value& tunables = args["tunables"];
    if (tunables.size() == 0)
        return call->fail({Status(-EINVAL), "net set needs a value to set; allowed: " +
                                                tunable_names(nis.front().tunables, true)});
    for (const NiView& ni : nis)
        if (Error error = check_settable(objects, ni, tunables); !error.ok())
            return call->fail(std::move(error));
    for (const NiView& ni : nis) {
        for (const auto& [name, value] : tunables.members()) {
            const std::string text = value.is_text() ? value.as_text() : to_json(value);
            const std::string_view known = find_tunable(ni.tunables, name)->name;
            Error error = set_ni_tunable(objects.node, ni.config.nid, known, text);
            if (!error.ok()) return call->fail(std::move(error));
        }
    }
    call->reply(Value::map());
}

}  // namespace

void register_net(const ObjectsPtr& objects, Registry& registry) {
    add_command(objects, registry, "net", "add", net_add);
    add_command(objects, registry, "net", "del", net_del);
    add_command(objects, registry, "net", "show", net_show);
    add_command(objects, registry, "net", "set", net_set);
}

}  // namespace ulnet::ctl
