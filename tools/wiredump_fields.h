// Texts made of the codec's field lists (cpt/base/wire.h): the values of a structure, and its table
// of offsets. Everything that wiredump knows of a layout comes from there.
#pragma once

#include <string>
#include <string_view>

#include "cpt/base/wire.h"
#include "lnet/nid.h"

namespace ulnet::tools {

// Values, by the name of their field: NIDs and addresses as text, magics and bits in hexadecimal.
std::string number_text(std::string_view name, u64 value, std::size_t bytes);
std::string nid_text(const std::array<u8, Nid::bytes_max>&);
std::string quoted(std::string_view bytes);  // up to the first NUL
std::string hex_text(std::span<const std::byte>);
void offset_row(std::string& out, std::size_t offset, std::size_t size, std::string_view order,
                std::string_view name);

namespace fields_detail {

using namespace wire_detail;

template <class T> constexpr bool is_leaf() {
    return std::integral<T> || is_le<T> || is_be<T> || is_opaque<T> || is_bytes<T>;
}
template <class T> std::string value_text(std::string_view name, const T& value) {
    if constexpr (std::signed_integral<T>) {
        return std::to_string(value);
    } else if constexpr (std::integral<T>) {
        return number_text(name, value, sizeof value);
    } else if constexpr (is_le<T> || is_be<T> || is_opaque<T>) {
        return value_text(name, value.value);
    } else if constexpr (std::is_same_v<T, std::array<u8, Nid::bytes_max>>) {
        return nid_text(value);
    } else if constexpr (std::is_same_v<typename T::value_type, char>) {
        return quoted({value.data(), value.size()});
    } else {
        return hex_text(std::as_bytes(std::span(value)));
    }
}
template <class T> constexpr std::string_view order_text() {
    if constexpr (is_le<T>) return "LE";
    if constexpr (is_be<T>) return "BE";
    if constexpr (is_opaque<T>) return "opaque";
    if constexpr (is_bytes<T>) return "bytes";
    return sizeof(T) == 1 ? "byte" : "sender";
}

}  // namespace fields_detail

// One line a field, "  name: value"; fields of structures within it as "outer.inner".
template <class T>
void print_fields(std::string& out, const T& value, const std::string& prefix = "    ") {
    T::fields([&]<class Field>(std::string_view name, Field T::*field) {
        if constexpr (fields_detail::is_leaf<Field>())
            out += prefix + std::string(name) + ": " +
                   fields_detail::value_text(name, value.*field) + "\n";
        else
            print_fields(out, value.*field, prefix + std::string(name) + ".");
    });
}

// One row a field.
template <class T>
void print_offsets(std::string& out, std::size_t base = 0, const std::string& prefix = "") {
    T::fields([&]<class Field>(std::string_view name, Field T::*) {
        const std::string whole = prefix + std::string(name);
        if constexpr (fields_detail::is_leaf<Field>())
            offset_row(out, base, wire_size<Field>(), fields_detail::order_text<Field>(), whole);
        else
            print_offsets<Field>(out, base, whole + ".");
        base += wire_size<Field>();
    });
}

}  // namespace ulnet::tools
