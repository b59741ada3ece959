// Plans what a configuration file asks for, and writes a node as such a file. Control strand, or
// lnetd before there is a Node.
#include "lnet/ctl/config.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lnet/ctl/bounds.h"
#include "lnet/ctl/schema.h"

namespace ulnet::ctl {
namespace {

Error refuse(const Value& where, std::string text, int negative_errno = -EINVAL) {
    return {Status(negative_errno), place_of(where) + std::move(text)};
}

// Sections of the kernel tool's files that ask for what this version does not have. A file with
// them is taken, without them, so that an export of the kernel's tool works as it is.
constexpr std::string_view later_sections[] = {"route", "routing", "buffers",
                                               "peer",  "numa",    "udsp"};
constexpr std::string_view sections_allowed = "net, global";

const Verb& table(std::string_view object, std::string_view verb) {
    const Object* found = find_object(object);
    CHECK(found != nullptr);
    const Verb* table = find_verb(*found, verb);
    CHECK(table != nullptr);
    return *table;
}

bool same(const NiConfig& a, const NiConfig& b, u32 cpts) {
    return a.net == b.net && a.nid == b.nid && a.interface == b.interface &&
           cpts_text(a.cpts, cpts) == cpts_text(b.cpts, cpts) && a.credits == b.credits &&
           a.peer_credits == b.peer_credits && a.peer_buffer_credits == b.peer_buffer_credits &&
           a.peer_timeout_s == b.peer_timeout_s && a.tunables == b.tunables &&
           a.addresses == b.addresses;
}

// One entry of a `local NI(s)` list.
Error plan_ni(const Value& entry, const Value& net, NiContext& context,
              std::span<const NiConfig> existing, ConfigPlan& out) {
    Value flat, args;
    if (Error error = flatten(table("net", "add"), entry, flat); !error.ok()) return error;
    flat.set("net", net);
    if (Error error = validate(table("net", "add"), flat, args); !error.ok()) return error;
    args.line = entry.line;
    args.column = entry.column;
    std::vector<NiConfig> wanted;
    if (Error error = make_ni_configs(args, context, wanted); !error.ok()) return error;
    for (NiConfig& config : wanted) {
        const auto old = std::find_if(existing.begin(), existing.end(),
                                      [&](const NiConfig& ni) { return ni.nid == config.nid; });
        if (old == existing.end())
            out.nis.push_back(std::move(config));
        else if (!same(*old, config, context.cpts))
            return refuse(entry,
                          to_text(config.nid) + " exists on this node with other settings; "
                                                "remove it first (lnetctl net del) or import "
                                                "what lnetctl export shows",
                          -EEXIST);
    }
    return {};
}

Error plan_net(const Value& block, NiContext& context, std::span<const NiConfig> existing,
               ConfigPlan& out) {
    if (!block.is_map())
        return refuse(block, "net: " + show_for_error(block) +
                                 " is not allowed; allowed: a map with 'net type' and "
                                 "'local NI(s)'");
    for (const auto& [key, value] : block.members())
        if (key != "net type" && key != "local NI(s)")
            return {Status(-EINVAL), key_place_of(value) + "unknown key '" + key +
                                         "'; allowed: net type, local NI(s)"};
    const Value& net = block["net type"];
    if (!net.is_text() || !parse_net(net.as_text()).ok())
        return refuse(net.is_null() ? block : net,
                      "net type: " + show_for_error(net) +
                          " is not allowed; allowed: the name of a network, for example tcp");
    if (*parse_net(net.as_text()) == net_lo) return {};  // every node has it
    const Value& list = block["local NI(s)"];
    if (!list.is_list() || list.size() == 0)
        return refuse(list.is_null() ? block : list,
                      "local NI(s): " + show_for_error(list) +
                          " is not allowed; allowed: a list with at least one interface");
    for (const Value& entry : list.items())
        if (Error error = plan_ni(entry, net, context, existing, out); !error.ok()) return error;
    return {};
}

// What is not applied, gathered for the one sentence of ConfigPlan::note.
struct LeftOut {
    std::string sections, globals;
    static void add(std::string& list, std::string_view name) {
        list += (list.empty() ? "" : ", ") + std::string(name);
    }
    std::string sentence() const {
        std::string text;
        if (!sections.empty()) text = "sections " + sections;
        if (!globals.empty()) text += (text.empty() ? "global " : "; global ") + globals;
        return text.empty() ? text : "not available in this version and not applied: " + text;
    }
};

Error plan_global(const Value& map, LeftOut& left_out, ConfigPlan& out) {
    const Verb& verb = table("global", "set");
    Value flat, args;
    if (Error error = flatten(verb, map, flat); !error.ok()) return error;
    if (Error error = validate(verb, flat, args); !error.ok()) return error;
    for (const auto& [key, value] : map.members()) {
        const Field* field = find_field(verb, key);
        const bool off = value.is_integer() && value.as_int() == 0;  // as it is here anyway
        if (field != nullptr && field->type == FieldType::ignored && key != "lnd_timeout" && !off)
            LeftOut::add(left_out.globals, key);
    }
    NodeOptions& options = out.options;
    if (args.has("discovery")) options.discovery = args["discovery"].as_int() != 0;
    if (args.has("retry_count"))
        options.retry_count = static_cast<u32>(args["retry_count"].as_int());
    if (args.has("response_tracking"))
        options.response_tracking =
            static_cast<ResponseTracking>(args["response_tracking"].as_int());
    if (args.has("transaction_timeout"))
        options.transaction_timeout_s = static_cast<u32>(args["transaction_timeout"].as_int());
    if (options.transaction_timeout_s <= options.retry_count)
        return refuse(map, "transaction_timeout: '" +
                               std::to_string(options.transaction_timeout_s) +
                               "' is not allowed; allowed: more than retry_count, which is " +
                               std::to_string(options.retry_count));
    return {};
}

Value ni_entry(const NiView& ni, u32 cpts) {
    Value entry = Value::map();
    entry.set("nid", to_text(ni.config.nid));
    if (!ni.config.interface.empty())
        entry.set("interfaces", Value::map({{"0", Value(ni.config.interface)}}));
    Value& tunables = entry.set("tunables", Value::map());
    tunables.set("peer_timeout", static_cast<i64>(ni.config.peer_timeout_s));
    tunables.set("peer_credits", ni.config.peer_credits);
    tunables.set("peer_buffer_credits", ni.config.peer_buffer_credits);
    tunables.set("credits", ni.config.credits);
    Value lnd = Value::map();
    for (std::size_t i = 0; i < ni.tunables.size() && i < ni.config.tunables.size(); ++i) {
        const TunableSpec& spec = ni.tunables[i];
        const i64 value = ni.config.tunables[i];
        if (spec.words.empty())
            lnd.set(spec.name, value);
        else
            lnd.set(spec.name, tunable_text(spec, value));
    }
    if (lnd.size() > 0) entry.set("lnd tunables", std::move(lnd));
    if (!ni.config.addresses.empty()) {
        Value& addresses = entry.set("addresses", Value::map());
        for (const auto& [nid, address] : ni.config.addresses) addresses.set(to_text(nid), address);
    }
    entry.set("CPT", cpts_text(ni.config.cpts, cpts));
    return entry;
}

}  // namespace

Error plan_config(const Value& tree, NiContext context, std::span<const NiConfig> existing,
                  const NodeOptions& options, ConfigPlan& out) {
    out.options = options;
    if (tree.is_null()) return {};  // an empty file
    if (!tree.is_map())
        return refuse(tree, "the file must be a map; allowed: " + std::string(sections_allowed));
    LeftOut left_out;
    for (const auto& [key, value] : tree.members()) {
        if (value.is_null()) continue;
        if (std::find(std::begin(later_sections), std::end(later_sections), key) !=
            std::end(later_sections)) {
            LeftOut::add(left_out.sections, key);
        } else if (key == "ip2nets") {
            // Without it the node would be on none of the networks that the file is about.
            return {Status(-EOPNOTSUPP),
                    key_place_of(value) +
                        "ip2nets: not available yet; allowed: " + std::string(sections_allowed)};
        } else if (key == "net") {
            if (!value.is_list())
                return refuse(value, "net: " + show_for_error(value) +
                                         " is not allowed; allowed: a list of networks");
            for (const Value& block : value.items())
                if (Error error = plan_net(block, context, existing, out); !error.ok())
                    return error;
        } else if (key == "global") {
            if (Error error = plan_global(value, left_out, out); !error.ok()) return error;
        } else {
            return {Status(-EINVAL), key_place_of(value) + "unknown key '" + key +
                                         "'; allowed: " + std::string(sections_allowed)};
        }
    }
    out.note = left_out.sentence();
    return {};
}

Value export_config(std::span<const NiView> nis, const NodeOptions& options, u32 cpts) {
    Value nets = Value::list();
    std::vector<Net> done;
    for (const NiView& first : nis) {
        const Net net = first.config.net;
        if (net == net_lo || std::find(done.begin(), done.end(), net) != done.end()) continue;
        done.push_back(net);
        Value list = Value::list();
        for (const NiView& ni : nis)
            if (ni.config.net == net) list.push(ni_entry(ni, cpts));
        Value block = Value::map();
        block.set("net type", to_text(net));
        block.set("local NI(s)", std::move(list));
        nets.push(std::move(block));
    }
    Value global = Value::map();
    global.set("discovery", options.discovery ? 1 : 0);
    global.set("retry_count", options.retry_count);
    global.set("transaction_timeout", options.transaction_timeout_s);
    global.set("response_tracking", static_cast<i64>(options.response_tracking));
    Value tree = Value::map();
    if (nets.size() > 0) tree.set("net", std::move(nets));
    tree.set("global", std::move(global));
    return tree;
}

Error read_text_file(const std::string& path, std::string& out) {
    constexpr std::size_t step_bytes = 64 * 1024;
    const bool standard = path == "-";
    const auto failed = [&](int code) -> Error {
        return {Status(-code), "cannot read " +
                                   (standard ? "the standard input" : "'" + path + "'") + ": " +
                                   Status(-code).text()};
    };
    const int fd = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failed(errno);
    out.clear();
    Error error;
    while (error.ok() && out.size() <= text_bytes_max) {
        const std::size_t had = out.size();
        out.resize(had + step_bytes);
        const ssize_t got = ::read(fd, out.data() + had, step_bytes);
        const int code = errno;
        out.resize(had + static_cast<std::size_t>(got > 0 ? got : 0));
        if (got == 0) break;
        if (got < 0 && code != EINTR) error = failed(code);
    }
    if (!standard) ::close(fd);
    return error.ok() && out.size() > text_bytes_max ? failed(EFBIG) : error;
}

Error read_yaml_file(const std::string& path, Value& out) {
    std::string text, why;
    if (Error error = read_text_file(path, text); !error.ok()) return error;
    Result<Value> tree = parse_yaml(text, why);
    if (!tree.ok()) return {tree.status(), path + ": " + why};
    out = std::move(*tree);
    return {};
}

}  // namespace ulnet::ctl
