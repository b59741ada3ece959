// Waiting for a condition with a deadline, for tests with threads.
#pragma once

#include <chrono>
#include <thread>

namespace ulnet::test {

// True once `condition` holds; false after 30 s.
template <class F> bool eventually(F condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

}  // namespace ulnet::test
