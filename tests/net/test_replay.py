#!/usr/bin/env python3
"""Replays captured conversations with kernel nodes, in both roles, over real sockets.

Where our node may differ from the captured kernel is named here and in golden_play.MASKS:
incarnations, ids, handles and session ids are drawn by each node; clocks and counters differ; our
senders ask for no zero-copy ACK; our node does not start discovery (pushes are answered, none is
sent), so the captured node's own pings before a first message and its own pushes are left out.
"""
import threading

import lib
from golden_play import ANY, BULK_IN, BULK_OUT, CONTROL, Player, hello_of_01, load

A, B = "10.77.0.2", "10.77.0.3"
HELLO = hello_of_01()
MESSAGES = ("lnet", "noop")


def address(record, end):
    return record[end].split(":")[0]


def play(player, records, on_step=None):
    """Goes through the records in order."""
    for record in records:
        if record["kind"] == "step" and on_step:
            on_step(record["text"])
        if record["kind"] not in MESSAGES:
            continue
        if address(record, "src") == player.under_test:
            player.expect(record)
        elif address(record, "dst") == player.under_test:
            player.send(record)
    player.nothing_more()


def without_zc_acks_to(under_test, records):
    """Our frames ask for none, so the played node sends none back."""
    return [r for r in records
            if not (r["kind"] == "noop" and address(r, "dst") == under_test)]


def own_discovery(under_test, record):
    """A ping or push that the captured node sent by itself, with its answer."""
    return (record["kind"] == "lnet" and address(record, "src") == under_test
            and record["type"] in ("GET", "PUT") and record.get("portal") == 0)


def without_own_discovery(under_test, records):
    gone = {r["n"] for r in records if own_discovery(under_test, r)}
    return [r for r in records if r["n"] not in gone and r.get("re") not in gone]


def golden_01_passive():
    """Kernel's connections, pings and push, to our node: its answers."""
    daemon = lib.Daemon(B + "@tcp")
    player = Player(B, HELLO)
    records = without_own_discovery(B, load("01-lnet-ping-discovery.jsonl"))
    for ctype in (CONTROL, BULK_IN, BULK_OUT):
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
    for ctype in (CONTROL, BULK_IN, BULK_OUT):
        lib.wait_for(lambda: (B, ctype) in player.conns, f"connection {ctype}")
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
    for ctype in (CONTROL, BULK_IN, BULK_OUT):
        player.connect(A, ctype)
    play(player, without_zc_acks_to(B, load("02-lst.jsonl")))
    player.ended(daemon)


def golden_21_server():
    """Two captured kernel nodes (console with client, client) use our node as test server."""
    server = "10.77.1.2"
    daemon = lib.Daemon(server + "@tcp")
    player = Player(server, HELLO)
    for peer in ("10.77.1.3", "10.77.1.4"):
        for ctype in (CONTROL, BULK_IN, BULK_OUT):
            player.connect(peer, ctype)
    records = without_own_discovery(server, load("21-lst-details.jsonl"))
    play(player, without_zc_acks_to(server, records))
    player.ended(daemon)


class Shell:
    """Runs lst commands one after the other in the background, as a user would."""

    def __init__(self, daemon):
        self.daemon, self.threads, self.failed = daemon, [], []

    def start(self, *commands):
        self.join()

        def work():
            for command in commands:
                code, out, err = self.daemon.lst(*command, check=False)
                if code != 0:
                    self.failed.append((command, code, out, err))
        thread = threading.Thread(target=work)
        thread.start()
        self.threads.append(thread)

    def join(self):
        for thread in self.threads:
            thread.join(lib.DEADLINE_S)
            assert not thread.is_alive(), "an lst command did not end"
        self.threads = []
        assert not self.failed, self.failed


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
    lib.enter(A, B, "10.77.0.1", "10.77.1.2", "10.77.1.3", "10.77.1.4")
    lib.cases(golden_01_passive, golden_01_active, golden_14, golden_02_client, golden_21_server,
              golden_02_console, golden_21_console)
