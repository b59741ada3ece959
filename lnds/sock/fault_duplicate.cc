// See the header.
#include "lnds/sock/fault_duplicate.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace ulnet::sock {

void Duplicate::add(std::span<const iovec> pieces, u64 bytes) {
    const std::lock_guard guard(lock_);
    for (const iovec& piece : pieces) {
        const std::size_t size = std::min<u64>({piece.iov_len, bytes, bytes_max - bytes_.size()});
        const auto* const from = static_cast<const std::byte*>(piece.iov_base);
        bytes_.insert(bytes_.end(), from, from + size);
        bytes -= size;
    }
}

void Duplicate::begin_to_say() {
    says_.store(true, std::memory_order_release);
    wake();
}

void Duplicate::end() {
    wanted_.store(false, std::memory_order_release);
    wake();
}

bool Duplicate::step(Budget& budget) {
    if (unwatching_) return false;
    if (wanted_.load(std::memory_order_acquire) && write() && read(budget)) return !budget.left();
    unwatching_ = true;
    stream_->shutdown();
    stream_->unwatch(ended_);
    return false;
}

// False: the connection is of no more use.
bool Duplicate::write() {
    if (!says_.load(std::memory_order_acquire)) return true;
    std::array<std::byte, bytes_max> copy;
    std::size_t size = 0;
    {
        const std::lock_guard guard(lock_);
        size = bytes_.size() - written_;
        std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(written_), size, copy.begin());
    }
    if (size == 0) return true;
    const iovec piece{copy.data(), size};
    const i64 moved = stream_->writev({&piece, 1});
    if (moved > 0) written_ += static_cast<std::size_t>(moved);
    return moved >= 0 || moved == -EAGAIN || moved == -ENOTCONN;
}

bool Duplicate::read(Budget& budget) {
    std::array<std::byte, 16384> buffer;
    const iovec piece{buffer.data(), buffer.size()};
    while (budget.left()) {
        const i64 moved = stream_->readv({&piece, 1});
        if (moved == -EAGAIN || moved == -ENOTCONN) return true;
        if (moved <= 0) return false;
        budget.take(1, static_cast<u64>(moved));
    }
    return true;
}

// Nothing calls ready() any more; the last step may still be returning.
void Duplicate::ended() {
    if (!idle()) {
        sched_.post(cpt(), ended_);
        return;
    }
    stream_.reset();
    over_.store(true, std::memory_order_release);
}

}  // namespace ulnet::sock
