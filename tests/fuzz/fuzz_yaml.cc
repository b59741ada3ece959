// Fuzz target: YAML of configuration files. What is taken prints and reads back to the same tree;
// the tables of the objects take or refuse it with a sentence.
#include "lnet/ctl/schema.h"
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

FUZZ_TARGET(yaml)(std::span<const std::byte> input) {
    std::string why;
    const Result<ctl::Value> value = ctl::parse_yaml(as_text(input), why);
    CHECK(value.ok() || !why.empty());
    if (!value.ok()) return;
    for (const ctl::Object& object : ctl::objects()) {
        for (const ctl::Verb& verb : object.verbs) {
            ctl::Value out;
            const Error error = validate(verb, *value, out);
            CHECK(error.ok() || !error.text.empty());
            ctl::Value flat;
            const Error flattened = flatten(verb, *value, flat);
            CHECK(flattened.ok() || !flattened.text.empty());
        }
    }
    std::vector<u32> cpts;
    CHECK(!parse_cpts(*value, 8, cpts).ok() || (!cpts.empty() && cpts.back() < 8));
    if (!keys_fit_yaml(*value)) return;
    for (const auto style :
         {ctl::YamlStyle::netlink6, ctl::YamlStyle::netlink2, ctl::YamlStyle::classic}) {
        const Result<ctl::Value> again = ctl::parse_yaml(to_yaml(*value, style), why);
        CHECK(again.ok() && *again == *value);
    }
}

}  // namespace ulnet
