// Waking a context of provider shm, which cannot wait for messages by itself: a page in shared
// memory says whether its worker sleeps, and a socket wakes it. One line of a protocol of two
// words, beside libfabric's own files (docs/wire/ofi.md). The owner's and the ringers' sides.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "cpt/base/result.h"
#include "cpt/base/types.h"

namespace ulnet::ofi {

// A page of shared memory under a name, mapped.
class BellPage {
 public:
    static std::unique_ptr<BellPage> make(const std::string& name);  // as its owner; null: errno
    static std::unique_ptr<BellPage> find(const std::string& name);  // null: nobody is there
    ~BellPage();
    BellPage(const BellPage&) = delete;
    std::atomic<u32>& asleep() { return *static_cast<std::atomic<u32>*>(memory_); }

 private:
    BellPage(void* memory, std::string owned) : memory_(memory), owned_(std::move(owned)) {}
    void* const memory_;
    const std::string owned_;  // to be unlinked; empty: somebody else's
};

// The sleeper's side. One thread at a time.
class Bell {
 public:
    // Takes the name. EADDRINUSE: somebody has it.
    static Result<std::unique_ptr<Bell>> open(const std::string& name);
    // Whoever has the name's bell may remove the memory of an endpoint that a killed process left.
    static void clear_endpoint(const std::string& name);
    ~Bell();
    Bell(const Bell&) = delete;
    int fd() const { return fd_; }
    // From now on who sends rings. What was sent before must be looked for once more after it.
    void lie_down();
    void wake();

 private:
    Bell(std::unique_ptr<BellPage> page, int fd) : page_(std::move(page)), fd_(fd) {}
    const std::unique_ptr<BellPage> page_;
    const int fd_;
};

// The side of who sends to it. One thread at a time.
class Ringer {
 public:
    // Null: the peer has no bell.
    static std::unique_ptr<Ringer> find(const std::string& name);
    // After a message: wakes the peer if it sleeps. `fd`: any datagram socket of the family.
    void ring(int fd);

 private:
    Ringer(std::unique_ptr<BellPage> page, std::string name)
        : page_(std::move(page)), name_(std::move(name)) {}
    const std::unique_ptr<BellPage> page_;
    const std::string name_;
};

}  // namespace ulnet::ofi
