// NID list expressions: "10.0.[0-3].*@tcp 2001:db8::/32@tcp *@o2ib1". Used by fault rules, UDSP and
// the groups of lst, on the control strand. Values without shared state; any thread.
// Grammar: docs/wire/README.md; what it leaves open: docs/adr/0002-nid-text.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lnet/nid.h"

namespace ulnet {

class NidList {
 public:
    static constexpr std::size_t text_bytes_max = 64 * 1024;
    static constexpr std::size_t expand_max = 64 * 1024;

    // Replaces `out`; when refused, `out` is untouched and the text names the part at fault and
    // what is allowed.
    static Error parse(std::string_view text, NidList& out);

    bool empty() const { return ranges_.empty(); }
    // ANY is no member of any list.
    bool matches(const Nid&) const;
    // Canonical: ranges of one net stand together, numbers decimal, no needless brackets. Parses
    // to a list with the same text and the same members; only an IPv4 /32, which is printed
    // without its suffix, then also covers IPv6 addresses that begin with the same 32 bits.
    std::string text() const;
    // All members, each once, in the order of the text; octets give IPv4 addresses only. E2BIG, and
    // `out` untouched, when the ranges name more than `max`.
    Error expand(std::vector<Nid>& out, std::size_t max = expand_max) const;

    // The values lo, lo + stride, ... up to hi.
    struct Numbers {
        u32 low = 0, high = 0, stride = 1;
        bool matches(u32 value) const {
            return value >= low && value <= high && (value - low) % stride == 0;
        }
    };
    using Component = std::vector<Numbers>;  // any of them; never empty

 private:
    enum class Kind : u8 { all, components, mask };
    struct Range {
        Net net;
        Kind kind = Kind::all;
        std::vector<Component> components;  // four octets, or one number
        Nid mask_nid;                       // mask: the address with its host bits cleared
        u32 mask_bits = 0;
        bool matches(const Nid&) const;
        std::string text() const;
    };
    static Error parse_range(std::string_view, Range& out);
    static Error parse_mask(std::string_view, Range& out);
    static u64 count(const Range&);
    static void append(const Range&, std::vector<Nid>& out);

    std::vector<Range> ranges_;
};

}  // namespace ulnet
