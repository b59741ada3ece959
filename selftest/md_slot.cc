// The handle of an MD under way. The lock is a leaf: no call of the Node is made with it held.
#include "selftest/md_slot.h"

#include <utility>

namespace ulnet::lst {

u64 MdSlot::begin() {
    const std::lock_guard lock(mutex_);
    CHECK(!live_);
    live_ = true;
    unlink_wanted_ = false;
    return ++turn_;
}

void MdSlot::keep(Node& node, u64 turn, Md md) {
    {
        const std::lock_guard lock(mutex_);
        if (turn != turn_ || !live_) {
            md.release();  // ended; the handle is stale
            return;
        }
        if (!unlink_wanted_) {
            std::swap(md_, md);
            return;
        }
    }
    node.unlink(std::move(md));
}

void MdSlot::fail() {
    const std::lock_guard lock(mutex_);
    live_ = false;
}

void MdSlot::ended() {
    const std::lock_guard lock(mutex_);
    live_ = false;
    md_.release();
}

void MdSlot::unlink(Node& node) {
    Md md;
    {
        const std::lock_guard lock(mutex_);
        if (!live_) return;
        unlink_wanted_ = true;
        std::swap(md, md_);
    }
    if (md) node.unlink(std::move(md));
}

bool MdSlot::live() const {
    const std::lock_guard lock(mutex_);
    return live_;
}

}  // namespace ulnet::lst
