// Fuzz target: NID lists. The canonical text names the same members, and the expansion is of
// members only.
#include "lnet/nidrange.h"
#include "tests/fuzz/fuzz.h"

namespace ulnet {

FUZZ_TARGET(nidrange)(std::span<const std::byte> input) {
    constexpr std::size_t expand_max = 4096;  // keeps an input fast
    NidList list;
    const Error error = NidList::parse(as_text(input), list);
    if (!error.ok()) {
        CHECK(!error.text.empty() && list.empty());
        return;
    }
    NidList again;
    CHECK(!list.empty());
    CHECK(NidList::parse(list.text(), again).ok());
    CHECK(again.text() == list.text());
    std::vector<Nid> nids;
    if (!list.expand(nids, expand_max).ok()) return;
    CHECK(nids.size() <= expand_max);
    for (const Nid& nid : nids) CHECK(list.matches(nid) && again.matches(nid));
}

}  // namespace ulnet
