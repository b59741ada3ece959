"""Plays one or more nodes of a captured conversation, over real sockets, to a node under test.

Records are taken in order. A message of a played node is sent (ids, handles and the session id that
the node under test chose are put in place of the captured ones); a message of the node under test
is waited for, matched by its shape, and compared byte for byte with the captured one, but for the
ranges of MASKS. So an answer that is missing, surplus, late or different fails.

A node with several workers may send what is under way together in any order, on three connections
each with its reader here. So a message is looked for among all that came; what tells messages of
one shape apart (ids that the played node drew, sequence numbers) is part of the match, and where
they differ in nothing but ids that the node drew, whichever came first is the captured one. Only
the main thread changes what is learnt.
"""
import json
import os
import queue
import socket
import struct
import threading
import time
import zlib

import lib

CONNREQ_MAGIC = 0xACCE7100
NONE, ANY, CONTROL, BULK_IN, BULK_OUT = -1, 0, 1, 2, 3
INVERSE = {ANY: ANY, CONTROL: CONTROL, BULK_IN: BULK_OUT, BULK_OUT: BULK_IN}

# Ranges of a selftest payload that differ from run to run, by message type, with the reason.
MASKS = {
    14: [(40, 56, "time at which the ping was sent")],
    7: [(44, 160, "counters and running time of the node")],
    5: [(44, 48, "how many units happen to be active at that moment")],
}


def nid4(address):
    return (2 << 48) | int.from_bytes(socket.inet_aton(address), "big")


def endpoint(record, end):
    """The address of a record's `src` or `dst`."""
    return record[end].rpartition(":")[0].strip("[]")


class Form:
    """How a version of the protocol writes things: 3 with small NIDs, 4 with large ones."""

    def __init__(self, version):
        large = version == 4
        self.large = large
        self.hello = 80 if large else 56                     # bytes of a HELLO,
        self.incarnation = 56 if large else 32               # and what is where in it
        self.ctype = 72 if large else 48
        self.request = 28 if large else 16                   # bytes of a connection request
        self.pids = 24 + (40 if large else 16)               # of a frame: pids, type and length,
        self.op = self.pids + 16                             # what depends on the type,
        self.payload = self.op + 40
        self.family = socket.AF_INET6 if large else socket.AF_INET

    def nid(self, address):
        if self.large:
            return b"\x0c\x02\0\0" + socket.inet_pton(socket.AF_INET6, address)
        return struct.pack("<Q", nid4(address))

    def connreq(self, address):
        return struct.pack("<II", CONNREQ_MAGIC, 2 if self.large else 1) + self.nid(address)

    def type_of(self, data):
        """(type, payload length) of an LNet message."""
        return struct.unpack_from("<II", data, self.pids + 8)

    def portal(self, data):
        mtype = self.type_of(data)[0]
        if mtype not in (1, 2):
            return None
        return struct.unpack_from("<I", data, self.op + (32 if mtype == 1 else 24))[0]

    def shape(self, data):
        """What makes two messages the same one of a conversation."""
        if data[0] == 0xC0:
            return ("noop",)
        mtype, length = self.type_of(data)
        portal = self.portal(data)
        srpc = struct.unpack_from("<I", data, self.payload + 8)[0] \
            if length == 160 and mtype == 1 else None
        bits = struct.unpack_from("<Q", data, self.op + 16)[0] if portal in (50, 51) else None
        return (mtype, portal, length, srpc, bits)


FORM3 = Form(3)


def load(name):
    with open(os.path.join(lib.root(), "tests", "golden", name)) as file:
        return [json.loads(line) for line in file]


def hello_of_01():
    """The first HELLO of capture 01."""
    return bytes.fromhex(next(r["bytes"] for r in load("01-lnet-ping-discovery.jsonl")
                              if r["kind"] == "hello"))


def frame(dst, src, portal, match_bits, payload):
    """A PUT without ACK, in a frame of version 3."""
    return (struct.pack("<IIQQ", 0xC1, 0, 0, 0)
            + struct.pack("<QQIIII", dst, src, 12345, 12345, 1, len(payload)) + b"\xff" * 16
            + struct.pack("<QQII", match_bits, 0, portal, 0) + payload)


def acks(data):
    """A NOOP as several of one ACK each: how many numbers go into one is a matter of timing."""
    c0, c1 = struct.unpack_from("<QQ", data, 8)
    numbers = [c1] if c0 in (0, c1) else [c0, c1] if c0 > c1 else range(c0, c1 + 1)
    return [data[:8] + struct.pack("<QQ", 0, number) for number in numbers]


def numbered(payload):
    """What tells two requests of one kind apart: a ping's sequence number, a batch's test."""
    begin, end = {14: (36, 40), 4: (56, 64)}.get(
        struct.unpack_from("<I", payload, 8)[0] if len(payload) == 160 else None, (0, 0))
    return payload[begin:end]


class Conn:
    """A typed connection of a played node; ctype is from the played node's point of view."""

    def __init__(self, player, sock, ctype, local, hello):
        self.player, self.sock, self.ctype, self.local, self.hello = (player, sock, ctype, local,
                                                                      hello)
        self.reading = threading.Event()
        self.reading.set()
        sock.settimeout(None)  # a connection may be idle for as long as it likes
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def pause(self):
        """Reads nothing more, after at most one more frame."""
        self.reading.clear()

    def read_exact(self, count):
        data = b""
        while len(data) < count:
            part = self.sock.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def read(self):
        try:
            while self.reading.wait():
                data = self.read_exact(24)
                if data[0] == 0xC1:
                    data += self.read_exact(self.player.form.payload - 24)
                    data += self.read_exact(self.player.form.type_of(data)[1])
                self.player.received.put((self, data))
        except (EOFError, OSError):
            self.player.received.put((self, None))


class Player:
    """Plays every node of the capture but `under_test` (an address), with one connection a type."""

    # Of all players: a pair of addresses and ports that was in use may not be used again soon.
    port = 1023

    def __init__(self, under_test, hello_bytes, incarnation=b"\x11" * 8, masks=()):
        self.under_test, self.hello_bytes = under_test, hello_bytes
        self.form = Form(hello_bytes[4])
        self.masks = MASKS | dict(masks)
        self.incarnation = incarnation
        self.received = queue.Queue()
        self.pool = []          # received, not matched yet
        self.ids = {}           # captured 8 bytes -> live 8 bytes
        self.pairs = {}         # captured 16 bytes (handle, session id) -> live
        self.conns = {}         # (local address, ctype) -> Conn
        self.readers = []       # of all connections there ever were
        self.incarnation_seen = []  # of the node under test, by whichever thread saw a HELLO
        # Played nodes whose BULK_IN the node under test certainly knows, and those that got a large
        # message by CONTROL before that.
        self.bulk_known, self.bulk_late = set(), set()
        self.listeners = []
        self.refused = []       # types that the node under test asked for in vain
        self.admit = lambda ctype: True  # asked before a connection is taken; may take its time
        lib.cleanups.append(self.close)

    # --- connections -----------------------------------------------------------------------
    def hello(self, local, ctype):
        """A HELLO as captured, with NIDs, incarnation and type put in."""
        form, old = self.form, self.hello_bytes
        return (old[:8] + form.nid(local) + form.nid(self.under_test)
                + old[form.incarnation - 8:form.incarnation] + self.incarnation
                + old[form.incarnation + 8:form.ctype] + struct.pack("<i", ctype)
                + old[form.ctype + 4:])

    def check_hello(self, data, local, ctype):
        at = self.form.incarnation
        want = (self.hello_bytes[:8] + self.form.nid(self.under_test) + self.form.nid(local)
                + self.hello_bytes[at - 8:at])
        assert data[:at] == want, f"HELLO {data[:at].hex()}, expected {want.hex()}"
        assert data[at:at + 8] != b"\0" * 8, "HELLO without an incarnation"
        self.incarnation_seen.append(data[at:at + 8])
        assert self.incarnation_seen[0] == data[at:at + 8], "two incarnations of one NI"
        # dst incarnation: 0 from an active node, an echo from a passive one; receivers ignore it
        end = data[self.form.ctype:]
        assert struct.unpack("<iI", end) == (ctype, 0), f"HELLO ends {end.hex()}"

    def connect(self, local, ctype, refused=False):
        """Opens a connection, or sees it refused (then nothing is left)."""
        sock = socket.socket(self.form.family)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.settimeout(lib.DEADLINE_S)
        sock.bind((local, Player.port))
        Player.port -= 1
        sock.connect((self.under_test, 988))
        sock.sendall(self.form.connreq(self.under_test))
        sock.sendall(self.hello(local, ctype))
        answer = b""
        while len(answer) < self.form.hello:
            part = sock.recv(self.form.hello - len(answer))
            assert part, f"connection closed after {len(answer)} bytes of HELLO"
            answer += part
        self.check_hello(answer, local, NONE if refused else INVERSE[ctype])
        if refused:
            assert sock.recv(1) == b"", "a refused connection stays open"
            sock.close()
            return None
        if ctype == BULK_IN:
            self.bulk_known.add(local)  # a node knows the connection before it answers
        return self.add(Conn(self, sock, ctype, local, answer))

    def add(self, conn):
        self.readers.append(conn.thread)
        self.conns[conn.local, conn.ctype] = conn
        return conn

    def listen(self, local):
        listener = socket.socket(self.form.family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((local, 988))
        listener.listen(16)
        self.listeners.append(listener)
        threading.Thread(target=self.accept, args=(listener, local), daemon=True).start()

    def accept(self, listener, local):
        while True:
            try:
                sock, address = listener.accept()
            except OSError:
                return
            try:
                data, form = b"", self.form
                while len(data) < form.request + form.hello:
                    part = sock.recv(form.request + form.hello - len(data))
                    if not part:
                        raise EOFError
                    data += part
                request, hello = data[:form.request], data[form.request:]
                want = form.connreq(local)
                assert request == want, f"connection request {request.hex()}"
                assert 512 <= address[1] <= 1023, f"source port {address[1]}"
                ctype = struct.unpack_from("<i", hello, form.ctype)[0]
                self.check_hello(hello, local, ctype)
                if not self.admit(ctype) or (local, INVERSE[ctype]) in self.conns:
                    self.refused.append(ctype)
                    sock.sendall(self.hello(local, NONE))
                    sock.close()
                    continue
                sock.sendall(self.hello(local, INVERSE[ctype]))
                self.add(Conn(self, sock, INVERSE[ctype], local, hello))
            except (AssertionError, EOFError) as error:
                self.received.put((None, error))

    def close(self):
        for sock in [*self.listeners, *(conn.sock for conn in self.conns.values())]:
            try:
                sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in it
            except OSError:
                pass  # the other end was faster, or it was closed before
            sock.close()

    # --- playing ---------------------------------------------------------------------------
    def put_in_place(self, data):
        """Captured ids of the node under test become live ones."""
        for table, width in ((self.pairs, 16), (self.ids, 8)):
            for old, new in table.items():
                if len(old) == width and old in data:
                    data = data.replace(old, new)
        return data

    def conn_for(self, record, data):
        """The connection the kernel's rules give a message of a played node."""
        local = endpoint(record, "src")
        if record["kind"] == "noop":
            want = BULK_IN
        else:
            want = BULK_OUT if len(data) >= 1024 else CONTROL
        return lib.wait_for(lambda: self.conns.get((local, want)) or None,
                            f"a connection of type {want} with {local}")

    def send(self, record):
        data = bytes.fromhex(record["bytes"])
        if record.get("elided"):
            data = data[:self.form.payload] + payload_of(record)
        data = self.put_in_place(data)
        self.conn_for(record, data).sock.sendall(data)

    def expect(self, record):
        data = bytes.fromhex(record["bytes"])
        for part in acks(data) if record["kind"] == "noop" else [data]:
            self.expect_bytes(record, part)

    def expect_bytes(self, record, data):
        want_local = endpoint(record, "dst")
        wanted = self.form.shape(data)
        end = time.monotonic() + lib.DEADLINE_S
        while True:
            for item in self.pool:
                conn, live = item
                if conn.local == want_local and self.form.shape(live) == wanted and \
                        self.same_target(data, live):
                    self.pool.remove(item)
                    self.compare(record, data, conn, live)
                    return
            try:
                conn, live = self.received.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(
                    f"record {record['n']}: no {wanted} came; waiting: "
                    f"{[self.form.shape(rest) for _, rest in self.pool]}") from None
            if conn is None:
                raise live
            if live is None:
                raise AssertionError(f"record {record['n']}: connection {conn.ctype} was closed")
            parts = acks(live) if live[0] == 0xC0 else [live]
            self.pool += [(conn, part) for part in parts]

    def same_target(self, data, live):
        if data[0] == 0xC0:
            return data[16:24] == live[16:24]
        op, at = self.form.op, self.form.payload
        if self.form.type_of(data)[0] in (3, 0):  # REPLY, ACK: the handle is the played node's
            return data[op:op + 16] == live[op:op + 16]
        # Replies and bulk carry an id the played node drew; requests are told by their shape,
        # and those that may be under way together by what numbers them.
        if self.form.portal(data) == 52:
            return data[op + 16:op + 24] == live[op + 16:op + 24]
        return numbered(data[at:]) == numbered(live[at:])

    def learn(self, table, old, new, what):
        """First sight of a value the node under test chose; later it must be the same one."""
        assert table.setdefault(old, new) == new, f"{what}: {new.hex()} is not the one used before"

    def compare(self, record, data, conn, live):
        where = f"record {record['n']}"
        if data[0] == 0xC0:
            assert self.put_in_place(data) == live, \
                f"{where}: NOOP {live.hex()}, expected {data.hex()}"
            return
        op, at = self.form.op, self.form.payload
        mtype = self.form.type_of(live)[0]
        payload = payload_of(record) if record.get("elided") else data[at:]
        head, live_head, live_payload = bytearray(data[:at]), bytearray(live[:at]), live[at:]
        # A sender need not ask for zero-copy ACKs; our node does not.
        head[8:16] = live_head[8:16] = b"\0" * 8
        if mtype in (1, 2) and data[op:op + 16] != b"\xff" * 16:
            self.learn(self.pairs, data[op:op + 16], live[op:op + 16], "handle")
        if len(payload) == 160 and mtype == 1:
            payload, live_payload = self.compare_selftest(where, payload, live_payload)
        head = bytearray(self.put_in_place(bytes(head)))
        if record.get("portal") == 0 or mtype == 3 and payload[:4] == b"ping"[::-1]:
            payload, live_payload = mask_ping(payload), mask_ping(live_payload)
        assert head == live_head, \
            f"{where}: header\n {live_head.hex()}, expected\n {head.hex()}"
        if record.get("elided") and "fill" not in record:
            compare_ends(where, payload, live_payload)
        else:
            payload = self.put_in_place(payload)
            assert payload == live_payload, \
                f"{where}: payload\n {live_payload.hex()[:400]}, expected\n {payload.hex()[:400]}"
        self.compare_connection(where, conn, len(live) >= 1024)

    def compare_connection(self, where, conn, large):
        """The sender's BULK_OUT is our BULK_IN; one that dials uses CONTROL until that is up."""
        if large and conn.ctype == CONTROL and conn.local not in self.bulk_known:
            self.bulk_late.add(conn.local)
            return
        want = BULK_IN if large else CONTROL
        assert conn.ctype == want, f"{where}: came on connection type {conn.ctype}, not {want}"
        if large:
            self.bulk_known.add(conn.local)

    def compare_selftest(self, where, payload, live):
        """Ids of requests are learnt; masked ranges are taken out of both."""
        kind = struct.unpack_from("<I", payload, 8)[0]
        if kind % 2 == 0:
            self.learn(self.ids, payload[24:32], live[24:32], where + ": rpyid")
            if kind in (8, 12) and payload[32:40] != b"\0" * 8:
                self.learn(self.ids, payload[32:40], live[32:40], where + ": bulkid")
            sid = {0: 32, 2: 32, 4: 32, 6: 32, 8: 40, 10: 32}.get(kind)
            if sid and payload[sid:sid + 16] not in self.pairs.values():
                assert payload[sid:sid + 8] == live[sid:sid + 8], where + ": NID of the session"
                self.learn(self.pairs, payload[sid:sid + 16], live[sid:sid + 16],
                           where + ": session id")
        payload, live = bytearray(payload), bytearray(live)
        for begin, end, _ in self.masks.get(kind, []):
            payload[begin:end] = live[begin:end] = b"\0" * (end - begin)
        return bytes(payload), bytes(live)

    def ended(self, daemon):
        """Ends the node under test and sees its connections end: it sent nothing more."""
        daemon.stop()
        for thread in self.readers:
            thread.join(lib.DEADLINE_S)
            assert not thread.is_alive(), "a connection did not end with its node"
        self.nothing_more(over=True)
        assert not self.bulk_late - self.bulk_known, "large messages never went by BULK"
        self.close()

    def nothing_more(self, over=False):
        """Nothing that came is left. What is still under way is seen by ended()."""
        while not self.received.empty():
            conn, live = self.received.get()
            if conn is None:
                raise live
            assert live is not None or over, f"connection {conn.ctype} closed early"
            if live is not None:
                self.pool.append((conn, live))
        rest = [self.form.shape(live) for _, live in self.pool]
        assert not rest, f"surplus messages {rest}"


def mask_ping(payload):
    """The sequence number (status of entry 0) counts this node's own changes."""
    return payload[:24] + b"\0" * 4 + payload[28:]


def payload_of(record):
    length, fill = record["length"], record.get("fill")
    if fill and fill.startswith("repeat:"):
        word = bytes.fromhex(fill[7:])
        data = word * (length // len(word))
    elif fill == "zero":
        data = b"\0" * length
    else:  # check=simple: only both ends of each page are defined
        word = bytes.fromhex("b3eeb2eeb1eeb0ee")
        page = word + b"\0" * (4096 - 16) + word
        return page * (length // 4096)
    want = record["crc32"]
    assert zlib.crc32(data) == (int(want, 16) if isinstance(want, str) else want)
    return data


def compare_ends(where, want, live):
    assert len(want) == len(live), f"{where}: {len(live)} bytes, expected {len(want)}"
    for page in range(0, len(want), 4096):
        for at in (page, page + 4088):
            word = live[at:at + 8]
            assert want[at:at + 8] == word, f"{where}: word at {at}: {word.hex()}"
