// Names, addresses and tunables of an NI, resolved and checked. Control strand.
#include "lnet/ctl/ni_config.h"

#include <algorithm>
#include <charconv>

#include "lnet/ctl/schema.h"

namespace ulnet::ctl {
namespace {

Error refuse(const Value& where, std::string text, int negative_errno = -EINVAL) {
    return {Status(negative_errno), place_of(where) + std::move(text)};
}

Lnd* driver_of(std::span<Lnd* const> lnds, Net net) {
    for (Lnd* lnd : lnds)
        if (lnd->net_type() == net.type()) return lnd;
    return nullptr;
}

Error find_driver(const Value& where, const NiContext& context, Net net, Lnd*& out) {
    if (net == net_lo || net.type() == NetType::lo)
        return refuse(where, "net: 'lo' is not allowed; every node has its loopback already");
    out = driver_of(context.lnds, net);
    if (out != nullptr) return {};
    std::string names;
    for (const Lnd* lnd : context.lnds) {
        if (lnd->net_type() == NetType::lo) continue;
        names += (names.empty() ? "" : ", ") + std::string(lnd->name());
    }
    return refuse(where, "net: '" + to_text(net) + "' is not allowed; drivers of this node: " +
                             (names.empty() ? "none" : names));
}

Error read_tunables(const Value& where, const Value& given, const Lnd& lnd, std::vector<i64>& out) {
    const std::span<const TunableSpec> specs = lnd.tunables();
    for (const TunableSpec& spec : specs) out.push_back(spec.def);
    for (const auto& [name, value] : given.members()) {
        const TunableSpec* spec = find_tunable(specs, name);
        if (spec == nullptr)
            return {Status(-EINVAL), key_place_of(value) + "unknown tunable '" + name +
                                         "' of driver " + std::string(lnd.name()) +
                                         "; allowed: " + tunable_names(specs, false)};
        i64& into = out[static_cast<std::size_t>(spec - specs.data())];
        if (Error error = parse_tunable(*spec, value, into); !error.ok()) return error;
    }
    const Error error = lnd.check_together(out);
    return error.ok() ? error : refuse(where, error.text, error.status.code());
}

// What all NIs of one request share.
Error read_common(const Value& args, const NiContext& context, NiConfig& config) {
    const auto number = [&](std::string_view name, auto& into) {
        if (args.has(name))
            into = static_cast<std::remove_reference_t<decltype(into)>>(args[name].as_int());
    };
    number("credits", config.credits);
    number("peer_credits", config.peer_credits);
    number("peer_buffer_credits", config.peer_buffer_credits);
    number("peer_timeout", config.peer_timeout_s);
    if (config.peer_credits > config.credits)
        return refuse(args["peer_credits"],
                      "peer_credits: '" + std::to_string(config.peer_credits) +
                          "' is not allowed; allowed: 1 ... " + std::to_string(config.credits) +
                          " (credits of the interface)",
                      -ERANGE);
    for (const auto& [nid, address] : args["addresses"].members())
        config.addresses.emplace_back(*parse_nid(nid), address.as_text());
    if (args.has("cpt")) return parse_cpts(args["cpt"], context.cpts, config.cpts);
    return {};
}

Error finish(const Value& where, NiConfig config, const Value& args, NiContext& context,
             std::vector<NiConfig>& out) {
    Lnd* lnd = nullptr;
    if (Error error = find_driver(where, context, config.net, lnd); !error.ok()) return error;
    if (Error error = read_tunables(where, args["tunables"], *lnd, config.tunables); !error.ok())
        return error;
    if (!config.addresses.empty())
        if (const Error error = lnd->check_addresses(config); !error.ok())
            return refuse(args["addresses"], "addresses: " + error.text, error.status.code());
    const bool taken =
        std::find(context.taken.begin(), context.taken.end(), config.nid) != context.taken.end();
    if (taken)
        return refuse(where,
                      "cannot add LNet NI: " + to_text(config.nid) + " exists on this node already",
                      -EEXIST);
    context.taken.push_back(config.nid);
    out.push_back(std::move(config));
    return {};
}

std::string interface_names(const NiContext& context) {
    std::vector<std::string> names;
    for (const InterfaceAddress& entry : context.addresses)
        if (std::find(names.begin(), names.end(), entry.interface) == names.end())
            names.push_back(entry.interface);
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
}

// By NID: the interface is the one that has the address. A NID that has an entry in `addresses`
// needs none: it may be any number, and is where the entry says.
Error from_nid(const Value& item, const NiConfig& common, const Value& args, NiContext& context,
               std::vector<NiConfig>& out) {
    const Result<Nid> nid = parse_nid(item.as_text());
    if (!nid.ok() || nid->any())
        return refuse(item, "nid: " + show_for_error(item) +
                                " is not allowed; allowed: a NID, for example 192.168.10.1@tcp");
    NiConfig config = common;
    config.nid = *nid;
    config.net = nid->net();
    if (args.has("net") && parse_net(args["net"].as_text()).ok() &&
        *parse_net(args["net"].as_text()) != config.net)
        return refuse(item, "nid: " + show_for_error(item) + " is not allowed; allowed: a NID on " +
                                args["net"].as_text() + ", the net of this block");
    const InterfaceAddress* owner = find_address(context.addresses, nid->address());
    if (args["addresses"].has(to_text(*nid)))
        return finish(item, std::move(config), args, context, out);
    if (owner == nullptr)
        return refuse(item,
                      "nid: " + show_for_error(item) +
                          " is not allowed; no interface of this machine has this address",
                      -EADDRNOTAVAIL);
    config.interface = owner->interface;
    const Value& interfaces = args["if"];
    if (interfaces.size() > 0 &&
        (interfaces.size() > 1 || interfaces.items()[0].as_text() != owner->interface))
        return refuse(item, "nid: " + show_for_error(item) + " is not allowed; the address is of " +
                                owner->interface + ", and interfaces names " +
                                show_for_error(interfaces.items()[0]));
    return finish(item, std::move(config), args, context, out);
}

// By interface: the address is its first IPv4 one. "eth0[0,1]" names its partitions too.
Error from_interface(const Value& item, const NiConfig& common, const Value& args,
                     NiContext& context, std::vector<NiConfig>& out) {
    NiConfig config = common;
    std::string name = item.as_text();
    if (const std::size_t bracket = name.find('['); bracket != std::string::npos) {
        Value cpts(name.substr(bracket));
        cpts.line = item.line;
        cpts.column = item.column;
        if (Error error = parse_cpts(cpts, context.cpts, config.cpts); !error.ok()) return error;
        name.resize(bracket);
    }
    bool known = false;
    const InterfaceAddress* address = first_ipv4(context.addresses, name, known);
    if (!known)
        return refuse(item,
                      "cannot add LNet NI: no interface matching '" + name +
                          "'; allowed: " + interface_names(context),
                      -ENODEV);
    if (address == nullptr)
        return refuse(item,
                      "cannot add LNet NI: interface '" + name +
                          "' has no IPv4 address; name the NID instead to use another address",
                      -EADDRNOTAVAIL);
    u32 ipv4 = 0;
    for (const u8 byte : address->address) ipv4 = (ipv4 << 8) | byte;
    config.interface = name;
    config.nid = Nid::ipv4(config.net, ipv4);
    return finish(item, std::move(config), args, context, out);
}

}  // namespace

const TunableSpec* find_tunable(std::span<const TunableSpec> specs, std::string_view name) {
    for (const TunableSpec& spec : specs)
        if (spec.name == name) return &spec;
    for (const KernelTunable& known : kernel_tunables)
        if (known.shown == name && known.name != name) return find_tunable(specs, known.name);
    return nullptr;
}

std::string tunable_names(std::span<const TunableSpec> specs, bool per_ni_only) {
    std::string text;
    for (const TunableSpec& spec : specs) {
        if (per_ni_only && !spec.per_ni) continue;
        text += (text.empty() ? "" : ", ") + std::string(spec.name);
    }
    return text.empty() ? "none" : text;
}

std::string tunable_text(const TunableSpec& spec, i64 value) {
    if (spec.words.empty()) return std::to_string(value);
    const bool valid = value >= 0 && static_cast<u64>(value) < spec.words.size();
    return valid ? std::string(spec.words[static_cast<std::size_t>(value)]) : std::to_string(value);
}

std::string cpts_text(const std::vector<CptId>& cpts, u32 count) {
    std::string text;
    const auto add = [&](u32 cpt) { text += (text.empty() ? "" : ",") + std::to_string(cpt); };
    for (const CptId cpt : cpts) add(cpt);
    if (cpts.empty())
        for (u32 cpt = 0; cpt < count; ++cpt) add(cpt);
    return "[" + text + "]";
}

Error parse_tunable(const TunableSpec& spec, const Value& value, i64& out) {
    const std::string text = value.is_integer()                     ? std::to_string(value.as_int())
                             : value.kind() == Value::Kind::boolean ? (value.as_bool() ? "1" : "0")
                                                                    : value.as_text();
    std::string allowed;
    for (std::size_t i = 0; i < spec.words.size(); ++i) {
        if (spec.words[i] == text) {
            out = static_cast<i64>(i);
            return {};
        }
        allowed += (i == 0 ? "" : ", ") + std::string(spec.words[i]);
    }
    i64 number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = error == std::errc{} && end == text.data() + text.size();
    if (spec.words.empty()) {
        if (is_number && number >= spec.low && number <= spec.high) {
            out = number;
            return {};
        }
        allowed = std::to_string(spec.low) + " ... " + std::to_string(spec.high);
        if (!spec.unit.empty()) allowed += " " + std::string(spec.unit);
    }
    return refuse(value,
                  std::string(spec.name) + ": " + show_for_error(value) +
                      " is not allowed; allowed: " + allowed,
                  is_number && spec.words.empty() ? -ERANGE : -EINVAL);
}

Error make_ni_configs(const Value& args, NiContext& context, std::vector<NiConfig>& out) {
    NiConfig common;
    if (Error error = read_common(args, context, common); !error.ok()) return error;
    if (args.has("nid")) {
        for (const Value& item : args["nid"].items())
            if (Error error = from_nid(item, common, args, context, out); !error.ok()) return error;
        return {};
    }
    if (!args.has("net"))
        return refuse(args, "missing mandatory parameters in NI config: 'network'; "
                            "allowed: net with if, or nid");
    common.net = *parse_net(args["net"].as_text());
    Lnd* lnd = nullptr;
    if (Error error = find_driver(args["net"], context, common.net, lnd); !error.ok()) return error;
    if (!args.has("if"))
        return refuse(args, "creating a local NI needs at least one interface (if) or nid");
    for (const Value& item : args["if"].items())
        if (Error error = from_interface(item, common, args, context, out); !error.ok())
            return error;
    return {};
}

}  // namespace ulnet::ctl
