// The decorator. Upcalls and calls are noted on the worker that makes them and passed on; what is
// remembered of a message that comes in is its header, from its arrival to its end.
#include <algorithm>
#include <unordered_map>

#include "lnds/common/wrap.h"
#include "lnds/trace/trace.h"
#include "lnds/trace/wire.h"

namespace ulnet {
namespace {

using namespace trace;

// A message that has arrived.
struct Incoming {
    Hdr hdr;
    ProcessId from;
};

struct TokenKey {
    void* driver;
    u64 id;
    friend bool operator==(const TokenKey&, const TokenKey&) = default;
};
struct TokenHash {
    std::size_t operator()(const TokenKey& key) const {
        return std::hash<void*>()(key.driver) * 31 + std::hash<u64>()(key.id);
    }
};

using Arrived = std::unordered_map<TokenKey, Incoming, TokenHash>;
using Receiving = std::unordered_map<Msg*, Incoming>;
constexpr std::size_t buckets = 4096;

// An entry that can be put into its map without an allocation under the lock.
template <class Map> typename Map::node_type node_of(const typename Map::key_type& key) {
    Map one;
    one.try_emplace(key);
    return one.extract(one.begin());
}

class TraceNi final : public WrapNi {
 public:
    TraceNi(const NiConfig& config, LndUp& up, Sched& sched, TraceFile& file)
        : WrapNi(up), nid_(config.nid), sched_(sched), file_(file),
          interface_(file.add_interface(to_text(config.nid))) {
        arrived_.reserve(buckets);
        receiving_.reserve(buckets);
    }

    void send(Msg& msg) override {
        note({Direction::out, Kind::message}, msg.next_hop, &msg.hdr, msg.payload);
        inner().send(msg);
    }
    void receive(RxToken token, Msg* into, u32 len) override {
        const Incoming known = take({token.driver, token.id}, into);
        if (into == nullptr) note({Direction::in, Kind::discarded}, known.from, &known.hdr, {});
        inner().receive(token, into, len);
    }
    Status park(RxToken token) override {
        const Incoming known = find({token.driver, token.id});
        note({Direction::in, Kind::parked}, known.from, &known.hdr, {});
        return inner().park(token);
    }
    void describe(ctl::Value& out) const override {
        inner().describe(out);
        ctl::Value& trace = out.set("trace", ctl::Value::map());
        file_.describe(trace);
        trace.set("records", records_.load(std::memory_order_relaxed));
        trace.set("dropped", dropped_.load(std::memory_order_relaxed));
    }
    void close(Task& done) override {
        close_done_ = &done;
        inner().close(closed_);
    }

    Status arrived(const Hdr& hdr, const ProcessId& from, RxToken token, RdmaGet get) override {
        const TokenKey key{token.driver, token.id};
        note({Direction::in, Kind::message}, from, &hdr, {});
        {
            Arrived::node_type node = node_of<Arrived>(key);
            node.mapped() = {hdr, from};
            const std::lock_guard guard(lock_);
            arrived_.insert(std::move(node));
        }
        const Status status = up_.arrived(hdr, from, token, get);
        if (!status.ok()) {
            take(key, nullptr);
            note({Direction::in, Kind::finished, 0, status.code()}, from, &hdr, {});
        }
        return status;
    }
    void finished(Msg& msg, Status status, Health health) override {
        Receiving::node_type in;
        {
            const std::lock_guard guard(lock_);
            in = receiving_.extract(&msg);
        }
        const Note how{in ? Direction::in : Direction::out, Kind::finished, static_cast<u8>(health),
                       status.code()};
        if (in)
            note(how, in.mapped().from, &in.mapped().hdr, status.ok() ? msg.payload : MemView{});
        else
            note(how, msg.next_hop, &msg.hdr, {});
        up_.finished(msg, status, health);
    }
    void peer_event(const Nid& nid, PeerEvent event) override {
        note({Direction::none, Kind::peer_event, static_cast<u8>(event)}, {nid, pid_any}, nullptr,
             {});
        up_.peer_event(nid, event);
    }
    void ni_event(NiEvent event) override {
        note({Direction::none, Kind::ni_event, static_cast<u8>(event)}, {}, nullptr, {});
        up_.ni_event(event);
    }

 private:
    struct Note {
        Direction direction;
        Kind kind;
        u8 detail = 0;
        int status = 0;
    };
    class Closed final : public Task {
     public:
        explicit Closed(TraceNi& ni) : ni_(ni) {}
        void run() override {
            ni_.file_.add_statistics(ni_.interface_, ni_.sched_.wall_ns(),
                                     ni_.records_ + ni_.dropped_, ni_.dropped_);
            ni_.close_done_->run();
        }

     private:
        TraceNi& ni_;
    };

    void note(const Note&, const ProcessId& peer, const Hdr*, const MemView& payload);
    Incoming find(const TokenKey& key) {
        const std::lock_guard guard(lock_);
        const auto at = arrived_.find(key);
        return at == arrived_.end() ? Incoming{} : at->second;
    }
    // The message is not waiting any more: it is received, or thrown away (null).
    Incoming take(const TokenKey& key, Msg* into) {
        Arrived::node_type waited;
        Receiving::node_type taken;
        if (into != nullptr) taken = node_of<Receiving>(into);
        const std::lock_guard guard(lock_);
        waited = arrived_.extract(key);
        const Incoming known = waited ? waited.mapped() : Incoming{};
        if (into != nullptr) {
            taken.mapped() = known;
            receiving_.insert(std::move(taken));
        }
        return known;
    }

    const Nid nid_;
    Sched& sched_;
    TraceFile& file_;
    const u32 interface_;
    std::atomic<u64> records_{0}, dropped_{0};
    std::mutex lock_;  // guards: what follows; as many as the driver has messages with the core
    Arrived arrived_;
    Receiving receiving_;
    Task* close_done_ = nullptr;
    Closed closed_{*this};
};

void TraceNi::note(const Note& what, const ProcessId& peer, const Hdr* hdr,
                   const MemView& payload) {
    std::array<std::byte, record_head_bytes + hdr16_bytes> bytes;
    const std::span<std::byte> all(bytes);
    Writer writer(all.first(record_head_bytes));
    RecordHead head;
    head.direction = static_cast<u8>(what.direction);
    head.kind = static_cast<u8>(what.kind);
    head.detail = what.detail;
    head.status = what.status;
    head.ni_nid = nid_.raw();
    head.peer_nid = peer.nid.raw();
    head.peer_pid = peer.pid;
    if (hdr != nullptr) head.payload_length = hdr->payload_length;
    writer.write(head);
    if (hdr != nullptr) encode_hdr16(*hdr, all.last<hdr16_bytes>());
    const u32 flags = what.direction == Direction::in    ? flag_inbound
                      : what.direction == Direction::out ? flag_outbound
                                                         : 0;
    const bool kept = file_.add({interface_, sched_.wall_ns(), flags,
                                 all.first(record_head_bytes + (hdr != nullptr ? hdr16_bytes : 0)),
                                 payload, head.payload_length});
    (kept ? records_ : dropped_).fetch_add(1, std::memory_order_relaxed);
}

class TraceLnd final : public WrapLnd {
 public:
    TraceLnd(std::unique_ptr<Lnd> inner, TraceFile& file)
        : WrapLnd(std::move(inner)), file_(file) {}

 private:
    std::unique_ptr<WrapNi> wrap(const NiConfig& config, LndUp& up, Sched& sched) override {
        return std::make_unique<TraceNi>(config, up, sched, file_);
    }
    TraceFile& file_;
};

}  // namespace

std::unique_ptr<Lnd> make_trace_lnd(std::unique_ptr<Lnd> inner, TraceFile& file) {
    return std::make_unique<TraceLnd>(std::move(inner), file);
}

}  // namespace ulnet
