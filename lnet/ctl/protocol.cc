// Frames and places of the control protocol. Server (a worker) and client (any thread).
#include "lnet/ctl/protocol.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "cpt/base/wire.h"

namespace ulnet::ctl {
namespace {

constexpr std::size_t name_max = 64;
constexpr std::string_view root_folder = "/run/lnet";

std::string in_folder(std::string_view folder, std::string_view name) {
    return std::string(folder) + "/" + std::string(name) + ".sock";
}

}  // namespace

bool good_node_name(std::string_view name) {
    return !name.empty() && name.size() <= name_max && name.front() != '.' &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-") == name.npos;
}

std::string node_name_allowed() {
    return "1 ... " + std::to_string(name_max) +
           " letters, digits, '.', '_' and '-', not beginning with '.'";
}

std::string make_frame(std::string_view json) {
    std::byte head[frame_head_bytes];
    Writer writer(head, Order::little);
    writer.write(static_cast<u32>(json.size()));
    std::string frame(reinterpret_cast<const char*>(head), frame_head_bytes);
    frame += json;
    return frame;
}

std::size_t frame_length(std::string_view head) {
    Reader reader(std::as_bytes(std::span(head)), Order::little);
    u32 length = 0;
    reader.read(length);
    return length;
}

Result<std::string> server_socket_path(std::string_view name, std::string& why) {
    if (name.find('/') != name.npos) return std::string(name);
    if (!good_node_name(name)) {
        why = "node '" + std::string(name) + "' is not allowed; allowed: " + node_name_allowed() +
              ", or a path with a '/'";
        return Status(-EINVAL);
    }
    if (::geteuid() == 0) return in_folder(root_folder, name);
    const char* folder = std::getenv("XDG_RUNTIME_DIR");
    if (folder == nullptr || folder[0] != '/') {
        why = "XDG_RUNTIME_DIR is not set, so there is no place for the socket of node '" +
              std::string(name) + "'; name the socket itself by a path";
        return Status(-ENOENT);
    }
    return in_folder(std::string(folder) + "/lnet", name);
}

Result<std::string> client_socket_path(std::string_view name, std::string& why) {
    Result<std::string> own = server_socket_path(name, why);
    if (::geteuid() == 0 || name.find('/') != name.npos) return own;
    if (!own.ok() && own.status().code() != -ENOENT) return own;
    if (own.ok() && ::access(own->c_str(), F_OK) == 0) return own;
    std::string root = in_folder(root_folder, name);
    if (!own.ok() || ::access(root.c_str(), F_OK) == 0) return root;
    return own;
}

}  // namespace ulnet::ctl
