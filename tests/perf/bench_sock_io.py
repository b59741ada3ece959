"""io_uring (ours) beside epoll (reference) as what tells lnetd of ready sockets, on loopback.

Two pairs of daemons that differ in --sock-io only run the same lst bench in turn: 1 MiB writes
(MiB/s), 4 KiB reads (RPCs a second), and the median round trip of a ping RPC (microseconds).
"""
import bench_lst
import lib
import measure

ADDRESSES = ()
PAIRS = {"epoll": ("127.0.0.1@tcp", "127.0.0.2@tcp"),
         "io_uring": ("127.0.0.3@tcp", "127.0.0.4@tcp")}


def main(quick):
    seconds = 0.5 if quick else 2
    rounds = 2 if quick else measure.ROUNDS
    daemons = {io: [lib.Daemon(nid, extra=("--sock-io", io)) for nid in pair]
               for io, pair in PAIRS.items()}

    def figure(io, test, size, key):
        return bench_lst.lst_bench(daemons[io][0], test, size, seconds, *PAIRS[io])[key]

    for io in PAIRS:
        figure(io, "write", "1M", "mib_per_s")  # connections up, pages touched
    for name, unit, what in (("write.1M", "MiB/s", ("write", "1M", "mib_per_s")),
                             ("read.4K", "RPC/s", ("read", "4K", "rpc_per_s")),
                             ("ping_latency", "us", ("ping", "4K", "p50_us"))):
        measure.side_by_side(f"sock_io.{name}", unit, lambda what=what: figure("io_uring", *what),
                             lambda what=what: figure("epoll", *what), rounds)
    for pair in daemons.values():
        for daemon in pair:
            daemon.stop()
