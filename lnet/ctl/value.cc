// The tree of the control plane. Called by everything that configures or shows; any thread, each
// with its own values.
#include "lnet/ctl/value.h"

#include "cpt/base/check.h"

namespace ulnet::ctl {

const Value& Value::operator[](std::string_view key) const& {
    static const Value null;
    for (const auto& [name, value] : map_)
        if (name == key) return value;
    return null;
}

Value& Value::set(std::string_view key, Value value) {
    CHECK(kind_ == Kind::map || kind_ == Kind::null);
    kind_ = Kind::map;
    for (auto& [name, old] : map_) {
        if (name == key) {
            old = std::move(value);
            return old;
        }
    }
    return map_.emplace_back(std::string(key), std::move(value)).second;
}

Value& Value::push(Value value) {
    CHECK(kind_ == Kind::list || kind_ == Kind::null);
    kind_ = Kind::list;
    return list_.emplace_back(std::move(value));
}

}  // namespace ulnet::ctl
