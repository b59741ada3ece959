#!/usr/bin/env python3
"""Replays captures 25: a process makes some ninety mistakes against a kernel node, one a step.

Our node takes the kernel's place. What the process sent is sent again, over the same number of
connections; what the kernel sent must come, byte for byte but for incarnations, and where the
kernel closed a connection ours must end it (with FIN or RST: which one depends on what had been
read). Where ours does something else on purpose, DIFFERENT says so by step and record.
"""
import socket
import struct

import lib
from golden_play import FORM3, Player, load, mask_ping, nid4, payload_of

KERNEL, PROCESS = "10.77.0.3", "10.77.0.1"
PRIVILEGED_HIGH = 1023
REPLY, REPLY_BYTES = 3, 144  # to a ping, with two NIDs
DIALS = "a peer that our node has no suitable connection to is dialled, so that no REPLY is lost"
# What ours does differently: step -> why, records that do not come, and bytes of others that are
# not the captured ones, as (record, offset): bytes. At record 0 stand answers that the kernel does
# not give: how many.
DIFFERENT = {
    "ANY only, ping, listener on 988": (DIALS, (), {}),
    "BULK_OUT only (peer: BULK_IN), ping, listener on 988": (DIALS, (), {}),
    "CONTROL only, ping, listener on 988": (DIALS + "; known by now", (), {}),
    "connreq big-endian + hello big-endian":
        ("the kernel swaps the bytes of the destination NID too often, which nobody reads", (),
         {(162, 16): struct.pack("<Q", nid4(PROCESS))}),
    "GET with c0=7 (zc request): is an ACK sent?":
        ("a request for an ACK is answered, whatever carries it; the connection stays", (428,),
         {(427, 16): struct.pack("<Q", 7)}),
    "PUT portal 0 ping matchbits (push, reserved portal), 8 bytes":
        ("our node starts no discovery of its own", (522,), {}),
    "port 2001, ANY":
        ("a guest cannot be dialled: what it opened must do", (), {(0, 0): 2}),
    "src pid 777":
        ("a REPLY that finds no way to its process is no fault of the connection", (706, 707), {}),
}


def steps(records):
    """(text, records) of each step."""
    text, group = "", []
    for record in records:
        if record["kind"] == "step":
            if group:
                yield text, group
            text, group = record["text"], []
        elif record["kind"] not in ("file", "stream", "end"):
            group.append(record)
    yield text, group


def masked(data):
    """A HELLO without incarnations; a ping's REPLY without the sequence number."""
    if data[:4] == b"cirE":
        at = 56 if data[4] == 4 else 32
        return data[:at] + b"\0" * 16 + data[at + 16:]
    for at in (96, 120):
        if data[at:at + 4] == b"gnip":
            return data[:at] + mask_ping(data[at:])
    return data


class Conversation:
    """The connections of one step."""

    def __init__(self, text, records):
        self.text, self.socks = text, {}
        self.why, gone, self.edits = DIFFERENT.get(text, ("", (), {}))
        self.records = [record for record in records if record["n"] not in gone]
        self.listener = None
        if "listener on 988" in text:
            self.listener = socket.socket()
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind((PROCESS, 988))
            self.listener.listen(8)

    def sock(self, record):
        if record["conn"] not in self.socks:
            source = int(next(r["src"] for r in self.records
                              if r.get("conn") == record["conn"] and "src" in r).split(":")[1])
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.settimeout(lib.DEADLINE_S)
            if source <= PRIVILEGED_HIGH:
                source, Player.port = Player.port, Player.port - 1
            sock.bind((PROCESS, source))
            sock.connect((KERNEL, 988))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socks[record["conn"]] = sock
        return self.socks[record["conn"]]

    def where(self, record):
        return f"{self.text}, record {record['n']}"

    def send(self, record):
        data = bytes.fromhex(record["bytes"])
        if record.get("elided"):
            data = data[:96] + payload_of(record)
        try:
            self.sock(record).sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the node had seen enough; that it closed is checked in its place

    def read(self, record, count):
        got, sock = b"", self.sock(record)
        while len(got) < count:
            part = sock.recv(count - len(got))
            assert part, f"{self.where(record)}: closed after {len(got)} of {count} bytes"
            got += part
        return got

    def receive(self, record):
        want = bytearray.fromhex(record["bytes"])
        for (number, at), data in self.edits.items():
            if number == record["n"]:
                want[at:at + len(data)] = data
        got = self.read(record, len(want))
        assert masked(got) == masked(want), \
            f"{self.where(record)}:\n {masked(got).hex()}, expected\n {masked(want).hex()}"

    def at_end(self, record):
        """The node sends nothing more and closes."""
        try:
            rest = self.sock(record).recv(4096)
        except ConnectionResetError:
            rest = b""
        assert rest == b"", f"{self.where(record)}: surplus {rest.hex()}"

    def close(self, record):
        for _ in range(self.edits.get((0, 0), 0)):
            got = self.read(record, REPLY_BYTES)
            assert FORM3.type_of(got)[0] == REPLY, f"{self.where(record)}: {got.hex()}"
        try:
            self.sock(record).shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the node was faster
        self.at_end(record)

    def play(self):
        sent = set()
        for record in self.records:
            number, kind = record["n"], record["kind"]
            if number in sent or kind == "conn":
                continue
            ours = record["dir"] == "i2r"
            if kind == "close" and not ours:
                # What the capture lists when the stream ended was sent before that.
                for late in self.records:
                    if late["n"] > number and late["kind"] == "raw" and \
                            late["conn"] == record["conn"]:
                        self.send(late)
                        sent.add(late["n"])
            if kind == "close":
                (self.close if ours else self.at_end)(record)
            else:
                (self.send if ours else self.receive)(record)
        for sock in self.socks.values():
            sock.close()
        if self.listener:
            self.listener.close()


def quiet(daemon):
    """Nothing is under way: an attempt to connect would get the next step's connection refused."""
    if daemon.show("stats", "show")["statistics"]["msgs_alloc"] > 0:
        return False
    return not any(peer["connecting"]
                   for net in daemon.show("net", "show", "-v", "5")["net"]
                   for ni in net["local NI(s)"] for peer in ni.get("driver", {}).get("peers", []))



def silent(text):
    return "silence" in text or "list missing" in text


def play(name, tunables, wanted=lambda text: True):
    daemon = lib.Daemon(KERNEL + "@tcp", tunables)
    failed = []
    for text, records in steps(load(name)):
        if not wanted(text):
            continue
        try:
            Conversation(text, records).play()
        except (AssertionError, OSError) as error:
            failed.append(str(error) or repr(error))
        lib.wait_for(lambda: quiet(daemon), f"the end of what came of: {text}")
    assert not failed, "\n".join(failed)
    daemon.stop()


def golden_25_secure():
    play("25-errors-secure.jsonl", {"accept": "secure", "accept_timeout": lib.DEADLINE_S},
         lambda text: not silent(text))


def golden_25_secure_silence():
    """The kernel waits 5 s; our node is told to wait less."""
    play("25-errors-secure.jsonl", {"accept": "secure", "accept_timeout": 1}, silent)


def golden_25_accept_all():
    play("25-errors-accept-all.jsonl", {"accept": "all"})


if __name__ == "__main__":
    lib.enter(KERNEL, PROCESS)
    lib.cases(golden_25_secure, golden_25_secure_silence, golden_25_accept_all)
