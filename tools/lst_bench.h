// `lst bench`: session, groups and tests in one command, with a table of what came out.
#pragma once

#include "tools/lst_format.h"

namespace ulnet::tools {

struct BenchOptions {
    bool help = false;           // --help: only the usage line is wanted
    std::string client, server;  // NIDs as written
    std::vector<std::string> tests{"write", "read"};
    std::vector<i64> sizes{4096, 65536, 1 << 20};
    double seconds = 2;  // each run
    i64 concurrency = 8;
    std::string check = "none";
    bool json = false;
};
// The words after "bench". False: `complaint` says what is wrong (empty: getopt has), followed by
// the usage line.
bool parse_bench(const Words& words, BenchOptions& out, std::string& complaint);

// One run as the node answered it (verb bench), as a line of the table and as JSON.
std::string bench_head(const BenchOptions&);
std::string bench_line(const BenchOptions&, const std::string& test, const ctl::Value& reply);
ctl::Value bench_json(const std::string& test, const ctl::Value& reply);
// Busy shares of the workers between two `cpt show` of one node: a list of {cpt, worker,
// busy_percent, tasks, hand_offs}.
ctl::Value busy_between(const ctl::Value& before, const ctl::Value& after);

// Runs it all through the node of `common`, and through the node that has the client's NID when
// that is another one whose socket is in the same folder.
int run_bench(const Common& common, Connection& connection, const BenchOptions&);

}  // namespace ulnet::tools
