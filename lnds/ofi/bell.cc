// The bell of provider shm: system calls only when somebody sleeps.
#include "lnds/ofi/bell.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace ulnet::ofi {
namespace {

constexpr std::size_t page_bytes = 4096;

std::string file_of(const std::string& name) {
    return "/" + name + ".bell";
}

// In the abstract name space: nothing is left behind.
socklen_t address_of(const std::string& name, sockaddr_un& out) {
    out = {};
    out.sun_family = AF_UNIX;
    const std::string text = "ulnet-bell-" + name;
    const std::size_t size = std::min(text.size(), sizeof out.sun_path - 1);
    std::memcpy(out.sun_path + 1, text.data(), size);
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

void* mapped(int fd) {
    void* const memory = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

std::unique_ptr<BellPage> BellPage::make(const std::string& name) {
    const std::string file = file_of(name);
    ::shm_unlink(file.c_str());  // of a former life
    const int fd = ::shm_open(file.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return nullptr;
    if (::ftruncate(fd, page_bytes) != 0) {
        ::close(fd);
        ::shm_unlink(file.c_str());
        return nullptr;
    }
    void* const memory = mapped(fd);
    if (memory == nullptr) return nullptr;
    return std::unique_ptr<BellPage>(new BellPage(memory, file));
}

std::unique_ptr<BellPage> BellPage::find(const std::string& name) {
    const int fd = ::shm_open(file_of(name).c_str(), O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return nullptr;
    // A page that is not there yet would be a bus error.
    if (::lseek(fd, 0, SEEK_END) < static_cast<off_t>(page_bytes)) {
        ::close(fd);
        return nullptr;
    }
    void* const memory = mapped(fd);
    return memory == nullptr ? nullptr : std::unique_ptr<BellPage>(new BellPage(memory, ""));
}

BellPage::~BellPage() {
    ::munmap(memory_, page_bytes);
    if (!owned_.empty()) ::shm_unlink(owned_.c_str());
}

Result<std::unique_ptr<Bell>> Bell::open(const std::string& name) {
    sockaddr_un address;
    const socklen_t size = address_of(name, address);
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return Status(-errno);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
        const int code = errno;
        ::close(fd);
        return Status(-code);
    }
    std::unique_ptr<BellPage> page = BellPage::make(name);
    if (page == nullptr) {
        const int code = errno;
        ::close(fd);
        return Status(code != 0 ? -code : -EIO);
    }
    return std::unique_ptr<Bell>(new Bell(std::move(page), fd));
}

void Bell::clear_endpoint(const std::string& name) {
    ::shm_unlink(("/" + name).c_str());
}

Bell::~Bell() {
    ::close(fd_);
}

void Bell::lie_down() {
    page_->asleep().store(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Bell::wake() {
    if (page_->asleep().load(std::memory_order_relaxed) == 0) return;
    page_->asleep().store(0, std::memory_order_seq_cst);
    char bytes[16];
    while (::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
}

std::unique_ptr<Ringer> Ringer::find(const std::string& name) {
    std::unique_ptr<BellPage> page = BellPage::find(name);
    if (page == nullptr) return nullptr;
    return std::unique_ptr<Ringer>(new Ringer(std::move(page), name));
}

void Ringer::ring(int fd) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    u32 asleep = 1;
    // One ring is enough.
    if (page_->asleep().load(std::memory_order_seq_cst) == 0 ||
        !page_->asleep().compare_exchange_strong(asleep, 2))
        return;
    sockaddr_un address;
    const socklen_t size = address_of(name_, address);
    const char byte = 1;
    if (::sendto(fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), size) < 0)
        page_->asleep().store(1);  // the next message tries again
}

}  // namespace ulnet::ofi
