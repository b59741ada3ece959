"""Seeds of the fuzz targets, cut from the golden files: one generator of bytes a target."""
import json
import pathlib
import re
import struct

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
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


# The steps of a program (engine/game.h) and what a connection's peer does (engine/adversary.h), by
# name. A step's byte is its number; with 128 added the next one follows in the same instant.
def enumeration(header, name):
    text = (HERE / "engine" / header).read_text(encoding="utf-8")
    body = re.search(rf"enum class {name} : u8 {{(.*?)}}", text, re.S)[1]
    return {n: i for i, n in enumerate(re.findall(r"^\s*(\w+),?", body, re.M))}


OP = enumeration("game.h", "Op")
POLICY = enumeration("adversary.h", "Policy")
RULES = bytes([0, 0, 0, 7, 0, 0, 0, 0])  # what a program begins with: IPv4, all as by default


def op(name, *rest):
    return bytes([OP[name], *rest])


def raw(data):
    return op("raw", 0, 1) + len(data).to_bytes(2, "little") + data


def conversation(version, order=0, kind=1, host=0):
    # how: host = how % 3, version from bits 2 on, order bit 4, type bits 5 and 6.
    base = ((version + 1) % 4) << 2 | order << 4 | kind << 5
    return op("conversation", next(h for h in range(base, base + 3) if h % 3 == host))


# handle: below 128 one that our node has sent, 128 none, from 192 on one that is made up.
def message(kind, payload=0, handle=0, bits=1, portal=1, offset=0, length=0):
    cookies = (5, 6) if handle >= 192 else ()
    return op("frame", 0, 0, kind, payload, handle, *cookies, bits, portal, offset, length, 0)


ATTACH = op("attach", 0, 8, 1, 0, 1, 0, 235)  # any sender, bits 1, portal 1, 65,536 bytes
LAZY = op("lazy", 1, 1)
PUT = op("put", 0, 1, 100, 0, 1, 1, 0)  # to host 0: ACK wanted, 100 bytes, portal 1
GET = op("get", 0, 100, 0, 1, 1, 0)
SECONDS = [op("wait", 0xc0 | n) for n in range(64)]
ACK, PUT_MESSAGE, GET_MESSAGE, REPLY = range(4)
FEATURES = 0x1c  # discovery, multi-rail, no routing
NIDS = (5, 1, 1, 1, 2)  # of the host itself and of the other two
PUSH = op("frame", 0, 128, PUT_MESSAGE, FEATURES, 7, 3, *NIDS, 128, 231, 0, 0, 0, 0)
PONG = op("frame", 0, 128, REPLY, FEATURES, 8, 3, *NIDS, 0, 0, 0, 0, 0, 0)
KEEPALIVE = op("frame", 0, 3 | 16, 1, 0)
# A PUT that asks for a zero-copy acknowledgement, with a checksum that is wrong (0 would be none).
ZERO_COPY = op("frame", 0, 8, 5, PUT_MESSAGE, 100, 128, 1, 1, 0, 0, 0)
CHECKSUM = op("frame", 0, 4, 9, 131, 235, 128, 1, 1, 0, 0, 0)
BULK = op("frame", 0, 0, 131, 235, 128, 1, 1, 0, 0, 0)  # a PUT of 65,536 bytes
BULK_PUT = op("put", 0, 1, 235, 0, 1, 1, 0)
TIGHT = bytes([0, 0, 0, 0xe7, 0, 0, 0, 0])  # one credit, four messages
FEW_CREDITS = bytes([0, 0, 0, 0xc7, 0, 0, 0, 0])


def captured_programs():
    for name in CAPTURES:
        frames = [bytes.fromhex(r["bytes"]) for r in records(name)
                  if r["kind"] == "lnet" and r["hdr"] == 96 and not r.get("elided")]
        for start in range(0, min(len(frames), 200), 10):
            yield RULES + ATTACH + conversation(3) + b"".join(map(raw, frames[start:start + 10]))


def engine():
    yield from captured_programs()
    for version in (1, 2, 3, 4):
        for order in (0, 1):
            yield (RULES + conversation(version, order) + ATTACH + message(PUT_MESSAGE, 100, 200) +
                   message(GET_MESSAGE, 0, 200, length=50) + message(PUT_MESSAGE, 0) + SECONDS[3])
            yield (RULES + LAZY + conversation(version, order) +
                   message(PUT_MESSAGE, 200, 200) * 3 + ATTACH + SECONDS[1] +
                   message(PUT_MESSAGE, 10))
        own = PUT + SECONDS[1] + GET + message(ACK) + message(REPLY, 100) + op("ping", 0)
        yield RULES + conversation(version) + own
        for policy in POLICY.values():
            yield (RULES + op("policy", 0, policy, version - 1) + own + SECONDS[5] + own +
                   SECONDS[20])
    for version in (1, 3, 4):
        yield RULES + conversation(version) + PUSH + PUSH + message(PUT_MESSAGE) + PUSH
        yield RULES + conversation(version) + op("ping", 0) + PONG + SECONDS[1] + PUSH
    for policy in (POLICY["silent"], POLICY["absent"], POLICY["honest"]):
        yield (TIGHT + op("policy", 0, policy, 2) + PUT * 4 + GET + op("ping", 0) + SECONDS[15] +
               conversation(3, 0, 1, 0) + message(PUT_MESSAGE, 10, 200) * 6 + SECONDS[30])
    for version in (1, 2, 3, 4):
        for order in (0, 1):
            begin = RULES + ATTACH + conversation(version, order)
            yield begin + KEEPALIVE + ZERO_COPY * 3 + KEEPALIVE + SECONDS[1] + ZERO_COPY
            yield begin + BULK * 2 + SECONDS[1] + CHECKSUM + SECONDS[1]
        deaf = op("policy", 0, POLICY["silent"], 0) + conversation(version) + op("reading", 0, 0)
        yield RULES + deaf + BULK_PUT * 3 + SECONDS[20]
        yield FEW_CREDITS + deaf + BULK_PUT * 5 + SECONDS[30]
    yield RULES + op("open", 0, 0) + op("request", 0, 0, 0) + op("hello", 0, 8, 0) + PUT
    yield RULES + op("open", 0, 0) + op("request", 0, 3, 0) + op("hello", 0, 9 | 4, 0) + SECONDS[6]
    yield (RULES + conversation(3) + op("pace", 0, 1) + message(PUT_MESSAGE, 20) +
           op("tune", 0, 2) + op("interface") + SECONDS[2] + op("interface") + conversation(3) +
           op("drop_peer", 0))
    yield (RULES + b"".join(conversation(3, 0, kind) for kind in (1, 2, 3)) + PUT * 4 +
           op("restart", 0) + conversation(3) + op("break_all", 0, 1) + SECONDS[30])


# Target -> its seeds. A target that is not listed starts from nothing.
TARGETS = (acceptor, engine, fault_rule, frame, hdr4, hdr16, hello, nid, nidrange, ping, process_id,
           selftest, wiredump, yaml)
SEEDS = {f.__name__: f for f in TARGETS}
SEEDS["json"] = json_
