// A console, which is the first host, and what tests of it share.
#pragma once

#include "tests/unit/selftest/rig.h"

namespace ulnet::lst {

class SelftestConsole : public testing::Test {
 protected:
    void hosts(u32 count, const SelftestOptions& options = {}) {
        for (u32 i = 0; i < count; ++i) rig.add(1 + i, options);
    }
    Host& console() { return rig[0]; }
    int code(std::string_view verb, Value::Map args = {}) {
        return console().call(verb, map(std::move(args))).code();
    }
    Value group(const std::string& name, std::initializer_list<std::string> ids) {
        return console().must("add_group", map({{"name", name}, {"ids", texts(ids)}}));
    }
    std::string state(const std::string& name, std::size_t index = 0) {
        const Value list = console().must("list_group", map({{"names", texts({name})}}));
        return list["groups"].items()[0]["nodes"].items()[index]["state"].as_text();
    }
    Value session_of(Host& host) { return host.must("node_stats")["session"]; }
    Rig rig;
};

}  // namespace ulnet::lst
