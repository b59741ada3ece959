// The one tree of the control plane: maps, lists and scalars. JSON and YAML, in and out, are views
// of it. A value type; cold paths only.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpt/base/result.h"
#include "cpt/base/types.h"

namespace ulnet::ctl {

class Value {
 public:
    enum class Kind : u8 { null, boolean, integer, real, text, list, map };
    using Map = std::vector<std::pair<std::string, Value>>;  // keeps its order
    using List = std::vector<Value>;

    Value() = default;
    Value(bool b) : kind_(Kind::boolean), integer_(b) {}
    Value(i64 i) : kind_(Kind::integer), integer_(i) {}
    Value(u64 i) : kind_(Kind::integer), integer_(static_cast<i64>(i)) {}
    Value(int i) : Value(static_cast<i64>(i)) {}
    Value(u32 i) : Value(static_cast<i64>(i)) {}
    Value(double d) : kind_(Kind::real), real_(d) {}
    Value(std::string s) : kind_(Kind::text), text_(std::move(s)) {}
    Value(std::string_view s) : Value(std::string(s)) {}
    Value(const char* s) : Value(std::string(s)) {}
    static Value list(List items = {}) {
        Value v;
        v.kind_ = Kind::list;
        v.list_ = std::move(items);
        return v;
    }
    // The caller makes sure that no key comes twice.
    static Value map(Map members = {}) {
        Value v;
        v.kind_ = Kind::map;
        v.map_ = std::move(members);
        return v;
    }

    Kind kind() const { return kind_; }
    bool is_null() const { return kind_ == Kind::null; }
    bool is_map() const { return kind_ == Kind::map; }
    bool is_list() const { return kind_ == Kind::list; }
    bool is_text() const { return kind_ == Kind::text; }
    bool is_integer() const { return kind_ == Kind::integer; }
    // A value of another kind gives the default: for reading arguments that were checked.
    bool as_bool(bool def = false) const {
        return kind_ == Kind::boolean || kind_ == Kind::integer ? integer_ != 0 : def;
    }
    i64 as_int(i64 def = 0) const {
        return kind_ == Kind::integer || kind_ == Kind::boolean ? integer_ : def;
    }
    double as_real(double def = 0) const {
        return kind_ == Kind::real      ? real_
               : kind_ == Kind::integer ? static_cast<double>(integer_)
                                        : def;
    }
    const std::string& as_text() const& { return text_; }  // empty when not text
    std::string as_text() && { return std::move(text_); }

    // Map: the member, null Value when absent. set() replaces or appends; returns the member.
    // What is taken from a temporary is a value of its own, so that it may be kept or walked.
    const Value& operator[](std::string_view key) const&;
    Value operator[](std::string_view key) && { return static_cast<const Value&>(*this)[key]; }
    bool has(std::string_view key) const { return !(*this)[key].is_null(); }
    Value& set(std::string_view key, Value value);
    const Map& members() const& { return map_; }
    Map members() && { return std::move(map_); }
    // List.
    Value& push(Value value);
    const List& items() const& { return list_; }
    List items() && { return std::move(list_); }
    std::size_t size() const { return kind_ == Kind::map ? map_.size() : list_.size(); }

    // Source position of a value read from YAML, and of the key that names it; 0 = unknown.
    u32 line = 0, column = 0;
    u32 key_line = 0, key_column = 0;

    friend bool operator==(const Value& a, const Value& b) {
        return a.kind_ == b.kind_ && a.integer_ == b.integer_ && a.real_ == b.real_ &&
               a.text_ == b.text_ && a.list_ == b.list_ && a.map_ == b.map_;
    }

 private:
    Kind kind_ = Kind::null;
    i64 integer_ = 0;
    double real_ = 0;
    std::string text_;
    List list_;
    Map map_;
};

// Compact JSON on one line. Depth and size of input are bounded (depth 64, 16 MiB).
std::string to_json(const Value&);
Result<Value> parse_json(std::string_view text, std::string& why);

// YAML (libyaml): scalars are typed as in YAML 1.2 core (ints, floats, true/false, null), quoted
// ones are text. `why` names line and column.
Result<Value> parse_yaml(std::string_view text, std::string& why);
// The two styles of the kernel's tool: `netlink` (list items at the key's column, step 6 or 2,
// true/false) and `classic` (step 4, items indented, True/False).
enum class YamlStyle : u8 { netlink6, netlink2, classic };
std::string to_yaml(const Value&, YamlStyle);

}  // namespace ulnet::ctl
