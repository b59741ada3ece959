// One row a message type: its name, and how its body prints.
#include "tools/wiredump_selftest.h"

#include <fmt/format.h>

#include <array>

#include "selftest/wire_session.h"
#include "selftest/wire_test.h"
#include "tools/wiredump_fields.h"

namespace ulnet::tools {
namespace {

using namespace lst;

// Bodies that are made of several parts.
struct AddTestPing {
    TestRequest test;
    PingParams params;
    template <class F> static constexpr void fields(F&& f) {
        f("test", &AddTestPing::test);
        f("params", &AddTestPing::params);
    }
};
struct AddTestBrw {
    TestRequest test;
    BrwParamsV1 params;
    template <class F> static constexpr void fields(F&& f) {
        f("test", &AddTestBrw::test);
        f("params", &AddTestBrw::params);
    }
};
struct AddTestBrwV0 {
    TestRequest test;
    BrwParamsV0 params;
    template <class F> static constexpr void fields(F&& f) {
        f("test", &AddTestBrwV0::test);
        f("params", &AddTestBrwV0::params);
    }
};

template <class Body> void body(std::string& out, Reader reader) {
    Body value{};
    reader.read(value);
    print_fields(out, value);
}

// The parameters depend on the service, and those of BRW on the features.
void add_test(std::string& out, Reader reader, u32 features) {
    TestRequest request;
    Reader look = reader;
    look.read(request);
    if (request.service == static_cast<u32>(Service::ping)) return body<AddTestPing>(out, reader);
    if (request.service != static_cast<u32>(Service::brw)) return body<TestRequest>(out, reader);
    if ((features & feature_bulk_len) != 0) return body<AddTestBrw>(out, reader);
    body<AddTestBrwV0>(out, reader);
}

struct Row {
    const char* name;
    void (*request)(std::string&, Reader);
    void (*reply)(std::string&, Reader);
    void (*request_offsets)(std::string&, std::size_t, const std::string&);
    void (*reply_offsets)(std::string&, std::size_t, const std::string&);
};
template <class Request, class Reply> constexpr Row row(const char* name) {
    return {name, body<Request>, body<Reply>, print_offsets<Request>, print_offsets<Reply>};
}
// By half the number of the request.
constexpr std::array rows = {
    row<MakeSessionRequest, MakeSessionReply>("MAKE_SESSION"),
    row<RemoveSessionRequest, SidReply>("REMOVE_SESSION"),
    row<BatchRequest, BatchReply>("BATCH"),
    row<StatRequest, StatReply>("STAT"),
    row<TestRequest, SidReply>("TEST"),
    row<DebugRequest, DebugReply>("DEBUG"),
    row<BrwRequest, StatusReply>("BRW"),
    row<PingRequest, PingReply>("PING"),
    row<JoinRequest, MakeSessionReply>("JOIN"),
};
static_assert(rows.size() == static_cast<u32>(Type::join) / 2 + 1);

}  // namespace

bool print_selftest(std::string& out, std::span<const std::byte> bytes, bool fields) {
    Header header;
    const Result<Order> order = message_order(bytes);
    if (!order.ok()) return false;
    Reader reader(bytes, *order);
    if (!reader.read(header) || header.type / 2 >= rows.size()) return false;
    const Row& is = rows[header.type / 2];
    const bool reply = header.type % 2 == 1;
    Reader first = reader;
    u32 status = 0;
    u64 rpyid = 0;
    if (reply)
        first.read(status);
    else
        first.read(rpyid);
    out += fmt::format("selftest {} {}", is.name, reply ? "reply" : "request");
    out += reply ? fmt::format(" status {}\n", static_cast<i32>(status))
                 : fmt::format(" reply to 0x{:x}\n", rpyid);
    if (!fields) return true;
    print_fields(out, header);
    if (!reply && header.type == static_cast<u32>(Type::test))
        add_test(out, reader, header.features);
    else
        (reply ? is.reply : is.request)(out, reader);
    return true;
}

void selftest_offsets(std::string& out) {
    constexpr std::size_t begin = wire_size<Header>();
    print_offsets<Header>(out);
    for (const Row& is : rows) {
        is.request_offsets(out, begin, std::string(is.name) + ".request.");
        is.reply_offsets(out, begin, std::string(is.name) + ".reply.");
    }
    constexpr std::size_t params = begin + wire_size<TestRequest>();
    print_offsets<PingParams>(out, params, "TEST.request.ping.");
    print_offsets<BrwParamsV1>(out, params, "TEST.request.brw.");
    print_offsets<BrwParamsV0>(out, params, "TEST.request.brw-v0.");
}

}  // namespace ulnet::tools
