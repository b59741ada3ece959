// Texts of lst, in the words of the kernel's tool.
#include "tools/lst_format.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace ulnet::tools {
namespace {

using ctl::Value;

constexpr const char* counts_head = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n";

std::string counts_line(const Value& counts) {
    return fmt::format("{}\t{}\t{}\t{}\t{}", counts["active"].as_int(), counts["busy"].as_int(),
                       counts["down"].as_int(), counts["unknown"].as_int(),
                       counts["total"].as_int());
}

bool failed_node(const Value& node) {
    return node["rpc_errno"].as_int() != 0 || node["framework_errno"].as_int() != 0;
}

// " (session "x" of NID)" for a node that another console has.
std::string holder_of(const Value& node) {
    if (!node.has("session_nid")) return {};
    const std::string name =
        node.has("session") ? "session \"" + node["session"].as_text() + "\"" : "a session";
    return fmt::format(" ({} of {})", name, node["session_nid"].as_text());
}

Printed new_session(const Value& reply) {
    return {fmt::format("SESSION: {} FEATURES: {:x} TIMEOUT: {} FORCE: {}\n",
                        reply["name"].as_text(), reply["features"].as_int(),
                        reply["timeout"].as_int(), reply["force"].as_bool() ? "Yes" : "No"),
            {}};
}

Printed show_session(const Value& reply) {
    return {fmt::format("{} ID: {}, KEY: {} FEATURES: {:x} NODES: {}\n", reply["name"].as_text(),
                        reply["id"].as_text(), reply["key"].as_int(), reply["features"].as_int(),
                        reply["nodes"].as_int()),
            {}};
}

Printed end_session(const Value& reply) {
    Printed printed{"session is ended\n", {}};
    report_failures(reply["nodes"], "end session", printed);
    return printed;
}

Printed ping(const Value& reply) {
    Printed printed;
    for (const Value& node : reply["nodes"].items()) {
        const bool has_session = node.has("session");
        printed.out +=
            fmt::format("\t{}: {} [session: {} id: {}]\n", node["id"].as_text(),
                        node["state"].as_text(), has_session ? node["session"].as_text() : "<NULL>",
                        has_session ? node["session_nid"].as_text() : "<?>");
        if (node["rpc_errno"].as_int() != 0) printed.code = lst_rpc_failed;
    }
    return printed;
}

Printed add_group(const LstCommand& command, const Value& reply) {
    Printed printed;
    for (const Value& added : reply["added"].items()) {
        report_failures(added["nodes"], "create session", printed);
        bool joined = false;
        for (const Value& node : added["nodes"].items()) joined = joined || !failed_node(node);
        if (joined) printed.out += added["ids"].as_text() + " are added to session\n";
    }
    if (reply["deleted"].as_bool())
        printed.out += fmt::format("No nodes added successfully, deleting group {}\n"
                                   "Group is deleted\n",
                                   command.args["name"].as_text());
    return printed;
}

Printed changed_group(const LstCommand& command, const Value& reply) {
    Printed printed{command.name == "del_group" ? "Group is deleted\n" : "Group is updated\n", {}};
    report_failures(reply["nodes"], "Updating group", printed);
    return printed;
}

bool state_wanted(const LstCommand& command, const std::string& state) {
    if (command.flags.contains('l')) return true;
    return (command.flags.contains('a') && state == "Active") ||
           (command.flags.contains('b') && state == "Busy") ||
           (command.flags.contains('d') && state == "Down") ||
           (command.flags.contains('u') && state == "Unknown");
}

Printed list_group(const LstCommand& command, const Value& reply) {
    Printed printed;
    const Value& groups = reply["groups"];
    if (command.names.empty()) {
        std::size_t index = 0;
        for (const Value& group : groups.items())
            printed.out += fmt::format("{}) {}\n", ++index, group["name"].as_text());
        printed.out += fmt::format("Total {} groups\n", index);
        return printed;
    }
    if (command.flags.empty()) printed.out += counts_head;
    for (const Value& group : groups.items()) {
        const std::string& name = group["name"].as_text();
        if (command.flags.empty()) {
            printed.out += "\t" + counts_line(group["counts"]) + "\t" + name + "\n";
            continue;
        }
        std::size_t shown = 0;
        printed.out += fmt::format("Group [ {} ]\n", name);
        for (const Value& node : group["nodes"].items()) {
            if (!state_wanted(command, node["state"].as_text())) continue;
            printed.out += fmt::format("\t{}: {}\n", node["id"].as_text(), node["state"].as_text());
            ++shown;
        }
        printed.out += shown > 0 ? fmt::format("Total {} nodes [ {} ]\n", shown, name)
                                 : fmt::format("No nodes found [ {} ]\n", name);
    }
    for (const Value& name : reply["missing"].items()) {
        printed.err += fmt::format("Can't find {} in current session\n", name.as_text());
        printed.code = lst_failed;
    }
    return printed;
}

std::string batch_counts(const Value& what) {
    return std::string(counts_head) + "client\t" + counts_line(what["client"]) + "\nserver\t" +
           counts_line(what["server"]) + "\n";
}

std::string test_lines(const Value& test) {
    return fmt::format("\tTest {}({}) (loop: {}, concurrency: {})\n", test["index"].as_int(),
                       test["type"].as_text(), test["loop"].as_int(),
                       test["concurrency"].as_int()) +
           batch_counts(test);
}

// The nodes of a batch or test, as `list_batch` shows them with -a, -i or -l.
std::string batch_nodes(const LstCommand& command, const Value& what) {
    std::string text;
    std::size_t shown = 0;
    for (const Value& node : what[command.flags.contains('s') ? "servers" : "clients"].items()) {
        const std::string& state = node["state"].as_text();
        const bool active = state == "Active";
        const bool wanted = command.flags.contains('l') ||
                            (command.flags.contains('a') && active) ||
                            (command.flags.contains('i') && !active);
        if (!wanted) continue;
        text += fmt::format("\t{}: {}\n", node["id"].as_text(), state);
        ++shown;
    }
    return text + fmt::format("Total {} nodes\n", shown);
}

Printed list_batch(const LstCommand& command, const Value& reply) {
    Printed printed;
    const Value& batches = reply["batches"];
    if (command.names.empty()) {
        std::size_t index = 0;
        for (const Value& batch : batches.items())
            printed.out += fmt::format("{}) {}\n", ++index, batch["name"].as_text());
        printed.out += fmt::format("Total {} batches\n", index);
        return printed;
    }
    const bool one_test = command.args["test"].as_int() > 0;
    const bool nodes =
        command.flags.contains('a') || command.flags.contains('i') || command.flags.contains('l');
    for (const Value& batch : batches.items()) {
        const auto& tests = batch["tests"].items();
        if (nodes) {
            printed.out += batch_nodes(command, one_test && !tests.empty() ? tests[0] : batch);
            continue;
        }
        if (!one_test)
            printed.out += fmt::format("Batch: {} Tests: {} State: {}\n", batch["name"].as_text(),
                                       tests.size(), batch["state"].as_int()) +
                           batch_counts(batch);
        for (const Value& test : tests) printed.out += test_lines(test);
    }
    return printed;
}

Printed query(const LstCommand& command, const Value& reply) {
    Printed printed;
    const Value& nodes = reply["nodes"];
    const bool verbose = !command.flags.empty();
    if (verbose) {
        if (nodes.size() == 0) printed.out = "Batch or test is empty\n";
        const bool all = command.flags.contains('l') ||
                         (command.flags.contains('s') && command.flags.size() == 1);
        for (const Value& node : nodes.items()) {
            const bool failed = failed_node(node), running = node["active"].as_int() > 0;
            const bool wanted = all || (command.flags.contains('e') && failed) ||
                                (command.flags.contains('a') && !failed) ||
                                (command.flags.contains('i') && !failed && !running);
            if (!wanted) continue;
            const i64 rpc = node["rpc_errno"].as_int();
            const i64 code = rpc != 0 ? rpc : node["framework_errno"].as_int();
            printed.out +=
                fmt::format("{} [{}]: {}\n", node["id"].as_text(), node["state"].as_text(),
                            failed    ? std::strerror(static_cast<int>(code))
                            : running ? "Running"
                                      : "Idle");
        }
    } else {
        const i64 idle = reply["idle"].as_int(), running = reply["running"].as_int();
        const i64 failed = reply["failed"].as_int(), unknown = reply["rpc_failed"].as_int();
        printed.out =
            fmt::format("{} [{}] ", command.args["name"].as_text(), command.args["test"].as_int());
        if (unknown > 0)
            printed.out += fmt::format("{} of {} nodes are unknown, ", unknown, nodes.size());
        if (running == 0 && failed == 0)
            printed.out += "is stopped\n";
        else if (idle == 0 && failed == 0)
            printed.out += "is running\n";
        else
            printed.out +=
                fmt::format("stopped: {} , running: {}, failed: {}\n", idle, running, failed);
    }
    if (reply["framework_failed"].as_int() > 0) printed.code = lst_node_failed;
    if (reply["rpc_failed"].as_int() > 0) printed.code = lst_rpc_failed;
    report_failures(nodes, "query batch", printed);
    report_skipped(reply["skipped"], "query batch", printed);
    return printed;
}

Printed add_test(const Value& reply) {
    Printed printed;
    report_failures(reply["servers"]["nodes"], "add test", printed);
    report_failures(reply["clients"]["nodes"], "add test", printed);
    if (printed.code == 0) printed.out = "Test was added successfully\n";
    // The nodes that take part have it: what is said about others changes no code.
    const int code = printed.code;
    report_skipped(reply["servers"]["skipped"], "add test", printed);
    report_skipped(reply["clients"]["skipped"], "add test", printed);
    printed.code = code;
    return printed;
}

Printed stop(const Value& reply) {
    Printed printed;
    report_failures(reply["nodes"], "stop batch", printed);
    report_failures(reply["unanswered"]["nodes"], "query batch", printed);
    report_skipped(reply["skipped"], "stop batch", printed);
    const i64 active = reply["active"].as_int();
    if (active > 0) {
        printed.err += fmt::format("{} nodes are still running\n", active);
        if (printed.code == 0) printed.code = lst_failed;
    } else {
        printed.out = "Batch is stopped\n";
    }
    return printed;
}

Printed show_error(const LstCommand& command, const Value& reply) {
    Printed printed;
    const bool session_only = command.flags.contains('s');
    for (const Value& group : reply["groups"].items()) {
        std::size_t with_errors = 0;
        printed.out += group["name"].as_text() + ":\n";
        for (const Value& node : group["nodes"].items()) {
            if (failed_node(node)) {
                const i64 rpc_errno = node["rpc_errno"].as_int();
                const i64 code = rpc_errno != 0 ? rpc_errno : node["framework_errno"].as_int();
                printed.err +=
                    fmt::format("RPC failure, can't show error on {}: {}\n", node["id"].as_text(),
                                std::strerror(static_cast<int>(code)));
                printed.code = lst_rpc_failed;
                continue;
            }
            const Value& framework = node["framework"];
            const Value& rpc = node["rpc"];
            const i64 brw = framework["brw_errors"].as_int();
            const i64 pings = framework["ping_errors"].as_int();
            const i64 errors = rpc["errors"].as_int(), dropped = rpc["dropped"].as_int();
            const i64 expired = rpc["expired"].as_int();
            if (brw == 0 && pings == 0 &&
                (session_only || (errors == 0 && dropped == 0 && expired == 0)))
                continue;
            ++with_errors;
            printed.err += fmt::format("{}: [Session {} brw errors, {} ping errors]",
                                       node["id"].as_text(), brw, pings);
            if (!session_only)
                printed.err += fmt::format(" [RPC: {} errors, {} dropped, {} expired]", errors,
                                           dropped, expired);
            printed.err += "\n";
        }
        printed.out +=
            fmt::format("Total {} error nodes in {}\n", with_errors, group["name"].as_text());
        report_skipped(group["skipped"], "show error", printed);
    }
    return printed;
}

// What the kernel's tool calls the thing that is missing or there already.
std::string thing_of(const LstCommand& command) {
    if (command.name == "new_session" || command.name == "bench") return "session";
    if (command.name == "add_group" || command.name == "del_group" ||
        command.name == "update_group")
        return "group";
    if (command.name == "add_batch" || command.name == "list_batch")
        return command.args["test"].as_int() > 0 ? "test" : "batch";
    if (command.name == "add_test") return "test";
    if (command.name == "ping") return "debug";
    if (command.name == "stat") return "stat";
    if (command.names.size() == 1) return command.names[0];
    return command.args.has("name") ? command.args["name"].as_text() : command.name;
}

std::string action_of(const LstCommand& command) {
    if (command.name == "new_session") return "create session";
    if (command.name == "del_group") return "delete group";
    if (command.name == "add_test") return "add test";
    std::string text = command.name;
    for (char& c : text)
        if (c == '_') c = ' ';
    return text;
}

}  // namespace

void report_failures(const Value& nodes, const char* operation, Printed& printed) {
    for (const Value& node : nodes.items()) {
        const int rpc = static_cast<int>(node["rpc_errno"].as_int());
        const int framework = static_cast<int>(node["framework_errno"].as_int());
        if (rpc != 0) {
            printed.err += fmt::format("{} RPC failed on {}: {}\n", operation, node["id"].as_text(),
                                       std::strerror(rpc));
            printed.code = lst_rpc_failed;
        } else if (framework != 0) {
            printed.err +=
                fmt::format("operation {} failed on {}: {}{}\n", operation, node["id"].as_text(),
                            std::strerror(framework), holder_of(node));
            if (printed.code == 0) printed.code = lst_node_failed;
        }
    }
}

void report_skipped(const Value& nodes, const char* operation, Printed& printed) {
    for (const Value& node : nodes.items()) {
        const int code = static_cast<int>(node["errno"].as_int());
        printed.err += fmt::format("{} skipped {} [{}]{}\n", operation, node["id"].as_text(),
                                   node["state"].as_text(),
                                   code != 0 ? std::string(": ") + std::strerror(code) : "");
        if (node["state"].as_text() == "Down")
            printed.code = lst_rpc_failed;
        else if (printed.code == 0)
            printed.code = lst_node_failed;
    }
}

Printed format_reply(const LstCommand& command, const Value& reply) {
    const std::string& name = command.name;
    if (name == "new_session") return new_session(reply);
    if (name == "show_session") return show_session(reply);
    if (name == "end_session") return end_session(reply);
    if (name == "ping") return ping(reply);
    if (name == "add_group") return add_group(command, reply);
    if (name == "del_group" || name == "update_group") return changed_group(command, reply);
    if (name == "list_group") return list_group(command, reply);
    if (name == "list_batch") return list_batch(command, reply);
    if (name == "query") return query(command, reply);
    if (name == "add_test") return add_test(reply);
    if (name == "stop") return stop(reply);
    if (name == "show_error") return show_error(command, reply);
    if (name == "run") {
        Printed printed;
        report_failures(reply["nodes"], "Run batch", printed);
        const bool runs = printed.code == 0;
        report_skipped(reply["skipped"], "Run batch", printed);
        if (runs) printed.out = command.args["name"].as_text() + " is running now\n";
        return printed;
    }
    return {};  // add_batch says nothing
}

Printed format_error(const LstCommand& command, const Error& error) {
    const std::string said = error.text == error.status.text() ? std::string() : error.text;
    std::string text;
    bool enough = true;  // the node's sentence says all that `text` does
    switch (-error.status.code()) {
    case ESRCH:
        text = "No session exists";
        break;
    case ESHUTDOWN:
        text = "Session is shutting down";
        break;
    case EACCES:
        text = "Unmatched session key or not root";
        break;
    case ENOENT:
        text = "Can't find " + thing_of(command) + " in current session";
        break;
    case EEXIST:
        text = thing_of(command) + " already exists";
        break;
    case EINVAL:
        text = "Invalid parameters list in command line";
        enough = false;
        break;
    default:
        text = "Failed to " + action_of(command);
        if (said.find(error.status.text()) == std::string::npos)
            text += std::string(": ") + error.status.text();
        enough = false;
    }
    // The kernel's words first, for scripts; then what the node says, for people.
    if (!said.empty()) text = enough ? said : text + ": " + said;
    return {{}, text + "\n", lst_failed};
}

std::string failure_json(int code, const std::string& text) {
    return to_json(Value::map({{"errno", Value(code)}, {"descr", Value(text)}})) + "\n";
}

std::string format_progress(const LstCommand& command, const Value& part) {
    if (command.name != "stop" || !part.has("active")) return {};
    return fmt::format("{} batch in stopping\n", part["active"].as_int());
}

}  // namespace ulnet::tools
