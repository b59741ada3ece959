// The list of the targets that are linked.
#include "tests/fuzz/fuzz.h"

namespace ulnet {

constinit const FuzzTarget* FuzzTarget::first = nullptr;

FuzzTarget::FuzzTarget(std::string_view its_name, One its_one)
    : name(its_name), one(its_one), next(first) {
    first = this;
}

}  // namespace ulnet
