// Interfaces by way of the ethtool ioctl, which every network namespace answers for itself.
#include "lnds/sock/link.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace ulnet::sock {
namespace {

constexpr u32 speed_max = 100'000'000;  // more stands for "unknown"

}  // namespace

u32 link_speed(const std::string& interface) {
    ethtool_cmd command{};
    command.cmd = ETHTOOL_GSET;
    ifreq request{};
    if (interface.empty() || interface.size() >= sizeof request.ifr_name) return 0;
    std::ranges::copy(interface, request.ifr_name);
    request.ifr_data = reinterpret_cast<char*>(&command);
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    const bool told = ::ioctl(fd, SIOCETHTOOL, &request) == 0;
    ::close(fd);
    const u32 speed = told ? ethtool_cmd_speed(&command) : 0;
    return speed <= speed_max ? speed : 0;
}

}  // namespace ulnet::sock
