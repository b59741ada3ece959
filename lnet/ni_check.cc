// Checks of an interface's configuration. Pure; control strand.
#include "lnet/ni_check.h"

#include <cerrno>
#include <charconv>

namespace ulnet {
namespace {

Error refuse(int code, std::string text) {
    return {Status(code), std::move(text)};
}

std::string range_text(i64 low, i64 high) {
    return std::to_string(low) + " to " + std::to_string(high);
}

Error check_range(std::string_view key, i64 value, i64 low, i64 high) {
    if (value >= low && value <= high) return {};
    return refuse(-EINVAL, std::string(key) + ": " + std::to_string(value) + " is not allowed, " +
                               range_text(low, high) + " is");
}

std::string words_text(const TunableSpec& spec) {
    std::string text;
    for (const std::string_view word : spec.words)
        text += (text.empty() ? "" : ", ") + std::string(word);
    return text;
}

Error check_tunables(const NiConfig& config, const Lnd& driver) {
    const std::span<const TunableSpec> specs = driver.tunables();
    if (config.tunables.size() != specs.size())
        return refuse(-EINVAL, "tunables: " + std::to_string(config.tunables.size()) +
                                   " values given, driver '" + std::string(driver.name()) +
                                   "' has " + std::to_string(specs.size()));
    for (std::size_t i = 0; i < specs.size(); ++i) {
        Error error = check_range(specs[i].name, config.tunables[i], specs[i].low, specs[i].high);
        if (!error.ok()) return error;
    }
    return driver.check_together(config.tunables);
}

Error check_cpts(const NiConfig& config, CptId cpts) {
    std::vector<bool> seen(cpts);
    for (const CptId cpt : config.cpts) {
        if (cpt >= cpts)
            return refuse(-EINVAL, "CPT: " + std::to_string(cpt) + " is not allowed, " +
                                       range_text(0, i64{cpts} - 1) + " is");
        if (seen[cpt])
            return refuse(-EINVAL,
                          "CPT: " + std::to_string(cpt) + " is given twice, once is allowed");
        seen[cpt] = true;
    }
    return {};
}

}  // namespace

Lnd* find_driver(std::span<Lnd* const> lnds, NetType type) {
    for (Lnd* const driver : lnds)
        if (driver->net_type() == type) return driver;
    return nullptr;
}

Error check_ni_config(const NiConfig& config, std::span<Lnd* const> lnds, CptId cpts) {
    if (config.net.type() == NetType::lo)
        return refuse(-EINVAL, "net: 'lo' is always there, other networks may be added");
    const Lnd* const driver = find_driver(lnds, config.net.type());
    if (driver == nullptr) {
        std::string names;
        for (const Lnd* const known : lnds)
            if (known->net_type() != NetType::lo)
                names += (names.empty() ? "" : ", ") + std::string(known->name());
        return refuse(-EINVAL, "net: there is no driver for '" + to_text(config.net) +
                                   "', only for: " + (names.empty() ? "none" : names));
    }
    if (config.nid.any() || !config.nid.valid() || config.nid.net() != config.net)
        return refuse(-EINVAL, "nid: '" + to_text(config.nid) + "' is not on net '" +
                                   to_text(config.net) + "', the NID must be");
    Error error = check_cpts(config, cpts);
    if (error.ok()) error = check_range("credits", config.credits, 1, credits_max);
    if (error.ok()) error = check_range("peer_credits", config.peer_credits, 1, config.credits);
    if (error.ok())
        error = check_range("peer_buffer_credits", config.peer_buffer_credits, 0, credits_max);
    if (error.ok())
        error = check_range("peer_timeout", config.peer_timeout_s, -1, peer_timeout_max_s);
    if (error.ok()) error = check_tunables(config, *driver);
    return error;
}

Error check_tunable(const TunableSpec& spec, std::string_view text, i64& value) {
    const std::string given = std::string(spec.name) + ": '" + std::string(text) + "'";
    if (!spec.words.empty()) {
        for (std::size_t i = 0; i < spec.words.size(); ++i) {
            if (spec.words[i] != text) continue;
            value = static_cast<i64>(i);
            return {};
        }
        return refuse(-EINVAL, given + " is not allowed, one of " + words_text(spec) + " is");
    }
    i64 number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault != std::errc{} || end != text.data() + text.size() || number < spec.low ||
        number > spec.high)
        return refuse(-EINVAL, given + " is not allowed, a number from " +
                                   range_text(spec.low, spec.high) +
                                   (spec.unit.empty() ? "" : " " + std::string(spec.unit)) + " is");
    value = number;
    return {};
}

}  // namespace ulnet
