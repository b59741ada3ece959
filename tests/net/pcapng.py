"""An independent reader of pcap-ng, for traces of lnetd: checks every block's form while it reads.

It shares nothing with the product: offsets are those of docs/wire/trace.md and of the draft of
pcap-ng.
"""
import dataclasses
import ipaddress
import struct

LINK_TYPE = 147
KINDS = {1: "message", 2: "finished", 3: "discarded", 4: "parked", 5: "peer_event", 6: "ni_event"}
TYPES = {0: "ACK", 1: "PUT", 2: "GET", 3: "REPLY"}


@dataclasses.dataclass
class Interface:
    name: str
    snap: int
    received: int = -1
    dropped: int = -1


@dataclasses.dataclass
class Record:
    interface: int
    time_ns: int
    flags: int
    kind: str
    direction: int
    detail: int
    status: int
    ni: str
    peer: str
    length: int
    type: str = ""
    src: str = ""
    dest: str = ""
    payload: bytes = b""


def nid(raw):
    size, net_type, number = struct.unpack(">BBH", raw[:4])
    if net_type == 0xff:
        return "<?>"
    address = ipaddress.ip_address(raw[4:20] if size == 12 else raw[4:8])
    name = {2: "tcp", 9: "lo"}[net_type]
    text = "0" if name == "lo" else str(address)
    return f"{text}@{name}{number or ''}"


def options(data):
    """Of a block; they must be closed."""
    found = {}
    while True:
        code, length = struct.unpack_from("<HH", data)
        if code == 0:
            assert length == 0 and len(data) == 4, "bytes behind the end of the options"
            return found
        found[code] = data[4:4 + length]
        padded = (length + 3) // 4 * 4
        assert data[4 + length:4 + padded] == bytes(padded - length), "padding is not zero"
        data = data[4 + padded:]


def packet(body):
    interface, high, low, captured, original = struct.unpack_from("<IIIII", body)
    data, rest = body[20:20 + captured], body[20 + captured:]
    padding = -captured % 4
    assert rest[:padding] == bytes(padding), "padding is not zero"
    flags = struct.unpack("<I", options(rest[padding:])[2])[0]
    version, direction, kind, detail, status = struct.unpack_from(">BBBBi", data)
    assert version == 1
    pid, length = struct.unpack_from(">II", data, 48)
    del pid
    record = Record(interface, high << 32 | low, flags, KINDS[kind], direction, detail, status,
                    nid(data[8:28]), nid(data[28:48]), length)
    if record.kind in ("peer_event", "ni_event"):
        assert captured == original == 56
        return record
    header = data[56:152]
    assert original == 152 + length
    record.dest, record.src = nid(header[:20]), nid(header[20:40])
    record.type = TYPES[struct.unpack_from("<I", header, 48)[0]]
    assert struct.unpack_from("<I", header, 52)[0] == length
    record.payload = data[152:]
    return record


def read(path):
    """(interfaces, records)"""
    with open(path, "rb") as file:
        data = file.read()
    interfaces, records, first = [], [], True
    while data:
        kind, length = struct.unpack_from("<II", data)
        assert length % 4 == 0 and 12 <= length <= len(data), length
        assert struct.unpack_from("<I", data, length - 4)[0] == length, "lengths differ"
        body, data = data[8:length - 4], data[length:]
        if first:
            assert kind == 0x0a0d0d0a and body[:16] == struct.pack("<IHHQ", 0x1a2b3c4d, 1, 0,
                                                                   2**64 - 1)
            assert options(body[16:])[4] == b"ulnet"
        elif kind == 1:
            link, zero, snap = struct.unpack_from("<HHI", body)
            assert link == LINK_TYPE and zero == 0
            found = options(body[8:])
            assert found[9] == b"\x09", "nanoseconds"
            interfaces.append(Interface(found[2].decode(), snap - 152))
        elif kind == 6:
            record = packet(body)
            on = interfaces[record.interface]
            assert record.ni == on.name and len(record.payload) <= on.snap
            records.append(record)
        elif kind == 5:
            found = options(body[12:])
            on = interfaces[struct.unpack_from("<I", body)[0]]
            on.received, on.dropped = (struct.unpack("<Q", found[c])[0] for c in (4, 5))
        else:
            raise AssertionError(f"block of type {kind}")
        first = False
    return interfaces, records
