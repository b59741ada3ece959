#!/usr/bin/env python3
"""A peer that dies, restarts, stands still or stops reading, in the middle of bulk traffic.

Every case says with which errno the operations under way end, and ends with the same check: nothing
is held any more, descriptors and memory are back, and traffic goes on well. With ULNET_LONG=1 the
times are those of the protocol (docs/testing.md, nightly).
"""
import os
import signal
import time

import golden_play
import lib
from faults import (BulkNode, Before, LONG, OK, REFUSED, RESET, TIMED_OUT, counter, cpu_s,
                    descriptors, ni_of, only, switches, work_well)

A, B, PLAYED = "127.0.0.1@tcp", "127.0.0.2@tcp", "127.0.0.3"
LONG_WAIT_S = 300
# No answer to what was sent, and nobody left to send it to.
SHORT_LIFE = {"transaction_timeout": 4}


def pair(tunables=None, options=None):
    """Two nodes that have talked, and what each holds now."""
    a, b = BulkNode(A, tunables, options=options), BulkNode(B, tunables)
    work_well(a, b)
    work_well(b, a)
    a.command("reset")
    return a, b, Before(a)


def again(a, before, b=None):
    """The peer is back: all is as it was."""
    b = b or BulkNode(B)
    b.lnetctl("ping", A)  # a backs off; b dials at once
    work_well(a, b)
    work_well(b, a)
    before.back()
    b.stop()
    a.stop()


def killed_in_mid_bulk():
    a, b, before = pair()
    a.start("put", b)
    a.wait_ok(100)
    b.kill()
    only(a.wait(), (RESET, REFUSED), 8, least=(RESET,))
    again(a, before)


def killed_with_answers_owed():
    # What was sent waits for its ACK or REPLY until the transaction time-out; what was not yet,
    # ends with the connection.
    a, b, before = pair(options=SHORT_LIFE)
    a.start("get", b)
    a.start("ack", b)
    a.wait_ok(100)
    os.kill(b.process.pid, signal.SIGSTOP)
    lib.wait_for(lambda: a.show("stats", "show")["statistics"]["rst_alloc"] >= 8, "GETs out")
    b.kill()
    only(a.wait(), (RESET, REFUSED, TIMED_OUT), 16, least=(TIMED_OUT,))
    assert a.show("stats", "show")["statistics"]["response_timeout_count"] >= 1
    again(a, before)


def restarted_in_mid_bulk():
    # GETs whose request had been taken wait for the answer until the transaction time-out.
    a, b, before = pair(options=SHORT_LIFE)
    a.start("put", b)
    a.start("get", b)
    a.wait_ok(100)
    b.stop()
    only(a.wait(), (RESET, REFUSED, TIMED_OUT), 16, least=(RESET,))
    again(a, before)


def stop(node, idle_s, of):
    """SIGSTOP, until `of` has seen its bulk connection stand still for so long."""
    os.kill(node.process.pid, signal.SIGSTOP)

    def stands_still():
        conns = ni_of(of)["driver"]["connections"]
        return any(c["queued_bytes"] > 0 and c["idle_s"] >= idle_s for c in conns)
    lib.wait_for(stands_still, "a connection that stands still", LONG_WAIT_S)


def go_on(node):
    os.kill(node.process.pid, signal.SIGCONT)


def stopped_for_less_than_the_time_out():
    # 10 s of 50 s: nothing fails.
    a, b, before = pair({} if LONG else {"timeout": 10})
    for kind in ("put", "ack", "get"):
        a.start(kind, b)
    a.wait_ok(100)
    stop(b, 10 if LONG else 2, a)
    go_on(b)
    a.wait_ok(100)
    ends = a.rest()
    assert set(ends) == {OK}, f"operations ended {ends}"
    assert counter(a, "timeouts") == 0 and counter(a, "connections_lost") == 0
    again(a, before, b)


def stopped_for_longer_than_the_time_out():
    # 90 s of 50 s: what is under way ends with ETIMEDOUT.
    a, b, before = pair({} if LONG else {"timeout": 2})
    begin = time.monotonic()
    a.start("put", b)
    a.wait_ok(100)
    os.kill(b.process.pid, signal.SIGSTOP)
    only(a.wait(LONG_WAIT_S), (TIMED_OUT,), 8)
    assert counter(a, "timeouts") == 1
    # Another one while the peer, whose kernel accepts, does not answer the HELLO.
    a.command("reset")
    a.start("put", b)
    only(a.wait(LONG_WAIT_S), (TIMED_OUT,), 8)
    lib.wait_for(lambda: time.monotonic() - begin > (90 if LONG else 0), "90 s", LONG_WAIT_S)
    go_on(b)
    again(a, before, b)


def row_3_10_connecting_to_a_stopped_peer_leaves_no_sockets():
    # Its kernel accepts, nobody answers the HELLO; attempt after attempt.
    a, b, before = pair({"timeout": 1})
    at_peer = Before(b)
    os.kill(b.process.pid, signal.SIGSTOP)
    a.start("put", b)
    only(a.wait(), (TIMED_OUT,), 8)
    lib.wait_for(lambda: times_out(a, b) and counter(a, "connect_failures") >= 3,
                 "three attempts to connect to fail")
    lib.wait_for(lambda: descriptors(a) <= before.descriptors - 3, "no socket to be left")
    lib.wait_for(lambda: orphans() == 0, "no socket without a process")
    go_on(b)
    b.lnetctl("ping", A)
    work_well(a, b)
    work_well(b, a)
    before.back()
    at_peer.back()
    b.stop()
    a.stop()


def times_out(a, b):
    """A put ends by the clock, not because connecting is not tried again yet."""
    a.command("reset")
    a.start("put", b, slots=1, size=100, count=1)
    return TIMED_OUT in a.wait()


def orphans():
    """TCP sockets of this namespace that no process has."""
    with open("/proc/net/sockstat") as file:
        words = next(line for line in file if line.startswith("TCP:")).split()
    return int(words[words.index("orphan") + 1])


def row_3_11_a_receiver_that_stops_reading():
    # The sender neither spins nor talks: it sleeps until the time-out, which is told once.
    a = BulkNode(A, {"timeout": 3})
    b = BulkNode(B)
    work_well(a, b)
    a.command("reset")
    before = Before(a)
    player = golden_play.Player("127.0.0.1", golden_play.hello_of_01())
    player.listen(PLAYED)
    a.start("put", PLAYED + "@tcp", slots=1, size=100, count=1)
    a.wait()
    lib.wait_for(lambda: len(player.conns) == 3, "the three connections")
    for conn in player.conns.values():
        conn.pause()
    a.command("reset")
    lines = len(a.log_text().splitlines())
    a.start("put", PLAYED + "@tcp", slots=8)
    lib.wait_for(lambda: blocked(a), "the sender to be blocked")
    slept, used = switches(a), cpu_s(a)
    ends = a.wait()
    slept, used = switches(a) - slept, cpu_s(a) - used
    only(ends, (TIMED_OUT,), 8)
    said = a.log_text().splitlines()[lines:]
    assert len(said) == 1 and "no progress" in said[0], said
    # Its clock ticks every 25 ms (min_reconnectms / 2), for 3 s and two ticks; each tick wakes a
    # handful of threads once.
    assert slept < 3000, f"{slept} wake-ups while blocked"
    assert used < (1 if lib.sanitizer() else 0.06), f"{used} s of CPU time while blocked"
    player.close()
    work_well(a, b)
    before.back()
    b.stop()
    a.stop()


def blocked(node):
    seen = [(c["tx_bytes"], c["queued_bytes"]) for c in ni_of(node)["driver"]["connections"]
            if c["queued_bytes"] > 0]
    if not seen:
        return False
    return seen == [(c["tx_bytes"], c["queued_bytes"])
                    for c in ni_of(node)["driver"]["connections"] if c["queued_bytes"] > 0]


if __name__ == "__main__":
    lib.enter(*[f"127.0.0.{n}" for n in range(2, 4)])
    lib.cases(killed_in_mid_bulk, killed_with_answers_owed, restarted_in_mid_bulk,
              stopped_for_less_than_the_time_out, stopped_for_longer_than_the_time_out,
              row_3_10_connecting_to_a_stopped_peer_leaves_no_sockets,
              row_3_11_a_receiver_that_stops_reading)
