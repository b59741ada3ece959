// What lnetctl and lst share: options before the command, finding the node, words of a command
// line, the interactive prompt. Main thread only.
#pragma once

#include <getopt.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lnet/ctl/client.h"

namespace ulnet::tools {

using Words = std::vector<std::string>;

// Options before the command: --node NAME, --socket PATH, --json.
struct Common {
    std::string node;  // name or path; from LNET_NODE when not given
    bool json = false;
};
// Takes them off the front of `words` (the program's name is not among them). The text of an error
// is a usage error.
Error take_common(Words& words, Common& out);

// One parsed option or, with letter 0, a plain word.
struct Parsed {
    int letter = 0;
    std::string value;
};
struct LongOption {
    const char* name;
    int argument;  // no_argument, required_argument, optional_argument
    int letter;
};
// getopt_long over the words of a command (words[0] is its name), so that abbreviations and order
// are those of the kernel's tools. False: `why` says what is wrong. An optional argument may also
// be the next word when that is a number.
bool parse_options(const Words& words, std::span<const LongOption> options,
                   std::vector<Parsed>& out, std::string& why);

// Connects to the node on first use; keeps the connection for an interactive session.
class Connection {
 public:
    explicit Connection(const Common& common) : common_(common) {}
    // Null: `error` says where it looked.
    ctl::Client* get(Error& error);
    void forget() { client_.reset(); }
    // The socket that get() uses.
    Result<std::string> path(std::string& why) const;

 private:
    const Common& common_;
    std::optional<ctl::Client> client_;
};

// Reads commands from the standard input until its end, "exit" or "quit"; the exit code is that of
// the last command.
int interactive(const char* prompt, const std::function<int(const Words&)>& run);

// Integers of a command line: the whole text, decimal.
bool parse_int(const std::string& text, i64& out);

}  // namespace ulnet::tools
