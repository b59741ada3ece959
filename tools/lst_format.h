// What lst prints, as functions of what the node answered: no daemon needed, so tests compare it
// with the kernel tool's output byte for byte.
#pragma once

#include "tools/lst_args.h"

namespace ulnet::tools {

constexpr int lst_failed = 255;       // usage and everything else
constexpr int lst_rpc_failed = 254;   // a node could not be reached
constexpr int lst_node_failed = 253;  // a node refused

struct Printed {
    std::string out, err;
    int code = 0;
};

Printed format_reply(const LstCommand&, const ctl::Value& reply);
Printed format_error(const LstCommand&, const Error&);
// The lines, and the code, for nodes of `what` that failed and for those that `what` left out.
void report_failures(const ctl::Value& nodes, const char* operation, Printed&);
void report_skipped(const ctl::Value& nodes, const char* operation, Printed&);
// A failure with --json, for stderr: {"errno": NEGATIVE, "descr": TEXT}.
std::string failure_json(int code, const std::string& text);
// "N batch in stopping" for a progress part of `stop`; nothing for others.
std::string format_progress(const LstCommand&, const ctl::Value& part);

// `lst stat`: what happened between two samples of the same names. A group whose nodes are not the
// same any more gives a line on stderr instead.
Printed format_stat(const LstCommand&, const ctl::Value& before, const ctl::Value& after);

}  // namespace ulnet::tools
