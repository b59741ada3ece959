#!/usr/bin/env python3
"""Two daemons on loopback: lst as users run it, and what goes wrong on the way."""
import json
import os
import re
import struct
import subprocess
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
    player = golden_play.Player("127.0.0.1", HELLO)
    for number in range(20):
        peer = f"127.0.1.{number + 1}"
        put = golden_play.frame(golden_play.nid4("127.0.0.1"), golden_play.nid4(peer), 51, 6,
                                b"\0" * 160)
        player.connect(peer, golden_play.CONTROL).sock.sendall(put)
        player.close()
        player.conns.clear()
    lib.wait_for(lambda: len(os.listdir(f"/proc/{a.process.pid}/fd")) <= before,
                 "the descriptors of connections whose peer has gone")
    a.stop()


def stopping_waits_for_no_silent_peer():
    # The peer asks for bulk data and reads none of it: the daemon still ends in an orderly way.
    a = lib.Daemon(A)
    player = golden_play.Player("127.0.0.1", HELLO)
    flood(player, "127.0.0.3", 12)
    lib.wait_for(lambda: sent(a) >= 1, "bulk to be under way")
    a.stop()
    player.close()


def flood(player, source, count):
    """`count` BRW reads of 1 MiB from a played node that reads nothing of what it asks for."""
    for ctype in (golden_play.CONTROL, golden_play.BULK_IN, golden_play.BULK_OUT):
        player.connect(source, ctype)
    for conn in player.conns.values():
        conn.pause()
    control = player.conns[source, golden_play.CONTROL].sock
    for i in range(count):
        read = struct.pack("<IIIIII", 0xEEB0F00D, 1, 12, 0, 0, 1) + struct.pack(
            "<QQIII", 1000 + 2 * i, 1001 + 2 * i, 1, 1 << 20, 1)
        control.sendall(golden_play.frame(golden_play.nid4(player.under_test),
                                          golden_play.nid4(source), 50, 11,
                                          read.ljust(160, b"\0")))


def a_peer_that_reads_nothing_starves_nobody():
    # Longer than the test waits: the flood stays where it is.
    a, b = lib.Daemon(A, {"timeout": 300}), lib.Daemon(B)
    player = golden_play.Player("127.0.0.1", HELLO)
    flood(player, "127.0.0.3", 300)
    lib.wait_for(lambda: rpcs_received(a) >= 300, "all of the flood to arrive")
    session(b, "fair", *[f"--loop 20 --from b --to a brw {rw} check=full size={size}"
                         for rw in ("read", "write") for size in ("4K", "1M")])
    b.lst("run", "work")
    lib.wait_for(lambda: idle(b), "the batch to end beside the flood")
    assert errors(b, "a", "b")[0] == 0
    b.lst("end_session")
    b.stop()
    a.stop()
    player.close()


def rpcs_received(node):
    """RPCs that the node has taken, by the socket: lst shows its own console's nodes only."""
    return node.ask("lst", "node_stats")["rpc"]["rcvd"]


def killed_bench_leaves_the_console_free():
    a, b = lib.Daemon(A), lib.Daemon(B)
    bench = start_bench(a, A, B, "--seconds", "600")
    bench.kill()
    bench.wait()
    # At once: what comes now waits until the bench has ended.
    out = a.lst("new_session", "next")[1]
    assert out.startswith("SESSION: next"), out
    assert a.ask("lst", "node_stats")["session"] is None
    lib.wait_for(lambda: b.ask("lst", "node_stats")["session"] is None, "b to be left")
    a.lst("end_session")
    a.stop()
    b.stop()


def start_bench(node, *args):
    """A bench that has shown its first progress."""
    bench = subprocess.Popen([f"{lib.tools()}/lst", "--socket", node.socket, "bench", *args],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert "RPC/s" in bench.stderr.readline()
    return bench


def bench_fails_when_the_server_is_dead():
    a, b = lib.Daemon(A), lib.Daemon(B)
    bench = start_bench(a, A, B, "--seconds", "600", "--sizes", "64K")
    b.kill()
    err = bench.communicate(timeout=lib.DEADLINE_S)[1]
    assert bench.returncode == 255, (bench.returncode, err)
    assert "errors" in err or "nothing moved" in err, err
    code, _, err = a.lst("bench", A, B, "--seconds", "0.5", check=False)
    assert code == 255 and B in err, err
    assert err.count("Connection refused") == 1, f"said once: {err}"
    a.stop()


def bench_of_half_a_second():
    a, b = lib.Daemon(A), lib.Daemon(B)

    def seconds():
        out = a.lst("bench", A, B, "--sizes", "4K", "--seconds", "0.5", "--test", "write",
                    "--json")[1]
        return json.loads(out)["runs"][0]["seconds"]
    # Never less; a busy machine makes it more, but not every time.
    assert lib.wait_for(lambda: 0.5 <= seconds() < 1, "a bench of half a second")
    a.stop()
    b.stop()


def dead_nodes_are_named():
    a, b = lib.Daemon(A, extra=("--rpc-timeout", "5")), lib.Daemon(B)
    session(a, "dead", "--from a --to b ping", "--from b --to a ping")
    a.lst("run", "work")
    lib.wait_for(lambda: sent(a) > 100, "traffic")
    b.kill()
    why = re.compile(r"12345-127\.0\.0\.2@tcp.*: (No route to host|Connection timed out|"
                     r"Connection reset by peer|Connection refused)")
    for command in (("stat", "--count", "1", "--delay", "1", "b"), ("stop", "work"),
                    ("show_error", "b"), ("query", "work"), ("run", "work")):
        code, out, err = a.lst(*command, check=False)
        assert code == 254, f"{command}: exit {code}\n{out}{err}"
        assert why.search(err), f"{command}: {err}"
    a.lst("end_session", check=False)
    a.stop()


def a_busy_node_says_whose_session():
    a, b, c = lib.Daemon(A), lib.Daemon(B), lib.Daemon("127.0.0.3@tcp")
    c.lst("new_session", "theirs")
    c.lst("add_group", "g", B)
    code, _, err = a.lst("bench", A, B, "--seconds", "1", check=False)
    assert code == 255 and 'session "theirs" of 127.0.0.3@tcp' in err, err
    assert err.count("busy") == 1, err
    a.lst("new_session", "mine")
    code, _, err = a.lst("add_group", "g", B, check=False)
    assert code == 253 and 'session "theirs" of 127.0.0.3@tcp' in err, err
    code, _, err = a.lst("new_session", "again", check=False)
    assert code == 255 and err == f'session already exists: "mine" of {A}\n', err
    code, _, err = a.lst("bench", A, B, "--seconds", "1", check=False)
    assert code == 255 and '"mine"' in err and err.count("exist") == 1, err
    for node in (a, b, c):
        node.stop()


WRONG_USE = (("bogus",), ("stat", "--bogus", "g"), ("stat",), ("run", "--timeout"),
             ("add_test", "--from", "a"), ("bench",), ("bench", A, "x"), ("bench", "--bogus"),
             ("add_group", "g"), ("new_session", ""), ("new_session", "a", "b"),
             ("help", "bogus"), ("add_test", "--from", "a", "--to", "b", "brw", "s=4K", "s=8K"))
FAILURES = (("list_group",), ("run", "x"), ("end_session",), ("show_session",),
            ("bench", A, "127.0.0.9@tcp", "--seconds", "0.5"))


def failures_have_one_exit_code_and_are_json_when_asked():
    a = lib.Daemon(A)
    for words in WRONG_USE + FAILURES:
        code, out, err = a.lst(*words, check=False)
        assert code == 255 and err and not err.startswith("{"), (words, code, out, err)
        code, out, err = a.lst("--json", *words, check=False)
        said = json.loads(err)
        assert code == 255 and said["errno"] < 0 and said["descr"], (words, code, out, err)
    for words in (("list_group",), ("bench", A, B)):
        code, _, err = lib.run(f"{lib.tools()}/lst", "--socket", "/nonexistent/x", "--json", *words,
                               check=False, env=dict(os.environ, LST_SESSION="1"))
        assert code == 255 and json.loads(err)["errno"] == -2, err
    code, _, err = a.lst("--json", "--node", check=False)
    assert code == 255 and json.loads(err)["errno"] == -22, err
    commands = a.lst("list-commands")[1].split()
    for command in commands[:commands.index("help")]:
        code, out, err = a.lst(command, "--help")
        assert f"Usage: lst {command}" in out and not err, (command, out, err)
    code = lib.run(f"{lib.tools()}/lnetd", "--nid", "bad", check=False)[0]
    assert code == lib.run(f"{lib.tools()}/lnetd", "--bogus", check=False)[0] == 2, code
    a.stop()


def the_key_of_the_session():
    a = lib.Daemon(A)
    env = {key: value for key, value in os.environ.items() if key != "LST_SESSION"}
    for bad in ("abc", "-1", "4294967296", ""):
        code, _, err = a.lst("new_session", "s", key=bad, check=False)
        assert code == 255 and "LST_SESSION" in err and f"'{bad}'" in err, err
    _, out, err = a.tool("lst", "new_session", "s", env=env)  # as the kernel's tool, but told
    assert out.startswith("SESSION: s ") and "LST_SESSION" in err and "0" in err, err
    code, _, err = a.tool("lst", "list_group", env=env, check=False)
    assert code == 255 and "LST_SESSION" in err, err
    a.lst("list_group", key="0")
    a.lst("end_session", key="0")
    a.stop()


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
              stopping_waits_for_no_silent_peer, a_peer_that_reads_nothing_starves_nobody,
              killed_bench_leaves_the_console_free, bench_fails_when_the_server_is_dead,
              bench_of_half_a_second, dead_nodes_are_named, a_busy_node_says_whose_session,
              failures_have_one_exit_code_and_are_json_when_asked, the_key_of_the_session,
              bad_configuration_is_refused)
