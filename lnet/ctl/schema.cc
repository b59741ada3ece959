// Checks arguments against the tables of the objects. Called by the commands on the control strand
// and by tools; no state.
#include "lnet/ctl/schema.h"

#include <algorithm>
#include <charconv>

#include "lnet/nid.h"

namespace ulnet::ctl {
namespace {

Error bad(const Value& value, std::string_view name, std::string_view allowed,
          int negative_errno = -EINVAL) {
    std::string text = place_of(value) + std::string(name) + ": " + show_for_error(value) +
                       " is not allowed; allowed: " + std::string(allowed);
    return {Status(negative_errno), std::move(text)};
}

// `value` in another form, at the place of the original.
Value at_place_of(const Value& original, Value value) {
    value.line = original.line;
    value.column = original.column;
    value.key_line = original.key_line;
    value.key_column = original.key_column;
    return value;
}

bool read_number(const Value& value, i64& out) {
    if (value.is_integer()) {
        out = value.as_int();
        return true;
    }
    const std::string& text = value.as_text();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return value.is_text() && !text.empty() && error == std::errc{} &&
           end == text.data() + text.size();
}

std::string range_text(const Field& field) {
    std::string text = std::to_string(field.low);
    if (field.high != field.low) text += " ... " + std::to_string(field.high);
    if (!field.unit.empty()) text += " " + std::string(field.unit);
    return text;
}

Error check_integer(const Field& field, const Value& value, Value& out) {
    i64 number = 0;
    if (!read_number(value, number))
        return bad(value, field.name, "a number, " + range_text(field));
    if (number < field.low || number > field.high)
        return bad(value, field.name, range_text(field), -ERANGE);
    out.set(field.name, at_place_of(value, number));
    return {};
}

Error check_flag(const Field& field, const Value& value, Value& out) {
    const std::string& text = value.as_text();
    if (value.kind() == Value::Kind::boolean ||
        (value.is_integer() && (value.as_int() == 0 || value.as_int() == 1)))
        out.set(field.name, value.as_bool());
    else if (text == "true" || text == "false")
        out.set(field.name, text == "true");
    else
        return bad(value, field.name, "true, false");
    return {};
}

// The items of a list, of a map 0: item, or of a text with commas outside of brackets.
Error check_list(const Field& field, const Value& value, std::string_view allowed, Value& out) {
    Value list = Value::list();
    if (value.is_text()) {
        std::string item;
        int depth = 0;
        for (const char c : value.as_text() + ",") {
            depth += c == '[' ? 1 : c == ']' ? -1 : 0;
            if (c != ',' || depth > 0) {
                item += c;
            } else if (!item.empty()) {
                list.push(at_place_of(value, item));
                item.clear();
            }
        }
    }
    for (const Value& item : value.items()) {
        if (!item.is_text()) return bad(item, field.name, allowed);
        list.push(item);
    }
    for (const auto& [index, item] : value.members()) {
        if (!item.is_text()) return bad(item, field.name, allowed);
        list.push(item);
    }
    if (list.size() == 0) return bad(value, field.name, allowed);
    out.set(field.name, at_place_of(value, std::move(list)));
    return {};
}

Error check_tunables(const Field& field, const Value& value, Value& out) {
    Value tunables = out["tunables"].is_map() ? out["tunables"] : Value::map();
    const auto add = [&](std::string_view name, const Value& item) -> Error {
        if (tunables.has(name))
            return {Status(-EINVAL), std::string(name) + ": given twice; allowed: once"};
        tunables.set(name, item);
        return {};
    };
    Error error;
    if (field.type == FieldType::tunable) {
        error = add(field.name, value);
    } else if (value.is_map()) {
        for (const auto& [name, item] : value.members())
            if (error.ok()) error = add(name, item);
    } else {
        Value texts = value.is_list() ? value : Value::list({value});
        for (const Value& item : texts.items()) {
            const std::string& text = item.as_text();
            const std::size_t equals = text.find('=');
            if (equals == text.npos || equals == 0)
                return bad(item, field.name, "NAME=VALUE, NAME being a tunable of the driver");
            if (error.ok()) error = add(text.substr(0, equals), Value(text.substr(equals + 1)));
        }
    }
    if (error.ok()) out.set("tunables", std::move(tunables));
    return error;
}

// Whether it is an address that the driver can use is for the driver to say.
Error check_addresses(const Field& field, const Value& value, Value& out) {
    constexpr std::string_view allowed = "NID=ADDRESS, for example 17@kfi=10.0.0.7:5988";
    Value addresses = Value::map();
    const auto add = [&](const std::string& name, const Value& address) -> Error {
        const Result<Nid> nid = parse_nid(name);
        if (!nid.ok() || nid->any() || !address.is_text() || address.as_text().empty())
            return bad(value.is_map() ? Value(name) : value, field.name, allowed);
        const std::string key = to_text(*nid);
        if (addresses.has(key))
            return {Status(-EINVAL), "addresses: " + key + ": given twice; allowed: once"};
        addresses.set(key, address);
        return {};
    };
    if (value.is_map()) {
        for (const auto& [name, address] : value.members())
            if (Error error = add(name, address); !error.ok()) return error;
    } else {
        const Value texts = value.is_list() ? value : Value::list({value});
        for (const Value& item : texts.items()) {
            const std::string& text = item.as_text();
            const std::size_t equals = text.find('=');
            if (equals == text.npos) return bad(item, field.name, allowed);
            Error error = add(text.substr(0, equals), Value(text.substr(equals + 1)));
            if (!error.ok()) return error;
        }
    }
    out.set(field.name, at_place_of(value, std::move(addresses)));
    return {};
}

Error check_field(const Field& field, const Value& value, Value& out) {
    switch (field.type) {
    case FieldType::integer:
        return check_integer(field, value, out);
    case FieldType::level:
        if (value.kind() == Value::Kind::boolean) {
            out.set(field.name, value.as_bool() ? 1 : 0);
            return {};
        }
        return check_integer(field, value, out);
    case FieldType::flag:
        return check_flag(field, value, out);
    case FieldType::text:
        if (!value.is_text()) return bad(value, field.name, "a text");
        break;
    case FieldType::net:
        if (!value.is_text() || !parse_net(value.as_text()).ok())
            return bad(value, "cannot parse net", "the name of a network, for example tcp or tcp1",
                       -ENOENT);
        break;
    case FieldType::nid:
        if (!value.is_text() || !parse_nid(value.as_text()).ok())
            return bad(value, field.name, "a NID, for example 192.168.10.1@tcp");
        break;
    case FieldType::nids:
        return check_list(field, value, "NIDs, for example 192.168.10.[1-4]@tcp", out);
    case FieldType::interfaces:
        return check_list(field, value, "interfaces, for example eth0 or eth0[0,1]", out);
    case FieldType::tunables:
    case FieldType::tunable:
        return check_tunables(field, value, out);
    case FieldType::addresses:
        return check_addresses(field, value, out);
    case FieldType::cpts:
        break;  // needs the number of CPTs: the command checks it
    case FieldType::ignored:
        return {};
    }
    out.set(field.name, value);
    return {};
}

template <class Get> std::string names_of(std::span<const Field> fields, Get name_of) {
    std::string text;
    for (const Field& field : fields) {
        const std::string_view name = name_of(field);
        if (name.empty() || field.type == FieldType::ignored) continue;
        if (!text.empty()) text += ", ";
        text += name;
    }
    return text.empty() ? "none" : text;
}

Error unknown_key(const std::string& key, const Value& value, std::string allowed) {
    return {Status(-EINVAL),
            key_place_of(value) + "unknown key '" + key + "'; allowed: " + std::move(allowed)};
}

bool is_group(const Verb& verb, std::string_view key) {
    return std::any_of(verb.fields.begin(), verb.fields.end(),
                       [&](const Field& field) { return !key.empty() && field.group == key; });
}

Error flatten_group(const Verb& verb, std::string_view group, const Value& map, Value& out) {
    const auto key_here = [&](const Field& field) {
        return field.group == group ? field.key : std::string_view{};
    };
    for (const auto& [key, value] : map.members()) {
        const auto names_it = [&name = key, group](const Field& f) {
            return f.group == group && !f.key.empty() && f.key == name;
        };
        const auto field = std::find_if(verb.fields.begin(), verb.fields.end(), names_it);
        if (field != verb.fields.end()) {
            if (field->type == FieldType::ignored || value.is_null()) continue;
            if (out.has(field->name))
                return unknown_key(key, value, "one way of naming " + std::string(field->name));
            out.set(field->name, value);
        } else if (group.empty() && is_group(verb, key)) {
            if (value.is_null()) continue;
            if (!value.is_map()) return bad(value, key, "a map");
            if (Error error = flatten_group(verb, key, value, out); !error.ok()) return error;
        } else {
            return unknown_key(key, value, names_of(verb.fields, key_here));
        }
    }
    return {};
}

}  // namespace

const Object* find_object(std::string_view name) {
    for (const Object& object : objects())
        if (object.name == name) return &object;
    return nullptr;
}

const Verb* find_verb(const Object& object, std::string_view name) {
    for (const Verb& verb : object.verbs)
        if (verb.name == name) return &verb;
    return nullptr;
}

const Field* find_field(const Verb& verb, std::string_view name) {
    for (const Field& field : verb.fields)
        if (field.name == name) return &field;
    return nullptr;
}

Error validate(const Verb& verb, const Value& args, Value& out) {
    out = Value::map();
    if (!args.is_map() && !args.is_null()) return bad(args, "arguments", "a map");
    for (const auto& [name, value] : args.members()) {
        const Field* field = find_field(verb, name);
        if (field == nullptr)
            return unknown_key(name, value,
                               names_of(verb.fields, [](const Field& f) { return f.name; }));
        if (value.is_null()) continue;
        if (Error error = check_field(*field, value, out); !error.ok()) return error;
    }
    return {};
}

Error flatten(const Verb& verb, const Value& map, Value& out) {
    if (!map.is_map()) return bad(map, verb.name, "a map");
    return flatten_group(verb, "", map, out);
}

std::string place_of(const Value& value) {
    if (value.line == 0) return {};
    return "line " + std::to_string(value.line) + ", column " + std::to_string(value.column) + ": ";
}

std::string key_place_of(const Value& value) {
    if (value.key_line == 0) return place_of(value);
    return "line " + std::to_string(value.key_line) + ", column " +
           std::to_string(value.key_column) + ": ";
}

std::string show_for_error(const Value& value) {
    constexpr std::size_t shown_max = 80;
    if (value.is_map()) return "a map";
    if (value.is_list()) return "a list";
    if (value.is_null()) return "nothing";
    std::string text = value.is_text() ? value.as_text() : to_json(value);
    if (text.size() > shown_max) text = text.substr(0, shown_max) + "...";
    return "'" + text + "'";
}

Error parse_cpts(const Value& value, u32 count, std::vector<u32>& out) {
    const std::string allowed = "partitions 0 ... " + std::to_string(count - 1) +
                                " of this node, for example [0] or [0-1,3]";
    std::string text = value.as_text();
    for (const Value& item : value.items()) {
        if (!item.is_integer()) return bad(item, "cpt", allowed);
        text += (text.empty() ? "" : ",") + std::to_string(item.as_int());
    }
    if (value.is_integer()) text = std::to_string(value.as_int());
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    const char* at = text.data();
    const char* const end = at + text.size();
    std::vector<bool> wanted(count);
    const auto number = [&](u32& into) {
        const auto [next, error] = std::from_chars(at, end, into);
        at = next;
        return error == std::errc{};
    };
    while (at != end) {
        u32 first = 0, last = 0;
        if (!number(first)) return bad(value, "cpt", allowed);
        last = first;
        if (at != end && *at == '-' && (++at, !number(last))) return bad(value, "cpt", allowed);
        if (last >= count || first > last) return bad(value, "cpt", allowed, -ERANGE);
        std::fill(wanted.begin() + first, wanted.begin() + last + 1, true);
        if (at != end && (*at++ != ',' || at == end)) return bad(value, "cpt", allowed);
    }
    out.clear();
    for (u32 cpt = 0; cpt < count; ++cpt)
        if (wanted[cpt]) out.push_back(cpt);
    if (out.empty()) return bad(value, "cpt", allowed);
    return {};
}

}  // namespace ulnet::ctl
