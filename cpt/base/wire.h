// The codec kit: a wire structure is a plain struct with one list of its fields; size, offsets,
// decoding, encoding and comparison all come from that list.
//
//   struct Put {
//       Le<u64> match_bits; u32 count;
//       template <class F> static constexpr void fields(F&& f) {
//           f("match_bits", &Put::match_bits); f("count", &Put::count);
//       }
//       bool operator==(const Put&) const = default;
//   };
//   static_assert(wire_size<Put>() == 12 && wire_offset<Put>("count") == 8);
//
// Classes of fields: u8, u16, u32, u64, i32, i64 = in the order of the sender (the receiver
// detects it by a magic number and says so to the Reader); Le<T>, Be<T> = fixed order; Opaque<T> =
// the bytes of a T in this machine's memory, never swapped; std::array<u8, N> and
// std::array<char, N> = bytes as they are; any struct with fields() = its fields in turn. Nothing
// is padded. Structs are values: no casts of packed memory anywhere.
//
// Readers and Writers check every bound, stick at the first error and never read or write past
// their span. They are used by one thread and own nothing.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "cpt/base/types.h"

namespace ulnet {

enum class Order : u8 { little, big };
constexpr Order native_order =
    std::endian::native == std::endian::little ? Order::little : Order::big;
constexpr Order other(Order order) {
    return order == Order::little ? Order::big : Order::little;
}

template <class T> struct Le {
    T value{};
    constexpr operator T() const { return value; }
    constexpr Le& operator=(T v) {
        value = v;
        return *this;
    }
    friend constexpr bool operator==(const Le&, const Le&) = default;
};
template <class T> struct Be {
    T value{};
    constexpr operator T() const { return value; }
    constexpr Be& operator=(T v) {
        value = v;
        return *this;
    }
    friend constexpr bool operator==(const Be&, const Be&) = default;
};
template <class T> struct Opaque {
    T value{};
    constexpr operator T() const { return value; }
    constexpr Opaque& operator=(T v) {
        value = v;
        return *this;
    }
    friend constexpr bool operator==(const Opaque&, const Opaque&) = default;
};

namespace wire_detail {

template <class T> constexpr bool is_le = false;
template <class T> constexpr bool is_le<Le<T>> = true;
template <class T> constexpr bool is_be = false;
template <class T> constexpr bool is_be<Be<T>> = true;
template <class T> constexpr bool is_opaque = false;
template <class T> constexpr bool is_opaque<Opaque<T>> = true;
template <class T> constexpr bool is_bytes = false;
template <std::size_t N> constexpr bool is_bytes<std::array<u8, N>> = true;
template <std::size_t N> constexpr bool is_bytes<std::array<char, N>> = true;

template <std::integral T> T load(const std::byte* at, Order order) {
    std::make_unsigned_t<T> value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        const std::size_t byte = order == Order::little ? sizeof(T) - 1 - i : i;
        value = static_cast<std::make_unsigned_t<T>>((static_cast<u64>(value) << 8) |
                                                     static_cast<u64>(at[byte]));
    }
    return static_cast<T>(value);
}
template <std::integral T> void store(std::byte* at, T value, Order order) {
    auto rest = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        const std::size_t byte = order == Order::little ? i : sizeof(T) - 1 - i;
        at[byte] = static_cast<std::byte>(rest & 0xff);
        rest = static_cast<std::make_unsigned_t<T>>(static_cast<u64>(rest) >> 8);
    }
}

}  // namespace wire_detail

// Bytes that a T takes on the wire.
template <class T> constexpr std::size_t wire_size() {
    using namespace wire_detail;
    if constexpr (std::integral<T> || is_le<T> || is_be<T> || is_opaque<T> || is_bytes<T>) {
        return sizeof(T);
    } else {
        std::size_t total = 0;
        T::fields([&]<class Field>(std::string_view, Field T::*) { total += wire_size<Field>(); });
        return total;
    }
}

// Offset of a named field of T, or size_t(-1) when there is none.
template <class T> constexpr std::size_t wire_offset(std::string_view wanted) {
    std::size_t total = 0;
    std::size_t found = static_cast<std::size_t>(-1);
    T::fields([&]<class Field>(std::string_view name, Field T::*) {
        if (name == wanted) found = total;
        total += wire_size<Field>();
    });
    return found;
}

class Reader {
 public:
    explicit Reader(std::span<const std::byte> bytes, Order sender = native_order)
        : rest_(bytes), sender_(sender) {}
    bool ok() const { return ok_; }
    std::size_t remaining() const { return rest_.size(); }
    Order sender() const { return sender_; }
    void set_sender(Order order) { sender_ = order; }
    void fail() { ok_ = false; }

    // Reads one value or structure; false (and the Reader stays failed) when bytes are missing.
    template <class T> bool read(T& out) {
        using namespace wire_detail;
        if constexpr (std::integral<T>) {
            if (!need(sizeof(T))) return false;
            out = load<T>(rest_.data(), sender_);
            rest_ = rest_.subspan(sizeof(T));
        } else if constexpr (is_le<T> || is_be<T>) {
            if (!need(sizeof(T))) return false;
            out.value =
                load<decltype(out.value)>(rest_.data(), is_le<T> ? Order::little : Order::big);
            rest_ = rest_.subspan(sizeof(T));
        } else if constexpr (is_opaque<T> || is_bytes<T>) {
            if (!need(sizeof(T))) return false;
            std::memcpy(&out, rest_.data(), sizeof(T));
            rest_ = rest_.subspan(sizeof(T));
        } else {
            T::fields([&]<class Field>(std::string_view, Field T::*field) { read(out.*field); });
        }
        return ok_;
    }
    // A view of the next `count` bytes; empty when they are missing.
    std::span<const std::byte> bytes(std::size_t count) {
        if (!need(count)) return {};
        auto view = rest_.first(count);
        rest_ = rest_.subspan(count);
        return view;
    }

 private:
    bool need(std::size_t count) {
        if (ok_ && rest_.size() < count) ok_ = false;
        return ok_;
    }
    std::span<const std::byte> rest_;
    Order sender_;
    bool ok_ = true;
};

class Writer {
 public:
    explicit Writer(std::span<std::byte> bytes, Order sender = native_order)
        : all_(bytes), sender_(sender) {}
    bool ok() const { return ok_; }
    // Bytes written so far.
    std::size_t size() const { return used_; }

    template <class T> bool write(const T& value) {
        using namespace wire_detail;
        if constexpr (std::integral<T>) {
            if (!need(sizeof(T))) return false;
            store(all_.data() + used_, value, sender_);
            used_ += sizeof(T);
        } else if constexpr (is_le<T> || is_be<T>) {
            if (!need(sizeof(T))) return false;
            store(all_.data() + used_, value.value, is_le<T> ? Order::little : Order::big);
            used_ += sizeof(T);
        } else if constexpr (is_opaque<T> || is_bytes<T>) {
            if (!need(sizeof(T))) return false;
            std::memcpy(all_.data() + used_, &value, sizeof(T));
            used_ += sizeof(T);
        } else {
            T::fields([&]<class Field>(std::string_view, Field T::*field) { write(value.*field); });
        }
        return ok_;
    }
    bool zeros(std::size_t count) {
        if (!need(count)) return false;
        std::memset(all_.data() + used_, 0, count);
        used_ += count;
        return true;
    }

 private:
    bool need(std::size_t count) {
        if (ok_ && all_.size() - used_ < count) ok_ = false;
        return ok_;
    }
    std::span<std::byte> all_;
    std::size_t used_ = 0;
    Order sender_;
    bool ok_ = true;
};

}  // namespace ulnet
