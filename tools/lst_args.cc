// Options of the commands of lst: one table of options and one function a command.
#include "tools/lst_args.h"

#include <strings.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

namespace ulnet::tools {
namespace {

using ctl::Value;

constexpr int help_letter = 'h';  // of no command
constexpr std::size_t name_bytes_max = 31;
constexpr i64 transfer_bytes_max = 1 << 20;
constexpr i64 concurrency_max = 1024;

// What a command's function works on.
struct Parse {
    const std::vector<Parsed>& parsed;
    LstCommand& out;
    std::string& complaint;
    bool& usage;

    bool has(int letter) const {
        for (const Parsed& each : parsed)
            if (each.letter == letter) return true;
        return false;
    }
    // The last value given; null when the option is absent.
    const std::string* value(int letter) const {
        const std::string* found = nullptr;
        for (const Parsed& each : parsed)
            if (each.letter == letter) found = &each.value;
        return found;
    }
    Words words() const {
        Words all;
        for (const Parsed& each : parsed)
            if (each.letter == 0) all.push_back(each.value);
        return all;
    }
    bool complain(std::string text) {
        complaint = std::move(text);
        return false;
    }
    bool wrong_usage() {
        usage = true;
        return false;
    }
    // A number at least `low`, when the option is given.
    bool number(int letter, i64 low, i64& into, const char* wrong) {
        const std::string* text = value(letter);
        i64 number = 0;
        if (text == nullptr) return true;
        if (!parse_int(*text, number) || number < low || number > INT_MAX) return complain(wrong);
        into = number;
        return true;
    }
    bool good_name(const std::string& name) {
        if (name.empty()) return complain("A name must not be empty");
        if (name.size() <= name_bytes_max) return true;
        return complain("Name length is limited to " + std::to_string(name_bytes_max));
    }
    // At most one word, the name of a batch.
    bool batch_name() {
        const Words given = words();
        if (given.size() > 1) return wrong_usage();
        out.args.set("name", given.empty() ? "batch" : given[0]);
        return good_name(out.args["name"].as_text());
    }
    void keep_flags(std::string_view letters) {
        for (const char letter : letters)
            if (has(letter)) out.flags.insert(letter);
    }
};

Value texts(const Words& words, std::size_t from = 0) {
    Value list = Value::list();
    for (std::size_t i = from; i < words.size(); ++i) list.push(words[i]);
    return list;
}

std::string user_at_host() {
    const char* user = std::getenv("USER");
    char host[256] = "localhost";
    ::gethostname(host, sizeof(host) - 1);
    std::string name = user != nullptr && user[0] != '\0' ? user
                       : ::geteuid() == 0                 ? "root"
                                                          : std::to_string(::geteuid());
    name += "@" + std::string(host);
    return name.substr(0, name_bytes_max);
}

bool new_session(Parse& p) {
    i64 timeout = 300;
    if (!p.number('t', 0, timeout, "Invalid timeout value")) return false;
    const Words words = p.words();
    if (words.size() > 1) return p.wrong_usage();
    const std::string name = words.empty() ? user_at_host() : words[0];
    if (!p.good_name(name)) return false;
    i64 features = 1;
    if (const char* text = std::getenv("LST_FEATURES"); text != nullptr) {
        char* end = nullptr;
        features = std::strtol(text, &end, 16);
        if (end == text || *end != '\0' || (features & ~i64{1}) != 0)
            return p.complain("LST_FEATURES: '" + std::string(text) +
                              "' is not allowed; allowed: 0, 1");
    }
    p.out.args.set("name", name);
    p.out.args.set("timeout", timeout);
    p.out.args.set("force", p.has('f'));
    p.out.args.set("features", features);
    p.out.needs_session = false;
    return true;
}

bool nothing(Parse& p) {
    return p.words().empty() || p.wrong_usage();
}
bool show_session(Parse& p) {
    p.out.needs_session = false;
    return nothing(p);
}

bool ping(Parse& p) {
    i64 timeout = 5;
    if (!p.number('t', 1, timeout, "Invalid timeout value")) return false;
    const int ways = int{p.has('s')} + int{p.has('g')} + int{p.has('b')} + int{p.has('n')};
    if (ways != 1 || !p.words().empty()) return p.wrong_usage();
    if (p.has('s')) p.out.args.set("session", true);
    if (const std::string* group = p.value('g')) p.out.args.set("group", *group);
    if (const std::string* batch = p.value('b')) p.out.args.set("batch", *batch);
    if (p.has('v')) p.out.args.set("server", true);
    if (const std::string* ids = p.value('n')) p.out.args.set("ids", Value::list({Value(*ids)}));
    p.out.args.set("timeout", timeout);
    return true;
}

bool add_group(Parse& p) {
    const Words words = p.words();
    if (words.size() < 2) return p.wrong_usage();
    if (!p.good_name(words[0])) return false;
    p.out.args.set("name", words[0]);
    p.out.args.set("ids", texts(words, 1));
    return true;
}

bool one_name(Parse& p) {
    const Words words = p.words();
    if (words.size() != 1) return p.wrong_usage();
    p.out.args.set("name", words[0]);
    return p.good_name(words[0]);
}

bool update_group(Parse& p) {
    const int ways = int{p.has('f')} + int{p.has('c')} + int{p.has('r')};
    if (ways != 1) return p.wrong_usage();
    if (p.has('f')) p.out.args.set("op", "refresh");
    if (const std::string* state = p.value('c')) {
        bool known = false;
        for (const char* word : {"active", "busy", "down", "unknown", "invalid"})
            known = known || *state == word;
        if (!known) return p.wrong_usage();
        p.out.args.set("op", "clean");
        p.out.args.set("states", Value::list({Value(*state)}));
    }
    if (const std::string* ids = p.value('r')) {
        p.out.args.set("op", "remove");
        p.out.args.set("ids", Value::list({Value(*ids)}));
    }
    return one_name(p);
}

bool list_group(Parse& p) {
    p.keep_flags("abdul");
    p.out.names = p.words();
    if (p.out.names.empty() && !p.out.flags.empty()) return p.wrong_usage();
    if (!p.out.names.empty()) p.out.args.set("names", texts(p.out.names));
    return true;
}

bool stat(Parse& p) {
    i64 timeout = 5;
    p.out.delay_s = 5;
    p.out.count = -1;
    constexpr const char* wrong = "Invalid timeout or delay value";
    if (!p.number('t', 1, timeout, wrong) || !p.number('d', 1, p.out.delay_s, wrong) ||
        !p.number('o', -1, p.out.count, "Invalid count value"))
        return false;
    if (p.out.count == 0) return p.complain("Invalid count value");
    p.keep_flags("lcbarwgnxm");
    p.out.names = p.words();
    if (p.out.names.empty()) return p.wrong_usage();
    p.out.args.set("names", texts(p.out.names));
    p.out.args.set("timeout", timeout);
    return true;
}

bool show_error(Parse& p) {
    p.keep_flags("s");
    p.out.names = p.words();
    if (p.out.names.empty()) return p.wrong_usage();
    p.out.args.set("names", texts(p.out.names));
    return true;
}

bool run(Parse& p) {
    i64 timeout = 0;
    if (!p.number('t', 1, timeout, "Invalid timeout value")) return false;
    if (timeout != 0) p.out.args.set("timeout", timeout);
    return p.batch_name();
}

bool stop(Parse& p) {
    p.out.args.set("force", p.has('f'));
    return p.batch_name();
}

bool list_batch(Parse& p) {
    i64 test = 0;
    if (!p.number('t', 1, test, "Invalid test index")) return false;
    p.keep_flags("iasl");
    const Words words = p.words();
    if (words.size() > 1) return p.wrong_usage();
    if (words.empty()) return p.out.flags.empty() && test == 0 ? true : p.wrong_usage();
    p.out.names = words;
    p.out.args.set("name", words[0]);
    p.out.args.set("test", test);
    return true;
}

bool query(Parse& p) {
    i64 test = 0, timeout = 5;
    p.out.delay_s = 5;
    p.out.count = 1;
    constexpr const char* wrong = "Invalid timeout or delay value";
    if (!p.number('t', 1, test, "Invalid test index") || !p.number('o', 1, timeout, wrong) ||
        !p.number('d', 1, p.out.delay_s, wrong) ||
        !p.number('c', 1, p.out.count, "Invalid loop value"))
        return false;
    p.keep_flags("saiel");
    p.out.args.set("test", test);
    p.out.args.set("server", p.has('s'));
    p.out.args.set("timeout", timeout);
    return p.batch_name();
}

// "D:S", both at least 1.
bool distribution(Parse& p) {
    const std::string* text = p.value('d');
    if (text == nullptr) return true;
    const std::size_t colon = text->find(':');
    i64 dist = 0, span = 0;
    if (colon == std::string::npos || !parse_int(text->substr(0, colon), dist) ||
        !parse_int(text->substr(colon + 1), span) || dist < 1 || span < 1 || dist > INT_MAX ||
        span > INT_MAX)
        return p.complain("Invalid distribution: " + *text);
    p.out.args.set("dist", dist);
    p.out.args.set("span", span);
    return true;
}

bool same_word(const std::string& text, const char* word) {
    return ::strcasecmp(text.c_str(), word) == 0;
}

bool brw_size(Parse& p, const std::string& text) {
    i64 bytes = 0;
    if (p.out.args.has("size")) return p.complain("Duplicate parameter: size=" + text);
    if (!parse_size(text, bytes) || bytes < 1) return p.complain("Invalid size " + text);
    if (bytes > transfer_bytes_max)
        return p.complain("Size exceed limitation: " + std::to_string(bytes) + " bytes");
    p.out.args.set("size", bytes);
    return true;
}

bool brw_word(Parse& p, const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (equals == std::string::npos) {
        const bool read = same_word(word, "read") || same_word(word, "r");
        if (read || same_word(word, "write") || same_word(word, "w")) {
            if (p.out.args.has("mode")) return p.complain("Duplicate parameter: " + word);
            p.out.args.set("mode", read ? "read" : "write");
        } else if (same_word(word, "skip_rx_copy") || same_word(word, "skip-rx-copy")) {
            if (p.out.args.has("check")) return p.complain("Unknow flag " + word);
            p.out.args.set("check", "discard");
        } else {
            return p.complain("Unknow parameter: " + word);
        }
        return true;
    }
    if (same_word(key, "check") || same_word(key, "c")) {
        for (const char* check : {"simple", "full", "discard"}) {
            if (!same_word(value, check)) continue;
            if (p.out.args.has("check")) return p.complain("Unknow flag " + value);
            p.out.args.set("check", check);
            return true;
        }
        return p.complain("Unknow flag " + value);
    }
    if (same_word(key, "size") || same_word(key, "s")) return brw_size(p, value);
    if (same_word(key, "off") || same_word(key, "o")) {
        i64 offset = 0;
        if (p.out.args.has("offset")) return p.complain("Duplicate parameter: " + word);
        if (!parse_size(value, offset) || offset < 0 || offset % 8 != 0)
            return p.complain("Invalid offset " + value);
        p.out.args.set("offset", offset);
        return true;
    }
    return p.complain("Unknow parameter: " + word);
}

bool add_test(Parse& p) {
    const Words words = p.words();
    if (words.empty() || !p.has('f') || !p.has('t')) return p.wrong_usage();
    i64 loop = -1, concurrency = 1;
    if (!p.number('l', INT_MIN, loop, "Invalid loop value")) return false;
    if (loop == 0 || loop < -1) return p.complain("Invalid parameters list in command line");
    if (const std::string* text = p.value('c');
        text != nullptr &&
        (!parse_int(*text, concurrency) || concurrency < 1 || concurrency > concurrency_max))
        return p.complain("Invalid concurrency of test: " + *text);
    if (!distribution(p)) return false;
    const std::string* batch = p.value('b');
    p.out.args.set("batch", batch != nullptr ? *batch : "batch");
    p.out.args.set("loop", loop);
    p.out.args.set("concurrency", concurrency);
    p.out.args.set("from", *p.value('f'));
    p.out.args.set("to", *p.value('t'));
    const std::string& test = words[0];
    p.out.args.set("test", test);
    bool good = true;
    if (test == "brw") {
        for (std::size_t i = 1; good && i < words.size(); ++i) good = brw_word(p, words[i]);
    } else if (test != "ping") {
        good = p.complain("Unknow test name " + test);
    } else if (words.size() > 1) {
        good = p.complain("Unknow parameter: " + words[1]);
    }
    if (!good) p.complaint += "\nFailed to add test (" + test + ")";
    return good;
}

constexpr LongOption new_session_options[] = {{"timeout", required_argument, 't'},
                                              {"force", no_argument, 'f'}};
constexpr LongOption ping_options[] = {
    {"session", no_argument, 's'},     {"group", required_argument, 'g'},
    {"batch", required_argument, 'b'}, {"server", no_argument, 'v'},
    {"nodes", required_argument, 'n'}, {"timeout", required_argument, 't'}};
constexpr LongOption update_group_options[] = {{"refresh", no_argument, 'f'},
                                               {"clean", required_argument, 'c'},
                                               {"remove", required_argument, 'r'}};
constexpr LongOption list_group_options[] = {{"active", no_argument, 'a'},
                                             {"busy", no_argument, 'b'},
                                             {"down", no_argument, 'd'},
                                             {"unknown", no_argument, 'u'},
                                             {"all", no_argument, 'l'}};
constexpr LongOption stat_options[] = {{"timeout", required_argument, 't'},
                                       {"delay", required_argument, 'd'},
                                       {"count", required_argument, 'o'},
                                       {"lnet", no_argument, 'l'},
                                       {"rpc", no_argument, 'c'},
                                       {"bw", no_argument, 'b'},
                                       {"rate", no_argument, 'a'},
                                       {"read", no_argument, 'r'},
                                       {"write", no_argument, 'w'},
                                       {"avg", no_argument, 'g'},
                                       {"min", no_argument, 'n'},
                                       {"max", no_argument, 'x'},
                                       {"mbs", no_argument, 'm'}};
constexpr LongOption show_error_options[] = {{"session", no_argument, 's'}};
constexpr LongOption run_options[] = {{"timeout", required_argument, 't'}};
constexpr LongOption stop_options[] = {{"force", no_argument, 'f'}};
constexpr LongOption list_batch_options[] = {{"test", required_argument, 't'},
                                             {"invalid", no_argument, 'i'},
                                             {"active", no_argument, 'a'},
                                             {"server", no_argument, 's'},
                                             {"all", no_argument, 'l'}};
constexpr LongOption query_options[] = {
    {"test", required_argument, 't'},  {"timeout", required_argument, 'o'},
    {"delay", required_argument, 'd'}, {"loop", required_argument, 'c'},
    {"server", no_argument, 's'},      {"active", no_argument, 'a'},
    {"idle", no_argument, 'i'},        {"error", no_argument, 'e'},
    {"all", no_argument, 'l'}};
constexpr LongOption add_test_options[] = {
    {"batch", required_argument, 'b'},       {"loop", required_argument, 'l'},
    {"concurrency", required_argument, 'c'}, {"distribute", required_argument, 'd'},
    {"from", required_argument, 'f'},        {"to", required_argument, 't'}};

struct Entry {
    std::string_view name;
    std::span<const LongOption> options;
    bool (*parse)(Parse&);
    std::string_view usage;
};
constexpr Entry entries[] = {
    {"new_session", new_session_options, new_session, "[--timeout TIME] [--force] [NAME]"},
    {"end_session", {}, nothing, ""},
    {"show_session", {}, show_session, ""},
    {"ping", ping_options, ping,
     "{--session | --group NAME | --batch NAME [--server] | --nodes IDS} [--timeout TIME]"},
    {"add_group", {}, add_group, "NAME IDS [IDS]..."},
    {"del_group", {}, one_name, "NAME"},
    {"update_group", update_group_options, update_group,
     "NAME {--refresh | --clean STATE | --remove IDS}"},
    {"list_group", list_group_options, list_group,
     "[[--active] [--busy] [--down] [--unknown] [--all] GROUP...]"},
    {"stat", stat_options, stat,
     "[--bw] [--rate] [--read] [--write] [--max] [--min] [--avg] [--mbs] [--timeout TIME] "
     "[--delay TIME] [--count N] {GROUP | IDS}..."},
    {"show_error", show_error_options, show_error, "[--session] {GROUP | IDS}..."},
    {"add_batch", {}, one_name, "NAME"},
    {"run", run_options, run, "[--timeout TIME] [NAME]"},
    {"stop", stop_options, stop, "[--force] [NAME]"},
    {"list_batch", list_batch_options, list_batch,
     "[[--test N] [--invalid] [--active] [--all] [--server] NAME]"},
    {"query", query_options, query,
     "[--test N] [--server] [--active] [--idle] [--error] [--all] [--timeout TIME] "
     "[--delay TIME] [--loop N] [NAME]"},
    {"add_test", add_test_options, add_test,
     "[--batch NAME] [--loop N] [--concurrency N] [--distribute D:S] --from GROUP --to GROUP "
     "{ping | brw [read | write] [check={simple | full | discard}] [size=N]}"},
};

const Entry* find_entry(std::string_view name) {
    for (const Entry& entry : entries)
        if (entry.name == name) return &entry;
    return nullptr;
}

}  // namespace

bool parse_lst(const Words& words, LstCommand& out, std::string& complaint, bool& usage) {
    usage = false;
    complaint.clear();
    const Entry* entry = find_entry(words[0]);
    if (entry == nullptr) {
        complaint = "lst: '" + words[0] + "' is not a valid command. See 'lst --list-commands'.";
        return false;
    }
    out.name = out.verb = words[0];
    std::vector<LongOption> options(entry->options.begin(), entry->options.end());
    options.push_back({"help", no_argument, help_letter});
    std::vector<Parsed> parsed;
    if (!parse_options(words, options, parsed, complaint)) {
        complaint = words[0] + ": " + complaint;
        usage = true;
        return false;
    }
    for (const Parsed& each : parsed) out.help = out.help || each.letter == help_letter;
    if (out.help) return true;
    Parse parse{parsed, out, complaint, usage};
    return entry->parse(parse);
}

std::string lst_usage(std::string_view command) {
    if (command == "bench")
        return "Usage: lst bench NID NID [--sizes N,N...] [--seconds S] [--concurrency N] "
               "[--check full|simple|none] [--test read|write|ping]... [--json]";
    const Entry* entry = find_entry(command);
    if (entry == nullptr) return {};
    std::string text = "Usage: lst " + std::string(entry->name);
    if (!entry->usage.empty()) text += " " + std::string(entry->usage);
    return text;
}

std::string lst_commands() {
    constexpr std::size_t width = 20, in_a_line = 4;
    std::string text;
    std::size_t count = 0;
    const auto add = [&](std::string_view name) {
        text += name;
        text.append(width - name.size(), ' ');
        if (++count % in_a_line == 0) text += '\n';
    };
    for (const Entry& entry : entries) add(entry.name);
    for (const char* name : {"bench", "help", "list-commands", "version", "exit", "quit"})
        add(name);
    if (count % in_a_line != 0) text += '\n';
    return text;
}

bool parse_size(const std::string& text, i64& bytes) {
    std::string digits = text;
    i64 unit = 1;
    if (!digits.empty()) {
        const char last = digits.back();
        if (last == 'k' || last == 'K') unit = 1 << 10;
        if (last == 'm' || last == 'M') unit = 1 << 20;
        if (unit > 1) digits.pop_back();
    }
    if (!parse_int(digits, bytes) || bytes > INT64_MAX / unit || bytes < INT64_MIN / unit)
        return false;
    bytes *= unit;
    return true;
}

}  // namespace ulnet::tools
