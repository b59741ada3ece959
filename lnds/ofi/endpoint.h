// One libfabric endpoint with its queue and addresses: reliable datagrams, messages and reads. All
// that knows libfabric's calls. One thread at a time, whoever it is (the owner has a lock).
#pragma once

#include <rdma/fi_domain.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "cpt/base/result.h"
#include "cpt/mem.h"

struct fid_ep;
struct fid_cq;
struct fid_av;

namespace ulnet::ofi {

enum class Provider : u8 { tcp, shm, net, verbs };
std::string_view name_of(Provider);
// Which way payload moves: written by who has it, or read by who wants it. Reading, where a writer
// could not be stopped (shm) or is slower (net): docs/adr/0005-ofi-direction.md.
constexpr bool writes(Provider provider) {
    return provider == Provider::tcp || provider == Provider::verbs;
}

// An operation under way; libfabric keeps a pointer to it until its completion.
struct Op {
    fi_context2 context{};  // first
    enum class Kind : u8 { send, receive, read, write } kind = Kind::send;
};

struct Completion {
    Op* op = nullptr;
    Status status;              // what the provider says of a failed one
    std::byte* data = nullptr;  // a message that came: where and how long it is
    std::size_t bytes = 0;
    bool released = false;  // a buffer for messages is used up
};

// A registered range. Destroying it undoes that; both with the endpoint's lock.
class Region {
 public:
    Region(fid_mr* mr, u64 address, std::mutex& lock) : mr_(mr), address_(address), lock_(&lock) {}
    Region(Region&& other) noexcept
        : mr_(std::exchange(other.mr_, nullptr)), address_(other.address_), lock_(other.lock_) {}
    ~Region();
    u64 key() const { return fi_mr_key(mr_); }
    u64 address() const { return address_; }  // for the peer

 private:
    fid_mr* mr_;
    u64 address_;
    std::mutex* lock_;
};

class Endpoint {
 public:
    // `address`: "HOST:PORT" of an interface, or a name (shm). `why`: one sentence. The lock guards
    // the endpoint from now on: it is held for all calls but those that say otherwise.
    static Result<std::unique_ptr<Endpoint>> open(Provider, const std::string& address,
                                                  std::mutex& lock, std::string& why);
    ~Endpoint();

    // A peer's place, to be removed once. EINVAL: no address of this provider; ENOENT: nobody is
    // there (shm alone knows).
    Result<u64> insert(const std::string& address);
    // Ends the connection with it, if there is one.
    void remove(u64 place);

    // Ends all connections and operations, without completions; only regions may be used after it.
    void shut();

    // EAGAIN: later. The bytes and the Op stay until the completion.
    Status send(Op&, std::span<const std::byte>, u64 place);
    // Between the pieces, at most pieces_max() of them, and the peer's memory from `address` on;
    // which way says the Op. What is sent after a write comes after its data.
    Status move(Op&, std::span<const iovec>, u64 address, u64 key, u64 place);
    Status give_buffer(Op&, std::span<std::byte>);
    unsigned pieces_max() const;

    // Does what the provider has to do, and tells what has ended.
    unsigned poll(std::span<Completion>);
    // Readable when poll() would find something, once may_wait() was true. -1: there is none.
    int wait_fd() const { return wait_fd_; }
    // False: there is something already.
    bool may_wait();

    // Takes the lock itself.
    Result<Region> expose(std::byte* base, u64 len);

 private:
    explicit Endpoint(std::mutex& lock) : lock_(lock) {}
    Status open_all(Provider, const std::string& address, std::string& why);
    std::string full_name(const std::string& address) const;
    unsigned take_errors(std::span<Completion>);

    std::mutex& lock_;
    Provider provider_ = Provider::tcp;
    fi_info* info_ = nullptr;
    fid_fabric* fabric_ = nullptr;
    fid_domain* domain_ = nullptr;
    fid_cq* cq_ = nullptr;
    fid_av* av_ = nullptr;
    fid_ep* ep_ = nullptr;
    int wait_fd_ = -1;
    u64 next_key_ = 1;  // never used twice
};

}  // namespace ulnet::ofi
