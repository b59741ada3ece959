// Addresses by entry or by rule. Pure; any thread.
#include "lnds/ofi/address.h"

#include <arpa/inet.h>

#include <cerrno>
#include <charconv>

namespace ulnet::ofi {
namespace {

constexpr std::size_t name_bytes_max = 64;

// "HOST:PORT" or "HOST"; port 0 = not named.
bool split(std::string_view text, std::string& host, u32& port) {
    port = 0;
    const std::size_t colon = text.rfind(':');
    host = text.substr(0, colon);
    in_addr ignored{};
    if (::inet_pton(AF_INET, host.c_str(), &ignored) != 1) return false;
    if (colon == std::string_view::npos) return true;
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    return error == std::errc{} && end == digits.data() + digits.size() && port > 0 &&
           port <= 65535;
}

}  // namespace

AddressBook::AddressBook(const NiConfig& config, Provider provider, u32 service)
    : provider_(provider), service_(service) {
    for (const auto& [nid, text] : config.addresses) given_[nid] = text;
}

std::string AddressBook::find(const Nid& nid, u32 context) const {
    const auto entry = given_.find(nid);
    if (provider_ == Provider::shm)
        return (entry != given_.end() ? entry->second : "ulnet-" + to_text(nid)) + "." +
               std::to_string(context);
    std::string host;
    u32 port = 0;
    if (entry == given_.end() || !split(entry->second, host, port)) {
        const in_addr address{htonl(nid.address4())};
        char text[INET_ADDRSTRLEN];
        host = ::inet_ntop(AF_INET, &address, text, sizeof text);
    }
    return host + ":" + std::to_string((port > 0 ? port : service_) + context);
}

Error check_address(Provider provider, std::string_view text) {
    std::string host;
    u32 port = 0;
    if (provider == Provider::shm) {
        const bool plain = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                                                  "WXYZ0123456789-_@.") == std::string_view::npos;
        if (plain && !text.empty() && text.size() <= name_bytes_max) return {};
        return {Status(-EINVAL), "allowed with provider shm: a name of 1 to 64 letters, digits and "
                                 "- _ @ ."};
    }
    if (split(text, host, port)) return {};
    return {Status(-EINVAL), "allowed: an IPv4 address, or IPv4:PORT"};
}

}  // namespace ulnet::ofi
