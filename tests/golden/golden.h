// Golden data for tests: JSON lines with bytes that real peers sent and vectors made from the
// protocol documents. Used by unit tests on the test's own thread. Record format: README.md here.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cpt/base/types.h"

namespace ulnet::golden {

// All records of a file below tests/golden, e.g. "constructed/acceptor.jsonl". A missing file or a
// line that is not JSON ends the test program: golden data is part of the source.
std::vector<nlohmann::json> load(std::string_view file);

using Handler = std::function<void(const nlohmann::json&)>;
using Handlers = std::map<std::string, Handler, std::less<>>;
// Gives every record of the file to the handler of its `key` ("struct" of constructed vectors,
// "kind" of captures), each under a SCOPED_TRACE that names it. A record without a handler is a
// test failure, so nothing is skipped silently; name what is left to other tests by `elsewhere`.
// Returns the number of records whose handler was not `elsewhere`.
std::size_t for_each(std::string_view file, std::string_view key, const Handlers&);
extern const Handler elsewhere;

// "00ff" to bytes and back. unhex of something else ends the test program.
std::vector<std::byte> unhex(std::string_view);
std::string hex(std::span<const std::byte>);

// An integer of a record: a JSON number, or the "0x..." string that captures use for 64 bits.
u64 number(const nlohmann::json&);

// `expect` of a refused vector and the like; empty when the key is missing.
std::string text(const nlohmann::json& record, std::string_view key);

}  // namespace ulnet::golden
