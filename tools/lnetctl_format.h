// What lnetctl prints, as functions of what the node said: no daemon needed, so tests compare it
// with the kernel tool's output.
#pragma once

#include <string>
#include <vector>

#include "lnet/ctl/schema.h"

namespace ulnet::tools {

// The two forms of an error block: `netlink` for net, peer, ping and import, `classic` for others.
std::string error_block_netlink(std::string_view operation, std::string_view entity, int code,
                                std::string_view text);
std::string error_block_classic(std::string_view operation, std::string_view entity, int code,
                                std::string_view text);

// A failure under --json: one line with the keys operation, entity, errno, descr.
std::string error_json(std::string_view operation, std::string_view entity, int code,
                       std::string_view text);

// Whether the kernel's tool has this command (a word alone, or of the command before it) and this
// one has not yet.
bool comes_later(std::string_view command, std::string_view word);
// The same for options: the sentence about what is wrong with a command's words, given what
// parse_options() said of them.
Error option_error(std::string_view command, const std::vector<std::string>& words,
                   std::string_view why);
// Verbs that the command line has; the others are for files.
bool is_shown(const ctl::Object&, const ctl::Verb&);

// Answers of `ping run`: the nodes that answered, then a block a failure.
std::string ping_text(const ctl::Value& reply);

// "net add: ...\n\t--net, -n NET: ...\n\n"
std::string help_of(const ctl::Object&, const ctl::Verb&);
std::string help_of(const ctl::Object&);

// Exit codes are the low 8 bits of a negative number.
constexpr int exit_code(int negative) {
    return negative & 0xff;
}

}  // namespace ulnet::tools
