// Command lines of lst, in the syntax of the kernel's tool, as requests to the node's object `lst`
// (docs/wire/selftest.md). No daemon needed.
#pragma once

#include <set>

#include "tools/cli.h"

namespace ulnet::tools {

struct LstCommand {
    std::string name;  // of lst: "add_group"
    std::string verb;  // of the node, mostly the same
    ctl::Value args = ctl::Value::map();
    bool needs_session = true;       // LST_SESSION must be set
    bool help = false;               // --help: only the usage line is wanted
    std::set<int> flags;             // options that only matter to what is printed
    std::vector<std::string> names;  // groups or NIDs as written
    i64 delay_s = 0, count = 0;      // stat, query
};

// Fills `out` for words[0] and its options. False: `complaint` is what to print, followed by the
// usage line when `usage` is set.
bool parse_lst(const Words& words, LstCommand& out, std::string& complaint, bool& usage);

// "Usage: lst run [--timeout TIME] [NAME]"; empty for a command that does not exist.
std::string lst_usage(std::string_view command);
// The list that `lst --list-commands` prints.
std::string lst_commands();

// "4K", "1M", "512" to bytes; false when it is no size.
bool parse_size(const std::string& text, i64& bytes);

}  // namespace ulnet::tools
