// LNet's own mask of MD options (lnet-wire 12.1), for users who carry it over. Any thread.
#include <cerrno>
#include <charconv>
#include <iterator>
#include <string>

#include "lnet/lnet.h"

namespace ulnet {
namespace {

struct Bit {
    u32 mask;
    const char* name;
    bool MdOptions::*option;  // null: a Mem or MdSpec says it
};
constexpr Bit bits[] = {
    {0x0001, "OP_PUT", &MdOptions::put},
    {0x0002, "OP_GET", &MdOptions::get},
    {0x0004, "MANAGE_REMOTE", &MdOptions::manage_remote},
    {0x0010, "TRUNCATE", &MdOptions::truncate},
    {0x0020, "ACK_DISABLE", &MdOptions::ack_disable},
    {0x0080, "MAX_SIZE", nullptr},
    {0x0100, "KIOV", nullptr},
    {0x0200, "BULK_HANDLE", nullptr},
    {0x0400, "TRACK_RESPONSE", &MdOptions::track_response},
    {0x0800, "NO_TRACK_RESPONSE", &MdOptions::no_track_response},
    {0x4000, "DISCARD", &MdOptions::discard},
};
constexpr u32 gnilnd = 0x1000, gpu_addr = 0x2000;

std::string hex(u32 value) {
    char digits[8];
    return "0x" + std::string(digits, std::to_chars(digits, std::end(digits), value, 16).ptr);
}

}  // namespace

Error md_options(u32 mask, MdOptions& out) {
    MdOptions options;
    u32 rest = mask;
    std::string allowed;
    for (const Bit& bit : bits) {
        if ((mask & bit.mask) != 0 && bit.option != nullptr) options.*bit.option = true;
        rest &= ~bit.mask;
        allowed += (allowed.empty() ? "" : ", ") + std::string(bit.name);
    }
    if (rest != 0) {
        const std::string what = (rest & gpu_addr) != 0 ? "GPU_ADDR (memory of a GPU)"
                                 : (rest & gnilnd) != 0 ? "GNILND (Cray Gemini)"
                                                        : "unknown bits " + hex(rest);
        return {Status(-EINVAL),
                "MD options " + hex(mask) + ": " + what + " is not allowed; allowed: " + allowed};
    }
    if (options.track_response && options.no_track_response)
        return {Status(-EINVAL), "MD options " + hex(mask) +
                                     ": TRACK_RESPONSE and NO_TRACK_RESPONSE exclude each other"};
    out = options;
    return {};
}

}  // namespace ulnet
