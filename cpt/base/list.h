// Intrusive doubly linked list: an element carries its hook by inheritance, nothing is allocated.
// An element X inherits ListHook<X>; further hooks carry other tags and serve List<X, Tag>. It may
// be on one list a hook.
#pragma once

#include "cpt/base/check.h"
#include "cpt/base/types.h"

namespace ulnet {

template <class Tag> class ListHook {
 public:
    ListHook() = default;
    ListHook(const ListHook&) = delete;
    ListHook& operator=(const ListHook&) = delete;
    ~ListHook() { DCHECK(next == nullptr); }
    bool linked() const { return next != nullptr; }
    ListHook* next = nullptr;
    ListHook* prev = nullptr;
};

// Not thread-safe. Destroying a non-empty list is a programmer error.
template <class T, class Tag = T> class List {
    using Hook = ListHook<Tag>;

 public:
    List() { head_.next = head_.prev = &head_; }
    List(const List&) = delete;
    List& operator=(const List&) = delete;
    ~List() {
        DCHECK(empty());
        head_.next = head_.prev = nullptr;
    }
    bool empty() const { return head_.next == &head_; }
    std::size_t size() const { return size_; }
    T& front() {
        DCHECK(!empty());
        return *static_cast<T*>(head_.next);
    }
    void push_back(T& item) { insert_before(head_, item); }
    void push_front(T& item) { insert_before(*head_.next, item); }
    void insert_before(T& place, T& item) { insert_before(static_cast<Hook&>(place), item); }
    // nullptr when empty.
    T* pop_front() {
        if (empty()) return nullptr;
        T& item = front();
        remove(item);
        return &item;
    }
    void remove(T& item) {
        Hook& hook = item;
        DCHECK(hook.linked());
        hook.prev->next = hook.next;
        hook.next->prev = hook.prev;
        hook.next = hook.prev = nullptr;
        --size_;
    }
    // Moves all of `other` to the end of this list.
    void splice_back(List& other) {
        while (T* item = other.pop_front()) push_back(*item);
    }

    class Iterator {
     public:
        explicit Iterator(Hook* at) : at_(at) {}
        T& operator*() const { return *static_cast<T*>(at_); }
        T* operator->() const { return static_cast<T*>(at_); }
        Iterator& operator++() {
            at_ = at_->next;
            return *this;
        }
        bool operator==(const Iterator&) const = default;

     private:
        Hook* at_;
    };
    Iterator begin() { return Iterator(head_.next); }
    Iterator end() { return Iterator(&head_); }

 private:
    void insert_before(Hook& place, T& item) {
        Hook& hook = item;
        DCHECK(!hook.linked());
        hook.next = &place;
        hook.prev = place.prev;
        place.prev->next = &hook;
        place.prev = &hook;
        ++size_;
    }
    Hook head_;
    std::size_t size_ = 0;
};

}  // namespace ulnet
