#!/usr/bin/env python3
"""A daemon with nothing to do: it sleeps but for its clock, and needs little memory."""
import math
import time

import lib
from faults import cpu_s, rss_kib, switches

A, B = "127.0.0.1@tcp", "127.0.0.2@tcp"
# An NI ticks every half of min_reconnectms, which is 1 s. A tick wakes a few threads, each some
# times; one that looks for work while others are kept off their core may look every 0.5 ms.
TICK_S, WAKE_UPS_A_TICK = 0.5, 60
WAKE_UPS = 30
CPU_SHARE = 0.1 if lib.sanitizer() else 0.01
RSS_KIB = (1024 if lib.sanitizer() else 40) * 1024


def idles(node):
    begin, slept, used = time.monotonic(), switches(node), cpu_s(node)
    lib.wait_for(lambda: switches(node) >= slept + WAKE_UPS, f"{WAKE_UPS} wake-ups")
    slept, used = switches(node) - slept, cpu_s(node) - used
    took = time.monotonic() - begin  # read last: a slow machine makes the bounds wider only
    ticks = math.ceil(took / TICK_S) + 1
    assert slept <= ticks * WAKE_UPS_A_TICK, f"{slept} wake-ups in {ticks} ticks"
    assert used <= CPU_SHARE * took, f"{used} s of CPU time in {took} s"
    assert rss_kib(node) <= RSS_KIB, f"RSS of {rss_kib(node)} KiB"


def fresh():
    node = lib.Daemon(A)
    idles(node)
    node.stop()


def with_io_uring():
    node = lib.Daemon(A, extra=("--sock-io", "io_uring"))
    idles(node)
    node.stop()


def with_connections_open():
    a, b = lib.Daemon(A), lib.Daemon(B)
    for node, nid in ((a, B), (b, A)):
        node.lnetctl("ping", nid)
    idles(a)
    a.stop()
    b.stop()


if __name__ == "__main__":
    lib.enter()
    lib.cases(fresh, with_connections_open, *([with_io_uring] if lib.has_io_uring() else []))
