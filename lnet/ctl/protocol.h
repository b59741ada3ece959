// The control protocol: frames of a little-endian u32 length and that many bytes of JSON, over a
// Unix stream socket. The client speaks first:
//
//   > {"hello": "ulnet", "version": 1}
//   < {"hello": "ulnet", "version": 1, "name": NODE, "pid": PID}
//   > {"id": 7, "object": "net", "verb": "show", "args": {...}}
//   < {"id": 7, "progress": PART}                      any number of times
//   < {"id": 7, "status": 0, "errors": [], "value": RESULT}
//
// status is 0 or a negative errno, errors then holds sentences. Requests of one client may overlap;
// replies come as they are ready. Shared by server and client.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lnet/ctl/bounds.h"
#include "lnet/ctl/value.h"

namespace ulnet::ctl {

constexpr i64 protocol_version = 1;
constexpr std::size_t frame_head_bytes = 4;
constexpr std::size_t request_bytes_max = std::size_t{1} << 20;
constexpr std::size_t reply_bytes_max = text_bytes_max;

std::string make_frame(std::string_view json);
// Length that a frame's first 4 bytes announce.
std::size_t frame_length(std::string_view head);

// 1 to 64 letters, digits, '.', '_' and '-', not beginning with '.'; what is allowed as a sentence.
bool good_node_name(std::string_view name);
std::string node_name_allowed();

// Where the node `name` listens: /run/lnet/NAME.sock for root, $XDG_RUNTIME_DIR/lnet/NAME.sock for
// others; a name with a slash is a path itself. ENOENT, EINVAL: `why` says what is missing.
Result<std::string> server_socket_path(std::string_view name, std::string& why);
// As above; others than root fall back to root's place when their own has no such socket.
Result<std::string> client_socket_path(std::string_view name, std::string& why);

constexpr std::string_view node_name_default = "lnetd";

}  // namespace ulnet::ctl
