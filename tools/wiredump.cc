// wiredump: prints what travels between LNet nodes, from captures and from bytes. See wiredump(8).
#include <CLI/CLI.hpp>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tools/version.h"
#include "tools/wiredump_dump.h"
#include "tools/wiredump_fields.h"

namespace ulnet::tools {
namespace {

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

struct Flags {
    std::string file, as, offsets, order{"little"};
    bool list = false, fields = false;
    u32 version = sock::version_default;
};

std::string check_format(const std::string& name) {
    if (find_format(name) != nullptr) return {};
    std::string names;
    for (const Format& format : formats())
        names += (names.empty() ? "" : ", ") + std::string(format.name);
    return "'" + name + "' is not allowed; allowed: " + names;
}

void describe(CLI::App& app, Flags& flags) {
    app.add_option("FILE", flags.file, "a capture: pcap or pcap-ng; - is the standard input");
    app.add_option("--as", flags.as, "hexadecimal bytes on the standard input are of this format")
        ->type_name("FORMAT")
        ->check(check_format);
    app.add_option("--order", flags.order, "byte order of their sender: little or big")
        ->check(CLI::IsMember({"little", "big"}))
        ->capture_default_str();
    app.add_option("--version-without-hello", flags.version,
                   "version of socklnd on connections whose HELLO was not captured")
        ->check(CLI::Range(sock::version_min, sock::version_max))
        ->capture_default_str();
    app.add_flag("-v,--verbose", flags.fields, "all fields below each line");
    app.add_flag("--list", flags.list, "name the formats");
    app.add_option("--offsets", flags.offsets, "print where the fields of a format are")
        ->type_name("FORMAT")
        ->check(check_format);
    app.set_version_flag("--version", "wiredump " + std::string(version));
}

int fail(const std::string& text) {
    std::cout.flush();
    std::cerr << "wiredump: " << text << "\n";
    return exit_failed;
}

std::string read_all(std::istream& in) {
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

int dump_input(const Flags& flags) {
    std::vector<std::byte> bytes;
    if (const Error error = read_hex(read_all(std::cin), bytes); !error.ok())
        return fail("--as: " + error.text);
    std::string text;
    const Order order = flags.order == "big" ? Order::big : Order::little;
    const Error error = dump_as(*find_format(flags.as), bytes, order, {flags.fields}, text);
    std::cout << text;
    return error.ok() ? 0 : fail(error.text);
}

int dump_file(const Flags& flags) {
    std::ifstream file;
    if (flags.file != "-") {
        file.open(flags.file, std::ios::binary);
        if (!file) return fail(flags.file + ": " + Status(-errno).text());
    }
    const std::string data = read_all(flags.file == "-" ? std::cin : file);
    const Error error =
        dump_capture(std::as_bytes(std::span(data)), {{flags.fields}, flags.version},
                     [](std::string_view text) { std::cout << text; });
    return error.ok() ? 0 : fail(flags.file + ": " + error.text);
}

int run(const Flags& flags) {
    if (flags.list) {
        for (const Format& format : formats())
            std::cout << format.name << std::string(14 - format.name.size(), ' ') << format.help
                      << "\n";
        return 0;
    }
    if (!flags.offsets.empty()) {
        std::string text;
        find_format(flags.offsets)->offsets(text);
        std::cout << text;
        return 0;
    }
    if (!flags.as.empty()) return dump_input(flags);
    if (flags.file.empty()) {
        std::cerr << "wiredump: a FILE, --as, --offsets or --list is needed\n";
        return exit_usage;
    }
    return dump_file(flags);
}

}  // namespace
}  // namespace ulnet::tools

int main(int argc, char** argv) {
    using namespace ulnet::tools;
    CLI::App app{"wiredump: prints what travels between LNet nodes. See wiredump(8)."};
    Flags flags;
    describe(app, flags);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_usage;
    }
    return run(flags);
}
