// CHECK: what the programmer promises. Stays on in release; never on bytes from outside.
#pragma once

namespace ulnet {

// Prints the condition and its place, then aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace ulnet

#define CHECK(condition)                                                                           \
    (__builtin_expect(static_cast<bool>(condition), 1)                                             \
         ? static_cast<void>(0)                                                                    \
         : ::ulnet::check_failed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(0)
#else
#define DCHECK(condition) CHECK(condition)
#endif
