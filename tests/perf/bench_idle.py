"""A fresh lnetd with one tcp NI that nobody talks to, beside what it may need at the most: 1 % of a
core and 40 MiB.
"""
import time

import faults
import lib
import measure

ADDRESSES = ()
CPU_PERCENT_MAX, RSS_MIB_MAX = 1.0, 40.0


def main(quick):
    seconds = 1 if quick else 5
    node = lib.Daemon("127.0.0.1@tcp")

    def cpu_percent():
        begin, used = time.monotonic(), faults.cpu_s(node)
        time.sleep(seconds)
        return 100 * (faults.cpu_s(node) - used) / (time.monotonic() - begin)

    measure.side_by_side("idle.cpu", "% of a core", cpu_percent, lambda: CPU_PERCENT_MAX,
                         2 if quick else measure.ROUNDS)
    measure.side_by_side("idle.rss", "MiB", lambda: faults.rss_kib(node) / 1024,
                         lambda: RSS_MIB_MAX, 2 if quick else measure.ROUNDS)
    node.stop()
