// JSON in and out for Value: the text of the control socket. Input comes from outside: size, depth
// and number of values are bounded; errors of syntax name line and column. Any thread.
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "lnet/ctl/bounds.h"
#include "lnet/ctl/value.h"

namespace ulnet::ctl {
namespace {

using Json = nlohmann::json;

// Collects the events of nlohmann's parser; the tree is built on an explicit stack.
class Builder : public nlohmann::json_sax<Json> {
 public:
    bool null() override { return put(Value()); }
    bool boolean(bool value) override { return put(Value(value)); }
    bool number_integer(i64 value) override { return put(Value(value)); }
    bool number_unsigned(u64 value) override {
        if (value > static_cast<u64>(INT64_MAX))
            return refuse("the number " + std::to_string(value) + " does not fit in 63 bits");
        return put(Value(static_cast<i64>(value)));
    }
    bool number_float(double value, const std::string& text) override {
        if (!std::isfinite(value)) return refuse("the number " + text + " is out of range");
        return put(Value(value));
    }
    bool string(std::string& value) override { return put(Value(std::move(value))); }
    bool binary(Json::binary_t&) override { return refuse("binary values are not JSON"); }
    bool start_object(std::size_t) override { return open(Value::Kind::map); }
    bool start_array(std::size_t) override { return open(Value::Kind::list); }
    bool key(std::string& name) override {
        Level& level = levels_.back();
        if (!level.names.insert(name).second) return refuse("the key '" + name + "' comes twice");
        level.key = std::move(name);
        return true;
    }
    bool end_object() override {
        Value done = Value::map(std::move(levels_.back().members));
        return close(std::move(done));
    }
    bool end_array() override {
        Value done = Value::list(std::move(levels_.back().items));
        return close(std::move(done));
    }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& error) override {
        position_ = position;
        // What nlohmann says is "[json...error.101] parse error at ...: reason".
        const std::string_view what = error.what();
        const std::size_t reason = what.rfind(": ");
        return refuse(std::string(reason == what.npos ? what : what.substr(reason + 2)));
    }

    Value& root() { return root_; }
    const std::string& why() const { return why_; }
    std::size_t position() const { return position_; }

 private:
    struct Level {
        Value::Kind kind;
        Value::Map members;
        Value::List items;
        std::unordered_set<std::string> names;
        std::string key;
    };
    bool refuse(std::string why) {
        why_ = std::move(why);
        return false;
    }
    bool put(Value value) {
        if (++values_ > values_max)
            return refuse("more than " + std::to_string(values_max) + " values");
        if (levels_.empty()) {
            root_ = std::move(value);
        } else if (Level& level = levels_.back(); level.kind == Value::Kind::map) {
            level.members.emplace_back(std::move(level.key), std::move(value));
        } else {
            level.items.push_back(std::move(value));
        }
        return true;
    }
    bool open(Value::Kind kind) {
        if (levels_.size() >= depth_max)
            return refuse("nested deeper than " + std::to_string(depth_max));
        levels_.push_back(Level{kind, {}, {}, {}, {}});
        return true;
    }
    bool close(Value value) {
        levels_.pop_back();
        return put(std::move(value));
    }
    std::vector<Level> levels_;
    Value root_;
    std::string why_;
    std::size_t position_ = 0;
    std::size_t values_ = 0;
};

void write_real(double value, std::string& out) {
    if (!std::isfinite(value)) {  // JSON has no word for it
        out += "null";
        return;
    }
    char text[32];
    const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
    const std::string_view digits(text, static_cast<std::size_t>(end - text));
    out += digits;
    if (digits.find_first_of(".e") == digits.npos) out += ".0";  // stays a real when read back
}

void write_text(const std::string& text, std::string& out) {
    out += Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write(const Value& value, std::string& out) {
    switch (value.kind()) {
    case Value::Kind::null:
        out += "null";
        break;
    case Value::Kind::boolean:
        out += value.as_bool() ? "true" : "false";
        break;
    case Value::Kind::integer:
        out += std::to_string(value.as_int());
        break;
    case Value::Kind::real:
        write_real(value.as_real(), out);
        break;
    case Value::Kind::text:
        write_text(value.as_text(), out);
        break;
    case Value::Kind::list: {
        out += '[';
        const char* between = "";
        for (const Value& item : value.items()) {
            out += between;
            write(item, out);
            between = ",";
        }
        out += ']';
        break;
    }
    case Value::Kind::map: {
        out += '{';
        const char* between = "";
        for (const auto& [name, member] : value.members()) {
            out += between;
            write_text(name, out);
            out += ':';
            write(member, out);
            between = ",";
        }
        out += '}';
        break;
    }
    }
}

std::string place(std::string_view text, std::size_t position) {
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i + 1 < position && i < text.size(); ++i) {
        ++column;
        if (text[i] == '\n') {
            ++line;
            column = 1;
        }
    }
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace

std::string to_json(const Value& value) {
    std::string out;
    write(value, out);
    return out;
}

Result<Value> parse_json(std::string_view text, std::string& why) {
    if (text.size() > text_bytes_max) {
        why = "larger than " + std::to_string(text_bytes_max) + " bytes";
        return Status(-EFBIG);
    }
    Builder builder;
    if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
        why = builder.why();
        if (builder.position() > 0) why += " at " + place(text, builder.position());
        return Status(-EINVAL);
    }
    return std::move(builder.root());
}

}  // namespace ulnet::ctl
