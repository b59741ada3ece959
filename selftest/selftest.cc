// Puts the parts of self test together: services, node, console.
#include "selftest/selftest.h"

#include "selftest/console.h"

namespace ulnet {
namespace lst {
namespace {

constexpr u32 framework_buffers = 16;  // of each framework service
constexpr u32 test_buffers = 64;       // of each test service, until a console asks for more

}  // namespace
}  // namespace lst

struct Selftest::Impl {
    Impl(Node& node, const SelftestOptions& options)
        : context(node, options),
          framework(
              context, [this](lst::Service service, u32 count) { grow(service, count); },
              [this] { brw_server.trim(); }),
          brw_server(context), console(context, framework) {}

    // A console's TEST tells how many requests a server has to expect at once.
    void grow(lst::Service service, u32 count) {
        (service == lst::Service::brw ? brw : ping)
            .grow(std::min(count, context.options.workitems));
    }
    void start() {
        if (context.closing()) return;
        for (const PortalId portal : {lst::portal_test, lst::portal_framework})
            static_cast<void>(context.node.set_lazy(portal, true));
        for (lst::ServiceQueue* queue :
             {&debug, &make_session, &remove_session, &batch, &test, &stat})
            queue->grow(lst::framework_buffers);
        grow(lst::Service::brw, lst::test_buffers);
        grow(lst::Service::ping, lst::test_buffers);
        console.start();
    }
    void close() {
        console.close();
        framework.close();
        for (lst::ServiceQueue* queue :
             {&debug, &make_session, &remove_session, &batch, &test, &stat, &brw, &ping})
            queue->close();
    }

    lst::Context context;
    lst::Framework framework;
    lst::BrwServer brw_server;
    lst::PingServer ping_server;
    lst::Console console;
    lst::ServiceQueue debug{context, lst::Service::debug, framework};
    lst::ServiceQueue make_session{context, lst::Service::make_session, framework};
    lst::ServiceQueue remove_session{context, lst::Service::remove_session, framework};
    lst::ServiceQueue batch{context, lst::Service::batch, framework};
    lst::ServiceQueue test{context, lst::Service::test, framework};
    lst::ServiceQueue stat{context, lst::Service::stat, framework};
    lst::ServiceQueue brw{context, lst::Service::brw, brw_server};
    lst::ServiceQueue ping{context, lst::Service::ping, ping_server};
};

Selftest::Selftest(Node& node, ctl::Registry& registry, const SelftestOptions& options)
    : impl_(std::make_unique<Impl>(node, options)) {
    impl_->console.add_commands(registry);
    impl_->context.control([impl = impl_.get()] { impl->start(); });
}

Selftest::~Selftest() = default;

void Selftest::close(Task& done) {
    Impl* impl = impl_.get();
    impl->context.node.control([impl, &done] {
        impl->context.begin_close(done);
        impl->close();
        impl->context.release();
    });
}

}  // namespace ulnet
