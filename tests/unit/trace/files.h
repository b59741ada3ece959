// Files of the tests: in the system's temporary folder, gone with the object.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ulnet::trace_test {

class TemporaryFile {
 public:
    TemporaryFile() {
        std::string name = (std::filesystem::temp_directory_path() / "ulnet-XXXXXX").string();
        const int fd = ::mkstemp(name.data());
        if (fd >= 0) ::close(fd);
        path_ = name;
    }
    ~TemporaryFile() { std::filesystem::remove(path_); }
    TemporaryFile(const TemporaryFile&) = delete;
    const std::string& path() const { return path_; }

 private:
    std::string path_;
};

inline std::vector<std::byte> contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
    return {bytes, bytes + text.size()};
}

}  // namespace ulnet::trace_test
