#!/usr/bin/env python3
"""Two daemons on loopback: lst as users run it, and what goes wrong on the way."""
import json
import os
import re
import struct
import tempfile

import golden_play
import lib

A, B = "127.0.0.1@tcp", "127.0.0.2@tcp"
HELLO = golden_play.hello_of_01()


def session(console, name, *tests, members=(A, B)):
    """A session with groups a and b, and one batch of tests."""
    console.lst("new_session", name)
    console.lst("add_group", "a", members[0])
    console.lst("add_group", "b", members[1])
    console.lst("add_batch", "work")
    for test in tests:
        out = console.lst("add_test", "--batch", "work", *test.split())[1]
        assert out == "Test was added successfully\n", out


def idle(console):
    out = console.lst("query", "--all", "work")[1]
    return "Running" not in out and out


def errors(console, *groups):
    _, out, err = console.lst("show_error", *groups, check=False)
    found = [int(n) for n in re.findall(r"Session (\d+) brw errors", out + err)]
    return sum(found), out + err


def ping_both_ways():
    a, b = lib.Daemon(A), lib.Daemon(B)
    for node, nid in ((a, B), (b, A)):
        out = node.lnetctl("ping", nid)[1]
        assert f"primary nid: {nid}" in out, out
    a.stop()
    b.stop()


def every_test_and_check():
    a, b = lib.Daemon(A), lib.Daemon(B)
    tests = ["--loop 50 --from a --to b ping"]
    for rw in ("read", "write"):
        for check in ("", " check=simple", " check=full"):
            for size in ("4K", "64K", "1M"):
                tests.append(f"--loop 20 --concurrency 4 --from a --to b brw {rw}{check} "
                             f"size={size}")
        tests.append(f"--loop 5 --from b --to a brw {rw} check=full size=1M")
    session(a, "all", *tests)
    a.lst("run", "work")
    lib.wait_for(lambda: idle(a), "the batch to end")
    assert errors(a, "a", "b")[0] == 0, errors(a, "a", "b")
    out = a.lst("stop", "work")[1]
    assert out == "Batch is stopped\n", out
    out = a.lst("end_session")[1]
    assert out == "session is ended\n", out
    a.stop()
    b.stop()


def flipped_byte_is_a_data_error():
    a, b = lib.Daemon(A), lib.Daemon(B)
    for reader, group in ((b, "b"), (a, "a")):
        # inject_rx_flip: the receiver's driver flips one byte of every 5th bulk payload.
        reader.lnetctl("net", "set", "--nid", reader.nid, "--tunable", "inject_rx_flip=5")
        rw = "write" if reader is b else "read"
        session(a, "flip", f"--loop 20 --from a --to b brw {rw} check=full size=64K")
        a.lst("run", "work")
        lib.wait_for(lambda: idle(a), "the batch to end")
        count, text = errors(a, "a", "b")
        assert count >= 1, f"{rw} into {group}: {text}"
        a.lst("end_session")
        reader.lnetctl("net", "set", "--nid", reader.nid, "--tunable", "inject_rx_flip=0")
    session(a, "well", "--loop 20 --from a --to b brw write check=full size=64K")
    a.lst("run", "work")
    lib.wait_for(lambda: idle(a), "the batch to end")
    assert errors(a, "a", "b")[0] == 0
    a.lst("end_session")
    a.stop()
    b.stop()


def peer_killed_in_mid_batch():
    # An RPC whose request was sent waits for its answer until the RPC time-out: a short one here.
    a, b = lib.Daemon(A, extra=("--rpc-timeout", "8")), lib.Daemon(B)
    session(a, "doomed", "--concurrency 8 --from a --to b brw write check=full size=1M",
            "--concurrency 8 --from a --to b brw read check=full size=1M",
            "--concurrency 8 --from a --to b ping")
    a.lst("run", "work")
    lib.wait_for(lambda: sent(a) > 500, "traffic")
    b.kill()
    # stop_onerr: each unit ends at its first error, and each RPC under way ends once.
    lib.wait_for(lambda: idle(a), "every unit to end with an error")
    count, text = errors(a, "a")
    assert count >= 1, text
    code, _, _ = a.lst("stop", "work", check=False)
    a.lst("end_session", check=False)
    b = lib.Daemon(B)
    b.lnetctl("ping", A)  # a still backs off from dialling b; b dials at once
    session(a, "again", "--loop 20 --from a --to b brw write check=full size=1M")
    a.lst("run", "work")
    lib.wait_for(lambda: idle(a), "the batch of the new session")
    assert errors(a, "a", "b")[0] == 0
    a.lst("end_session")
    stats = a.show("stats", "show")["statistics"]
    assert stats["msgs_alloc"] < 50, stats  # nothing of the dead peer is left
    a.stop()
    b.stop()


def sent(node):
    return node.show("stats", "show")["statistics"]["send_count"]


def bench_prints_both_ways():
    a, b = lib.Daemon(A), lib.Daemon(B)
    out = a.lst("bench", A, B, "--sizes", "4K,1M", "--seconds", "1", "--check", "full",
                "--json")[1]
    runs = json.loads(out)["runs"]
    assert {(r["test"], r["size"]) for r in runs} == {
        (rw, size) for rw in ("read", "write") for size in (4096, 1 << 20)}, runs
    for r in runs:
        assert r["errors"] == 0 and r["rpcs"] > 0 and r["mib_per_s"] > 0, r
        assert 0 < r["p50_us"] <= r["p99_us"], r
    text = a.lst("bench", A, B, "--sizes", "64K", "--seconds", "1", "--check", "full")[1]
    assert "MiB/s" in text and "p99" in text, text
    b.stop()
    code, out, err = a.lst("bench", A, B, "--sizes", "4K", "--seconds", "1", check=False)
    assert code != 0, "a bench against nobody must fail"
    a.stop()


def gone_senders_of_parked_messages_hold_no_descriptors():
    # Nobody serves JOIN (match bits 6) on the lazy portal 51: such a PUT waits, and nothing is read
    # behind it. When its sender has gone it may wait for sock_timeout, not for ever.
    a = lib.Daemon(A, {"timeout": 2, "accept": "all"})
    before = len(os.listdir(f"/proc/{a.process.pid}/fd"))
    put = golden_play.frame(golden_play.nid4("127.0.0.1"), golden_play.nid4("127.0.0.3"), 51, 6,
                            b"\0" * 160)
    player = golden_play.Player("127.0.0.1", HELLO)
    for _ in range(20):
        player.connect("127.0.0.3", golden_play.CONTROL).sock.sendall(put)
        player.close()
        player.conns.clear()
    lib.wait_for(lambda: len(os.listdir(f"/proc/{a.process.pid}/fd")) <= before,
                 "the descriptors of connections whose peer has gone")
    a.stop()


def stopping_waits_for_no_silent_peer():
    # The peer asks for bulk data and reads none of it: the daemon still ends in an orderly way.
    a = lib.Daemon(A)
    player = golden_play.Player("127.0.0.1", HELLO)
    for ctype in (golden_play.CONTROL, golden_play.BULK_IN, golden_play.BULK_OUT):
        player.connect("127.0.0.3", ctype)
    for conn in player.conns.values():
        conn.pause()
    control = player.conns["127.0.0.3", golden_play.CONTROL].sock
    for i in range(12):
        read = struct.pack("<IIIIII", 0xEEB0F00D, 1, 12, 0, 0, 1) + struct.pack(
            "<QQIII", 1000 + 2 * i, 1001 + 2 * i, 1, 1 << 20, 1)
        control.sendall(golden_play.frame(golden_play.nid4("127.0.0.1"),
                                          golden_play.nid4("127.0.0.3"), 50, 11,
                                          read.ljust(160, b"\0")))
    lib.wait_for(lambda: sent(a) >= 1, "bulk to be under way")
    a.stop()
    player.close()


def bad_configuration_is_refused():
    ni = "net:\n    - net type: tcp\n      local NI(s):\n        - nid: "
    for text, words in ((ni + "1.2.3.4@tcp\n", ("1.2.3.4",)),
                        (ni + "127.0.0.1@tcp\n          lnd tunables:\n"
                         "              conns_per_peer: 900\n", ("conns_per_peer", "900", "127")),
                        ("net:\n    - net tipe: tcp\n", ("net tipe", "2")),
                        ("net: [\n", ("line",))):
        code, _, err = refused(text)
        assert code != 0, text
        for word in words:
            assert word in err, err


def refused(text):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(text)
        file.flush()
        return lib.run(f"{lib.tools()}/lnetd", "--config", file.name, "--socket",
                       file.name + ".sock", "--name", "bad", check=False, timeout=20)


if __name__ == "__main__":
    lib.enter()
    lib.cases(ping_both_ways, every_test_and_check, flipped_byte_is_a_data_error,
              peer_killed_in_mid_batch, bench_prints_both_ways,
              gone_senders_of_parked_messages_hold_no_descriptors,
              stopping_waits_for_no_silent_peer, bad_configuration_is_refused)
