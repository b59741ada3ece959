// Readiness by io_uring: one ring a CPT with a multishot poll for each socket, which the kernel
// answers without a system call of ours. Any worker takes completions; no thread owns the ring.
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "cpt/cpt.h"
#include "lnds/sock/readiness.h"

namespace ulnet::sock {
namespace {

constexpr unsigned entries = 256, completions = 4096;
constexpr u64 key_of_cancels = ~u64{0};
constexpr unsigned wanted = POLLIN | POLLOUT | POLLRDHUP;

Readiness readiness_of(int bits) {
    const bool broken = (bits & (POLLERR | POLLHUP)) != 0;
    const bool ended = broken || (bits & POLLRDHUP) != 0;
    return {ended || (bits & POLLIN) != 0, broken || (bits & POLLOUT) != 0, ended};
}

class UringSource final : public ReadinessSource {
 public:
    using ReadinessSource::ReadinessSource;
    ~UringSource() override {
        if (open_) ::io_uring_queue_exit(&ring_);
    }
    Status open() {
        io_uring_params params{};
        params.flags = IORING_SETUP_CQSIZE;
        params.cq_entries = completions;
        const int code = ::io_uring_queue_init_params(entries, &ring_, &params);
        open_ = code == 0;
        return Status(code);
    }
    // Whether the kernel knows polls that stay (5.13 and later). On a ring not yet in use.
    Status check() {
        const int fd = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0) return Status(-errno);
        io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
        ::io_uring_prep_poll_multishot(sqe, fd, POLLIN);
        io_uring_cqe* cqe = nullptr;
        const int submitted = ::io_uring_submit(&ring_);
        const bool stays = submitted == 1 && ::io_uring_peek_cqe(&ring_, &cqe) == 0 &&
                           cqe->res > 0 && (cqe->flags & IORING_CQE_F_MORE) != 0;
        ::close(fd);
        return stays ? ok_status : Status(-ENOSYS);
    }

    Status add(int fd, StreamSink& sink, u32& slot) override {
        const u64 key = slots_.take(sink, *this, slot);
        const std::lock_guard guard(lock_);
        if (slot >= watches_.size()) watches_.resize(slot + 1);
        watches_[slot] = {key, fd, false};
        ask({key, fd, false});
        return ok_status;
    }
    void remove(int fd, u32 slot, Task& done) override {
        slots_.end(slot, true, done);
        const std::lock_guard guard(lock_);
        watches_[slot].ending = true;
        ask({watches_[slot].key, fd, true});
    }

    unsigned poll(Budget& budget) override {
        flush();
        io_uring_cqe* cqes[ReadinessSlots::batch_max];
        const unsigned count = ::io_uring_peek_batch_cqe(&ring_, cqes, ReadinessSlots::batch_max);
        if (count == 0) return 0;
        ReadinessSlots::Happened happened[ReadinessSlots::batch_max];
        unsigned found = 0;
        for (unsigned i = 0; i < count; ++i) {
            const io_uring_cqe& cqe = *cqes[i];
            if (cqe.user_data == key_of_cancels) continue;
            ReadinessSlots::Happened& one = happened[found++];
            one = {cqe.user_data, {}, false};
            if (cqe.res > 0) one.what = readiness_of(cqe.res);
            if ((cqe.flags & IORING_CQE_F_MORE) == 0) one.last = !stay(cqe.user_data);
        }
        ::io_uring_cq_advance(&ring_, count);
        slots_.tell(std::span(happened, found));
        budget.take(count, 0);
        return count;
    }
    Armed arm() override {
        const std::lock_guard guard(lock_);
        return backlog_.empty() && ::io_uring_sq_ready(&ring_) == 0 ? Armed::yes : Armed::busy;
    }
    int wait_fd() const override { return ring_.ring_fd; }

 private:
    struct Watch {
        u64 key = 0;
        int fd = -1;
        bool ending = false;
    };
    struct Request {
        u64 key;
        int fd;
        bool cancel;
    };

    // With the lock held. What the ring has no room for goes in with the next poll().
    void ask(const Request& request) {
        if (!backlog_.empty() || !put(request)) backlog_.push_back(request);
        static_cast<void>(::io_uring_submit(&ring_));  // what it leaves is in sq_ready()
    }
    bool put(const Request& request) {
        io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
        if (sqe == nullptr) return false;
        if (request.cancel) {
            // Not a poll-remove: that fails (EALREADY) while the poll is being answered.
            ::io_uring_prep_cancel64(sqe, request.key, 0);
            ::io_uring_sqe_set_data64(sqe, key_of_cancels);
        } else {
            ::io_uring_prep_poll_multishot(sqe, request.fd, wanted);
            ::io_uring_sqe_set_data64(sqe, request.key);
        }
        return true;
    }
    void flush() {
        const std::lock_guard guard(lock_);
        if (backlog_.empty() && ::io_uring_sq_ready(&ring_) == 0) return;
        std::size_t done = 0;
        while (done < backlog_.size() && put(backlog_[done])) ++done;
        backlog_.erase(backlog_.begin(), backlog_.begin() + static_cast<std::ptrdiff_t>(done));
        static_cast<void>(::io_uring_submit(&ring_));
    }
    // A poll has ended: by our wish, or because completions overflowed or the thread that asked for
    // it has gone. Then it is asked for anew. False: by our wish.
    bool stay(u64 key) {
        const std::lock_guard guard(lock_);
        const Watch& watch = watches_[static_cast<u32>(key)];
        if (watch.key != key || watch.ending) return false;
        ask({key, watch.fd, false});
        return true;
    }

    io_uring ring_{};  // completions: of the worker that polls; submissions: guarded by the lock
    bool open_ = false;
    std::mutex lock_;  // guards: all below
    std::vector<Watch> watches_;
    std::vector<Request> backlog_;
};

}  // namespace

Result<std::unique_ptr<StreamOs>> make_uring_os(Sched& sched) {
    {
        UringSource probe(sched, 0);
        Status status = probe.open();
        if (status.ok()) status = probe.check();
        if (!status.ok()) return status;
    }
    ReadinessSources sources;
    for (CptId cpt = 0; cpt < sched.cpts().size(); ++cpt) {
        auto source = std::make_unique<UringSource>(sched, cpt);
        const Status status = source->open();
        if (!status.ok()) return status;
        sources.push_back(std::move(source));
    }
    return make_kernel_os(sched, std::move(sources));
}

}  // namespace ulnet::sock
