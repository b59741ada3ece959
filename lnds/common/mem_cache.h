// Registrations of memory, for drivers whose cards (or providers) must know it: keyed by range, the
// least recently used ones dropped beyond a limit, each range registered once however many messages
// and Mems use it.
//
// Safe under munmap: a registration lives at most as long as a Mem that has the range (cpt/mem.h),
// so new memory at an old address is registered anew. Safe under fork: a child must not use the
// parent's Mems; what it does with its own memory concerns nobody here, and providers that pin
// pages need a kernel that copies these at the fork (5.12).
//
// Any thread. `make` and the destructor of a Reg run with the cache's lock held: they may take leaf
// locks only.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "cpt/base/list.h"
#include "cpt/base/result.h"
#include "cpt/mem.h"

namespace ulnet {

// Reg: movable; destroying it undoes the registration.
template <class Reg> class MemCache {
    struct Core;

 public:
    using Make = std::function<Result<Reg>(std::byte* base, u64 len)>;
    struct Limits {
        u64 entries = 4096;
        u64 bytes = u64{4} << 30;
    };

    // One range. Only what is in use is told of.
    class Entry : ListHook<Entry> {
     public:
        const Reg& reg() const { return *reg_; }

     private:
        friend class MemCache;
        friend class List<Entry>;
        friend struct Core;
        std::byte* base_ = nullptr;
        u64 len_ = 0;
        std::optional<Reg> reg_;
        u32 uses_ = 0, notes_ = 0;  // messages; Mems that have the range
    };

    // The registrations of all fragments of a Mem, in their order; kept until it goes.
    class Use {
     public:
        Use() = default;
        Use(Use&& other) noexcept { *this = std::move(other); }
        Use& operator=(Use&& other) noexcept {
            std::swap(core_, other.core_);
            std::swap(entries_, other.entries_);
            return *this;
        }
        ~Use() {
            if (core_) core_->leave(entries_);
        }
        std::span<Entry* const> entries() const { return entries_; }

     private:
        friend class MemCache;
        std::shared_ptr<Core> core_;
        std::span<Entry* const> entries_;  // of the note
    };

    MemCache(const Limits& limits, Make make) : core_(std::make_shared<Core>()) {
        core_->limits = limits;
        core_->make = std::move(make);
    }
    // All Uses are over. Registrations end now; Mems may live on.
    ~MemCache() { core_->close(); }
    MemCache(const MemCache&) = delete;

    // ENOMEM and what `make` says: nothing is kept then.
    Result<Use> use(const Mem& mem) {
        Use use;
        const Result<Note*> note = core_->enter(core_, mem);
        if (!note.ok()) return note.status();
        use.core_ = core_;
        use.entries_ = (*note)->entries;
        return use;
    }
    u64 registered() const {
        const std::lock_guard guard(core_->lock);
        return core_->registered;
    }
    u64 made() const {
        const std::lock_guard guard(core_->lock);
        return core_->made;
    }

 private:
    struct Note final : MemNote {
        Note(std::shared_ptr<Core> of, const void* owner) : MemNote(owner), core(std::move(of)) {}
        ~Note() override { core->forget(entries); }
        const std::shared_ptr<Core> core;
        std::vector<Entry*> entries;
    };

    struct Core {
        using Range = std::pair<std::byte*, u64>;
        mutable std::mutex lock;  // guards: all below
        Limits limits;
        Make make;
        std::map<Range, std::unique_ptr<Entry>> entries;
        List<Entry> idle;  // registered, not in use; the least recently used first
        u64 registered = 0, bytes = 0, made = 0;
        bool closed = false;

        Result<Note*> enter(const std::shared_ptr<Core>& self, const Mem& mem) {
            const std::lock_guard guard(lock);
            auto* note = static_cast<Note*>(mem.notes().find(this));
            if (note == nullptr) {
                auto fresh = std::make_unique<Note>(self, this);
                note = fresh.get();
                for (const Frag& frag : mem.frags()) note->entries.push_back(&entry_of(frag));
                mem.notes().add(std::move(fresh));
            }
            for (std::size_t i = 0; i < note->entries.size(); ++i) {
                const Status status = use(*note->entries[i]);
                if (status.ok()) continue;
                unuse(std::span(note->entries).first(i));
                return status;
            }
            shrink();
            return note;
        }
        void leave(std::span<Entry* const> used) {
            const std::lock_guard guard(lock);
            unuse(used);
            shrink();
        }
        void forget(std::span<Entry* const> noted) {
            const std::lock_guard guard(lock);
            for (Entry* const entry : noted)
                if (--entry->notes_ == 0 && entry->uses_ == 0) drop(*entry);
        }
        void close() {
            const std::lock_guard guard(lock);
            closed = true;
            while (!idle.empty()) unregister(idle.front());
            make = nullptr;
        }

     private:
        Entry& entry_of(const Frag& frag) {
            std::unique_ptr<Entry>& entry = entries[{frag.base, frag.len}];
            if (!entry) {
                entry = std::make_unique<Entry>();
                entry->base_ = frag.base;
                entry->len_ = frag.len;
            }
            ++entry->notes_;
            return *entry;
        }
        Status use(Entry& entry) {
            if (!entry.reg_) {
                if (closed) return Status(-ESHUTDOWN);
                Result<Reg> reg = make(entry.base_, entry.len_);
                if (!reg.ok()) return reg.status();
                entry.reg_.emplace(std::move(*reg));
                ++registered;
                ++made;
                bytes += entry.len_;
            } else if (entry.uses_ == 0) {
                idle.remove(entry);
            }
            ++entry.uses_;
            return ok_status;
        }
        void unuse(std::span<Entry* const> used) {
            for (Entry* const entry : used) {
                if (--entry->uses_ > 0) continue;
                idle.push_back(*entry);
                if (entry->notes_ == 0) drop(*entry);  // the Mem went too early
            }
        }
        void shrink() {
            while (!idle.empty() && (registered > limits.entries || bytes > limits.bytes))
                unregister(idle.front());
        }
        void unregister(Entry& entry) {
            idle.remove(entry);
            entry.reg_.reset();
            --registered;
            bytes -= entry.len_;
        }
        void drop(Entry& entry) {
            if (entry.reg_) unregister(entry);
            entries.erase({entry.base_, entry.len_});
        }
    };

    const std::shared_ptr<Core> core_;
};

}  // namespace ulnet
