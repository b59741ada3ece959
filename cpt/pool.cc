// BufPool over a lock-free stack, SlabPool over per-worker caches.
#include "cpt/pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <boost/lockfree/stack.hpp>
#include <cerrno>
#include <limits>

#if defined(__has_feature)
#define ULNET_TSAN __has_feature(thread_sanitizer)  // clang
#elif defined(__SANITIZE_THREAD__)
#define ULNET_TSAN 1  // GCC
#else
#define ULNET_TSAN 0
#endif
#if ULNET_TSAN
// Boost's stack reads the link of a node that another thread may just have taken and thrown away
// again; the tagged compare-exchange that follows then fails and the value is not used.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
    // By function and, where it is inlined, by file.
    return "race:boost::lockfree\n"
           "race:boost/lockfree/\n";
}
#endif

namespace ulnet {

namespace {

constexpr std::size_t cache_line = 64;

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

}  // namespace

// Capacity for every block from the start, so that giving back neither allocates nor fails.
struct BufPool::FreeList {
    explicit FreeList(u32 count) : stack(count) {}
    boost::lockfree::stack<BufBlock*> stack;
};

Result<std::unique_ptr<BufPool>> BufPool::make(CptId cpt, const BufPoolOptions& options) {
    const std::size_t buffer = std::size_t{options.head_room} + options.bytes;
    if (buffer > std::numeric_limits<u32>::max()) return Status(-ENOMEM);
    const std::size_t bytes =
        std::max(round_up(buffer, cache_line) * options.count, std::size_t{1});
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return Status(-ENOMEM);
    return std::unique_ptr<BufPool>(
        new BufPool(cpt, options, static_cast<std::byte*>(memory), bytes));
}

BufPool::BufPool(CptId cpt, const BufPoolOptions& options, std::byte* memory,
                 std::size_t memory_bytes)
    : cpt_(cpt), options_(options), memory_(memory), memory_bytes_(memory_bytes),
      blocks_(std::make_unique<BufBlock[]>(options.count)),
      free_list_(std::make_unique<FreeList>(options.count)), free_count_(options.count),
      low_(options.count) {
    const std::size_t stride = round_up(buffer_bytes(), cache_line);
    for (u32 i = 0; i < options.count; ++i) {
        blocks_[i].home = this;
        blocks_[i].start = memory_ + i * stride;
        CHECK(free_list_->stack.bounded_push(&blocks_[i]));
    }
}

BufPool::~BufPool() {
    CHECK(free_count_.load(std::memory_order_acquire) == count());
    munmap(memory_, memory_bytes_);
}

// The count is a permit to pop: it is raised after the push and lowered before the pop, so that
// the stack never has fewer blocks than the count says.
Buf BufPool::get() {
    u32 left = free_count_.load(std::memory_order_relaxed);
    do {
        if (left == 0) return {};
    } while (!free_count_.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                                std::memory_order_relaxed));
    BufBlock* block = nullptr;
    CHECK(free_list_->stack.pop(block));
    --left;
    u32 low = low_.load(std::memory_order_relaxed);
    while (left < low && !low_.compare_exchange_weak(low, left, std::memory_order_relaxed)) {
    }
    block->refs.store(1, std::memory_order_relaxed);
    return Buf(block, options_.head_room);
}

void BufPool::put_back(BufBlock& block) {
    CHECK(free_list_->stack.bounded_push(&block));
    // Once all are counted the pool may go.
    free_count_.fetch_add(1, std::memory_order_release);
}

Buf::Buf(const Buf& other) : block_(other.block_), at_(other.at_), len_(other.len_) {
    if (block_ != nullptr) block_->refs.fetch_add(1, std::memory_order_relaxed);
}

Buf::~Buf() {
    if (block_ == nullptr) return;
    if (block_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) block_->home->put_back(*block_);
}

u32 Buf::tail_room() const {
    return block_->home->buffer_bytes() - at_ - len_;
}

std::span<std::byte> Buf::prepend(u32 count) {
    CHECK(count <= at_);
    at_ -= count;
    len_ += count;
    return {data(), count};
}

void Buf::skip(u32 count) {
    CHECK(count <= len_);
    at_ += count;
    len_ -= count;
}

void Buf::resize(u32 len) {
    CHECK(len <= len_ + tail_room());
    len_ = len;
}

bool Buf::unique() const {
    return block_->refs.load(std::memory_order_acquire) == 1;
}

CptId Buf::cpt() const {
    return block_->home->cpt();
}

SlabPool::SlabPool(const Sched& sched, std::size_t piece_bytes, std::size_t piece_align, u32 most)
    : sched_(sched), piece_bytes_(round_up(std::max(piece_bytes, sizeof(Piece)),
                                           std::max(piece_align, alignof(Piece)))),
      align_(std::max({piece_align, alignof(Piece), cache_line})), most_(most),
      cache_limit_(std::min(cache_max, most / (4 * sched.slots()))),
      caches_(std::make_unique<Cache[]>(sched.slots())) {}

SlabPool::~SlabPool() {
    CHECK(in_use() == 0);
    for (void* slab : slabs_) ::operator delete(slab, std::align_val_t(align_));
}

void SlabPool::count(Cache& cache, i64 change) {
    cache.taken.store(cache.taken.load(std::memory_order_relaxed) + change,
                      std::memory_order_relaxed);
}

void* SlabPool::take() {
    const u32 slot = sched_.this_slot();
    Cache& cache = caches_[slot];
    if (slot + 1 == sched_.slots()) {
        std::lock_guard guard(lock_);
        Piece* piece = take_shared_locked();
        if (piece != nullptr) count(cache, 1);
        return piece;
    }
    if (cache.top == nullptr) refill(cache);
    Piece* piece = cache.top;
    if (piece == nullptr) return nullptr;
    cache.top = piece->next;
    --cache.count;
    count(cache, 1);
    return piece;
}

void SlabPool::give(void* place) {
    const u32 slot = sched_.this_slot();
    Cache& cache = caches_[slot];
    if (slot + 1 == sched_.slots()) {
        std::lock_guard guard(lock_);
        shared_ = new (place) Piece{shared_};
        count(cache, -1);
        return;
    }
    cache.top = new (place) Piece{cache.top};
    ++cache.count;
    count(cache, -1);
    if (cache.count > cache_limit_) spill(cache);
}

// Half a cache from what is free for all, or from a new slab; at least one piece.
void SlabPool::refill(Cache& cache) {
    const u32 wanted = std::max(cache_limit_ / 2, 1u);
    std::lock_guard guard(lock_);
    while (cache.count < wanted) {
        Piece* piece = take_shared_locked();
        if (piece == nullptr) break;
        piece->next = cache.top;
        cache.top = piece;
        ++cache.count;
    }
}

void SlabPool::spill(Cache& cache) {
    std::lock_guard guard(lock_);
    while (cache.count > cache_limit_ / 2) {
        Piece* piece = cache.top;
        cache.top = piece->next;
        piece->next = shared_;
        shared_ = piece;
        --cache.count;
    }
}

SlabPool::Piece* SlabPool::take_shared_locked() {
    if (shared_ == nullptr && !grow_locked()) return nullptr;
    Piece* piece = shared_;
    shared_ = piece->next;
    return piece;
}

bool SlabPool::grow_locked() {
    const u32 count = std::min(slab_pieces, most_ - made_);
    if (count == 0) return false;
    auto* slab =
        static_cast<std::byte*>(::operator new(piece_bytes_* count, std::align_val_t(align_)));
    slabs_.push_back(slab);
    made_ += count;
    for (u32 i = count; i-- > 0;) shared_ = new (slab + i * piece_bytes_) Piece{shared_};
    return true;
}

u64 SlabPool::in_use() const {
    i64 sum = 0;
    for (u32 slot = 0; slot < sched_.slots(); ++slot)
        sum += caches_[slot].taken.load(std::memory_order_relaxed);
    return static_cast<u64>(sum);
}

}  // namespace ulnet
