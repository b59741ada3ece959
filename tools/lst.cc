// lst: the command of LNet self test. Parses (lst_args), asks the node's console over the control
// socket, prints in the kernel tool's words (lst_format, lst_stat).
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "tools/lst_bench.h"
#include "tools/version.h"

namespace ulnet::tools {
namespace {

using ctl::Value;

// The node bounds every command of its console to 30 s a transaction; a command may have several.
constexpr Duration command_silence = std::chrono::seconds(150);

constexpr std::string_view usage_text =
    "usage: lst [--node NAME | --socket PATH] [--json] COMMAND [OPTIONS]... [ARGS]\n"
    "Without a command: reads commands from the standard input.\n"
    "'lst help COMMAND' tells more, 'lst --list-commands' lists the commands.\n";

class Lst {
 public:
    explicit Lst(const Common& common) : common_(common), connection_(common) {}
    int run(const Words& words);

 private:
    int help(const Words& words);
    int run_command(LstCommand& command);
    int run_stat(const LstCommand& command);
    int run_query(const LstCommand& command);
    bool ask(const LstCommand& command, Value& reply, int& code);
    int print(const LstCommand& command, const Value& reply);
    // Says on stderr why a command line cannot be: text, usage line or both.
    int refuse(const std::string& text, const std::string& usage = {}, bool json = false) const;
    static void put(const Printed& printed) {
        std::cout << printed.out << std::flush;
        std::cerr << printed.err << std::flush;
    }

    const Common& common_;
    Connection connection_;
};

// The key of the session, from the environment.
bool session_key(const char* text, i64& key) {
    return text != nullptr && parse_int(text, key) && key >= 0 && key <= i64{0xffffffff};
}

int Lst::help(const Words& words) {
    if (words.size() < 2) {
        std::cout << usage_text;
        return 0;
    }
    const std::string usage = lst_usage(words[1]);
    if (usage.empty())
        return refuse("lst: '" + words[1] + "' is not a valid command. See 'lst --list-commands'.");
    std::cout << words[1] << ": " << usage << "\n";
    return 0;
}

int Lst::refuse(const std::string& text, const std::string& usage, bool json) const {
    const std::string both = text + (text.empty() || usage.empty() ? "" : "\n") + usage;
    std::cerr << (json || common_.json ? failure_json(-EINVAL, both) : both + "\n") << std::flush;
    return lst_failed;
}

// False: the failure is printed and `code` is set.
bool Lst::ask(const LstCommand& command, Value& reply, int& code) {
    Error error;
    ctl::Client* client = connection_.get(error);
    if (client == nullptr) {
        std::cerr << (common_.json ? failure_json(error.status.code(), error.text)
                                   : "lst: " + error.text + "\n");
        code = lst_failed;
        return false;
    }
    ctl::Client::Answer answer =
        client->call("lst", command.verb, command.args, command_silence, [&](const Value& part) {
            if (common_.json)
                std::cout << to_json(part) << std::endl;
            else
                std::cout << format_progress(command, part) << std::flush;
        });
    if (answer.ok()) {
        reply = std::move(answer.value);
        return true;
    }
    const int errno_of = answer.error.status.code();
    const bool lost = errno_of == -ETIMEDOUT || errno_of == -ECONNRESET || errno_of == -EPIPE;
    if (lost) connection_.forget();
    if (common_.json) {
        std::cerr << failure_json(errno_of, answer.error.text);
        code = lst_failed;
        return false;
    }
    const Printed printed = format_error(command, answer.error);
    put(printed);
    code = printed.code;
    return false;
}

int Lst::print(const LstCommand& command, const Value& reply) {
    Printed printed = format_reply(command, reply);
    if (common_.json) {
        printed.out = to_json(reply) + "\n";
        printed.err.clear();
    }
    put(printed);
    return printed.code;
}

int Lst::run_stat(const LstCommand& command) {
    Value before;
    int code = 0;
    for (i64 sample = 0; command.count < 0 || sample <= command.count; ++sample) {
        if (sample > 0) std::this_thread::sleep_for(std::chrono::seconds(command.delay_s));
        Value now;
        if (!ask(command, now, code)) return code;
        if (common_.json) std::cout << to_json(now) << std::endl;
        if (sample > 0) {
            const Printed printed = format_stat(command, before, now);
            if (!common_.json) put(printed);
            code = printed.code;
        }
        before = std::move(now);
    }
    return code;
}

int Lst::run_query(const LstCommand& command) {
    int code = 0;
    for (i64 loop = 0; loop < command.count; ++loop) {
        if (loop > 0) std::this_thread::sleep_for(std::chrono::seconds(command.delay_s));
        Value reply;
        if (!ask(command, reply, code)) return code;
        code = print(command, reply);
    }
    return code;
}

int Lst::run_command(LstCommand& command) {
    i64 key = 0;
    const char* text = std::getenv("LST_SESSION");
    const bool has_key = session_key(text, key);
    if (command.needs_session && !has_key)
        return refuse("Can't find env LST_SESSION or value is not valid");
    if (command.name == "new_session" && !has_key) {
        if (text != nullptr)
            return refuse("LST_SESSION: '" + std::string(text) +
                          "' is not allowed; allowed: 0 ... 4294967295");
        if (!common_.json)
            std::cerr << "lst: LST_SESSION is not set: the key of the session is 0, and the other "
                         "commands need LST_SESSION=0\n";
    }
    if (has_key && command.name != "show_session") command.args.set("key", key);
    if (command.name == "stat") return run_stat(command);
    if (command.name == "query") return run_query(command);
    Value reply;
    int code = 0;
    return ask(command, reply, code) ? print(command, reply) : code;
}

int Lst::run(const Words& words) {
    if (words[0] == "help" || words[0] == "--help" || words[0] == "-h") return help(words);
    if (words[0] == "--list-commands" || words[0] == "list-commands") {
        std::cout << lst_commands();
        return 0;
    }
    if (words[0] == "--version" || words[0] == "version") {
        std::cout << "lst " << version << "\n";
        return 0;
    }
    std::string complaint;
    if (words[0] == "bench") {
        BenchOptions options;
        const bool good = parse_bench(words, options, complaint);
        if (!good) return refuse(complaint, lst_usage("bench"), options.json);
        if (options.help) return help({"help", "bench"});
        return run_bench(common_, connection_, options);
    }
    LstCommand command;
    bool usage = false;
    if (!parse_lst(words, command, complaint, usage))
        return refuse(complaint, usage ? lst_usage(words[0]) : std::string());
    return command.help ? help({"help", words[0]}) : run_command(command);
}

}  // namespace
}  // namespace ulnet::tools

int main(int argc, char** argv) {
    using namespace ulnet::tools;
    Words words(argv + 1, argv + argc);
    Common common;
    if (const ulnet::Error error = take_common(words, common); !error.ok()) {
        const std::string text = "lst: " + error.text + "\n" + std::string(usage_text);
        std::cerr << (common.json ? failure_json(error.status.code(), text) : text);
        return lst_failed;
    }
    Lst lst(common);
    if (words.empty())
        return interactive("lst > ", [&](const Words& line) { return lst.run(line); });
    return lst.run(words);
}
