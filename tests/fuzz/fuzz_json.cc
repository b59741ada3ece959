// Fuzz target: JSON of the control socket. What is taken prints and reads back to the same tree,
// also as YAML.
#include "lnet/ctl/value.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {
namespace {

// libYAML takes no simple key longer than this.
constexpr std::size_t yaml_key_max = 200;

bool keys_fit_yaml(const ctl::Value& value) {
    for (const auto& [key, member] : value.members())
        if (key.size() > yaml_key_max || !keys_fit_yaml(member)) return false;
    for (const ctl::Value& item : value.items())
        if (!keys_fit_yaml(item)) return false;
    return true;
}

}  // namespace

FUZZ_TARGET(json)(std::span<const std::byte> input) {
    std::string why;
    const Result<ctl::Value> value = ctl::parse_json(as_text(input), why);
    CHECK(value.ok() || !why.empty());
    if (!value.ok()) return;
    const Result<ctl::Value> again = ctl::parse_json(to_json(*value), why);
    CHECK(again.ok() && *again == *value);
    if (!keys_fit_yaml(*value)) return;
    for (const auto style :
         {ctl::YamlStyle::netlink6, ctl::YamlStyle::netlink2, ctl::YamlStyle::classic}) {
        const Result<ctl::Value> yaml = ctl::parse_yaml(to_yaml(*value, style), why);
        CHECK(yaml.ok() && *yaml == *value);
    }
}

}  // namespace ulnet
