#!/usr/bin/env python3
"""Whoever can reach the port: half-made connections, slow ones, noise, and lengths that are not
allowed. The node holds nothing of them afterwards, and its peers do not notice.
"""
import errno
import itertools
import random
import select
import socket
import struct

import golden_play
import lib
from faults import BulkNode, Before, LONG, OK, counter, ni_of, only, work_well

A, B, PLAYED = "127.0.0.1@tcp", "127.0.0.2@tcp", "127.0.0.3"
SOURCES = [f"127.0.1.{n}" for n in range(1, 21)]
HELLO = golden_play.hello_of_01()
REQUEST_BYTES, HELLO_BYTES = 16, 56


def greeting(source, kind=golden_play.CONTROL, incarnation=b"\x22" * 8):
    """The acceptor's request and a HELLO to A."""
    player = golden_play.Player("127.0.0.1", HELLO, incarnation)
    return (struct.pack("<IIQ", golden_play.CONNREQ_MAGIC, 1, golden_play.nid4("127.0.0.1"))
            + player.hello(source, kind))


def connect(source):
    sock = socket.socket()
    sock.settimeout(lib.DEADLINE_S)
    sock.bind((source, 0))
    sock.connect(("127.0.0.1", 988))
    return sock


def abort(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()  # as RST


def two(tunables=None):
    a, b = BulkNode(A, {"accept": "all", **(tunables or {})}), BulkNode(B)
    work_well(b, a)
    b.command("reset")
    return a, b


def over(a, b, before):
    work_well(b, a)
    lib.wait_for(lambda: not strangers(a), "what strangers opened to be gone")
    before.back()
    b.stop()
    a.stop()


def strangers(node):
    """Peers that are not B."""
    return [p["nid"] for p in ni_of(node)["driver"]["peers"] if p["nid"] != B]


def row_3_10_ten_thousand_connects_and_aborts():
    # Each in one of these stages: nothing, half a request, a request, half a HELLO, all of it; half
    # of the whole ones as a peer that restarts each time.
    a, b = two()
    stages = (0, REQUEST_BYTES // 2, REQUEST_BYTES, REQUEST_BYTES + HELLO_BYTES // 2,
              REQUEST_BYTES + HELLO_BYTES)
    greetings = [greeting(source) for source in SOURCES]

    def cycles(count):
        for number, stage in zip(range(count), itertools.cycle(stages)):
            at = number % len(SOURCES)
            data = greetings[at]
            if number % 2:
                data = greeting(SOURCES[at], incarnation=struct.pack("<Q", number))
            sock = connect(SOURCES[at])
            sock.sendall(data[:stage])
            if stage == stages[-1] and number % 3 == 0:
                sock.recv(1)  # it has answered
            abort(sock)
    cycles(1000)  # so that what is kept for strangers is there
    lib.wait_for(lambda: not strangers(a), "what strangers opened to be gone")
    work_well(b, a)
    before = Before(a)
    b.start("put", a, slots=2)
    b.start("get", a, slots=2)
    cycles(10_000)
    assert counter(a, "accepted") >= 2000, "whole HELLOs were not taken"
    ends = b.rest()
    assert set(ends) == {OK}, f"a peer's operations ended {ends}"
    over(a, b, before)


def row_3_13_hellos_byte_by_byte():
    # Whoever needs longer than accept_timeout for a HELLO is closed, however alive it looks.
    patience_s, gap_s = (5, 1) if LONG else (1, 0.05)
    a, b = two({"accept_timeout": patience_s})
    before = Before(a)
    data = greeting(SOURCES[0])
    socks = {}
    for source in SOURCES:
        sock = connect(source)
        sock.sendall(data[:REQUEST_BYTES])
        socks[sock] = REQUEST_BYTES
    b.start("put", a, slots=2)
    ended = []
    while socks:
        # The gap is the fault itself; meanwhile see who was closed.
        for sock in select.select(list(socks), [], [], gap_s)[0]:
            ended.append(socks.pop(sock))
            sock.close()
        for sock, sent in socks.items():
            assert sent < len(data), "a whole HELLO was taken byte by byte"
            try:
                sock.send(data[sent:sent + 1])
            except OSError:
                continue  # closed: select() says so
            socks[sock] = sent + 1
    assert min(ended) > REQUEST_BYTES, "closed before a byte of the HELLO"
    ends = b.rest()
    assert set(ends) == {OK}, f"a peer's operations ended {ends}"
    over(a, b, before)


def row_3_13_noise_on_the_port():
    a, b = two({"accept_timeout": 1})
    before = Before(a)
    b.start("put", a, slots=2)
    rng = random.Random(313)
    socks = []
    for number in range(300):
        sock = connect(rng.choice(SOURCES))
        good = greeting(sock.getsockname()[0])[:rng.choice((0, 0, 4, 8, REQUEST_BYTES, 40, 72))]
        try:
            sock.sendall(good + rng.randbytes(rng.randrange(1, 4096)))
        except OSError as error:
            assert error.errno in (errno.ECONNRESET, errno.EPIPE), error
        socks.append(sock)
    for sock in socks:
        try:
            while sock.recv(4096):
                pass
        except ConnectionResetError:
            pass
        sock.close()
    ends = b.rest()
    assert set(ends) == {OK}, f"a peer's operations ended {ends}"
    over(a, b, before)


def row_3_13_payload_length_over_1_mib():
    # What was under way to that peer ends with EPROTO; the others go on.
    a, b = two()
    before = Before(a)
    b.start("put", a, slots=2)
    for length in ((1 << 20) + 1, 1051832, 0xFFFFFFFF):
        errors = counter(a, "protocol_errors")
        player = golden_play.Player("127.0.0.1", HELLO)
        for kind in (golden_play.CONTROL, golden_play.BULK_IN, golden_play.BULK_OUT):
            player.connect(PLAYED, kind)
        for conn in player.conns.values():
            conn.pause()
        a.command("reset")
        a.start("put", PLAYED + "@tcp", slots=8)
        lib.wait_for(lambda: queued_to(a, PLAYED + "@tcp") > 1 << 20, "operations to be under way")
        frame = bytearray(golden_play.frame(golden_play.nid4("127.0.0.1"),
                                            golden_play.nid4(PLAYED), 20, 1, b"\0" * 64))
        struct.pack_into("<I", frame, 24 + 28, length)
        player.conns[PLAYED, golden_play.BULK_OUT].sock.sendall(frame)
        only(a.wait(), (-errno.EPROTO,), 8)
        assert counter(a, "protocol_errors") == errors + 1
        assert f"payload of {length} bytes, at most 1048576 are allowed" in a.log_text()
        player.close()
    ends = b.rest()
    assert set(ends) == {OK}, f"a peer's operations ended {ends}"
    over(a, b, before)


def queued_to(node, nid):
    return sum(c["queued_bytes"] for c in ni_of(node)["driver"]["connections"]
               if c["peer"].endswith(nid))


if __name__ == "__main__":
    lib.enter(*[f"127.0.0.{n}" for n in range(2, 4)])
    lib.cases(row_3_10_ten_thousand_connects_and_aborts, row_3_13_hellos_byte_by_byte,
              row_3_13_noise_on_the_port, row_3_13_payload_length_over_1_mib)
