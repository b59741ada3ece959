// Sessions of this node: MKSN, RMSN, DEBUG, the time-out, and what every framework request goes
// through first. All on the control strand.
#include "selftest/session.h"

#include <algorithm>

namespace ulnet::lst {

bool Batch::running() const {
    return std::any_of(tests.begin(), tests.end(),
                       [](const auto& test) { return test->running(); });
}

u32 Batch::active_tests() const {
    return static_cast<u32>(std::count_if(tests.begin(), tests.end(),
                                          [](const auto& test) { return test->running(); }));
}

bool Session::running() const {
    return std::any_of(batches.begin(), batches.end(),
                       [](const auto& entry) { return entry.second.running(); });
}

Framework::Framework(Context& context, std::function<void(Service, u32)> want_buffers,
                     std::function<void()> idle)
    : context_(context), want_buffers_(std::move(want_buffers)), idle_(std::move(idle)),
      timer_(context, [this] { expire(); }) {}

void Framework::handle(ServerRpc& rpc) {
    context_.control([this, &rpc] { serve(rpc); });
}

void Framework::serve(ServerRpc& rpc) {
    if (context_.closing()) {
        rpc.drop();
        return;
    }
    if (!refuse_features(rpc)) {
        switch (static_cast<Type>(rpc.header().type)) {
        case Type::make_session:
            make_session(rpc);
            break;
        case Type::remove_session:
            remove_session(rpc);
            break;
        case Type::debug:
            debug(rpc);
            break;
        case Type::stat:
            serve_stat(rpc);
            break;
        case Type::test:
            test(rpc);
            break;
        case Type::batch:
            batch(rpc);
            break;
        default:
            rpc.drop();
            break;
        }
    }
    touch();
}

// MKSN and DEBUG must not ask for features we do not know; all others must have the session's.
bool Framework::refuse_features(ServerRpc& rpc) {
    const Type type = static_cast<Type>(rpc.header().type);
    const u32 features = rpc.header().features;
    const bool opening = type == Type::make_session || type == Type::debug;
    const bool refused =
        opening ? (features & ~features_known) != 0 : session_ && features != session_->features;
    if (refused) rpc.reply(features_known, SidReply{.status = EPROTO, .sid = current_sid()});
    return refused;
}

void Framework::make_session(ServerRpc& rpc) {
    Header header;
    MakeSessionRequest request;
    decode_message(rpc.request(), header, request);
    MakeSessionReply reply{.sid = current_sid()};
    if (session_) reply.timeout_s = session_->timeout_s;
    if (request.sid.any()) {
        reply.status = EINVAL;
    } else if (session_ && session_->sid == request.sid) {
        ++session_->references;
    } else if (session_ && request.force == 0) {
        reply.status = EBUSY;
        reply.name = name_from(session_->name);
    } else {
        end_session();
        session_ = std::make_unique<Session>();
        session_->sid = request.sid;
        session_->name = name_text(request.name);
        session_->timeout_s = context_.options.session_timeout_s;
        session_->features = header.features;
        session_->started = context_.sched.now();
        reply.sid = request.sid;
        reply.timeout_s = session_->timeout_s;
    }
    rpc.reply(current_features(), reply);
}

void Framework::remove_session(ServerRpc& rpc) {
    Header header;
    RemoveSessionRequest request;
    decode_message(rpc.request(), header, request);
    SidReply reply{.sid = current_sid()};
    if (request.sid.any()) {
        reply.status = EINVAL;
    } else if (!session_) {
        reply.status = ESRCH;
    } else if (session_->sid != request.sid) {
        reply.status = EBUSY;
    } else if (--session_->references == 0) {
        end_session();
        reply.sid = sid_invalid;
    }
    rpc.reply(current_features(), reply);
}

void Framework::debug(ServerRpc& rpc) {
    DebugReply reply{.sid = current_sid()};
    if (session_) {
        reply.timeout_s = session_->timeout_s;
        reply.name = name_from(session_->name);
    } else {
        reply.status = ESRCH;
    }
    rpc.reply(current_features(), reply);
}

// Every framework request puts the end of the session off.
void Framework::touch() {
    if (!session_ || session_->timeout_s == 0) return;
    session_->deadline = context_.sched.now() + std::chrono::seconds(session_->timeout_s);
    if (!timer_.on()) timer_.arm(std::chrono::seconds(session_->timeout_s));
}

// The timer is not moved by each request: it looks at the deadline when it fires.
void Framework::expire() {
    if (!session_ || context_.closing() || session_->deadline == instant_never) return;
    const Duration left = session_->deadline - context_.sched.now();
    if (left > Duration{})
        timer_.arm(left);
    else
        end_session();
}

// What still runs is told to stop at once and kept as a zombie until it has.
void Framework::end_session() {
    if (!session_) return;
    for (auto& [id, batch] : session_->batches)
        for (const auto& test : batch.tests) test->stop(true);
    zombies_.push_back(std::move(session_));
    reap();
}

void Framework::reap() {
    std::erase_if(zombies_, [](const auto& session) { return !session->running(); });
    if (!session_ && zombies_.empty()) idle_();
}

void Framework::close() {
    timer_.stop();
    end_session();
}

}  // namespace ulnet::lst
