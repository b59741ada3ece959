// Value as YAML text in the styles of the kernel's tool; lnetctl prints with it. Any thread.
#include <algorithm>
#include <charconv>

#include "lnet/ctl/yaml_scalar.h"

namespace ulnet::ctl {
namespace {

bool printable_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// True when the text can stand without quotes and reads back as the same text.
bool plain_enough(std::string_view text) {
    if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.back() == ':')
        return false;
    if (!printable_ascii(text)) return false;
    if (std::string_view("!&*-?|>%@`\"'#,[]{}:").find(text.front()) != text.npos) {
        // Only these three may begin a word, and only when more of the word follows.
        const bool starts_word = text.size() > 1 && text[1] != ' ' && text.front() != '!' &&
                                 std::string_view("-?:").find(text.front()) != text.npos;
        if (!starts_word) return false;
    }
    if (text.find(": ") != text.npos || text.find(" #") != text.npos) return false;
    if (text.starts_with("---") || text.starts_with("...")) return false;
    return resolve_plain(text).is_text();
}

// Length of the UTF-8 sequence at the start of `text` and its code point; 0 = not UTF-8.
std::size_t decode_utf8(std::string_view text, u32& code) {
    const auto byte = [&](std::size_t i) { return static_cast<u8>(text[i]); };
    const u8 first = byte(0);
    std::size_t length = 0;
    if (first < 0x80) {
        code = first;
        return 1;
    } else if (first >= 0xc2 && first <= 0xdf) {
        length = 2;
        code = first & 0x1fu;
    } else if (first >= 0xe0 && first <= 0xef) {
        length = 3;
        code = first & 0x0fu;
    } else if (first >= 0xf0 && first <= 0xf4) {
        length = 4;
        code = first & 0x07u;
    }
    if (length == 0 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        code = (code << 6) | (byte(i) & 0x3fu);
    }
    const u32 least = length == 3 ? 0x800 : length == 4 ? 0x10000 : 0x80;
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return 0;
    return length;
}

void append_escape(u32 code, std::string& out) {
    char text[16];
    const char kind = code <= 0xff ? 'x' : code <= 0xffff ? 'u' : 'U';
    const unsigned width = code <= 0xff ? 2 : code <= 0xffff ? 4 : 8;
    const auto end = std::to_chars(text, text + sizeof(text), code, 16).ptr;
    out += '\\';
    out += kind;
    out.append(width - static_cast<unsigned>(end - text), '0');
    out.append(text, end);
}

void append_quoted(std::string_view text, std::string& out) {
    out += '"';
    while (!text.empty()) {
        u32 code = 0xfffd;  // stands for bytes that are not UTF-8
        const std::size_t length = std::max<std::size_t>(decode_utf8(text, code), 1);
        const bool readable = (code >= 0xa0 && code <= 0xd7ff) ||
                              (code >= 0xe000 && code <= 0xfffd && code != 0xfeff) ||
                              code >= 0x10000;
        if (code == '"' || code == '\\') {
            out += '\\';
            out += static_cast<char>(code);
        } else if (code == '\n') {
            out += "\\n";
        } else if (code == '\t') {
            out += "\\t";
        } else if (code >= ' ' && code <= '~') {
            out += static_cast<char>(code);
        } else if (readable && code != 0xfffd && code != 0x2028 && code != 0x2029) {
            out += text.substr(0, length);
        } else {
            append_escape(code, out);
        }
        text.remove_prefix(length);
    }
    out += '"';
}

void append_text(std::string_view text, std::string& out) {
    if (plain_enough(text))
        out += text;
    else
        append_quoted(text, out);
}

// A key is read as text whatever it looks like: "0:" needs no quotes.
void append_key(std::string_view key, std::string& out) {
    const bool number = !key.empty() && key.find_first_not_of("0123456789") == key.npos;
    if (number)
        out += key;
    else
        append_text(key, out);
}

class Emitter {
 public:
    Emitter(YamlStyle style, std::string& out)
        : step_(style == YamlStyle::netlink6   ? 6
                : style == YamlStyle::netlink2 ? 2
                                               : 4),
          classic_(style == YamlStyle::classic), out_(out) {}

    // The cursor stands at `column` already when `started`.
    void block(const Value& value, std::size_t column, bool started) {
        for (const auto& [name, member] : value.members()) {
            if (!started) out_.append(column, ' ');
            started = false;
            append_key(name, out_);
            out_ += ':';
            if (!nested(member)) {
                if (!member.is_null()) out_ += ' ';
                scalar(member);
                out_ += '\n';
            } else {
                out_ += '\n';
                const bool indented = member.is_map() || classic_;
                block(member, column + (indented ? step_ : 0), false);
            }
        }
        for (const Value& item : value.items()) {
            if (!started) out_.append(column, ' ');
            started = false;
            out_ += '-';
            if (!nested(item)) {
                if (!item.is_null()) out_ += ' ';
                scalar(item);
                out_ += '\n';
            } else {
                const std::size_t step = classic_ ? 2 : step_;
                out_.append(step - 1, ' ');
                block(item, column + step, true);
            }
        }
    }
    void scalar(const Value& value) {
        switch (value.kind()) {
        case Value::Kind::null:
            break;
        case Value::Kind::boolean:
            out_ += classic_ ? (value.as_bool() ? "True" : "False")
                             : (value.as_bool() ? "true" : "false");
            break;
        case Value::Kind::integer:
            out_ += std::to_string(value.as_int());
            break;
        case Value::Kind::real:
            out_ += to_json(value);
            break;
        case Value::Kind::text:
            append_text(value.as_text(), out_);
            break;
        case Value::Kind::list:
            out_ += "[]";
            break;
        case Value::Kind::map:
            out_ += "{}";
            break;
        }
    }
    static bool nested(const Value& value) { return value.size() > 0; }

 private:
    const std::size_t step_;
    const bool classic_;
    std::string& out_;
};

}  // namespace

std::string quote_yaml(std::string_view text) {
    std::string out;
    append_quoted(text, out);
    return out;
}

std::string to_yaml(const Value& value, YamlStyle style) {
    std::string out;
    Emitter emitter(style, out);
    if (Emitter::nested(value)) {
        emitter.block(value, 0, false);
    } else {
        emitter.scalar(value);
        out += '\n';
    }
    return out;
}

}  // namespace ulnet::ctl
