// MemView against flat memory.
#include "cpt/mem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "cpt/base/prng.h"

namespace ulnet {
namespace {

using Bytes = std::vector<std::byte>;

// Memory in pieces, and the same bytes flat.
struct Pieces {
    explicit Pieces(Prng& prng) {
        const u64 count = 1 + prng.below(6);
        std::vector<Frag> frags;
        for (u64 i = 0; i < count; ++i) {
            const u32 len = 1 + static_cast<u32>(prng.below(9));
            blocks.push_back(std::make_unique<std::byte[]>(len));
            frags.push_back({blocks.back().get(), len});
        }
        mem = Mem(frags);
        for (std::size_t i = 0; i < mem.size(); ++i)
            at(i) = static_cast<std::byte>(prng.below(256));
    }
    std::byte& at(std::size_t index) {
        for (const Frag& frag : mem.frags()) {
            if (index < frag.len) return frag.base[index];
            index -= frag.len;
        }
        abort();
    }
    Bytes flat() {
        Bytes all;
        for (std::size_t i = 0; i < mem.size(); ++i) all.push_back(at(i));
        return all;
    }
    // Any part; now and then one that reaches beyond the end.
    MemView part(Prng& prng) {
        const u32 offset = static_cast<u32>(prng.below(mem.size() + 1));
        const u32 len = static_cast<u32>(prng.below(mem.size() - offset + 3));
        return {&mem, offset, len};
    }
    std::vector<std::unique_ptr<std::byte[]>> blocks;
    Mem mem;
};

Bytes expected_of(const Bytes& flat, const MemView& view, u32 skip) {
    const std::size_t end = std::min<std::size_t>(flat.size(), view.offset + view.len);
    const std::size_t begin = std::min<std::size_t>(end, view.offset + skip);
    return Bytes(flat.begin() + static_cast<long>(begin), flat.begin() + static_cast<long>(end));
}

TEST(MemView, GatherGivesTheBytesOfTheView) {
    Prng prng(1);
    for (u32 round = 0; round < 3000; ++round) {
        Pieces pieces(prng);
        const MemView view = pieces.part(prng);
        const u32 skip = static_cast<u32>(prng.below(view.len + 2));
        const Bytes expected = expected_of(pieces.flat(), view, skip);
        // Few iovecs at a time, so that it takes several calls.
        Bytes got;
        u32 at = skip;
        for (;;) {
            std::array<iovec, 2> out;
            const unsigned filled = view.gather(at, out);
            if (filled == 0) break;
            for (unsigned i = 0; i < filled; ++i) {
                ASSERT_GT(out[i].iov_len, 0u);
                const auto* base = static_cast<std::byte*>(out[i].iov_base);
                got.insert(got.end(), base, base + out[i].iov_len);
                at += static_cast<u32>(out[i].iov_len);
            }
        }
        ASSERT_EQ(got, expected);
    }
}

TEST(MemView, CopyOutAndIn) {
    Prng prng(2);
    for (u32 round = 0; round < 3000; ++round) {
        Pieces pieces(prng);
        const MemView view = pieces.part(prng);
        const u32 at = static_cast<u32>(prng.below(view.len + 2));
        Bytes buffer(prng.below(30));
        const Bytes expected = expected_of(pieces.flat(), view, at);
        const u32 copied = view.copy_out(at, buffer);
        ASSERT_EQ(copied, std::min(buffer.size(), expected.size()));
        ASSERT_TRUE(std::equal(buffer.begin(), buffer.begin() + copied, expected.begin()));

        Bytes flat = pieces.flat();
        for (std::byte& byte : buffer) byte = static_cast<std::byte>(prng.below(256));
        ASSERT_EQ(view.copy_in(at, buffer), copied);
        std::copy_n(buffer.begin(), copied, flat.begin() + view.offset + (copied ? at : 0));
        ASSERT_EQ(pieces.flat(), flat);
    }
}

TEST(MemView, CopyViewBetweenShapes) {
    Prng prng(3);
    for (u32 round = 0; round < 3000; ++round) {
        Pieces from(prng), to(prng);
        const MemView source = from.part(prng);
        const MemView target = to.part(prng);
        Bytes expected = to.flat();
        const Bytes bytes = expected_of(from.flat(), source, 0);
        const std::size_t room = expected_of(expected, target, 0).size();
        const u32 count = static_cast<u32>(std::min(bytes.size(), room));
        ASSERT_EQ(copy_view(target, source), count);
        std::copy_n(bytes.begin(), count, expected.begin() + target.offset);
        ASSERT_EQ(to.flat(), expected);
    }
}

TEST(MemView, EmptyAndNone) {
    std::array<iovec, 1> out;
    std::array<std::byte, 4> bytes{};
    const Mem empty;
    const Mem four(bytes.data(), 4);
    EXPECT_EQ((MemView{}.gather(0, out)), 0u);
    EXPECT_EQ((MemView{&empty, 0, 0}.gather(0, out)), 0u);
    EXPECT_EQ((MemView{&four, 0, 4}.gather(0, {})), 0u);
    EXPECT_EQ((MemView{&four, 4, 0}.copy_out(0, bytes)), 0u);
    EXPECT_EQ((MemView{&four, 0xffffffff, 0xffffffff}.copy_out(0, bytes)), 0u);
    EXPECT_EQ((MemView{&four, 1, 0xffffffff}.copy_out(0xfffffffe, bytes)), 0u);
    EXPECT_EQ(copy_view({}, {&four, 0, 4}), 0u);
}

}  // namespace
}  // namespace ulnet
