// The formats that wiredump knows, by name, and the texts of what is in them. Nothing here trusts
// its bytes. Pure functions; one thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cpt/base/result.h"
#include "lnds/sock/wire.h"
#include "lnet/wire/hdr.h"

namespace ulnet::tools {

using ByteSpan = std::span<const std::byte>;

struct Printing {
    bool fields = false;  // below each line, the fields of what it tells
};

// Each appends a text without the end of the line, and the fields behind it; false: it is not that.
struct Format {
    std::string_view name, help;
    // The bytes that it took; 0: it is not that.
    std::size_t (*print)(std::string& out, ByteSpan, Order sender, const Printing&);
    void (*offsets)(std::string& out);
};
std::span<const Format> formats();
const Format* find_format(std::string_view name);

// "PUT 12345-10.77.0.2@tcp > 12345-10.77.0.3@tcp portal 51 ..."
std::string summary(const Hdr&);
std::string summary(const sock::Hello&);
// Lines for what is in a payload, as far as it is known: ping buffers and self test messages by
// their magic; nothing otherwise. `bytes` may be its beginning only.
void print_payload(std::string& out, ByteSpan bytes, std::size_t whole, const Printing&);
void print_hdr(std::string& out, const Hdr&, bool large);          // fields
void print_hello(std::string& out, ByteSpan, const sock::Hello&);  // fields
// A packet of our own trace, without its end of line: "> PUT ... ", and its payload's lines.
bool print_record(std::string& out, ByteSpan, const Printing&);

}  // namespace ulnet::tools
