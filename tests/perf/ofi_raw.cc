// Reference for the libfabric driver: `ofi_raw PROVIDER write|read|ping DEPTH BYTES SECONDS`. Two
// processes of one reliable datagram endpoint each. write and read: RMA of BYTES, DEPTH at a time,
// each between a buffer of its own here and one there. ping: messages of BYTES to and fro. Prints
// MiB/s and operations a second, or the median one-way time, as JSON.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void must(bool good, const char* what) {
    if (good) return;
    std::fprintf(stderr, "ofi_raw: %s failed\n", what);
    std::exit(1);
}

struct Options {
    std::string provider, test;
    std::size_t depth, bytes;
    std::chrono::duration<double> limit;
};

// What one process tells the other.
struct Card {
    std::array<char, 512> name;
    std::size_t name_bytes;
    static constexpr std::size_t depth_max = 64;
    std::array<std::uint64_t, depth_max> addresses, keys;
};

struct Buffer {
    std::vector<char> bytes;
    fid_mr* mr = nullptr;
    fi_context2 context{};
    void* desc = nullptr;
};

class Side {
 public:
    Side(const Options& options, bool client) {
        fi_info* hints = fi_allocinfo();
        hints->caps = FI_MSG | FI_RMA;
        hints->mode = FI_CONTEXT | FI_CONTEXT2;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->threading = FI_THREAD_DOMAIN;
        hints->domain_attr->mr_mode =
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        hints->fabric_attr->prov_name = strdup(options.provider.c_str());
        const bool shm = options.provider == "shm";
        const std::string name =
            "ulnet-raw-" + std::to_string(client ? getpid() : getppid()) + (client ? "c" : "s");
        must(fi_getinfo(FI_VERSION(1, 17), shm ? name.c_str() : "127.0.0.1", nullptr, FI_SOURCE,
                        hints, &info_) == 0,
             "fi_getinfo");
        fi_freeinfo(hints);
        must(fi_fabric(info_->fabric_attr, &fabric_, nullptr) == 0, "fi_fabric");
        must(fi_domain(fabric_, info_, &domain_, nullptr) == 0, "fi_domain");
        fi_cq_attr cq{};
        cq.format = FI_CQ_FORMAT_CONTEXT;
        cq.size = 1024;
        must(fi_cq_open(domain_, &cq, &cq_, nullptr) == 0, "fi_cq_open");
        fi_av_attr av{};
        must(fi_av_open(domain_, &av, &av_, nullptr) == 0, "fi_av_open");
        must(fi_endpoint(domain_, info_, &ep_, nullptr) == 0, "fi_endpoint");
        must(fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV) == 0, "binding the queue");
        must(fi_ep_bind(ep_, &av_->fid, 0) == 0, "binding the addresses");
        must(fi_enable(ep_) == 0, "fi_enable");
        buffers_.resize(options.depth);
        for (std::size_t i = 0; i < buffers_.size(); ++i) prepare(buffers_[i], options.bytes, i);
    }
    Card card() {
        Card card{};
        card.name_bytes = card.name.size();
        must(fi_getname(&ep_->fid, card.name.data(), &card.name_bytes) == 0, "fi_getname");
        for (std::size_t i = 0; i < buffers_.size(); ++i) {
            const bool by_address = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
            card.addresses[i] =
                by_address ? reinterpret_cast<std::uint64_t>(buffers_[i].bytes.data()) : 0;
            card.keys[i] = fi_mr_key(buffers_[i].mr);
        }
        return card;
    }
    void meet(const Card& card) {
        peer_ = card;
        must(fi_av_insert(av_, card.name.data(), 1, &there_, 0, nullptr) == 1, "fi_av_insert");
    }
    // Posts until it is taken.
    template <class Post> void post(Post operation) {
        for (;;) {
            const auto done = operation();
            if (done == 0) return;
            must(done == -FI_EAGAIN, "posting");
            progress();
        }
    }
    void transfer(std::size_t i, bool write) {
        Buffer& b = buffers_[i];
        post([&] {
            return write ? fi_write(ep_, b.bytes.data(), b.bytes.size(), b.desc, there_,
                                    peer_.addresses[i], peer_.keys[i], &b.context)
                         : fi_read(ep_, b.bytes.data(), b.bytes.size(), b.desc, there_,
                                   peer_.addresses[i], peer_.keys[i], &b.context);
        });
    }
    void send(std::size_t i) {
        Buffer& b = buffers_[i];
        post([&] {
            return fi_send(ep_, b.bytes.data(), b.bytes.size(), b.desc, there_, &b.context);
        });
    }
    void receive(std::size_t i) {
        Buffer& b = buffers_[i];
        post([&] {
            return fi_recv(ep_, b.bytes.data(), b.bytes.size(), b.desc, FI_ADDR_UNSPEC, &b.context);
        });
    }
    // The buffer whose operation has ended, or -1.
    int progress() {
        fi_cq_entry entry{};
        const auto got = fi_cq_read(cq_, &entry, 1);
        if (got == -FI_EAGAIN) return -1;
        must(got == 1, "an operation");
        for (std::size_t i = 0; i < buffers_.size(); ++i)
            if (entry.op_context == &buffers_[i].context) return static_cast<int>(i);
        must(false, "finding an operation");
        return -1;
    }
    int next() {
        int done = -1;
        while (done < 0) done = progress();
        return done;
    }

 private:
    void prepare(Buffer& b, std::size_t bytes, std::size_t i) {
        b.bytes.assign(bytes, static_cast<char>(i));
        must(fi_mr_reg(domain_, b.bytes.data(), bytes,
                       FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                       i + 1, 0, &b.mr, nullptr) == 0,
             "fi_mr_reg");
        b.desc = fi_mr_desc(b.mr);
    }

    fi_info* info_ = nullptr;
    fid_fabric* fabric_ = nullptr;
    fid_domain* domain_ = nullptr;
    fid_cq* cq_ = nullptr;
    fid_av* av_ = nullptr;
    fid_ep* ep_ = nullptr;
    std::vector<Buffer> buffers_;
    Card peer_{};
    fi_addr_t there_ = 0;
};

struct Pipe {
    Pipe() { must(pipe(ends) == 0, "pipe"); }
    template <class T> void put(const T& value) {
        must(write(ends[1], &value, sizeof value) == sizeof value, "telling the other process");
    }
    template <class T> T take() {
        T value;
        must(read(ends[0], &value, sizeof value) == sizeof value, "hearing the other process");
        return value;
    }
    int ends[2];
};

// Ends when its parent ends it.
[[noreturn]] void serve(const Options& options, Pipe& from, Pipe& to) {
    Side side(options, false);
    to.put(side.card());
    side.meet(from.take<Card>());
    if (options.test != "ping")
        for (;;) side.progress();
    side.receive(0);
    for (bool sending = false;;) {
        if (side.progress() < 0) continue;
        if (sending)
            side.receive(0);
        else
            side.send(0);
        sending = !sending;
    }
}

void stream(Side& side, const Options& options) {
    std::size_t done = 0;
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < options.depth; ++i) side.transfer(i, options.test == "write");
    const auto end = begin + options.limit;
    while (Clock::now() < end) {
        const int i = side.next();
        ++done;
        side.transfer(static_cast<std::size_t>(i), options.test == "write");
    }
    const std::chrono::duration<double> took = Clock::now() - begin;
    const double rate = static_cast<double>(done) / took.count();
    std::printf("{\"mib_per_s\": %.1f, \"ops_per_s\": %.0f}\n",
                rate * static_cast<double>(options.bytes) / (1 << 20), rate);
}

void ping(Side& side, const Options& options) {
    std::vector<double> times;
    const auto end = Clock::now() + options.limit;
    while (Clock::now() < end) {
        const auto begin = Clock::now();
        side.receive(0);
        side.send(1);
        side.next();
        side.next();
        times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
    std::sort(times.begin(), times.end());
    std::printf("{\"one_way_us\": %.3f}\n", times[times.size() / 2] / 2);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) {
        std::fprintf(stderr, "usage: ofi_raw PROVIDER write|read|ping DEPTH BYTES SECONDS\n");
        return 2;
    }
    Options options{argv[1], argv[2], static_cast<std::size_t>(std::atol(argv[3])),
                    static_cast<std::size_t>(std::atol(argv[4])),
                    std::chrono::duration<double>(std::atof(argv[5]))};
    if (options.test == "ping") options.depth = 2;
    must(options.depth >= 1 && options.depth <= Card::depth_max, "a depth of 1 to 64");
    Pipe up, down;
    const pid_t child = fork();
    if (child == 0) serve(options, down, up);
    Side side(options, true);
    down.put(side.card());
    side.meet(up.take<Card>());
    if (options.test == "ping")
        ping(side, options);
    else
        stream(side, options);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::fflush(stdout);
    // libfabric's own end takes seconds when the peer is gone, and leaves what a killed one had.
    for (const char end : {'c', 's'})
        unlink(("/dev/shm/ulnet-raw-" + std::to_string(getpid()) + end + ":0:0").c_str());
    _exit(0);
}
