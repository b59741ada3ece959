// Counters: which outcome counts where, and sums. Any worker.
#include "lnet/stats.h"

namespace ulnet {

TypeCounts to_counts(const ByType& by_type) {
    const auto of = [&](MsgType type) { return by_type[static_cast<u32>(type)]; };
    return {of(MsgType::put), of(MsgType::get), of(MsgType::reply), of(MsgType::ack),
            of(MsgType::hello)};
}

u64 sum(const ByType& by_type) {
    u64 total = 0;
    for (const u64 count : by_type) total += count;
    return total;
}

void count_health(Counters<Count>& counters, Health health) {
    switch (health) {
    case Health::ok:
        return;
    case Health::local_interrupt:
        return counters.add(Count::local_interrupt);
    case Health::local_dropped:
        return counters.add(Count::local_dropped);
    case Health::local_aborted:
        return counters.add(Count::local_aborted);
    case Health::local_no_route:
        return counters.add(Count::local_no_route);
    case Health::local_error:
        return counters.add(Count::local_error);
    case Health::local_timeout:
        return counters.add(Count::local_timeout);
    case Health::remote_error:
        return counters.add(Count::remote_error);
    case Health::remote_dropped:
        return counters.add(Count::remote_dropped);
    case Health::remote_timeout:
        return counters.add(Count::remote_timeout);
    case Health::network_timeout:
        return counters.add(Count::network_timeout);
    }
}

}  // namespace ulnet
