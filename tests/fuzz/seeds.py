"""Seeds of the fuzz targets, cut from the golden files: one generator of bytes a target."""
import json
import pathlib
import re

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


def selftest():
    yield from constructed("selftest", "srpc_")
    for record in captured("lnet"):
        if "srpc_type" in record:
            yield bytes.fromhex(record["bytes"])[record["hdr"]:]


# Target -> its seeds. A target that is not listed starts from nothing.
TARGETS = (acceptor, frame, hdr4, hdr16, hello, nid, nidrange, ping, process_id, selftest, yaml)
SEEDS = {f.__name__: f for f in TARGETS}
SEEDS["json"] = json_
