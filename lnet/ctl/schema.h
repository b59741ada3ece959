// What every object of the control plane can be told, as data: one table drives the options of
// lnetctl, its help, the keys of configuration files, the validation in the daemon and the
// man page. Extending an object means adding lines to schema_tables.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lnet/ctl/registry.h"
#include "lnet/ctl/value.h"

namespace ulnet::ctl {

enum class FieldType : u8 {
    integer,     // low ... high
    flag,        // an option without a value; true or false in files
    text,        // anything
    net,         // "tcp", "tcp1"
    nid,         // one literal NID
    nids,        // list of NID expressions
    interfaces,  // list of "eth0" or "eth0[0,1]"; in files also a map 0: eth0
    cpts,        // "[0,1]", "[0-3]", or a list of numbers
    tunables,    // map of the driver's tunables; on the command line NAME=VALUE, repeatable
    tunable,     // one of the driver's tunables under its own name; the driver knows its range
    addresses,   // map of NIDs to addresses; on the command line NID=ADDRESS, repeatable
    level,       // integer whose value may be left out (then 1)
    ignored,     // accepted in files (an export holds it), has no effect
};

struct Field {
    std::string_view name;    // key of the arguments
    std::string_view option;  // "peer-credits"; empty = not on the command line
    char letter;              // short option; 0 = none
    FieldType type;
    i64 low = 0, high = 0;
    std::string_view unit;   // "s", ...
    std::string_view group;  // files: the map that holds it; empty = the object's own map
    std::string_view key;    // files: its key; empty = not in files
    std::string_view help;
};

struct Verb {
    std::string_view name;
    Access access;
    std::string_view help;
    std::span<const Field> fields;
    std::string_view rest;  // the field that takes the words without an option; empty = none may
};

struct Object {
    std::string_view name;
    std::span<const Verb> verbs;
};

std::span<const Object> objects();
const Object* find_object(std::string_view name);
const Verb* find_verb(const Object&, std::string_view name);
const Field* find_field(const Verb&, std::string_view name);

// Checks arguments from outside against the table and brings them to the types it names (a number
// may come as text). The error names key, value and what is allowed, and the place when known.
// Tunables are gathered in one map "tunables", unchecked: only the driver knows them.
Error validate(const Verb&, const Value& args, Value& out);

// One map of a configuration file as arguments: keys and groups become the names of the table.
Error flatten(const Verb&, const Value& map, Value& out);

// "line 3, column 5: " or nothing, for the start of an error.
std::string place_of(const Value&);
std::string key_place_of(const Value&);
// Text for an error: scalars as they are written, "a map", "a list".
std::string show_for_error(const Value&);

// "[0,1]", "0-3,5", or a list of numbers into numbers below `count`, ascending, none twice.
Error parse_cpts(const Value&, u32 count, std::vector<u32>& out);

}  // namespace ulnet::ctl
