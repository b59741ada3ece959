// Fuzz target: fault rules. What parses prints to a text that parses to the same.
#include "lnet/fault_rule.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(fault_rule)(std::span<const std::byte> input) {
    FaultRule rule;
    const Error error = parse_fault_rule(as_text(input), rule);
    CHECK(error.ok() == error.text.empty());
    if (!error.ok()) return;
    const std::string text = to_text(rule);
    FaultRule again;
    CHECK(parse_fault_rule(text, again).ok());
    CHECK(to_text(again) == text);
}

}  // namespace ulnet
