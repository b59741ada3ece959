// YAML into Value by libyaml's events: configuration files, `lnetctl import`. Input comes from
// outside: size, depth and number of values are bounded; anchors and several documents are refused;
// every refusal names line and column. Any thread.
#include <yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "lnet/ctl/bounds.h"
#include "lnet/ctl/yaml_scalar.h"

namespace ulnet::ctl {
namespace {

bool digits_only(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

bool read_int(std::string_view text, i64& out) {
    int base = 10;
    std::string_view digits = text;
    if (digits.starts_with("0x")) {
        base = 16;
        digits.remove_prefix(2);
    } else if (digits.starts_with("0o")) {
        base = 8;
        digits.remove_prefix(2);
    } else {
        if (digits.starts_with('+')) digits.remove_prefix(1);
        std::string_view unsigned_digits = digits;
        if (unsigned_digits.starts_with('-')) unsigned_digits.remove_prefix(1);
        if (!digits_only(unsigned_digits)) return false;
        if (unsigned_digits.size() != digits.size() && text.starts_with('+')) return false;
    }
    if (digits.empty() || (base != 10 && digits.front() == '-')) return false;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
    return error == std::errc{} && end == digits.data() + digits.size();
}

// [-+]? ( digits [. digits?] | . digits ) ( [eE] [-+]? digits )?, with a point or an exponent.
bool read_real(std::string_view text, double& out) {
    std::string_view rest = text;
    if (rest.starts_with('+') || rest.starts_with('-')) rest.remove_prefix(1);
    const std::size_t e = rest.find_first_of("eE");
    std::string_view mantissa = rest.substr(0, e);
    if (e != rest.npos) {
        std::string_view exponent = rest.substr(e + 1);
        if (exponent.starts_with('+') || exponent.starts_with('-')) exponent.remove_prefix(1);
        if (!digits_only(exponent)) return false;
    }
    const std::size_t point = mantissa.find('.');
    if (point == mantissa.npos && e == rest.npos) return false;
    const std::string_view whole = mantissa.substr(0, point);
    const std::string_view part = point == mantissa.npos ? "" : mantissa.substr(point + 1);
    if (whole.empty() && part.empty()) return false;
    if (!whole.empty() && !digits_only(whole)) return false;
    if (!part.empty() && !digits_only(part)) return false;
    std::string_view number = text;
    if (number.starts_with('+')) number.remove_prefix(1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), out);
    return error == std::errc{} && end == number.data() + number.size() && std::isfinite(out);
}

std::string place(const yaml_mark_t& mark) {
    return "line " + std::to_string(mark.line + 1) + ", column " + std::to_string(mark.column + 1);
}

// Owns libyaml's parser and the event it gave last.
class Events {
 public:
    explicit Events(std::string_view text) {
        made_ = yaml_parser_initialize(&parser_) != 0;
        // libYAML asserts that there is a text, also when it has no bytes.
        if (text.data() == nullptr) text = "";
        if (made_)
            yaml_parser_set_input_string(
                &parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
    }
    ~Events() {
        drop();
        if (made_) yaml_parser_delete(&parser_);
    }
    Events(const Events&) = delete;
    Events& operator=(const Events&) = delete;
    bool next() {
        drop();
        have_ = made_ && yaml_parser_parse(&parser_, &event_) != 0;
        return have_;
    }
    const yaml_event_t& event() const { return event_; }
    std::string error() const {
        if (!made_ || parser_.error == YAML_MEMORY_ERROR) return "out of memory";
        std::string text = parser_.problem ? parser_.problem : "not YAML";
        if (parser_.context) text += std::string(" (") + parser_.context + ")";
        return text + " at " + place(parser_.problem_mark);
    }

 private:
    void drop() {
        if (have_) yaml_event_delete(&event_);
        have_ = false;
    }
    yaml_parser_t parser_;
    yaml_event_t event_;
    bool made_ = false;
    bool have_ = false;
};

class Builder {
 public:
    explicit Builder(std::string& why) : why_(why) {}

    bool take(const yaml_event_t& event) {
        switch (event.type) {
        case YAML_SCALAR_EVENT:
            return scalar(event);
        case YAML_SEQUENCE_START_EVENT:
            return plain_node(event.data.sequence_start.anchor, event) &&
                   open(Value::Kind::list, event);
        case YAML_MAPPING_START_EVENT:
            return plain_node(event.data.mapping_start.anchor, event) &&
                   open(Value::Kind::map, event);
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
            return close();
        case YAML_ALIAS_EVENT:
            return refuse("aliases (*name) are not supported", event);
        case YAML_DOCUMENT_START_EVENT:
            return documents_++ == 0 || refuse("more than one document", event);
        default:
            return true;
        }
    }
    Value& root() { return root_; }

 private:
    struct Level {
        Value made;  // kind and position; its content is below until the end
        Value::Map members;
        Value::List items;
        std::unordered_set<std::string> names;
        std::string key;
        u32 key_line = 0, key_column = 0;
        bool key_next = true;
    };
    bool refuse(std::string what, const yaml_event_t& event) {
        why_ = std::move(what) + " at " + place(event.start_mark);
        return false;
    }
    bool plain_node(const yaml_char_t* anchor, const yaml_event_t& event) {
        return anchor == nullptr || refuse("anchors (&name) are not supported", event);
    }
    static void stamp(Value& value, const yaml_event_t& event) {
        value.line = static_cast<u32>(event.start_mark.line + 1);
        value.column = static_cast<u32>(event.start_mark.column + 1);
    }
    bool scalar(const yaml_event_t& event) {
        const auto& node = event.data.scalar;
        if (!plain_node(node.anchor, event)) return false;
        const std::string_view text(reinterpret_cast<const char*>(node.value), node.length);
        if (!levels_.empty() && levels_.back().made.is_map() && levels_.back().key_next)
            return take_key(std::string(text), event);
        const bool typed = node.style == YAML_PLAIN_SCALAR_STYLE && node.tag == nullptr;
        Value value = typed ? resolve_plain(text) : Value(text);
        stamp(value, event);
        return put(std::move(value), event);
    }
    bool take_key(std::string name, const yaml_event_t& event) {
        Level& level = levels_.back();
        if (!level.names.insert(name).second)
            return refuse("the key '" + name + "' comes twice", event);
        level.key = std::move(name);
        level.key_line = static_cast<u32>(event.start_mark.line + 1);
        level.key_column = static_cast<u32>(event.start_mark.column + 1);
        level.key_next = false;
        return true;
    }
    bool put(Value value, const yaml_event_t& event) {
        if (++values_ > values_max)
            return refuse("more than " + std::to_string(values_max) + " values", event);
        if (levels_.empty()) {
            root_ = std::move(value);
            return true;
        }
        Level& level = levels_.back();
        if (level.made.is_list()) {
            level.items.push_back(std::move(value));
            return true;
        }
        value.key_line = level.key_line;
        value.key_column = level.key_column;
        level.members.emplace_back(std::move(level.key), std::move(value));
        level.key_next = true;
        return true;
    }
    bool open(Value::Kind kind, const yaml_event_t& event) {
        if (levels_.size() >= depth_max)
            return refuse("nested deeper than " + std::to_string(depth_max), event);
        if (!levels_.empty() && levels_.back().made.is_map() && levels_.back().key_next)
            return refuse("a key must be a plain word, not a map or list", event);
        Level level;
        level.made = kind == Value::Kind::map ? Value::map() : Value::list();
        stamp(level.made, event);
        levels_.push_back(std::move(level));
        return true;
    }
    bool close() {
        Level level = std::move(levels_.back());
        levels_.pop_back();
        Value done = level.made.is_map() ? Value::map(std::move(level.members))
                                         : Value::list(std::move(level.items));
        done.line = level.made.line;
        done.column = level.made.column;
        yaml_event_t at{};
        at.start_mark.line = done.line - 1;
        at.start_mark.column = done.column - 1;
        return put(std::move(done), at);
    }
    std::string& why_;
    std::vector<Level> levels_;
    Value root_;
    std::size_t values_ = 0;
    unsigned documents_ = 0;
};

}  // namespace

Value resolve_plain(std::string_view text) {
    const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
        return std::find(words.begin(), words.end(), text) != words.end();
    };
    if (is_one_of({"", "~", "null", "Null", "NULL"})) return Value();
    if (is_one_of({"true", "True", "TRUE"})) return Value(true);
    if (is_one_of({"false", "False", "FALSE"})) return Value(false);
    if (i64 number = 0; read_int(text, number)) return Value(number);
    if (double number = 0; read_real(text, number)) return Value(number);
    return Value(text);
}

Result<Value> parse_yaml(std::string_view text, std::string& why) {
    if (text.size() > text_bytes_max) {
        why = "larger than " + std::to_string(text_bytes_max) + " bytes";
        return Status(-EFBIG);
    }
    Events events(text);
    Builder builder(why);
    do {
        if (!events.next()) {
            why = events.error();
            return Status(-EINVAL);
        }
        if (!builder.take(events.event())) return Status(-EINVAL);
    } while (events.event().type != YAML_STREAM_END_EVENT);
    return std::move(builder.root());
}

}  // namespace ulnet::ctl
