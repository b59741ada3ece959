// Fuzz target: texts of NIDs and nets, and the text of any 20 bytes.
#include <algorithm>
#include <cstring>

#include "lnet/nid.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(nid)(std::span<const std::byte> input) {
    const std::string_view text = as_text(input);
    const Result<Nid> nid = parse_nid(text);
    if (nid.ok()) {
        const Result<Nid> again = parse_nid(to_text(*nid));
        CHECK(again.ok());
        CHECK(*again == *nid);
        CHECK(nid->valid() && to_text(*nid).size() < 64);
        if (nid->is_nid4()) CHECK(Nid::from_nid4(nid->nid4()) == *nid);
    }
    const Result<Nid> any = parse_any_nid(text);
    CHECK(any.ok() == (nid.ok() || text == "*"));
    const Result<Net> net = parse_net(text);
    if (net.ok()) CHECK(*parse_net(to_text(*net)) == *net);

    std::array<u8, 20> raw{};
    if (!input.empty()) std::memcpy(raw.data(), input.data(), std::min(input.size(), raw.size()));
    const Nid from_bytes = Nid::from_raw(raw);
    CHECK(!to_text(ProcessId{from_bytes, raw[0]}).empty());
    CHECK(from_bytes.address().size() <= 16);
    CHECK(from_bytes == Nid::from_raw(from_bytes.raw()));
    const Nid cut = Nid::from_nid4(from_bytes.nid4());
    CHECK(Nid::from_nid4(cut.nid4()) == cut);
}

}  // namespace ulnet
