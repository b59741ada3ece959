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
ANY, CONTROL, BULK_IN, BULK_OUT = 0, 1, 2, 3
INVERSE = {ANY: ANY, CONTROL: CONTROL, BULK_IN: BULK_OUT, BULK_OUT: BULK_IN}

# Ranges of a selftest payload that differ from run to run, by message type, with the reason.
MASKS = {
    14: [(40, 56, "time at which the ping was sent")],
    7: [(44, 160, "counters and running time of the node")],
    5: [(44, 48, "how many units happen to be active at that moment")],
}


def nid4(address):
    octets = [int(part) for part in address.split(".")]
    return (2 << 48) | (octets[0] << 24) | (octets[1] << 16) | (octets[2] << 8) | octets[3]


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


class Frame:
    """One socklnd v3 frame as received."""

    def __init__(self, ctype, data):
        self.ctype, self.data = ctype, data
        self.kind, self.csum, self.zc0, self.zc1 = struct.unpack_from("<IIQQ", data)
        if self.kind == 0xC1:
            (self.dst, self.src, self.dst_pid, self.src_pid, self.type,
             self.length) = struct.unpack_from("<QQIIII", data, 24)
        self.payload = data[96:]


def shape(kind, data):
    """What makes two messages the same one of a conversation."""
    if kind == 0xC0:
        return ("noop",)
    mtype, length = struct.unpack_from("<II", data, 24 + 24)
    portal = struct.unpack_from("<I", data, 24 + (64 if mtype == 1 else 56))[0] \
        if mtype in (1, 2) else None
    srpc = struct.unpack_from("<I", data, 96 + 8)[0] if length == 160 and mtype == 1 else None
    bits = struct.unpack_from("<Q", data, 24 + 48)[0] if portal in (50, 51) else None
    return (mtype, portal, length, srpc, bits)


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
                    data += self.read_exact(72)
                    data += self.read_exact(struct.unpack_from("<I", data, 24 + 28)[0])
                self.player.received.put((self, Frame(self.ctype, data)))
        except (EOFError, OSError):
            self.player.received.put((self, None))


class Player:
    """Plays every node of the capture but `under_test` (an address)."""

    # Of all players: a pair of addresses and ports that was in use may not be used again soon.
    port = 1023

    def __init__(self, under_test, hello_bytes, incarnation=b"\x11" * 8):
        self.under_test, self.hello_bytes = under_test, hello_bytes
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

    # --- connections -----------------------------------------------------------------------
    def hello(self, local, ctype):
        """A HELLO as captured, with NIDs, incarnation and type put in."""
        return (self.hello_bytes[:8] + struct.pack("<QQ", nid4(local), nid4(self.under_test))
                + self.hello_bytes[24:32] + self.incarnation + self.hello_bytes[40:48]
                + struct.pack("<i", ctype) + self.hello_bytes[52:])

    def check_hello(self, data, local, ctype):
        want = (self.hello_bytes[:8] + struct.pack("<QQ", nid4(self.under_test), nid4(local))
                + self.hello_bytes[24:32])
        assert data[:32] == want, f"HELLO {data[:32].hex()}, expected {want.hex()}"
        assert data[32:40] != b"\0" * 8, "HELLO without an incarnation"
        self.incarnation_seen.append(data[32:40])
        assert self.incarnation_seen[0] == data[32:40], "two incarnations of one NI"
        # dst incarnation: 0 from an active node, an echo from a passive one; receivers ignore it
        assert struct.unpack_from("<iI", data, 48) == (ctype, 0), f"HELLO ends {data[48:].hex()}"

    def connect(self, local, ctype):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.settimeout(lib.DEADLINE_S)
        sock.bind((local, Player.port))
        Player.port -= 1
        sock.connect((self.under_test, 988))
        sock.sendall(struct.pack("<IIQ", CONNREQ_MAGIC, 1, nid4(self.under_test)))
        sock.sendall(self.hello(local, ctype))
        answer = b""
        while len(answer) < 56:
            part = sock.recv(56 - len(answer))
            assert part, f"connection closed after {len(answer)} bytes of HELLO"
            answer += part
        self.check_hello(answer, local, INVERSE[ctype])
        if ctype == BULK_IN:
            self.bulk_known.add(local)  # a node knows the connection before it answers
        return self.add(Conn(self, sock, ctype, local, answer))

    def add(self, conn):
        self.readers.append(conn.thread)
        self.conns[conn.local, conn.ctype] = conn
        return conn

    def listen(self, local):
        listener = socket.socket()
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
                data = b""
                while len(data) < 16 + 56:
                    part = sock.recv(16 + 56 - len(data))
                    if not part:
                        raise EOFError
                    data += part
                want = struct.pack("<IIQ", CONNREQ_MAGIC, 1, nid4(local))
                assert data[:16] == want, f"connection request {data[:16].hex()}"
                assert 512 <= address[1] <= 1023, f"source port {address[1]}"
                ctype = struct.unpack_from("<i", data, 16 + 48)[0]
                self.check_hello(data[16:], local, ctype)
                sock.sendall(self.hello(local, INVERSE[ctype]))
                self.add(Conn(self, sock, INVERSE[ctype], local, data[16:]))
            except (AssertionError, EOFError) as error:
                self.received.put((None, error))

    def close(self):
        for sock in [*self.listeners, *(conn.sock for conn in self.conns.values())]:
            try:
                sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in it
            except OSError:
                pass  # the other end was faster
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
        local = record["src"].split(":")[0]
        if record["kind"] == "noop":
            want = BULK_IN
        else:
            want = BULK_OUT if len(data) >= 1024 else CONTROL
        return lib.wait_for(lambda: self.conns.get((local, want)) or None,
                            f"a connection of type {want} with {local}")

    def send(self, record):
        data = bytes.fromhex(record["bytes"])
        if record.get("elided"):
            data = data[:96] + payload_of(record)
        data = self.put_in_place(data)
        self.conn_for(record, data).sock.sendall(data)

    def expect(self, record):
        data = bytes.fromhex(record["bytes"])
        want_local = record["dst"].split(":")[0]
        kind = data[0]
        wanted = shape(kind, data)
        end = time.monotonic() + lib.DEADLINE_S
        while True:
            for item in self.pool:
                conn, frame = item
                if conn.local == want_local and shape(frame.kind, frame.data) == wanted and \
                        self.same_target(data, frame):
                    self.pool.remove(item)
                    self.compare(record, data, conn, frame)
                    return
            try:
                conn, frame = self.received.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(
                    f"record {record['n']}: no {wanted} came; waiting: "
                    f"{[shape(f.kind, f.data) for _, f in self.pool]}") from None
            if conn is None:
                raise frame
            if frame is None:
                raise AssertionError(f"record {record['n']}: connection {conn.ctype} was closed")
            self.pool.append((conn, frame))

    def same_target(self, data, frame):
        if frame.kind == 0xC0:
            return data[16:24] == frame.data[16:24]
        mtype = struct.unpack_from("<I", data, 48)[0]
        if mtype in (3, 0):  # REPLY, ACK: the handle is the played node's own
            return data[56:72] == frame.data[56:72]
        portal = struct.unpack_from("<I", data, 24 + (64 if mtype == 1 else 56))[0]
        # Replies and bulk carry an id the played node drew; requests are told by their shape,
        # and those that may be under way together by what numbers them.
        if portal == 52:
            return data[72:80] == frame.data[72:80]
        return numbered(data[96:]) == numbered(frame.payload)

    def learn(self, table, old, new, what):
        """First sight of a value the node under test chose; later it must be the same one."""
        assert table.setdefault(old, new) == new, f"{what}: {new.hex()} is not the one used before"

    def compare(self, record, data, conn, frame):
        where = f"record {record['n']}"
        if frame.kind == 0xC0:
            assert self.put_in_place(data) == frame.data, \
                f"{where}: NOOP {frame.data.hex()}, expected {data.hex()}"
            return
        mtype = frame.type
        payload = payload_of(record) if record.get("elided") else data[96:]
        head, live = bytearray(data[:96]), bytearray(frame.data[:96])
        # A sender need not ask for zero-copy ACKs; our node does not.
        head[8:16] = live[8:16] = b"\0" * 8
        if mtype in (1, 2) and data[56:72] != b"\xff" * 16:
            self.learn(self.pairs, data[56:72], frame.data[56:72], "handle")
        if len(payload) == 160 and mtype == 1:
            payload, live_payload = self.compare_selftest(where, payload, frame.payload)
        else:
            live_payload = frame.payload
        head = bytearray(self.put_in_place(bytes(head)))
        if record.get("portal") == 0 or mtype == 3 and len(payload) == 48 and \
                payload[:4] == b"ping"[::-1]:
            payload, live_payload = mask_ping(payload), mask_ping(live_payload)
        assert head == live, f"{where}: header\n {live.hex()}, expected\n {head.hex()}"
        if record.get("elided") and "fill" not in record:
            compare_ends(where, payload, live_payload)
        else:
            payload = self.put_in_place(payload)
            assert payload == live_payload, \
                f"{where}: payload\n {live_payload.hex()[:400]}, expected\n {payload.hex()[:400]}"
        self.compare_connection(where, conn, len(frame.data) >= 1024)

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
        for begin, end, _ in MASKS.get(kind, []):
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
            conn, frame = self.received.get()
            if conn is None:
                raise frame
            assert frame is not None or over, f"connection {conn.ctype} closed early"
            if frame is not None:
                self.pool.append((conn, frame))
        rest = [shape(frame.kind, frame.data) for _, frame in self.pool]
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
