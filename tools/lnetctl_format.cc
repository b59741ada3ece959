// Error blocks, ping answers and help texts of lnetctl.
#include "tools/lnetctl_format.h"

#include <algorithm>
#include <cerrno>

#include "lnet/ctl/yaml_scalar.h"

namespace ulnet::tools {
namespace {

using ctl::Field;
using ctl::FieldType;

std::string single_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ') return ctl::quote_yaml(text);
        out += c;
        if (c == '\'') out += c;
    }
    return out + "'";
}

std::string_view argument_name(const Field& field) {
    switch (field.type) {
    case FieldType::integer:
        return "N";
    case FieldType::flag:
        return "";
    case FieldType::text:
        return "TEXT";
    case FieldType::net:
        return "NET";
    case FieldType::nid:
        return "NID";
    case FieldType::nids:
        return "NID[,NID...]";
    case FieldType::interfaces:
        return "IF[,IF...]";
    case FieldType::cpts:
        return "[N,N...]";
    case FieldType::addresses:
        return "NID=ADDRESS";
    case FieldType::tunables:
        return "NAME=VALUE";
    case FieldType::tunable:
        return "N";
    case FieldType::level:
        return "[LEVEL]";
    case FieldType::ignored:
        return "";
    }
    return "";
}

// Of the kernel's tool, and on their way here. A command without a word: all of it.
struct Later {
    std::string_view command, word;
};
constexpr Later later_commands[] = {
    {"lnet", ""},       {"route", ""},      {"routing", ""},         {"set", ""},
    {"discover", ""},   {"udsp", ""},       {"debug", ""},           {"fault", ""},
    {"cpt-of-nid", ""}, {"service-id", ""}, {"setup-mrrouting", ""}, {"setup-sysctl", ""},
    {"peer", "add"},    {"peer", "del"},    {"peer", "set"},
};
constexpr Later later_options[] = {
    {"net add", "--ip2net"}, {"net add", "--auth-key"}, {"net add", "--traffic-class"},
    {"net set", "--health"}, {"import", "--del"},       {"import", "--show"},
    {"import", "--exec"},    {"import", "--old-api"},
};

}  // namespace

bool comes_later(std::string_view command, std::string_view word) {
    return std::any_of(
        std::begin(later_commands), std::end(later_commands), [&](const Later& each) {
            return each.command == command && (each.word.empty() || each.word == word);
        });
}

Error option_error(std::string_view command, const std::vector<std::string>& words,
                   std::string_view why) {
    const std::string start = std::string(command) + ": ";
    for (const Later& each : later_options)
        for (const std::string& word : words)
            if (each.command == command && word.substr(0, word.find('=')) == each.word)
                return {Status(-EOPNOTSUPP),
                        start + "option '" + std::string(each.word) + "' is not available yet"};
    return {Status(-EINVAL), start + std::string(why)};
}

bool is_shown(const ctl::Object& object, const ctl::Verb& verb) {
    return object.name != "global" || verb.name != "set";
}

std::string error_json(std::string_view operation, std::string_view entity, int code,
                       std::string_view text) {
    return to_json(ctl::Value::map({{"operation", ctl::Value(operation)},
                                    {"entity", ctl::Value(entity)},
                                    {"errno", ctl::Value(code)},
                                    {"descr", ctl::Value(text)}})) +
           "\n";
}

std::string error_block_netlink(std::string_view operation, std::string_view entity, int code,
                                std::string_view text) {
    return "---\n" + std::string(operation) + ":\n-     " + std::string(entity) +
           ":\n      errno: " + std::to_string(code) + "\n      descr: ! " + ctl::quote_yaml(text) +
           "\n...\n";
}

std::string error_block_classic(std::string_view operation, std::string_view entity, int code,
                                std::string_view text) {
    return std::string(operation) + ":\n    - " + std::string(entity) +
           ":\n          errno: " + std::to_string(code) +
           "\n          descr: " + ctl::quote_yaml(text) + "\n";
}

std::string ping_text(const ctl::Value& reply) {
    std::string out;
    if (reply.has("ping"))
        out = to_yaml(ctl::Value::map({{"ping", reply["ping"]}}), ctl::YamlStyle::netlink2);
    if (reply.has("failed")) out += "manage:\n";
    for (const ctl::Value& failure : reply["failed"].items())
        out += "- ping:\n  errno: " + std::to_string(failure["errno"].as_int()) + "\n  descr: ! " +
               single_quoted(failure["descr"].as_text()) + "\n";
    return out;
}

std::string help_of(const ctl::Object& object, const ctl::Verb& verb) {
    std::string text = std::string(object.name);
    if (verb.name != "run") text += " " + std::string(verb.name);
    if (!verb.rest.empty()) text += " " + std::string(argument_name(*find_field(verb, verb.rest)));
    text += ": " + std::string(verb.help) + "\n";
    for (const Field& field : verb.fields) {
        if (field.option.empty()) continue;
        text += "\t--" + std::string(field.option);
        if (field.letter != 0) text += std::string(", -") + field.letter;
        if (const std::string_view name = argument_name(field); !name.empty())
            text += " " + std::string(name);
        text += ": " + std::string(field.help);
        if (field.type == FieldType::integer) {
            text += " (" + std::to_string(field.low) + " ... " + std::to_string(field.high);
            if (!field.unit.empty()) text += " " + std::string(field.unit);
            text += ")";
        }
        text += "\n";
    }
    return text + "\n";
}

std::string help_of(const ctl::Object& object) {
    std::string text;
    for (const ctl::Verb& verb : object.verbs)
        if (is_shown(object, verb)) text += help_of(object, verb);
    return text;
}

}  // namespace ulnet::tools
