// lnetd: a process that owns NIDs: answers pings, serves the self test and its control socket.
// Options by CLI11; the parts are in daemon.h. Crash-only: its configuration file is the truth.
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "cpt/base/log.h"
#include "cpt/base/text.h"
#include "tools/daemon.h"
#include "tools/version.h"

namespace ulnet::tools {
namespace {

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

struct Flags {
    std::string config, name{ctl::node_name_default}, socket, cpu_pattern, log_level{"info"};
    std::vector<std::string> nids;
    u32 cpu_npartitions = 0, workers = 0, spin_us = 0;
    SelftestOptions selftest;
    std::string sock_io{"epoll"}, trace;
    std::vector<std::string> faults;
    bool no_pin = false, foreground = false;
};

// Of the option `key`; CLI11 puts the key before what a check says.
std::string check_name(const std::string& name) {
    if (ctl::good_node_name(name)) return {};
    return "'" + name + "' is not allowed; allowed: " + ctl::node_name_allowed();
}

std::string check_fault(const std::string& text) {
    FaultRule rule;
    return parse_fault_rule(text, rule).text;
}

// FILE[:SNAPLEN]; what follows the last colon is a length when it is a number.
std::string read_trace(const std::string& text, TraceOptions& out) {
    const std::size_t colon = text.rfind(':');
    out.path = text;
    if (colon != std::string::npos &&
        text.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
        const Result<u64> snap = parse_u64(text.substr(colon + 1), 0, TraceOptions::snap_max);
        if (!snap.ok())
            return "'" + text.substr(colon + 1) + "' is not allowed; allowed: 0 ... " +
                   std::to_string(TraceOptions::snap_max) + " bytes of payload";
        out.path = text.substr(0, colon);
        out.snap = static_cast<u32>(*snap);
    }
    return out.path.empty() ? "'" + text + "' is not allowed; allowed: FILE or FILE:SNAPLEN" : "";
}

std::string check_trace(const std::string& text) {
    TraceOptions options;
    return read_trace(text, options);
}

void describe(CLI::App& app, Flags& flags) {
    app.add_option("-c,--config", flags.config, "configuration file (YAML, as lnetctl export)")
        ->type_name("FILE");
    app.add_option("--nid", flags.nids, "open an NI with this NID; repeatable")
        ->type_name("NID")
        ->check([](const std::string& text) -> std::string {
            const Result<Nid> nid = parse_nid(text);
            if (nid.ok() && !nid->any()) return {};
            return "'" + text + "' is not allowed; allowed: a NID, as 192.168.10.1@tcp";
        });
    app.add_option("--name,--node", flags.name, "name of the node, by which lnetctl finds it")
        ->type_name("NAME")
        ->check(check_name)
        ->capture_default_str();
    app.add_option("--socket", flags.socket, "control socket instead of the one the name gives")
        ->type_name("PATH");
    app.add_option("--workers", flags.workers, "threads of each CPU partition; 0 = one a CPU")
        ->check(CLI::Range(0u, 1024u));
    app.add_option("--cpu-npartitions", flags.cpu_npartitions,
                   "number of CPU partitions; 0 = automatic")
        ->check(CLI::Range(0u, 1024u));
    app.add_option("--cpu-pattern", flags.cpu_pattern,
                   "CPU partitions in LNet's notation, as '0[0-3] 1[4-7]' or 'N'");
    app.add_option("--session-timeout", flags.selftest.session_timeout_s,
                   "seconds after which an lst session that nobody tends ends; 0 = never")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
    app.add_option("--rpc-timeout", flags.selftest.rpc_timeout_s,
                   "seconds after which an lst RPC without an answer has failed; 0 = never")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
    app.add_option("--spin-us", flags.spin_us, "how long idle threads poll before they sleep")
        ->check(CLI::Range(0u, 1000000u));
    app.add_option("--sock-io", flags.sock_io, "what tells of ready sockets: epoll or io_uring")
        ->check(CLI::IsMember({"epoll", "io_uring"}))
        ->capture_default_str();
    app.add_option("--trace", flags.trace,
                   "record all messages to this pcap-ng file, with so many bytes of payload each")
        ->type_name("FILE[:SNAPLEN]")
        ->check(check_trace);
    app.add_option("--fault", flags.faults,
                   "break messages or connections on purpose: action=drop,rate=10,...; repeatable")
        ->type_name("RULE")
        ->allow_extra_args(false)
        ->check(check_fault);
    app.add_flag("--no-pin", flags.no_pin, "let the system move threads between CPUs");
    app.add_option("--log-level", flags.log_level, "error, warn, info, debug or trace")
        ->check(CLI::IsMember({"error", "warn", "info", "debug", "trace"}))
        ->capture_default_str();
    app.add_flag("--foreground", flags.foreground, "stay in the foreground, which it always does");
    app.set_version_flag("--version", "lnetd " + std::string(version));
}

int fail(const std::string& text) {
    std::cerr << "lnetd: " << text << "\n";
    return exit_failed;
}

// The file and --nid options as one configuration tree.
Error read_config(const Flags& flags, ctl::Value& tree) {
    if (!flags.config.empty())
        if (Error error = ctl::read_yaml_file(flags.config, tree); !error.ok()) return error;
    if (flags.nids.empty()) return {};
    if (!tree.is_map() && !tree.is_null())
        return {Status(-EINVAL), flags.config + ": the file must be a map"};
    ctl::Value nets = tree["net"].is_list() ? tree["net"] : ctl::Value::list();
    for (const std::string& text : flags.nids) {
        const Result<Nid> nid = parse_nid(text);  // checked with the command line
        if (!nid.ok()) return {nid.status(), "--nid: '" + text + "'"};
        ctl::Value block = ctl::Value::map();
        block.set("net type", to_text(nid->net()));
        block.set("local NI(s)", ctl::Value::list())
            .push(ctl::Value::map({{"nid", ctl::Value(text)}}));
        nets.push(std::move(block));
    }
    tree.set("net", std::move(nets));
    return {};
}

// Tells the service manager, when there is one (sd_notify's datagram).
void notify(const std::string& text) {
    const char* path = std::getenv("NOTIFY_SOCKET");
    sockaddr_un address{};
    const std::size_t length = path != nullptr ? std::strlen(path) : 0;
    if (length < 2 || length >= sizeof(address.sun_path)) return;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path, length);
    if (path[0] == '@') address.sun_path[0] = '\0';  // abstract
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
    ::sendto(fd, text.data(), text.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&address), bytes);
    ::close(fd);
}

// Members of the group lnet may look; changing is for root and the owner.
void give_to_group(const std::string& socket) {
    if (::geteuid() != 0) return;
    if (const group* lnet = ::getgrnam("lnet"); lnet != nullptr)
        if (::chown(socket.c_str(), static_cast<uid_t>(-1), lnet->gr_gid) != 0)
            log_line(LogLevel::warn, "cannot give the control socket to group lnet");
}

// Blocks the signals before any thread starts, so that all of them inherit it.
int block_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    return ::signalfd(-1, &set, SFD_CLOEXEC);
}

std::string wait_for_signal(int fd) {
    signalfd_siginfo info{};
    while (::read(fd, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info)))
        if (errno != EINTR) return "an error on the signal descriptor";
    return info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM";
}

int serve(const Flags& flags, int signals) {
    std::string why;
    const std::string& place = flags.socket.empty() ? flags.name : flags.socket;
    const Result<std::string> socket = ctl::server_socket_path(
        flags.socket.empty() || place.find('/') != std::string::npos ? place : "./" + place, why);
    if (!socket.ok()) return fail(why + " (--socket PATH)");
    DaemonOptions options;
    if (const Error error = read_config(flags, options.config); !error.ok())
        return fail(error.text);
    options.name = flags.name;
    options.socket = *socket;
    options.cpu_pattern = flags.cpu_pattern;
    options.cpu_npartitions = flags.cpu_npartitions;
    options.sched.workers_per_cpt = flags.workers;
    options.sched.pin = !flags.no_pin;
    options.selftest = flags.selftest;
    options.sock_uring = flags.sock_io == "io_uring";
    if (!flags.trace.empty()) read_trace(flags.trace, options.trace.emplace());
    for (const std::string& text : flags.faults)  // checked with the command line
        if (const Error error = parse_fault_rule(text, options.faults.emplace_back()); !error.ok())
            return fail(error.text);
    options.sched.spin = std::chrono::microseconds(flags.spin_us);
    Daemon daemon(std::move(options));
    if (const Error error = daemon.start(); !error.ok()) {
        const bool in_file = error.text.starts_with("line ") && !flags.config.empty();
        return fail((in_file ? flags.config + ": " : "") + error.text);
    }
    if (!daemon.note().empty()) log_line(LogLevel::warn, flags.config + ": " + daemon.note());
    give_to_group(*socket);
    std::string nids;
    for (const Nid& nid : daemon.nids())
        if (!nid.is_lo()) nids += (nids.empty() ? "" : ", ") + to_text(nid);
    std::cout << "lnetd: ready: node " << flags.name << ", "
              << (nids.empty() ? "no network yet" : nids) << ", socket " << *socket << std::endl;
    notify("READY=1\nSTATUS=serving " + nids);
    const std::string signal = wait_for_signal(signals);
    log_line(LogLevel::info, "stopping on " + signal);
    notify("STOPPING=1");
    if (daemon.stop()) return 0;
    std::cerr << "lnetd: not everything ended within 30 s; giving up" << std::endl;
    ::_exit(exit_failed);  // threads still run: no orderly way is left
}

}  // namespace
}  // namespace ulnet::tools

int main(int argc, char** argv) {
    using namespace ulnet::tools;
    CLI::App app{"lnetd: an LNet node in user space. See lnetd(8)."};
    Flags flags;
    describe(app, flags);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_usage;
    }
    const int signals = block_signals();
    ulnet::LogLevel level = ulnet::LogLevel::info;
    ulnet::parse_log_level(flags.log_level, level);
    const auto sink = ulnet::make_stderr_sink(level);
    ulnet::set_log_sink(sink.get());
    const int code = serve(flags, signals);
    ulnet::set_log_sink(nullptr);
    return code;
}
