// libfabric's calls: opening and closing, addresses, operations and their ends.
#include "lnds/ofi/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include "cpt/base/check.h"

namespace ulnet::ofi {
namespace {

constexpr std::string_view names[] = {"tcp;ofi_rxm", "shm", "net", "verbs;ofi_rxm"};
constexpr std::size_t queue_size = 4096;
constexpr unsigned pieces_used_max = 4;
// A buffer for messages is given back when it has less room than this.
constexpr std::size_t room_min = 8192;

Status status_of(i64 code) {
    // libfabric's own codes begin at 256.
    return Status(code > -256 ? static_cast<int>(code) : -EIO);
}

bool parse_host(const std::string& address, sockaddr_in& out) {
    const std::size_t colon = address.rfind(':');
    if (colon == std::string::npos) return false;
    u16 port = 0;
    const char* const end = address.data() + address.size();
    const auto [stop, error] = std::from_chars(address.data() + colon + 1, end, port);
    if (error != std::errc{} || stop != end || port == 0) return false;
    out = {};
    out.sin_family = AF_INET;
    out.sin_port = htons(port);
    return ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &out.sin_addr) == 1;
}

// Of shm: whether the endpoint's memory is there, whole, and its process alive. It begins with a
// version, flags and, written last, the process.
bool is_there(const std::string& name) {
    const int fd = ::open(("/dev/shm/" + name).c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) return false;
    struct {
        u32 version_and_flags;
        i32 process;
    } begin{};
    const bool read = ::pread(fd, &begin, sizeof begin, 0) == sizeof begin;
    ::close(fd);
    return read && begin.process > 0 && (::kill(begin.process, 0) == 0 || errno == EPERM);
}

struct InfoFree {
    void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoFree>;

InfoPtr wanted(Provider provider) {
    InfoPtr hints(fi_allocinfo());
    if (!hints) return hints;
    hints->caps = FI_MSG | FI_RMA | FI_MULTI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    // Not FI_MR_LOCAL: what we send from and read into is the provider's care.
    if (writes(provider)) hints->tx_attr->msg_order = FI_ORDER_SAW;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = ::strdup(std::string(name_of(provider)).c_str());
    return hints;
}

}  // namespace

std::string_view name_of(Provider provider) {
    return names[static_cast<std::size_t>(provider)];
}

Region::~Region() {
    if (mr_ == nullptr) return;
    const std::lock_guard guard(*lock_);
    fi_close(&mr_->fid);
}

Result<std::unique_ptr<Endpoint>> Endpoint::open(Provider provider, const std::string& address,
                                                 std::mutex& lock, std::string& why) {
    std::unique_ptr<Endpoint> made(new Endpoint(lock));
    const Status status = made->open_all(provider, address, why);
    if (!status.ok()) return status;
    return made;
}

// shm adds the user and a number to names of its own making.
std::string Endpoint::full_name(const std::string& address) const {
    return "fi_shm://" + address;
}

Status Endpoint::open_all(Provider provider, const std::string& address, std::string& why) {
    provider_ = provider;
    const auto failed = [&](const char* what, int code) {
        why = std::string(what) + " of provider " + std::string(name_of(provider)) + " at " +
              address + " failed: " + fi_strerror(-code);
        return status_of(code);
    };
    const bool shm = provider == Provider::shm;
    sockaddr_in host{};
    if (!shm && !parse_host(address, host)) {
        why = "'" + address + "' is not allowed as an address of provider " +
              std::string(name_of(provider)) + "; allowed: IPv4:PORT";
        return Status(-EINVAL);
    }
    const InfoPtr hints = wanted(provider);
    if (!hints) return failed("memory", -FI_ENOMEM);
    const std::string node = shm ? address : address.substr(0, address.rfind(':'));
    const std::string service = shm ? "" : address.substr(address.rfind(':') + 1);
    int code = fi_getinfo(FI_VERSION(1, 17), node.c_str(), shm ? nullptr : service.c_str(),
                          FI_SOURCE | (shm ? 0 : FI_NUMERICHOST), hints.get(), &info_);
    if (code != 0) return failed("the endpoint", code);
    if ((code = fi_fabric(info_->fabric_attr, &fabric_, nullptr)) != 0)
        return failed("the fabric", code);
    if ((code = fi_domain(fabric_, info_, &domain_, nullptr)) != 0)
        return failed("the domain", code);
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_DATA;
    cq.size = queue_size;
    cq.wait_obj = shm ? FI_WAIT_NONE : FI_WAIT_FD;
    if ((code = fi_cq_open(domain_, &cq, &cq_, nullptr)) != 0) return failed("the queue", code);
    if (!shm) fi_control(&cq_->fid, FI_GETWAIT, &wait_fd_);
    fi_av_attr av{};
    av.type = FI_AV_TABLE;
    if ((code = fi_av_open(domain_, &av, &av_, nullptr)) != 0) return failed("the table", code);
    if ((code = fi_endpoint(domain_, info_, &ep_, nullptr)) != 0)
        return failed("the endpoint", code);
    std::string name = full_name(address);
    if (shm) fi_setname(&ep_->fid, name.data(), name.size() + 1);
    code = fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV);
    if (code == 0) code = fi_ep_bind(ep_, &av_->fid, 0);
    std::size_t room = room_min;
    if (code == 0) code = fi_enable(ep_);
    // shm 1.17 falls over it before.
    if (code == 0)
        code = fi_setopt(&ep_->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &room, sizeof room);
    return code == 0 ? ok_status : failed("the endpoint", code);
}

Endpoint::~Endpoint() {
    const std::lock_guard guard(lock_);
    if (ep_ != nullptr) fi_close(&ep_->fid);
    if (av_ != nullptr) fi_close(&av_->fid);
    if (cq_ != nullptr) fi_close(&cq_->fid);
    if (domain_ != nullptr) fi_close(&domain_->fid);
    if (fabric_ != nullptr) fi_close(&fabric_->fid);
    if (info_ != nullptr) fi_freeinfo(info_);
}

void Endpoint::shut() {
    fi_close(&ep_->fid);
    ep_ = nullptr;
}

Result<u64> Endpoint::insert(const std::string& address) {
    fi_addr_t place = FI_ADDR_NOTAVAIL;
    sockaddr_in host{};
    int count = 0;
    if (provider_ == Provider::shm) {
        // The other spelling of the same file's name (shm_open): the provider takes peers of its
        // own process by their name, and what it then has of them dangles once they are closed.
        const std::string name = full_name("/" + address);
        // A place where nobody is, and where somebody was: the provider would write to what it has
        // unmapped. So only who is there is told to it.
        if (!is_there(address)) return Status(-ENOENT);
        count = fi_av_insert(av_, name.c_str(), 1, &place, 0, nullptr);
        if (count == 1 && !is_there(address)) {
            remove(place);
            return Status(-ENOENT);
        }
    } else {
        if (!parse_host(address, host)) return Status(-EINVAL);
        count = fi_av_insert(av_, &host, 1, &place, 0, nullptr);
    }
    if (count != 1 || place == FI_ADDR_NOTAVAIL) return Status(-EINVAL);
    return place;
}

void Endpoint::remove(u64 place) {
    fi_addr_t address = place;
    fi_av_remove(av_, &address, 1, 0);
}

Status Endpoint::send(Op& op, std::span<const std::byte> bytes, u64 place) {
    return status_of(fi_send(ep_, bytes.data(), bytes.size(), nullptr, place, &op.context));
}

Status Endpoint::move(Op& op, std::span<const iovec> pieces, u64 address, u64 key, u64 place) {
    const auto call = op.kind == Op::Kind::write ? fi_writev : fi_readv;
    return status_of(
        call(ep_, pieces.data(), nullptr, pieces.size(), place, address, key, &op.context));
}

Status Endpoint::give_buffer(Op& op, std::span<std::byte> bytes) {
    const iovec piece{bytes.data(), bytes.size()};
    fi_msg message{};
    message.msg_iov = &piece;
    message.iov_count = 1;
    message.addr = FI_ADDR_UNSPEC;
    message.context = &op.context;
    return status_of(fi_recvmsg(ep_, &message, FI_MULTI_RECV));
}

unsigned Endpoint::pieces_max() const {
    return std::min<unsigned>(pieces_used_max, static_cast<unsigned>(info_->tx_attr->iov_limit));
}

unsigned Endpoint::poll(std::span<Completion> out) {
    std::array<fi_cq_data_entry, 32> entries;
    const auto got = fi_cq_read(cq_, entries.data(), std::min(out.size(), entries.size()));
    if (got == -FI_EAVAIL) return take_errors(out);
    if (got <= 0) return 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
        const fi_cq_data_entry& entry = entries[i];
        const bool message = (entry.flags & FI_RECV) != 0;
        out[i] = {.op = static_cast<Op*>(entry.op_context),
                  .status = ok_status,
                  .data = message ? static_cast<std::byte*>(entry.buf) : nullptr,
                  .bytes = message ? entry.len : 0,
                  .released = (entry.flags & FI_MULTI_RECV) != 0};
    }
    return static_cast<unsigned>(got);
}

unsigned Endpoint::take_errors(std::span<Completion> out) {
    fi_cq_err_entry error{};
    if (fi_cq_readerr(cq_, &error, 0) != 1) return 0;
    out[0] = {.op = static_cast<Op*>(error.op_context),
              .status = status_of(error.err > 0 ? -error.err : -EIO),
              .released = (error.flags & FI_MULTI_RECV) != 0};
    return 1;
}

bool Endpoint::may_wait() {
    fid* const waits[] = {&cq_->fid};
    return fi_trywait(fabric_, const_cast<fid**>(waits), 1) == FI_SUCCESS;
}

Result<Region> Endpoint::expose(std::byte* base, u64 len) {
    const std::lock_guard guard(lock_);
    fid_mr* mr = nullptr;
    const u64 access = writes(provider_) ? FI_REMOTE_WRITE : FI_REMOTE_READ;
    const int code = fi_mr_reg(domain_, base, len, access, 0, next_key_++, 0, &mr, nullptr);
    if (code != 0) return status_of(code);
    const bool by_address = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    return Region(mr, by_address ? reinterpret_cast<u64>(base) : 0, lock_);
}

}  // namespace ulnet::ofi
