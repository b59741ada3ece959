// Configuration files in the shape of the kernel tool's export: a `net:` list and a `global:` map.
// All of it is checked before anything changes. Used by lnetd at its start and by `lnetctl import`.
#pragma once

#include "lnet/ctl/ni_config.h"

namespace ulnet::ctl {

struct ConfigPlan {
    std::vector<NiConfig> nis;  // to add
    NodeOptions options;        // the Node's, as the file wants them
    std::string note;           // one sentence: what it asks for and is not applied, or empty
};

// `tree` is what parse_yaml gave. `existing` are the NIs of a running node: one that the file asks
// for exactly as it is stays; one that differs is an error (EEXIST). Errors name line and column.
Error plan_config(const Value& tree, NiContext context, std::span<const NiConfig> existing,
                  const NodeOptions& options, ConfigPlan& out);

// The node as such a file; plan_config() of it on an empty node gives the same NIs back.
Value export_config(std::span<const NiView>, const NodeOptions&, u32 cpts);

// The whole text of a file, "-" being the standard input; no directory, not longer than a
// configuration may be. The error names the file.
Error read_text_file(const std::string& path, std::string& out);
// Reads and parses a file; the error names the file.
Error read_yaml_file(const std::string& path, Value& out);

}  // namespace ulnet::ctl
