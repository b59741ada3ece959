#!/usr/bin/env python3
"""lnetd --trace and --fault as users run them, and what wiredump makes of a trace."""
import os
import re
import struct

import lib
import pcapng

A, B = "127.0.0.1@tcp", "127.0.0.2@tcp"


def wiredump(*args, check=True, stdin=None):
    return lib.run(os.path.join(lib.tools(), "wiredump"), *args, check=check, stdin=stdin)


def trace_path():
    return os.path.join(lib.folder(), "trace.pcapng")


def bench_of(console, name, *tests):
    console.lst("new_session", name)
    console.lst("add_group", "a", A)
    console.lst("add_group", "b", B)
    console.lst("add_batch", "work")
    for test in tests:
        console.lst("add_test", "--batch", "work", *test.split())
    console.lst("run", "work")
    lib.wait_for(lambda: "Running" not in console.lst("query", "--all", "work")[1], "the batch")
    console.lst("stop", "work")
    console.lst("end_session")


def count(records, **wanted):
    return sum(all(getattr(r, key) == value for key, value in wanted.items()) for r in records)


def ping_and_lst_are_recorded():
    path = trace_path()
    a, b = lib.Daemon(A, extra=("--trace", path + ":200")), lib.Daemon(B)
    a.lnetctl("ping", B)
    bench_of(a, "traced", "--loop 30 --concurrency 2 --from a --to b brw write size=64K",
             "--loop 30 --from b --to a ping")
    shown = a.show("net", "show", "-v", "5")
    text = str(shown)
    assert "'state': 'writing'" in text and path in text, text
    a.stop()
    b.stop()
    interfaces, records = pcapng.read(path)
    assert [i.name for i in interfaces] == ["0@lo", A], interfaces
    on_a = [r for r in records if r.ni == A]
    assert interfaces[1].received == len(on_a) and interfaces[1].dropped == 0, interfaces
    assert all(i.snap == 200 for i in interfaces), interfaces
    # What was sent has ended, and what arrived was received or thrown away.
    out, into = count(on_a, kind="message", direction=1), count(on_a, kind="message", direction=2)
    assert out > 100 and count(on_a, kind="finished", direction=1) == out, (out, len(on_a))
    ended = count(on_a, kind="finished", direction=2) + count(on_a, kind="discarded")
    assert into > 100 and ended == into, (into, ended)
    assert all(r.status == 0 for r in on_a if r.kind == "finished"), "an error without a fault"
    assert all(r.flags == {0: 0, 1: 2, 2: 1}[r.direction] for r in on_a)
    for r in on_a:
        with_payload = (r.kind, r.direction) in (("message", 1), ("finished", 2))
        assert len(r.payload) == (min(r.length, 200) if with_payload else 0), r
    gets = [r for r in on_a if r.type == "GET" and r.direction == 1 and r.kind == "message"]
    assert gets[0].dest == B and gets[0].src == A, gets[0]
    replies = [r for r in on_a if r.type == "REPLY" and r.payload]
    assert struct.unpack_from("<I", replies[0].payload)[0] == 0x70696e67, replies[0]
    bulk = [r for r in on_a if r.length == 65536]
    assert bulk, "no bulk"
    text = wiredump(path)[1]
    lines = text.splitlines()
    assert f"{A} > 12345-{B} sent: GET 12345-{A} > 12345-{B} portal 0" in text, lines[:10]
    for part in ("  ping buffer: features", "selftest MAKE_SESSION request", "selftest BRW request",
                 "selftest BRW reply status 0", "selftest PING request",
                 "selftest REMOVE_SESSION"):
        assert part in text, part
    assert sum(re.match(r"\d+\.\d{6} ", line) is not None for line in lines) == len(records)
    assert lines[-1] == f"interface {A}: {len(on_a)} packets, 0 of them dropped", lines[-1]
    verbose = wiredump("-v", path)[1]
    assert "    record.ni_nid: 127.0.0.1@tcp\n" in verbose and "    sink_length: " in verbose


def trace_shows_what_is_parked_and_failed():
    path = trace_path()
    a = lib.Daemon(A, extra=("--trace", path))
    assert a.lnetctl("ping", B, check=False)[0] != 0
    a.stop()
    _, records = pcapng.read(path)
    failed = [r for r in records if r.kind == "finished" and r.peer == B]
    assert failed and failed[0].status == -111 and failed[0].detail == 8, failed
    assert "finished -111 (" in wiredump(path)[1]


def trace_that_cannot_be_written():
    code, _, err = lib.run(os.path.join(lib.tools(), "lnetd"), "--nid", A, "--socket",
                           trace_path() + ".sock", "--trace", "/nowhere/t", check=False)
    assert code == 1 and "--trace: '/nowhere/t' cannot be opened for writing" in err, err


def rules(node):
    for net in node.show("net", "show", "-v", "5")["net"]:
        for ni in net["local NI(s)"]:
            if "driver" in ni:
                return ni["driver"]["fault"]["rules"]
    raise AssertionError("no rules are shown")


def dropped_answers_are_time_outs():
    a = lib.Daemon(A, extra=("--fault", f"action=drop,peer={B},message=reply,count=2"))
    b = lib.Daemon(B)
    for _ in range(2):
        code, out, err = a.lnetctl("ping", "--timeout", "1", B, check=False)
        assert code != 0 and "timed out" in (out + err).lower(), out + err
    a.lnetctl("ping", B)
    shown = rules(a)
    assert shown == [{"rule": f"action=drop,peer={B},message=reply,on=receive,rate=1,count=2",
                      "matched": 3, "applied": 2}], shown
    a.stop()
    b.stop()


def lst_survives_delays_stalls_and_duplicates():
    a = lib.Daemon(A, extra=("--fault", "action=delay,rate=5,time=5ms",
                             "--fault", "action=stall,on=send,rate=50,time=30ms",
                             "--fault", "action=stream_stall,after=100K,time=50ms",
                             "--fault", "action=stream_duplicate,count=1,rate=2"))
    b = lib.Daemon(B)
    bench_of(a, "slow", "--loop 40 --concurrency 4 --from a --to b brw write check=full size=64K")
    shown = rules(a)
    assert all(rule["applied"] > 0 for rule in shown), shown
    stats = a.show("stats", "show")["statistics"]
    assert stats["msgs_alloc"] < 50, stats
    a.stop()
    b.stop()


def corruption_is_a_data_error():
    # The bulk of a write is the REPLY to a GET of the server.
    a = lib.Daemon(A, extra=("--fault", f"action=corrupt,dest={B},message=reply,rate=5"))
    b = lib.Daemon(B)
    a.lst("new_session", "bad")
    a.lst("add_group", "a", A)
    a.lst("add_group", "b", B)
    a.lst("add_batch", "work")
    a.lst("add_test", "--batch", "work", "--loop", "20", "--from", "a", "--to", "b", "brw", "write",
          "check=full", "size=64K")
    a.lst("run", "work")
    lib.wait_for(lambda: "Running" not in a.lst("query", "--all", "work")[1], "the batch")
    _, out, err = a.lst("show_error", "a", "b", check=False)
    found = sum(int(n) for n in re.findall(r"Session (\d+) brw errors", out + err))
    assert found > 0, out + err
    a.lst("end_session")
    a.stop()
    b.stop()


def wrong_rules_are_usage_errors():
    for words, part in ((("--fault", "action=melt"), "action: 'melt' is not allowed; allowed: d"),
                        (("--fault", "action=delay"), "time is needed with action=delay"),
                        (("--trace", "x:9999999"), "'9999999' is not allowed; allowed: 0 ...")):
        code, out, err = lib.run(os.path.join(lib.tools(), "lnetd"), *words, check=False)
        assert code == 2 and part in out + err, (code, out + err)


def wiredump_of_bytes_and_tables():
    request = "0071ceac 01000000 03004d0a 00000200"
    assert wiredump("--as", "acceptor", stdin=request)[1] == \
        "connection request v1 to 10.77.0.3@tcp\n"
    code, _, err = wiredump("--as", "hello", check=False, stdin=request)
    assert code == 1 and err == "wiredump: what is at byte 0 of 16 is no hello\n", err
    code, _, err = wiredump("--as", "hello", check=False, stdin="zz")
    assert code == 1 and "character 1 is no hexadecimal digit" in err, err
    names = [line.split()[0] for line in wiredump("--list")[1].splitlines()]
    assert "acceptor" in names and len(names) == len(set(names)) >= 12, names
    for name in names:
        rows = wiredump("--offsets", name)[1].splitlines()
        assert all(re.fullmatch(r" *\d+ +\d+  (byte|bytes|LE|BE|opaque|sender) +\S+", row)
                   for row in rows), rows
    assert wiredump("--as", "none", check=False)[0] == 2
    assert wiredump(check=False)[0] == 2
    code, _, err = wiredump("/nowhere", check=False)
    assert code == 1 and "No such file" in err, err


lib.enter()
lib.cases(ping_and_lst_are_recorded, trace_shows_what_is_parked_and_failed,
          trace_that_cannot_be_written, dropped_answers_are_time_outs,
          lst_survives_delays_stalls_and_duplicates, corruption_is_a_data_error,
          wrong_rules_are_usage_errors, wiredump_of_bytes_and_tables)
