"""Seeds of the fuzz targets, cut from the golden files: one generator of bytes a target."""
import json
import pathlib
import re
import struct

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
CAPTURES = ("01-lnet-ping-discovery", "02-lst", "14-host-process-ping", "17-ipv6", "21-lst-details")
FRAME_BYTES = 24  # of socklnd, before each LNet header


def records(name):
    with open(GOLDEN / f"{name}.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def captured(kind):
    for name in CAPTURES:
        yield from (r for r in records(name) if r["kind"] == kind)


def constructed(name, prefix=""):
    for record in records(f"constructed/{name}"):
        if record["struct"].startswith(prefix) and record["bytes"]:
            yield bytes.fromhex(record["bytes"])


def texts(name, key):
    for record in records(f"constructed/{name}"):
        if key in record["fields"]:
            yield record["fields"][key].encode()


def headers(end):
    for record in captured("lnet"):
        if record["hdr"] == end:
            yield bytes.fromhex(record["bytes"])[FRAME_BYTES:end]


def acceptor():
    yield from constructed("acceptor")
    yield from (bytes.fromhex(r["bytes"]) for r in captured("connreq"))


def hello():
    yield from constructed("hello", "ksock_hello")
    yield from (bytes.fromhex(r["bytes"]) for r in captured("hello"))


def frame():
    # One byte before the frames tells version and order.
    for record in records("constructed/socklnd_frame"):
        version = int(record["struct"][-1])
        pick = version - 1 + (4 if record["order"] == "be" else 0)
        yield bytes([pick]) + bytes.fromhex(record["bytes"])[:8192]


def hdr4():
    yield from constructed("lnet_header", "lnet_hdr_nid4")
    yield from headers(96)


def hdr16():
    yield from constructed("lnet_header", "lnet_hdr_nid16")
    yield from headers(120)


def nid():
    yield from texts("nid_text", "text")
    yield from constructed("nid_text")


def nidrange():
    yield from texts("nidlist", "expr")


def ping():
    yield from constructed("ping_info")
    for record in captured("lnet"):
        if "ping_seq" in record:
            yield bytes.fromhex(record["bytes"])[record["hdr"]:]


def process_id():
    yield from constructed("lnet_header", "lnet_process_id")


def yaml():
    for name in ("lnetctl.txt", "01-lnet.txt"):
        text = (GOLDEN / "transcripts" / name).read_text(encoding="utf-8")
        for part in re.split(r"^(?:[$#].*|rc=.*)$", text, flags=re.M):
            if part.strip():
                yield part.encode()


def json_():
    for name in ("nid_text", "ping_info"):
        for record in records(f"constructed/{name}")[:40]:
            yield json.dumps(record).encode()


def fault_rule():
    yield from (text.encode() for text in (
        "action=drop,source=10.0.[0-3,7].*@tcp,message=put+ack,portal=0+50,rate=10,count=3,"
        "health=local_error+network_timeout",
        "action=delay,on=both,interval=250ms,time=1500ms", "action=stall,peer=*@o2ib,time=1h",
        "action=stream_reset,after=1K,on=send", "action=corrupt,dest=1.2.3.4@tcp,local=*@tcp"))


def pcap(packets):
    """A file of link type 101 (IP)."""
    yield struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101)
    for packet in packets:
        yield struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet


def pcapng(link_type, packets):
    yield struct.pack("<IIIHHQI", 0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0, 2**64 - 1, 28)
    yield struct.pack("<IIHHIHHIII", 1, 32, link_type, 0, 0, 9, 1, 9, 0, 32)
    for packet in packets:
        padding = bytes(-len(packet) % 4)
        length = 32 + len(packet) + len(padding)
        yield struct.pack("<IIIIIII", 6, length, 0, 0, 0, len(packet), len(packet))
        yield packet + padding + struct.pack("<I", length)


def wiredump():
    # One byte before the file picks what is printed.
    for name in CAPTURES:
        numbers, packets = {}, []
        for record in records(name):
            if "bytes" not in record or len(packets) == 40:
                continue
            data = bytes.fromhex(record["bytes"])[:1400]
            ports = [int(record[end].rsplit(":", 1)[1]) for end in ("src", "dst")]
            number = numbers.get(record["src"] + record["dst"], 0)
            numbers[record["src"] + record["dst"]] = number + len(data)
            tcp = struct.pack(">HHIIBBHHH", *ports, number, 0, 0x50, 16, 0, 0, 0) + data
            packets.append(struct.pack(">BBHIBBHII", 0x45, 0, 20 + len(tcp), 0, 64, 6, 0,
                                       0x0a000001, 0x0a000002) + tcp)
        yield b"\1" + b"".join(pcap(packets))
        yield b"\4" + b"".join(pcapng(101, packets))
    nid = struct.pack(">BBHI", 0, 2, 0, 0x0a000001) + bytes(12)
    for record in captured("lnet"):
        if record["hdr"] == 120:
            data = bytes.fromhex(record["bytes"])[FRAME_BYTES:]
            head = struct.pack(">BBBBi", 1, 1, 1, 0, 0) + nid + nid
            yield b"\1" + b"".join(pcapng(147, [head + struct.pack(">II", 12345, len(data) - 96)
                                                + data]))


def selftest():
    yield from constructed("selftest", "srpc_")
    for record in captured("lnet"):
        if "srpc_type" in record:
            yield bytes.fromhex(record["bytes"])[record["hdr"]:]


# Target -> its seeds. A target that is not listed starts from nothing.
TARGETS = (acceptor, fault_rule, frame, hdr4, hdr16, hello, nid, nidrange, ping, process_id,
           selftest, wiredump, yaml)
SEEDS = {f.__name__: f for f in TARGETS}
SEEDS["json"] = json_
