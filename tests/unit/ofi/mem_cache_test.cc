// Registrations of memory: once a range, gone with the Mem, the least recently used dropped; and
// row 7.4, new memory at an old address.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lnds/common/mem_cache.h"
#include "tests/unit/ofi/pair.h"

namespace ulnet {
namespace {

// A card that knows the bytes that were there at the registration.
struct Card {
    struct Reg {
        Reg(Card& of, std::byte* at, u64 size) : card(&of), base(at), len(size), life(of.life) {
            ++of.registered;
        }
        Reg(Reg&& other) noexcept
            : card(std::exchange(other.card, nullptr)), base(other.base), len(other.len),
              life(other.life) {}
        ~Reg() {
            if (card != nullptr) --card->registered;
        }
        Card* card;
        std::byte* base;
        u64 len, life;
    };
    MemCache<Reg>::Make make() {
        return [this](std::byte* base, u64 len) -> Result<Reg> {
            if (fails) return Status(-ENOMEM);
            return Reg(*this, base, len);
        };
    }
    u64 life = 0;  // of the mapping that is registered
    u64 registered = 0;
    bool fails = false;
};

struct Pages {
    explicit Pages(std::size_t size, void* at = nullptr)
        : bytes(size), start(::mmap(at, size, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0)) {
        EXPECT_NE(start, MAP_FAILED);
    }
    ~Pages() { ::munmap(start, bytes); }
    std::byte* data() const { return static_cast<std::byte*>(start); }
    const std::size_t bytes;
    void* const start;
};

TEST(MemCache, OnceARange) {
    Card card;
    MemCache<Card::Reg> cache({}, card.make());
    std::vector<std::byte> bytes(3000);
    const Frag frags[] = {{bytes.data(), 1000}, {bytes.data() + 1000, 500}};
    const Mem one(bytes.data(), 1000), two(frags);
    for (int i = 0; i < 10; ++i) {
        const auto a = cache.use(one), b = cache.use(two);
        ASSERT_TRUE(a.ok() && b.ok());
        EXPECT_EQ(a->entries().size(), 1u);
        EXPECT_EQ(b->entries().size(), 2u);
        EXPECT_EQ(b->entries()[1]->reg().base, bytes.data() + 1000);
    }
    EXPECT_EQ(cache.made(), 2u);
    EXPECT_EQ(card.registered, 2u);
}

TEST(MemCache, GoesWithTheLastMemThatHasTheRange) {
    Card card;
    MemCache<Card::Reg> cache({}, card.make());
    std::vector<std::byte> bytes(1000);
    auto one = std::make_unique<Mem>(bytes.data(), 1000), two = std::make_unique<Mem>(*one);
    EXPECT_TRUE(cache.use(*one).ok() && cache.use(*two).ok());
    one.reset();
    EXPECT_EQ(card.registered, 1u);
    two.reset();
    EXPECT_EQ(card.registered, 0u);
}

TEST(MemCache, TheLeastRecentlyUsedGoFirstAndNoneInUse) {
    Card card;
    MemCache<Card::Reg> cache({.entries = 3, .bytes = 1 << 20}, card.make());
    std::vector<std::byte> bytes(1000);
    std::vector<std::unique_ptr<Mem>> mems;
    for (u32 i = 0; i < 5; ++i) mems.push_back(std::make_unique<Mem>(bytes.data() + i * 100, 100));
    {
        std::vector<MemCache<Card::Reg>::Use> uses;
        for (const auto& mem : mems) uses.push_back(std::move(*cache.use(*mem)));
        EXPECT_EQ(card.registered, 5u);
    }
    EXPECT_EQ(card.registered, 3u);
    EXPECT_TRUE(cache.use(*mems[4]).ok());
    EXPECT_EQ(cache.made(), 5u);  // still there
    EXPECT_TRUE(cache.use(*mems[0]).ok());
    EXPECT_EQ(cache.made(), 6u);
}

TEST(MemCache, BytesAreLimitedToo) {
    Card card;
    MemCache<Card::Reg> cache({.entries = 100, .bytes = 250}, card.make());
    std::vector<std::byte> bytes(1000);
    const Mem one(bytes.data(), 200), two(bytes.data() + 200, 200);
    EXPECT_TRUE(cache.use(one).ok() && cache.use(two).ok());
    EXPECT_EQ(card.registered, 1u);
}

TEST(MemCache, AFailureKeepsNothing) {
    Card card;
    MemCache<Card::Reg> cache({}, card.make());
    std::vector<std::byte> bytes(1000);
    const Mem mem(bytes.data(), 1000);
    card.fails = true;
    EXPECT_EQ(cache.use(mem).status(), Status(-ENOMEM));
    card.fails = false;
    EXPECT_TRUE(cache.use(mem).ok());
}

TEST(MemCache, MemsMayLiveLongerThanTheCache) {
    Card card;
    std::vector<std::byte> bytes(1000);
    const Mem mem(bytes.data(), 1000);
    for (int i = 0; i < 3; ++i) {
        MemCache<Card::Reg> cache({}, card.make());
        EXPECT_TRUE(cache.use(mem).ok());
        EXPECT_EQ(card.registered, 1u);
    }
    EXPECT_EQ(card.registered, 0u);
}

// Row 7.4: what is unmapped is never taken for what is mapped there next.
TEST(MemCache, Row7_4_NewMemoryAtAnOldAddress) {
    Card card;
    MemCache<Card::Reg> cache({.entries = 8, .bytes = 1 << 20}, card.make());
    const Pages place(1 << 16);
    for (u64 life = 1; life <= 100'000; ++life) {
        card.life = life;
        const Pages pages(4096 * (1 + life % 4), place.start);
        pages.data()[0] = static_cast<std::byte>(life);
        const Mem mem(pages.data(), static_cast<u32>(pages.bytes));
        const auto use = cache.use(mem);
        ASSERT_TRUE(use.ok());
        ASSERT_EQ(use->entries()[0]->reg().life, life);
    }
    EXPECT_EQ(card.registered, 0u);
}

}  // namespace
}  // namespace ulnet

namespace ulnet::ofi {
namespace {

// The same with providers: the bytes of the last mapping arrive, also beside children that run on
// copies of all memory.
TEST(OfiMemory, Row7_4_MapsAndForks) {
    for (const Provider provider : {Provider::shm, Provider::tcp}) {
        World world(provider);
        const auto a = world.node(1), b = world.node(2);
        const Pages place(1 << 20);
        for (u64 round = 1; round <= 200; ++round) {
            const Pages pages(1 << 17, place.start);
            auto msg = put(1, 2, round, 0);
            msg->mem = Mem(pages.data(), static_cast<u32>(pages.bytes));
            msg->payload = {&msg->mem, 0, msg->mem.size()};
            msg->hdr.payload_length = msg->mem.size();
            sock::fill(msg->payload, round);
            pid_t child = -1;
            if (round % 50 == 0 && (child = ::fork()) == 0)
                ::_exit(pages.data()[5] == pages.data()[5]);
            a->send(msg);
            ASSERT_TRUE(a->core.wait([&] { return msg->finished == 1; }));
            ASSERT_TRUE(msg->status.ok());
            msg->mem = Mem();
            if (child > 0) ::waitpid(child, nullptr, 0);
        }
        ASSERT_TRUE(b->core.wait([&] { return b->core.received_ok == 200; }));
        EXPECT_EQ(b->core.held()->wrong_bytes, 0u);
    }
}

}  // namespace
}  // namespace ulnet::ofi
