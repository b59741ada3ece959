// Park over a private futex: condition variables would need a lock and a second wake-up.
#include "cpt/base/park.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace ulnet {

namespace {

// A futex is the address of a 32-bit word, and that is what an atomic u32 is here.
static_assert(sizeof(std::atomic<u32>) == sizeof(u32));

long futex(std::atomic<u32>& word, int operation, u32 value, const timespec* timeout) {
    return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

}  // namespace

bool Park::wait(Duration timeout) {
    timespec spec{};
    if (timeout != forever) {
        spec.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000);
        spec.tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000);
    }
    while (signal_.exchange(0, std::memory_order_acquire) == 0) {
        const long result = futex(signal_, FUTEX_WAIT, 0, timeout == forever ? nullptr : &spec);
        if (result < 0 && errno == ETIMEDOUT)
            return signal_.exchange(0, std::memory_order_acquire) != 0;
    }
    return true;
}

void Park::signal() {
    if (signal_.exchange(1, std::memory_order_release) == 0) futex(signal_, FUTEX_WAKE, 1, nullptr);
}

}  // namespace ulnet
