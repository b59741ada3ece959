// Reference for ping latency: `tcp_pingpong BYTES SECONDS` sends BYTES to and fro between two
// processes over one blocking TCP connection on loopback and prints the round trip as JSON.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

bool whole(int fd, std::vector<char>& bytes, bool sending) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t n = sending ? send(fd, bytes.data() + done, bytes.size() - done, 0)
                                  : recv(fd, bytes.data() + done, bytes.size() - done, 0);
        if (n <= 0) return false;
        done += static_cast<std::size_t>(n);
    }
    return true;
}

void echo(int listener, std::size_t bytes) {
    const int fd = accept(listener, nullptr, nullptr);
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    std::vector<char> message(bytes);
    while (whole(fd, message, false) && whole(fd, message, true)) {
    }
    close(fd);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: tcp_pingpong BYTES SECONDS\n");
        return 2;
    }
    const auto bytes = static_cast<std::size_t>(std::atol(argv[1]));
    const std::chrono::duration<double> limit(std::atof(argv[2]));
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        std::perror("tcp_pingpong: listen");
        return 1;
    }
    const pid_t child = fork();
    if (child == 0) {
        echo(listener, bytes);
        _exit(0);
    }
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) {
        std::perror("tcp_pingpong: connect");
        return 1;
    }
    std::vector<char> message(bytes);
    std::vector<double> trips;
    const auto begin = std::chrono::steady_clock::now();
    auto last = begin;
    while (last - begin < limit) {
        if (!whole(fd, message, true) || !whole(fd, message, false)) return 1;
        const auto now = std::chrono::steady_clock::now();
        trips.push_back(std::chrono::duration<double, std::micro>(now - last).count());
        last = now;
    }
    close(fd);
    waitpid(child, nullptr, 0);
    std::sort(trips.begin(), trips.end());
    std::printf("{\"p50_us\": %.2f, \"p99_us\": %.2f, \"trips\": %zu}\n", trips[trips.size() / 2],
                trips[trips.size() * 99 / 100], trips.size());
    return 0;
}
