// Fault rules as people write them: key=value,key=value,... A comma within brackets belongs to its
// value.
#include <algorithm>
#include <array>
#include <cerrno>

#include "cpt/base/text.h"
#include "lnet/fault_rule.h"

namespace ulnet {
namespace {

struct Word {
    std::string_view text;
    u32 value;
};
constexpr std::array action_words = {
    Word{"drop", 0},         Word{"delay", 1},        Word{"corrupt", 2},
    Word{"reset", 3},        Word{"stall", 4},        Word{"stream_duplicate", 5},
    Word{"stream_reset", 6}, Word{"stream_stall", 7}, Word{"stream_corrupt", 8},
};
constexpr std::array way_words = {Word{"send", 1}, Word{"receive", 2}, Word{"both", 3}};
constexpr std::array message_words = {Word{"ack", 0}, Word{"put", 1}, Word{"get", 2},
                                      Word{"reply", 3}};
constexpr std::array health_words = {Word{"local_interrupt", 1}, Word{"local_dropped", 2},
                                     Word{"local_aborted", 3},   Word{"local_no_route", 4},
                                     Word{"local_error", 5},     Word{"local_timeout", 6},
                                     Word{"remote_error", 7},    Word{"remote_dropped", 8},
                                     Word{"remote_timeout", 9},  Word{"network_timeout", 10}};
static_assert(static_cast<u32>(Health::network_timeout) == 10);
static_assert(static_cast<u32>(FaultAction::stream_corrupt) == action_words.size() - 1);

constexpr u32 rate_max = 1'000'000'000;
constexpr u64 portal_max = 63;
constexpr Duration time_max = std::chrono::hours(24);
constexpr std::string_view time_allowed = "1ms ... 24h";

Error refuse(std::string_view key, std::string_view value, std::string_view allowed) {
    return {Status(-EINVAL), std::string(key) + ": '" + std::string(value) +
                                 "' is not allowed; allowed: " + std::string(allowed)};
}

std::string list_of(std::span<const Word> words) {
    std::string text;
    for (const Word& word : words) text += (text.empty() ? "" : ", ") + std::string(word.text);
    return text;
}

// The text up to `separator` outside of brackets, which is taken off.
std::string_view take_part(std::string_view& rest, char separator) {
    int depth = 0;
    for (std::size_t i = 0; i < rest.size(); ++i) {
        if (rest[i] == '[') ++depth;
        if (rest[i] == ']') --depth;
        if (rest[i] != separator || depth > 0) continue;
        const std::string_view part = rest.substr(0, i);
        rest.remove_prefix(i + 1);
        return part;
    }
    return std::exchange(rest, {});
}

const Word* find(std::span<const Word> words, std::string_view text) {
    const auto at = std::ranges::find(words, text, &Word::text);
    return at == words.end() ? nullptr : &*at;
}

// One word of the list.
Error read_word(std::string_view key, std::string_view value, std::span<const Word> words,
                u32& out) {
    const Word* const word = find(words, value);
    if (word == nullptr) return refuse(key, value, list_of(words));
    out = word->value;
    return {};
}

// Words joined by "+", as a mask of their values.
Error read_words(std::string_view key, std::string_view value, std::span<const Word> words,
                 u32& mask) {
    std::string_view rest = value;
    do {
        const Word* const word = find(words, take_part(rest, '+'));
        if (word == nullptr) return refuse(key, value, list_of(words) + ", several joined by '+'");
        mask |= 1u << word->value;
    } while (!rest.empty());
    return {};
}

Error read_portals(std::string_view key, std::string_view value, u64& mask) {
    std::string_view rest = value;
    do {
        const Result<u64> number = parse_u64(take_part(rest, '+'), 0, portal_max);
        if (!number.ok()) return refuse(key, value, "0 ... 63, several joined by '+'");
        mask |= u64{1} << *number;
    } while (!rest.empty());
    return {};
}

Error read_time(std::string_view key, std::string_view value, Duration& out) {
    const Result<Duration> time =
        parse_duration(value, std::chrono::seconds(1), std::chrono::milliseconds(1), time_max);
    if (!time.ok()) return refuse(key, value, time_allowed);
    out = *time;
    return {};
}

Error read_nids(std::string_view key, std::string_view value, NidList& out) {
    const Error error = NidList::parse(value, out);
    if (error.ok() && !out.empty()) return {};
    return refuse(key, value,
                  "NIDs and ranges of NIDs, as 10.0.0.[1-8]@tcp" +
                      (error.ok() ? "" : " (" + error.text + ")"));
}

Error read_number(std::string_view key, std::string_view value, u64 least, u64 most, u64& out) {
    const Result<u64> number = parse_size(value, least, most);
    if (!number.ok())
        return refuse(key, value, std::to_string(least) + " ... " + std::to_string(most));
    out = *number;
    return {};
}

// What is given, as it is read; what fits together is looked at when all of it is known.
struct Reading {
    FaultRule rule;
    u32 action = ~0u, way = 0;
    u64 rate = 0;
};

enum Use : u8 { messages = 1, streams = 2, any = 3 };
struct Key {
    std::string_view name;
    Use use;
    Error (*read)(Reading&, std::string_view key, std::string_view value);
};
constexpr std::array keys = {
    Key{"action", any,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_word(key, value, action_words, to.action);
        }},
    Key{"source", messages,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_nids(key, value, to.rule.source);
        }},
    Key{"dest", messages,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_nids(key, value, to.rule.dest);
        }},
    Key{"local", messages,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_nids(key, value, to.rule.local);
        }},
    Key{"peer", any,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_nids(key, value, to.rule.peer);
        }},
    Key{"message", messages,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_words(key, value, message_words, to.rule.messages);
        }},
    Key{"portal", messages,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_portals(key, value, to.rule.portals);
        }},
    Key{"on", any,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_word(key, value, way_words, to.way);
        }},
    Key{"rate", any,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_number(key, value, 1, rate_max, to.rate);
        }},
    Key{"interval", any,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_time(key, value, to.rule.interval);
        }},
    Key{"count", any,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_number(key, value, 1, ~u64{0}, to.rule.count);
        }},
    Key{"time", any,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_time(key, value, to.rule.time);
        }},
    Key{"health", messages,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_words(key, value, health_words, to.rule.healths);
        }},
    Key{"after", streams,
        [](Reading& to, std::string_view key, std::string_view value) {
            return read_number(key, value, 0, u64{1} << 40, to.rule.after);
        }},
};

std::string keys_allowed() {
    std::string text;
    for (const Key& key : keys) text += (text.empty() ? "" : ", ") + std::string(key.name);
    return text;
}

bool takes_time(FaultAction action) {
    return action == FaultAction::delay || action == FaultAction::stall ||
           action == FaultAction::stream_stall;
}

// LNet's own rules act where a message is received, unless they report an error to its sender.
FaultWay default_way(const FaultRule& rule) {
    if (rule.action == FaultAction::drop || rule.action == FaultAction::delay)
        return rule.healths != 0 ? FaultWay::send : FaultWay::receive;
    return rule.action == FaultAction::corrupt ? FaultWay::send : FaultWay::both;
}

Error complete(Reading& from, u32 given) {
    FaultRule& rule = from.rule;
    const std::string action = from.action == ~0u ? "" : std::string(to_text(rule.action));
    const Use use = of_streams(rule.action) ? streams : messages;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if ((given >> i & 1) == 0 || (keys[i].use & use) != 0) continue;
        return {Status(-EINVAL),
                std::string(keys[i].name) + " is not allowed with action=" + action};
    }
    if (from.rate != 0 && rule.interval != Duration{})
        return {Status(-EINVAL), "rate and interval exclude each other"};
    rule.rate = rule.interval != Duration{} ? 0 : std::max(1u, static_cast<u32>(from.rate));
    if (takes_time(rule.action) != (rule.time != Duration{}))
        return {Status(-EINVAL),
                "time is " + std::string(takes_time(rule.action) ? "needed" : "not allowed") +
                    " with action=" + action};
    if (rule.healths != 0 && rule.action != FaultAction::drop)
        return {Status(-EINVAL), "health is not allowed with action=" + action};
    rule.way = from.way != 0 ? static_cast<FaultWay>(from.way) : default_way(rule);
    if (rule.healths != 0 && rule.way != FaultWay::send)
        return refuse("on", way_words[from.way - 1].text,
                      "send, since health is what a sender is told");
    if (rule.action == FaultAction::corrupt && rule.way != FaultWay::send)
        return refuse("on", way_words[from.way - 1].text, "send with action=corrupt");
    return {};
}

std::string joined(u32 mask, std::span<const Word> words) {
    std::string text;
    for (const Word& word : words)
        if ((mask >> word.value & 1) != 0)
            text += (text.empty() ? "" : "+") + std::string(word.text);
    return text;
}

std::string time_text(Duration time) {
    return time % std::chrono::milliseconds(1) != Duration{}
               ? std::to_string(time.count()) + "ns"
               : std::to_string(time / std::chrono::milliseconds(1)) + "ms";
}

}  // namespace

std::string_view to_text(FaultAction action) {
    return action_words[static_cast<std::size_t>(action)].text;
}

Error parse_fault_rule(std::string_view text, FaultRule& out) {
    Reading reading;
    u32 given = 0;
    std::string_view rest = text;
    do {
        const std::string_view part = take_part(rest, ',');
        const std::size_t equals = part.find('=');
        const std::string_view name = part.substr(0, equals);
        const auto key = std::ranges::find(keys, name, &Key::name);
        if (key == keys.end() || equals == std::string_view::npos)
            return {Status(-EINVAL), "'" + std::string(part) +
                                         "' is not allowed; allowed: KEY=VALUE, KEY one of " +
                                         keys_allowed()};
        const u32 bit = 1u << (key - keys.begin());
        if ((given & bit) != 0) return {Status(-EINVAL), std::string(name) + " is given twice"};
        given |= bit;
        if (Error error = key->read(reading, name, part.substr(equals + 1)); !error.ok())
            return error;
    } while (!rest.empty());
    if (reading.action == ~0u)
        return {Status(-EINVAL), "action is needed: " + list_of(action_words)};
    reading.rule.action = static_cast<FaultAction>(reading.action);
    if (Error error = complete(reading, given); !error.ok()) return error;
    out = std::move(reading.rule);
    return {};
}

std::string to_text(const FaultRule& rule) {
    std::string text = "action=" + std::string(to_text(rule.action));
    const auto add = [&](std::string_view key, const std::string& value) {
        text += "," + std::string(key) + "=" + value;
    };
    const auto nids = [&](std::string_view key, const NidList& list) {
        if (!list.empty()) add(key, list.text());
    };
    nids("source", rule.source);
    nids("dest", rule.dest);
    nids("local", rule.local);
    nids("peer", rule.peer);
    if (rule.messages != 0) add("message", joined(rule.messages, message_words));
    if (rule.portals != 0) {
        std::string portals;
        for (u32 portal = 0; portal <= portal_max; ++portal)
            if ((rule.portals >> portal & 1) != 0)
                portals += (portals.empty() ? "" : "+") + std::to_string(portal);
        add("portal", portals);
    }
    add("on", std::string(way_words[static_cast<std::size_t>(rule.way) - 1].text));
    if (rule.rate > 0)
        add("rate", std::to_string(rule.rate));
    else
        add("interval", time_text(rule.interval));
    if (rule.count > 0) add("count", std::to_string(rule.count));
    if (rule.time != Duration{}) add("time", time_text(rule.time));
    if (rule.healths != 0) add("health", joined(rule.healths, health_words));
    if (of_streams(rule.action) && rule.action != FaultAction::stream_duplicate)
        add("after", std::to_string(rule.after));
    return text;
}

}  // namespace ulnet
