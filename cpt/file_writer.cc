// Two buffers: records are copied into one under a leaf lock while the thread writes the other.
#include "cpt/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <thread>
#include <vector>

#include "cpt/base/log.h"
#include "cpt/base/park.h"

namespace ulnet {

struct FileWriter::Impl {
    std::string path;
    Options options;
    int fd = -1;
    std::mutex lock;  // guards: queue
    std::vector<std::byte> queue;
    Park work;
    std::atomic<bool> ending{false};
    std::thread thread;

    // False when the file takes no more.
    bool write_all(std::span<const std::byte> bytes) const {
        while (!bytes.empty()) {
            const ssize_t written = ::write(fd, bytes.data(), bytes.size());
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) return false;
            bytes = bytes.subspan(static_cast<std::size_t>(written));
        }
        return true;
    }
};

FileWriter::FileWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
    impl_->thread = std::thread([this] {
        Impl& own = *impl_;
        std::vector<std::byte> batch;
        batch.reserve(own.options.queue_bytes);
        for (bool last = false; !last;) {
            own.work.wait(Park::forever);
            last = own.ending.load(std::memory_order_acquire);
            batch.clear();
            {
                const std::lock_guard guard(own.lock);
                batch.swap(own.queue);
            }
            if (state() == State::failed || own.write_all(batch)) continue;
            log_line(LogLevel::error,
                     own.path + ": cannot be written any more: " + Status(-errno).text());
            state_.store(State::failed, std::memory_order_relaxed);
        }
    });
}

FileWriter::~FileWriter() {
    impl_->ending.store(true, std::memory_order_release);
    impl_->work.signal();
    impl_->thread.join();
    ::close(impl_->fd);
}

Result<std::unique_ptr<FileWriter>> FileWriter::open(const std::string& path,
                                                     const Options& options, std::string& why) {
    auto impl = std::make_unique<Impl>();
    impl->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    if (impl->fd < 0) {
        const Status status(-errno);
        why = "'" + path + "' cannot be opened for writing: " + status.text();
        return status;
    }
    impl->path = path;
    impl->options = options;
    impl->queue.reserve(options.queue_bytes);
    return std::unique_ptr<FileWriter>(new FileWriter(std::move(impl)));
}

bool FileWriter::append(std::span<const iovec> parts, Room room) {
    if (state() == State::failed) return false;
    std::size_t size = 0;
    for (const iovec& part : parts) size += part.iov_len;
    bool first = false, full = false;
    {
        const std::lock_guard guard(impl_->lock);
        if (room == Room::limited) {
            full = bytes() + size > impl_->options.file_bytes || state() == State::full;
            if (full || impl_->queue.size() + size > impl_->options.queue_bytes) size = 0;
        }
        if (size > 0) {
            first = impl_->queue.empty();
            for (const iovec& part : parts) {
                const auto* const from = static_cast<const std::byte*>(part.iov_base);
                impl_->queue.insert(impl_->queue.end(), from, from + part.iov_len);
            }
            bytes_.store(bytes() + size, std::memory_order_relaxed);
        }
    }
    if (first) impl_->work.signal();
    State writing = State::writing;
    if (full && state_.compare_exchange_strong(writing, State::full))
        log_line(LogLevel::warn, impl_->path + ": the file has reached its limit of " +
                                     std::to_string(impl_->options.file_bytes) +
                                     " bytes, nothing more is recorded");
    return size > 0;
}

}  // namespace ulnet
