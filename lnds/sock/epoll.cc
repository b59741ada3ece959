// Readiness by epoll: one instance a CPT, edge-triggered. The default
// (docs/adr/0004-io-back-end.md).
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

#include "cpt/cpt.h"
#include "lnds/sock/readiness.h"

namespace ulnet::sock {
namespace {

class EpollSource final : public ReadinessSource {
 public:
    EpollSource(Sched& sched, CptId cpt, int fd) : ReadinessSource(sched, cpt), fd_(fd) {}
    ~EpollSource() override { ::close(fd_); }

    Status add(int fd, StreamSink& sink, u32& slot) override {
        epoll_event event{};
        event.data.u64 = slots_.take(sink, *this, slot);
        event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
        if (::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0) return ok_status;
        const Status status(-errno);
        slots_.give_back(slot);
        return status;
    }
    void remove(int fd, u32 slot, Task& done) override {
        static_cast<void>(::epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr));
        slots_.end(slot, false, done);
    }

    unsigned poll(Budget& budget) override {
        epoll_event events[ReadinessSlots::batch_max];
        const int count = ::epoll_wait(fd_, events, static_cast<int>(ReadinessSlots::batch_max), 0);
        if (count <= 0) return 0;
        ReadinessSlots::Happened happened[ReadinessSlots::batch_max];
        const auto found = static_cast<unsigned>(count);
        for (unsigned i = 0; i < found; ++i) {
            const u32 bits = events[i].events;
            const bool broken = (bits & (EPOLLERR | EPOLLHUP)) != 0;
            const bool ended = broken || (bits & EPOLLRDHUP) != 0;
            happened[i] = {
                events[i].data.u64,
                {ended || (bits & EPOLLIN) != 0, broken || (bits & EPOLLOUT) != 0, ended}};
        }
        slots_.tell(std::span(happened, found));
        budget.take(found, 0);
        return found;
    }
    Armed arm() override { return Armed::yes; }  // the epoll descriptor itself is level-triggered
    int wait_fd() const override { return fd_; }

 private:
    const int fd_;
};

}  // namespace

Result<std::unique_ptr<StreamOs>> make_epoll_os(Sched& sched) {
    ReadinessSources sources;
    for (CptId cpt = 0; cpt < sched.cpts().size(); ++cpt) {
        const int fd = ::epoll_create1(EPOLL_CLOEXEC);
        if (fd < 0) return Status(-errno);
        sources.push_back(std::make_unique<EpollSource>(sched, cpt, fd));
    }
    return make_kernel_os(sched, std::move(sources));
}

}  // namespace ulnet::sock
