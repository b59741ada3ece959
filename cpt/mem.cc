// MemView: walking the fragments of a Mem. Pure; any thread.
#include "cpt/mem.h"

#include <algorithm>
#include <cstring>

namespace ulnet {

namespace {

// The contiguous pieces of a view from `skip` bytes on, one at a time.
class Pieces {
 public:
    Pieces(const MemView& view, u32 skip) {
        if (view.mem == nullptr || view.offset >= view.mem->size() || skip >= view.len) return;
        left_ = std::min(view.len, view.mem->size() - view.offset);
        if (skip >= left_) {
            left_ = 0;
            return;
        }
        left_ -= skip;
        frags_ = view.mem->frags();
        u32 at = view.offset + skip;
        while (at >= frags_.front().len) {
            at -= frags_.front().len;
            frags_ = frags_.subspan(1);
        }
        at_ = at;
    }
    // Empty at the end. Takes at most `most` bytes.
    std::span<std::byte> take(u32 most) {
        if (left_ == 0 || most == 0) return {};
        const Frag& frag = frags_.front();
        const u32 len = std::min({left_, frag.len - at_, most});
        const std::span piece(frag.base + at_, len);
        left_ -= len;
        at_ += len;
        if (at_ == frag.len) {
            frags_ = frags_.subspan(1);
            at_ = 0;
        }
        return piece;
    }
    u32 left() const { return left_; }

 private:
    std::span<const Frag> frags_;
    u32 at_ = 0;    // within the first of frags_
    u32 left_ = 0;  // bytes of the view
};

}  // namespace

unsigned MemView::gather(u32 skip, std::span<iovec> out) const {
    Pieces pieces(*this, skip);
    unsigned filled = 0;
    while (filled < out.size()) {
        const auto piece = pieces.take(len);
        if (piece.empty()) break;
        out[filled++] = {piece.data(), piece.size()};
    }
    return filled;
}

u32 MemView::copy_out(u32 at, std::span<std::byte> to) const {
    Pieces pieces(*this, at);
    u32 done = 0;
    while (done < to.size()) {
        const auto piece = pieces.take(static_cast<u32>(std::min<u64>(to.size() - done, len)));
        if (piece.empty()) break;
        std::memcpy(to.data() + done, piece.data(), piece.size());
        done += static_cast<u32>(piece.size());
    }
    return done;
}

u32 MemView::copy_in(u32 at, std::span<const std::byte> from) const {
    Pieces pieces(*this, at);
    u32 done = 0;
    while (done < from.size()) {
        const auto piece = pieces.take(static_cast<u32>(std::min<u64>(from.size() - done, len)));
        if (piece.empty()) break;
        std::memcpy(piece.data(), from.data() + done, piece.size());
        done += static_cast<u32>(piece.size());
    }
    return done;
}

u32 copy_view(const MemView& to, const MemView& from) {
    Pieces target(to, 0);
    Pieces source(from, 0);
    u32 done = 0;
    for (;;) {
        const auto piece = source.take(target.left());
        if (piece.empty()) break;
        for (u32 used = 0; used < piece.size();) {
            const auto room = target.take(static_cast<u32>(piece.size()) - used);
            std::memmove(room.data(), piece.data() + used, room.size());
            used += static_cast<u32>(room.size());
        }
        done += static_cast<u32>(piece.size());
    }
    return done;
}

}  // namespace ulnet
