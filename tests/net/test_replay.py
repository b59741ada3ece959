#!/usr/bin/env python3
"""Replays captured conversations with kernel nodes, in both roles, over real sockets.

Where our node may differ from the captured kernel is named here and in golden_play.MASKS:
incarnations, ids, handles and session ids are drawn by each node; clocks and counters differ. What
it does not do is in replay.py.
"""
import threading

import lib
from golden_play import ANY, BULK_IN, BULK_OUT, CONTROL, Player, hello_of_01, load
from replay import Shell, play, without_own_discovery, without_zc_acks_to

A, B = "10.77.0.2", "10.77.0.3"
A6, B6 = "fd00:77::3", "fd00:77::2"
TYPES = (CONTROL, BULK_IN, BULK_OUT)
HELLO = hello_of_01()


def golden_01_passive():
    """Kernel's connections, pings and push, to our node: its answers."""
    daemon = lib.Daemon(B + "@tcp")
    player = Player(B, HELLO)
    records = without_own_discovery(B, load("01-lnet-ping-discovery.jsonl"))
    for ctype in TYPES:
        player.connect(A, ctype)
    play(player, records)
    player.ended(daemon)


def golden_01_active():
    """Our node opens the connections and pings; the kernel's answers and push come back."""
    daemon = lib.Daemon(A + "@tcp")
    player = Player(A, HELLO)
    player.listen(B)
    records = without_own_discovery(A, load("01-lnet-ping-discovery.jsonl"))
    # The captured GET of `lnetctl ping` is portal 0 too, and ours: steps 1 and 2.
    pings = [r for r in load("01-lnet-ping-discovery.jsonl") if r.get("step_no") in (1, 2)]
    rest = [r for r in records if r.get("step_no", 0) >= 3]

    shown = []

    def command():
        shown.append(daemon.lnetctl("ping", B + "@tcp")[1])

    for step in (1, 2):
        thread = threading.Thread(target=command)
        thread.start()
        play(player, [r for r in pings if r["step_no"] == step])
        thread.join(lib.DEADLINE_S)
        assert len(shown) == step, "lnetctl ping did not end well"
        assert f"primary nid: {B}@tcp" in shown[-1] and f"- nid: {B}@tcp" in shown[-1], shown
    play(player, rest)
    for ctype in TYPES:
        lib.wait_for(lambda: (B, ctype) in player.conns, f"connection {ctype}")
    player.ended(daemon)


def hello_of_17():
    return bytes.fromhex(next(r["bytes"] for r in load("17-ipv6.jsonl") if r["kind"] == "hello"))


def golden_17_passive():
    """IPv6: the kernel's connections, pings and pushes, with large NIDs in version 4."""
    daemon = lib.Daemon(B6 + "@tcp")
    player = Player(B6, hello_of_17())
    for ctype in TYPES:
        player.connect(A6, ctype)
    shell = Shell(daemon)

    def on_step(text):
        if text == f"lnetctl ping {A6}@tcp":
            shell.start(text.split())
    records = load("17-ipv6.jsonl")
    typed = next(r["n"] for r in records
                 if r["kind"] == "lnet" and r["step"] == f"lnetctl ping {A6}@tcp")
    kept = {r["n"] for r in without_own_discovery(B6, records)}
    play(player, [r for r in records if r["n"] in kept or typed in (r["n"], r.get("re"))], on_step)
    shell.join()
    player.ended(daemon)


def golden_17_active():
    """IPv6: our node opens the connections and pings, and is pinged in the end."""
    daemon = lib.Daemon(A6 + "@tcp")
    player = Player(A6, hello_of_17())
    player.listen(B6)
    shell = Shell(daemon)

    def on_step(text):
        if text.startswith(f"lnetctl ping {B6}"):
            shell.start(text.split())
        elif text.startswith("lctl ping"):
            shell.start(["lnetctl", "ping", text.split()[-1]])
    # Its discovery is left out, but for the push that answers it, which came by itself.
    records = [r for r in load("17-ipv6.jsonl") if "discover" not in r.get("step", "")]
    play(player, records, on_step)
    shell.join()
    for ctype in TYPES:
        lib.wait_for(lambda: (B6, ctype) in player.conns, f"connection {ctype}")
    player.ended(daemon)


def golden_14():
    """A userspace process pings with CONTROL (answered) and with ANY (HELLO only)."""
    daemon = lib.Daemon(A + "@tcp")
    records = [r for r in load("14-host-process-ping.jsonl") if r.get("conn") in (1, 2)]
    player = Player(A, bytes.fromhex(records[2]["bytes"]))
    player.connect("10.77.0.1", CONTROL)
    play(player, [r for r in records if r.get("conn") == 1])
    player.close()
    # ANY with version 3: HELLO is answered, the ping never is (nobody listens where it is dialled).
    player = Player(A, bytes.fromhex(records[2]["bytes"]))
    conn = player.connect("10.77.0.1", ANY)
    get = next(r for r in records if r.get("conn") == 2 and r["kind"] == "lnet")
    conn.sock.sendall(bytes.fromhex(get["bytes"]))
    lib.wait_for(lambda: received_gets(daemon) >= 2, "the second GET to be counted")
    player.nothing_more()
    player.ended(daemon)


def received_gets(daemon):
    nets = daemon.show("net", "show", "-v", "2")["net"]
    nis = [ni for net in nets for ni in net["local NI(s)"] if ni["nid"] == A + "@tcp"]
    return nis[0]["received_stats"]["get"]


def golden_02_client():
    """The captured console and server drive our node through a whole session."""
    daemon = lib.Daemon(B + "@tcp")
    player = Player(B, HELLO)
    for ctype in TYPES:
        player.connect(A, ctype)
    play(player, without_zc_acks_to(B, load("02-lst.jsonl")))
    player.ended(daemon)


def golden_21_server():
    """Two captured kernel nodes (console with client, client) use our node as test server."""
    server = "10.77.1.2"
    daemon = lib.Daemon(server + "@tcp")
    player = Player(server, HELLO)
    for peer in ("10.77.1.3", "10.77.1.4"):
        for ctype in TYPES:
            player.connect(peer, ctype)
    records = without_own_discovery(server, load("21-lst-details.jsonl"))
    play(player, without_zc_acks_to(server, records))
    player.ended(daemon)


def golden_02_console():
    """Our node is console and server; the captured kernel node is the client."""
    daemon = lib.Daemon(A + "@tcp")
    player = Player(A, HELLO)
    player.listen(B)
    shell = Shell(daemon)
    shell.start(["new_session", "--timeout", "100", "s1"], ["add_group", "srv", A + "@tcp"],
                ["add_group", "cli", B + "@tcp"])

    def on_step(text):
        name, _, test = text.partition(" ")
        if name == "br1m":  # the load runs on our node: the capture has no stop on the wire
            after = [["show_error", "srv", "cli"], ["end_session"]]
        else:
            after = []
        shell.start(["add_batch", name],
                    ["add_test", "--batch", name, *test.split()],
                    ["run", name],
                    ["stat", "--count", "1", "--delay", "1", "srv", "cli"],
                    ["query", "--all", name], ["stop", name], *after)

    play(player, without_zc_acks_to(A, load("02-lst.jsonl")), on_step)
    shell.join()
    player.ended(daemon)


def golden_21_console():
    """Every lst command of capture 21 until its first gap, typed on our node."""
    console = "10.77.1.3"
    daemon = lib.Daemon(console + "@tcp")
    player = Player(console, HELLO)
    for peer in ("10.77.1.2", "10.77.1.4"):
        player.listen(peer)
    records = []
    for record in without_own_discovery(console, load("21-lst-details.jsonl")):
        if record["kind"] == "step" and record["text"].startswith("lst add_batch b2"):
            break
        records.append(record)
    shell = Shell(daemon)
    # add_group of an absent node fails, as captured; ping --session asks nodes in our lst.
    skip = ("lst add_group bad", "lst ping --session")

    def on_step(text):
        if text.startswith(skip):
            return
        shell.start(text.split()[1:])

    play(player, without_zc_acks_to(console, records), on_step)
    shell.join()
    player.ended(daemon)


if __name__ == "__main__":
    lib.enter(A, B, A6, B6, "10.77.0.1", "10.77.1.2", "10.77.1.3", "10.77.1.4")
    lib.cases(golden_01_passive, golden_01_active, golden_17_passive, golden_17_active, golden_14,
              golden_02_client, golden_21_server, golden_02_console, golden_21_console)
