// lnetctl: the kernel tool's command line for an ulnet node. Options, help and validation come from
// the tables of lnet/ctl/schema.h; the work is done by the node, over its control socket.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "lnet/ctl/config.h"
#include "tools/cli.h"
#include "tools/lnetctl_format.h"
#include "tools/version.h"

namespace ulnet::tools {
namespace {

using ctl::Field;
using ctl::FieldType;
using ctl::Object;
using ctl::Value;
using ctl::Verb;
using ctl::YamlStyle;

constexpr int exit_help = 1;
constexpr Duration answer_margin = std::chrono::seconds(15);

constexpr std::string_view usage_text =
    "usage: lnetctl [--node NAME | --socket PATH] [--json] COMMAND [OPTIONS]... [ARGS]\n"
    "Without a command: reads commands from the standard input.\n"
    "'lnetctl help COMMAND' tells more, 'lnetctl list-commands' lists the commands.\n";
constexpr std::string_view commands_text =
    "net                 ping                peer                stats               \n"
    "global              cpt                 import              export              \n"
    "help                list-commands       version             exit                \n"
    "quit                \n";

class Lnetctl {
 public:
    explicit Lnetctl(const Common& common) : common_(common), connection_(common_) {}
    // One command. `--json` anywhere among its words is for this command.
    int run(Words words);
    // Wrong use: one sentence, and the help when there is some.
    int wrong_use(std::string_view operation, std::string_view entity, const Error&,
                  std::string_view help);

 private:
    int run_command(const Words& words);
    int help(const Words& words);
    int not_a_command(const std::string& command, const std::string& word);
    int run_object(const Object&, const Words& words);
    int run_verb(const Object&, const Verb&, const Words& words);
    int import_file(const Words& words);
    int export_file(const Words& words);
    bool one_file(const Words& words, const LongOption& option, std::string_view help_text,
                  std::string& path, int& code);
    int show(const Object&, const Verb&, const Value& value);
    int failed(std::string_view operation, std::string_view entity, bool classic, const Error&);
    ctl::Client::Answer ask(std::string_view object, std::string_view verb, Value args,
                            Duration silence);

    Common common_;
    Connection connection_;
};

int Lnetctl::wrong_use(std::string_view operation, std::string_view entity, const Error& error,
                       std::string_view help) {
    if (common_.json) {
        std::cerr << error_json(operation, entity, error.status.code(), error.text);
    } else {
        std::cerr << "lnetctl: " << error.text << "\n" << help;
    }
    return exit_code(error.status.code());
}

// Commands and options of the kernel's tool are told apart from what nobody knows.
int Lnetctl::not_a_command(const std::string& command, const std::string& word) {
    const bool one_word = command == word || word.starts_with('-');
    const std::string whole = one_word ? command : command + " " + word;
    if (comes_later(command, word))
        return wrong_use("parser", "command",
                         {Status(-EOPNOTSUPP), "'" + whole + "' is not available yet"}, "");
    return wrong_use(
        "parser", "command",
        {Status(-1), "'" + word + "' is not a valid command. See 'lnetctl --list-commands'."}, "");
}

int Lnetctl::help(const Words& words) {
    if (words.size() < 2) {
        std::cout << usage_text;
        return 0;
    }
    const Object* object = ctl::find_object(words[1]);
    if (object == nullptr) return not_a_command(words[1], words[1]);
    std::cout << help_of(*object);
    return 0;
}

bool is_help(const std::string& word) {
    return word == "--help" || word == "-h";
}

// The table's fields as options, and back from options to arguments.
bool parse_fields(const Verb& verb, const Words& words, Value& args, bool& help_wanted,
                  std::string& why) {
    constexpr int first_without_letter = 256;
    std::vector<LongOption> options{{"help", no_argument, 'h'}};
    std::vector<std::string> names;  // keeps the texts alive
    names.reserve(verb.fields.size());
    for (std::size_t i = 0; i < verb.fields.size(); ++i) {
        const Field& field = verb.fields[i];
        if (field.option.empty()) continue;
        names.emplace_back(field.option);
        const int argument = field.type == FieldType::flag    ? no_argument
                             : field.type == FieldType::level ? optional_argument
                                                              : required_argument;
        options.push_back(
            {names.back().c_str(), argument,
             field.letter != 0 ? field.letter : first_without_letter + static_cast<int>(i)});
    }
    std::vector<Parsed> parsed;
    if (!parse_options(words, options, parsed, why)) return false;
    for (Parsed& each : parsed) {
        if (each.letter == 'h') {
            help_wanted = true;
            return true;
        }
        const Field* field = nullptr;
        if (each.letter == 0) {
            field = ctl::find_field(verb, verb.rest);
            if (field == nullptr) {
                why = "unexpected argument '" + each.value + "'";
                return false;
            }
        } else if (each.letter >= first_without_letter) {
            field = &verb.fields[static_cast<std::size_t>(each.letter - first_without_letter)];
        }
        for (const Field& candidate : verb.fields)
            if (field == nullptr && candidate.letter == each.letter) field = &candidate;
        const bool list = field->type == FieldType::nids || field->type == FieldType::interfaces ||
                          field->type == FieldType::tunables || field->type == FieldType::addresses;
        if (field->type == FieldType::flag) {
            args.set(field->name, true);
        } else if (field->type == FieldType::level && each.value.empty()) {
            args.set(field->name, 1);
        } else if (list) {
            Value items = args[field->name].is_list() ? args[field->name] : Value::list();
            // One word may hold several, with commas: the node splits texts, not lists.
            if (field->type == FieldType::tunables || field->type == FieldType::addresses) {
                items.push(std::move(each.value));
                args.set(field->name, std::move(items));
            } else {
                const std::string& before = args[field->name].as_text();
                args.set(field->name, before.empty() ? each.value : before + "," + each.value);
            }
        } else {
            args.set(field->name, std::move(each.value));
        }
    }
    return true;
}

ctl::Client::Answer Lnetctl::ask(std::string_view object, std::string_view verb, Value args,
                                 Duration silence) {
    Error error;
    ctl::Client* client = connection_.get(error);
    if (client == nullptr) {
        const int code = error.status.code();
        if (code == -EACCES || code == -EPERM || code == -EINVAL) return {error, Value()};
        return {{Status(-ENETDOWN), "LNet stack down: " + error.text}, Value()};
    }
    ctl::Client::Answer answer = client->call(object, verb, std::move(args), silence);
    const int code = answer.error.status.code();
    if (code == -ETIMEDOUT || code == -ECONNRESET || code == -EPIPE) connection_.forget();
    return answer;
}

int Lnetctl::failed(std::string_view operation, std::string_view entity, bool classic,
                    const Error& error) {
    const int code = error.status.code();
    if (common_.json) {
        std::cerr << error_json(operation, entity, code, error.text);
    } else if (classic) {
        std::cerr << error_block_classic(operation, entity, code, error.text);
    } else {
        std::cerr << error_block_netlink(operation, entity, code, error.text);
    }
    const bool as_it_is = classic || code == -ENETDOWN || code == -EACCES;
    return exit_code(as_it_is ? code : -EINVAL);
}

int Lnetctl::show(const Object& object, const Verb& verb, const Value& value) {
    if (common_.json) {
        std::cout << to_json(value) << "\n";
    } else if (object.name == "ping") {
        std::cout << ping_text(value);
    } else {
        const bool classic = object.name == "stats" || object.name == "global";
        const bool empty = value.size() == 0 || value.members().front().second.size() == 0;
        if (!empty) std::cout << to_yaml(value, classic ? YamlStyle::classic : YamlStyle::netlink6);
    }
    return object.name == "ping" && verb.name == "run" && value.has("failed") ? exit_code(-1) : 0;
}

int Lnetctl::run_verb(const Object& object, const Verb& verb, const Words& words) {
    Value args = Value::map();
    bool help_wanted = false;
    std::string why;
    if (!parse_fields(verb, words, args, help_wanted, why)) {
        const std::string command =
            std::string(object.name) + (verb.name == "run" ? "" : " " + std::string(verb.name));
        return wrong_use(object.name == "ping" ? "manage" : verb.name, object.name,
                         option_error(command, words, why), help_of(object, verb));
    }
    if (help_wanted) {
        std::cout << help_of(object, verb);
        return exit_help;
    }
    i64 timeout_s = 0;
    parse_int(args["timeout"].as_text(), timeout_s);
    const Duration silence = std::chrono::seconds(timeout_s) + 2 * answer_margin;
    const ctl::Client::Answer answer = ask(object.name, verb.name, std::move(args), silence);
    const bool classic = object.name == "stats" || object.name == "global";
    if (!answer.ok()) {
        const std::string_view operation = object.name == "ping" ? "manage" : verb.name;
        return failed(operation, object.name, classic, answer.error);
    }
    return show(object, verb, answer.value);
}

int Lnetctl::run_object(const Object& object, const Words& words) {
    const Verb* only = object.verbs.size() == 1 ? &object.verbs[0] : nullptr;
    if (only != nullptr && only->name == "run") return run_verb(object, *only, words);
    if (words.size() < 2) {
        std::string verbs;
        for (const Verb& verb : object.verbs)
            if (is_shown(object, verb))
                verbs += (verbs.empty() ? "" : ", ") + std::string(verb.name);
        return wrong_use(
            "parser", object.name,
            {Status(-EINVAL), std::string(object.name) + ": a word is missing; allowed: " + verbs},
            help_of(object));
    }
    if (is_help(words[1])) {
        std::cout << help_of(object);
        return exit_help;
    }
    const Verb* verb = ctl::find_verb(object, words[1]);
    if (verb == nullptr || !is_shown(object, *verb)) return not_a_command(words[0], words[1]);
    return run_verb(object, *verb, Words(words.begin() + 1, words.end()));
}

// The words of import and export: one option of their own, at most one file. False: it is over.
bool Lnetctl::one_file(const Words& words, const LongOption& option, std::string_view help_text,
                       std::string& path, int& code) {
    const LongOption options[] = {{"help", no_argument, 'h'}, option};
    std::vector<Parsed> parsed;
    std::string why;
    parse_options(words, options, parsed, why);
    for (const Parsed& each : parsed) {
        if (each.letter == 'h') {
            std::cout << help_text;
            code = exit_help;
            return false;
        }
        if (each.letter != 0) continue;
        if (path.empty())
            path = each.value;
        else if (why.empty())
            why = "unexpected argument '" + each.value + "'";
    }
    if (why.empty()) return true;
    code = wrong_use(words[0] == "import" ? "add" : "show", words[0],
                     option_error(words[0], words, why), help_text);
    return false;
}

int Lnetctl::import_file(const Words& words) {
    std::string path, text, why;
    int code = 0;
    if (!one_file(words, {"add", no_argument, 'a'},
                  "import [--add] [FILE]: add what a configuration file (standard input when left "
                  "out) asks for, all or nothing\n",
                  path, code))
        return code;
    if (path.empty()) path = "-";
    const std::string shown = path == "-" ? "standard input" : path;
    if (const Error error = ctl::read_text_file(path, text); !error.ok())
        return failed("add", "import", false, error);
    // Here already: what is not YAML may not survive the way to the node.
    if (const Result<Value> tree = ctl::parse_yaml(text, why); !tree.ok())
        return failed("add", "import", false, {tree.status(), shown + ": " + why});
    const ctl::Client::Answer answer =
        ask("config", "apply", Value::map({{"yaml", Value(std::move(text))}}), 4 * answer_margin);
    if (!answer.ok()) {
        Error error = answer.error;
        if (error.status.code() != -ENETDOWN) error.text = shown + ": " + error.text;
        return failed("add", "import", false, error);
    }
    if (common_.json)
        std::cout << to_json(answer.value) << "\n";
    else if (answer.value.has("note"))
        std::cerr << "lnetctl: " << shown << ": " << answer.value["note"].as_text() << "\n";
    return 0;
}

int Lnetctl::export_file(const Words& words) {
    std::string path;
    int code = 0;
    if (!one_file(words, {"backup", no_argument, 'b'},
                  "export [--backup] [FILE]: print the node as a configuration file\n", path, code))
        return code;
    const ctl::Client::Answer answer = ask("config", "export", Value::map(), answer_margin);
    if (!answer.ok()) return failed("show", "export", false, answer.error);
    const std::string text =
        common_.json ? to_json(answer.value) + "\n" : to_yaml(answer.value, YamlStyle::netlink6);
    if (path.empty()) {
        std::cout << text;
        return 0;
    }
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text << std::flush;
    if (file) return 0;
    return failed("show", "export", false,
                  {Status(-EIO), "cannot write '" + path + "': " + Status(-errno).text()});
}

int Lnetctl::run(Words words) {
    const bool json_before = common_.json;
    if (std::erase(words, "--json") > 0) common_.json = true;
    const int code = words.empty() ? 0 : run_command(words);
    common_.json = json_before;
    return code;
}

int Lnetctl::run_command(const Words& words) {
    const std::string& command = words[0];
    if (command == "help" || is_help(command)) return help(words);
    if (command == "list-commands" || command == "--list-commands") {
        std::cout << commands_text;
        return 0;
    }
    if (command == "version" || command == "--version") {
        std::cout << "lnetctl " << version << "\n";
        return 0;
    }
    if (command == "import") return import_file(words);
    if (command == "export") return export_file(words);
    const Object* object = ctl::find_object(command);
    if (object != nullptr) return run_object(*object, words);
    return not_a_command(command,
                         words.size() > 1 && comes_later(command, words[1]) ? words[1] : command);
}

}  // namespace
}  // namespace ulnet::tools

int main(int argc, char** argv) {
    using namespace ulnet::tools;
    Words words(argv + 1, argv + argc);
    Common common;
    const ulnet::Error error = take_common(words, common);
    if (!error.ok() && std::count(words.begin(), words.end(), "--json") > 0) common.json = true;
    Lnetctl lnetctl(common);
    if (!error.ok()) return lnetctl.wrong_use("parser", "option", error, usage_text);
    if (words.empty())
        return interactive("lnetctl > ", [&](const Words& line) { return lnetctl.run(line); });
    return lnetctl.run(words);
}
