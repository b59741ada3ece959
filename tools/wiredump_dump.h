// wiredump without its command line: a capture file or hexadecimal bytes to text. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tools/wiredump_talk.h"

namespace ulnet::tools {

// Gives the text in pieces, the last one before it returns. What is wrong with the file is said
// after what could be read of it.
Error dump_capture(ByteSpan file, const TalkOptions&,
                   const std::function<void(std::string_view)>& write);

// Bytes as people paste them: hexadecimal digits, between which blanks, colons, line ends and "0x"
// may stand. EINVAL with the place of what is something else.
Error read_hex(std::string_view text, std::vector<std::byte>& out);

// The bytes are one structure after the other; with some left, or none that fits, the error says
// where.
Error dump_as(const Format&, ByteSpan, Order, const Printing&, std::string& out);

}  // namespace ulnet::tools
