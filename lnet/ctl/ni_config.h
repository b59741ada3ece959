// From checked arguments (or a block of a configuration file) to the NiConfigs of the core, and
// adding several of them all or nothing. Control strand.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lnet/ctl/interfaces.h"
#include "lnet/ctl/value.h"
#include "lnet/inspect.h"

namespace ulnet::ctl {

// What naming an interface is checked against.
struct NiContext {
    std::span<Lnd* const> lnds;
    std::vector<InterfaceAddress> addresses;
    u32 cpts = 1;
    std::vector<Nid> taken;  // NIDs that exist or are planned already
};

// `args` passed validate() for `net add`. One NiConfig an interface or NID, appended to `out`, each
// of them also to context.taken. The error names key, value and what is allowed.
Error make_ni_configs(const Value& args, NiContext& context, std::vector<NiConfig>& out);

// What the kernel's tool shows of the tunables of tcp, and the names they have here.
struct KernelTunable {
    std::string_view shown, name;
};
constexpr KernelTunable kernel_tunables[] = {
    {"conns_per_peer", "conns_per_peer"}, {"timeout", "sock_timeout"}, {"tos", "tos"}};

// A tunable's value as text or number, against its specification.
Error parse_tunable(const TunableSpec&, const Value&, i64& out);
// By its own name or the one that the kernel's tool shows; null = there is none.
const TunableSpec* find_tunable(std::span<const TunableSpec>, std::string_view name);
// "a, b, c", for an error.
std::string tunable_names(std::span<const TunableSpec>, bool per_ni_only);
std::string tunable_text(const TunableSpec&, i64 value);
// "[0,1]": the partitions as the kernel's tool prints them; none = all of `count`.
std::string cpts_text(const std::vector<CptId>&, u32 count);

// Adds one after the other. When one fails, those added here are removed again before done() is
// called with its error; done(ok) otherwise. done may run within the call.
void add_all_or_none(Node&, std::vector<NiConfig>, std::function<void(Error)> done);

}  // namespace ulnet::ctl
