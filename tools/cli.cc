// Command lines of lnetctl and lst.
#include "tools/cli.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

namespace ulnet::tools {
namespace {

constexpr Duration silence = std::chrono::seconds(30);

// What getopt_long says about the word before optind when it has just refused an option with '?'
// or, for an argument that is missing, with ':'.
std::string option_complaint(const std::string& word, int refusal,
                             std::span<const LongOption> options) {
    // Letters are told by optopt alone: optind only moves on after the last of "-ab".
    const std::string letter = std::string(" -- '") + static_cast<char>(optopt) + "'";
    const bool known = std::any_of(options.begin(), options.end(),
                                   [](const LongOption& each) { return each.letter == optopt; });
    if (optopt != 0 && !known) return "invalid option" + letter;
    if (!word.starts_with("--")) return "option requires an argument" + letter;
    const std::string name = word.substr(0, word.find('='));
    std::string like, only;  // options that the name abbreviates
    for (const LongOption& each : options) {
        if (!("--" + std::string(each.name)).starts_with(name)) continue;
        only = "--" + std::string(each.name);
        like += " '" + only + "'";
    }
    if (refusal == ':') return "option '" + only + "' requires an argument";
    if (optopt != 0) return "option '" + only + "' doesn't allow an argument";
    if (!like.empty()) return "option '" + word + "' is ambiguous; possibilities:" + like;
    return "unrecognized option '" + word + "'";
}

}  // namespace

Error take_common(Words& words, Common& out) {
    if (const char* node = std::getenv("LNET_NODE"); node != nullptr && node[0] != '\0')
        out.node = node;
    else
        out.node = ctl::node_name_default;
    std::size_t at = 0;
    const auto value_of = [&](std::string_view option, std::string& value) {
        const std::string& word = words[at];
        if (word.starts_with(option) && word.size() > option.size() && word[option.size()] == '=') {
            value = word.substr(option.size() + 1);
            return true;
        }
        if (word != option || at + 1 >= words.size()) return false;
        value = words[++at];
        return true;
    };
    for (; at < words.size(); ++at) {
        if (words[at] == "--json") {
            out.json = true;
        } else if (std::string path; value_of("--socket", path)) {
            out.node = path.find('/') == std::string::npos ? "./" + path : path;
        } else if (!value_of("--node", out.node)) {
            break;
        }
    }
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at));
    if (!words.empty() && (words[0] == "--node" || words[0] == "--socket"))
        return {Status(-EINVAL), "option '" + words[0] + "' requires an argument"};
    return {};
}

bool parse_options(const Words& words, std::span<const LongOption> options,
                   std::vector<Parsed>& out, std::string& why) {
    std::vector<option> table;
    std::string letters = ":";  // tells a missing argument apart from an unknown option
    for (const LongOption& each : options) {
        table.push_back({each.name, each.argument, nullptr, each.letter});
        if (each.letter >= 256) continue;  // has no short form
        letters += static_cast<char>(each.letter);
        if (each.argument != no_argument) letters += ':';
        if (each.argument == optional_argument) letters += ':';
    }
    table.push_back({nullptr, 0, nullptr, 0});
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const int argc = static_cast<int>(words.size());
    optind = 0;  // GNU: start anew
    opterr = 0;
    for (int letter; (letter = ::getopt_long(argc, argv.data(), letters.c_str(), table.data(),
                                             nullptr)) != -1;) {
        if (letter == '?' || letter == ':') {
            why = option_complaint(argv[static_cast<std::size_t>(optind - 1)], letter, options);
            return false;
        }
        Parsed parsed{letter, optarg != nullptr ? optarg : ""};
        for (const LongOption& each : options) {
            i64 number = 0;
            const bool next = each.letter == letter && each.argument == optional_argument &&
                              optarg == nullptr && optind < argc &&
                              parse_int(argv[static_cast<std::size_t>(optind)], number);
            if (next) parsed.value = argv[static_cast<std::size_t>(optind++)];
        }
        out.push_back(std::move(parsed));
    }
    for (int i = optind; i < argc; ++i) out.push_back({0, argv[static_cast<std::size_t>(i)]});
    return true;
}

Result<std::string> Connection::path(std::string& why) const {
    return ctl::client_socket_path(common_.node, why);
}

ctl::Client* Connection::get(Error& error) {
    if (client_) return &*client_;
    std::string why;
    const Result<std::string> at = path(why);
    Result<ctl::Client> client =
        at.ok() ? ctl::Client::open(*at, silence, why) : Result<ctl::Client>(at.status());
    if (!client.ok()) {
        error = {client.status(), why};
        return nullptr;
    }
    client_ = std::move(*client);
    return &*client_;
}

int interactive(const char* prompt, const std::function<int(const Words&)>& run) {
    const bool terminal = ::isatty(STDIN_FILENO) != 0;
    int code = 0;
    std::string line;
    for (;;) {
        if (terminal) std::cout << prompt << std::flush;
        if (!std::getline(std::cin, line)) return code;
        std::istringstream split(line);
        Words words;
        for (std::string word; split >> word;) words.push_back(word);
        if (words.empty() || words[0].starts_with('#')) continue;
        if (words[0] == "exit" || words[0] == "quit") return code;
        code = run(words);
        std::fflush(stdout);
    }
}

bool parse_int(const std::string& text, i64& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return !text.empty() && error == std::errc{} && end == text.data() + text.size();
}

}  // namespace ulnet::tools
