#!/usr/bin/env python3
"""Replays captures 20, about connections: two kernel nodes with different conns_per_peer, with
checksums enabled, with payloads on both sides of the zero-copy limit, and connecting to each other.

10.77.1.3 is console and test client, 10.77.1.2 the test server; our node takes either place.
"""
import queue

import lib
from golden_play import BULK_IN, BULK_OUT, CONTROL, Player, hello_of_01, load
from replay import Shell, own_discovery, play, without_own_discovery, without_zc_acks_to

SERVER, CLIENT = "10.77.1.2", "10.77.1.3"
HELLO = hello_of_01()
TYPES = (CONTROL, BULK_IN, BULK_OUT)
CROSSING_PINGS = (163, 166, 167, 168)  # records of 20-crossing, round 5: a ping each way
PING, PING_REPLY = 7, 13  # records of 20-cpp-1-vs-4
REFUSALS = 3  # in a row, after which a node is content with what it has
# The kernel numbers batches over all sessions of a node.
MASKS = {8: [(56, 64, "number of the batch")]}
# The tests behind `lst run NAME`, which the captures do not show: the client is the console's own
# node. From their transcripts.
TESTS = {
    "cpp-1-vs-4": {
        "ping": "--loop 5 --from cli --to srv ping",
        "w4k": "--loop 4 --concurrency 2 --from cli --to srv brw write check=simple size=4K",
        "r4k": "--loop 4 --concurrency 2 --from cli --to srv brw read check=full size=4K",
        "w16k": "--loop 3 --from cli --to srv brw write check=full size=16K",
        "w64k": "--loop 4 --concurrency 2 --from cli --to srv brw write check=full size=64K",
        "r64k": "--loop 4 --concurrency 2 --from cli --to srv brw read check=simple size=64K",
    },
    "csum": {
        "ping": "--loop 2 --from cli --to srv ping",
        "w4k": "--loop 2 --from cli --to srv brw write check=full size=4K",
        "r4k": "--loop 2 --from cli --to srv brw read check=full size=4K",
        "w64k": "--loop 2 --from cli --to srv brw write check=full size=64K",
        "r64k": "--loop 2 --from cli --to srv brw read check=full size=64K",
    },
    "zerocopy": {
        "w16k": "--loop 1 --from cli --to srv brw write check=full size=16K",
        "w15k": "--loop 1 --from cli --to srv brw write check=full size=12K",
        "w64k": "--loop 2 --from cli --to srv brw write check=full size=64K",
        "r64k": "--loop 2 --from cli --to srv brw read check=full size=64K",
        "w256k": "--loop 1 --from cli --to srv brw write check=full size=256K",
        "r256k": "--loop 1 --from cli --to srv brw read check=full size=256K",
        "w1m": "--loop 1 --from cli --to srv brw write check=simple size=1M",
    },
}


def records_of(name, under_test):
    """Without discovery of its own; but a ping that was typed stays."""
    records = load(f"20-{name}.jsonl")
    typed = {}  # step -> the ping's GET
    for record in records:
        if under_test == CLIENT and record.get("step", "").startswith("lnetctl ping") and \
                own_discovery(under_test, record):
            typed.setdefault(record["step_no"], record["n"])
    kept = {r["n"] for r in without_own_discovery(under_test, records)}
    kept |= {r["n"] for r in records if r["n"] in typed.values() or r.get("re") in typed.values()}
    return [r for r in records if r["n"] in kept]


def as_server(name, tunables):
    daemon = lib.Daemon(SERVER + "@tcp", tunables)
    player = Player(SERVER, HELLO)
    for ctype in TYPES:
        player.connect(CLIENT, ctype)
    return daemon, player, without_zc_acks_to(SERVER, records_of(name, SERVER))


def as_client(name, tunables):
    daemon = lib.Daemon(CLIENT + "@tcp", tunables)
    player = Player(CLIENT, HELLO, masks=MASKS)
    player.listen(SERVER)
    shell = Shell(daemon)
    begin = [["new_session", "--timeout", "100", "s20"], ["add_group", "srv", SERVER + "@tcp"],
             ["add_group", "cli", CLIENT + "@tcp"]]
    # Each test is added after the one before it has ended, and then run.
    add = {batch: [["add_batch", batch], ["add_test", "--batch", batch, *test.split()]]
           for batch, test in TESTS[name].items()}
    end = [["show_error", "srv", "cli"], ["end_session"]]
    after = dict(zip(add, [*list(add.values())[1:], end], strict=True))
    first = [*begin, *next(iter(add.values()))]
    records = without_zc_acks_to(CLIENT, records_of(name, CLIENT))
    session_first = next(r for r in records if r["kind"] == "step" or "srpc" in r)["kind"] != "step"
    if session_first:
        ping_first = any(r["kind"] == "step" and r["text"].startswith("lnetctl") for r in records)
        shell.start(*(begin if ping_first else first))
        first = first[len(begin):]

    def on_step(text):
        if text.startswith("lnetctl ping"):
            shell.start(text.split(), *first)
            return
        batch = text.removeprefix("lst run ")
        shell.start(["run", batch],
                    lambda: f"{batch} [0] is stopped" in daemon.lst("query", batch)[1],
                    ["stop", batch], *after[batch])

    play(player, records, on_step)
    shell.join()
    return daemon, player


def golden_20_cpp_1_vs_4_server():
    """Connections beyond our one of a type are refused; the others carry the load."""
    daemon, player, records = as_server("cpp-1-vs-4", {"conns_per_peer": 1})
    for _ in range(REFUSALS):
        player.connect(CLIENT, BULK_IN, refused=True)
    play(player, records)
    player.ended(daemon)


def golden_20_cpp_1_vs_4_client():
    """Our node wants four of a type, is refused three times, and is content with one."""
    daemon, player = as_client("cpp-1-vs-4", {"conns_per_peer": 4, "min_reconnectms": 50})
    shell = Shell(daemon)
    ping = [r for r in load("20-cpp-1-vs-4.jsonl") if r["n"] in (PING, PING_REPLY)]

    def settled():
        nets = daemon.show("net", "show", "-v", "5")["net"]
        peer = nets[-1]["local NI(s)"][0]["driver"]["peers"][0]
        return peer["retry_in_ms"] == 0 and not peer["connecting"]

    # Connections are opened for messages; the last of these would open one more.
    content = False
    while not content:
        content = len(player.refused) >= REFUSALS
        player.pairs.clear()  # the next ping has a handle of its own
        shell.start(["lnetctl", "ping", SERVER + "@tcp"])
        play(player, ping)
        lib.wait_for(settled, "the end of an attempt to connect")
    shell.join()
    player.ended(daemon)
    assert player.refused == [BULK_IN] * REFUSALS, player.refused


def golden_20_csum_server():
    """Checksums are enabled, but messages of version 3 carry none."""
    daemon, player, records = as_server("csum", {"enable_csum": 1})
    play(player, records)
    player.ended(daemon)


def golden_20_csum_client():
    daemon, player = as_client("csum", {"enable_csum": 1})
    player.ended(daemon)


def golden_20_zerocopy_server():
    """Every payload from 16 KiB on asks for its ACK and gets it on the connection it came by."""
    daemon, player, records = as_server("zerocopy", {})
    assert sum(r["kind"] == "noop" for r in records) == 5, "ACKs of our node are what it is about"
    play(player, records)
    player.ended(daemon)


def golden_20_zerocopy_client():
    daemon, player = as_client("zerocopy", {})
    player.ended(daemon)


class Gate:
    """Holds the connections of the node under test until their fate is decided."""

    def __init__(self, player):
        self.asked, self.answers = queue.Queue(), queue.Queue()
        player.admit = self.admit

    def admit(self, ctype):
        self.asked.put(ctype)
        return self.answers.get(timeout=lib.DEADLINE_S)

    def held(self):
        return self.asked.get(timeout=lib.DEADLINE_S)


def crossing_pings(player):
    play(player, [r for r in load("20-crossing.jsonl") if r["n"] in CROSSING_PINGS])


def golden_20_crossing_higher():
    """Our NID is the higher one: while we connect, whatever the peer opens is refused."""
    daemon = lib.Daemon(CLIENT + "@tcp", {"conns_per_peer": 1})
    player = Player(CLIENT, HELLO)
    gate = Gate(player)
    player.listen(SERVER)
    shell = Shell(daemon)
    shell.start(["lnetctl", "ping", SERVER + "@tcp"])
    for ctype, tried in zip(TYPES, (CONTROL, BULK_IN, BULK_IN), strict=True):
        assert gate.held() == ctype
        player.connect(SERVER, tried, refused=True)
        gate.answers.put(True)
    crossing_pings(player)
    shell.join()
    player.ended(daemon)
    assert not player.refused


def golden_20_crossing_lower():
    """Our NID is the lower one: the peer's connections win while ours are refused."""
    daemon = lib.Daemon(SERVER + "@tcp", {"conns_per_peer": 1})
    player = Player(SERVER, HELLO)
    gate = Gate(player)
    player.listen(CLIENT)
    shell = Shell(daemon)
    shell.start(["lnetctl", "ping", CLIENT + "@tcp"])
    assert gate.held() == CONTROL
    player.connect(CLIENT, CONTROL)
    player.admit = lambda ctype: False
    gate.answers.put(False)
    crossing_pings(player)
    shell.join()
    for ctype in (BULK_IN, BULK_OUT):
        player.connect(CLIENT, ctype)
    player.ended(daemon)
    assert player.refused[0] == CONTROL, player.refused


if __name__ == "__main__":
    lib.enter(SERVER, CLIENT)
    lib.cases(golden_20_cpp_1_vs_4_server, golden_20_cpp_1_vs_4_client, golden_20_csum_server,
              golden_20_csum_client, golden_20_zerocopy_server, golden_20_zerocopy_client,
              golden_20_crossing_higher, golden_20_crossing_lower)
