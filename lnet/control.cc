// The control strand. queue() from any thread, the work itself on workers of CPT 0.
#include "lnet/control.h"

namespace ulnet {

Control::~Control() {
    while (Item* item = queue_.pop_front()) delete item;
}

void Control::queue(std::function<void()> fn) {
    auto item = std::make_unique<Item>();
    item->fn = std::move(fn);
    callers_.fetch_add(1);
    {
        const std::lock_guard guard(lock_);
        queue_.push_back(*item.release());
    }
    wake();
    callers_.fetch_sub(1);
}

bool Control::quiet() const {
    {
        const std::lock_guard guard(lock_);
        if (!queue_.empty()) return false;
    }
    return callers_.load() == 0 && idle();
}

bool Control::step(Budget& budget) {
    while (budget.left()) {
        std::unique_ptr<Item> item;
        {
            const std::lock_guard guard(lock_);
            item.reset(queue_.pop_front());
        }
        if (!item) return false;
        item->fn();
        budget.take(1, 0);
    }
    return true;
}

}  // namespace ulnet
