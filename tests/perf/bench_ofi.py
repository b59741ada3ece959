"""The libfabric driver (ours) beside a raw loop over the same provider (reference).

Two processes each. Bandwidth: PUTs (write) and GETs (read) of 1 MiB, eight at a time, each between
a buffer of its own here and one there, beside RMA writes and reads of the same. Latency: the
one-way time of 64 bytes, by PUTs to and fro with workers that poll, beside messages to and fro.
One worker each, as the loops have one thread.
"""
import json
import os
import subprocess

import lib
import measure

ADDRESSES = ()
DEPTH, BYTES, PING_BYTES = 8, 1 << 20, 64
PROVIDERS = {"tcp": "tcp;ofi_rxm", "shm": "shm"}
NIDS = ("17@kfi", "18@kfi")


def program(name):
    return os.path.join(os.environ["ULNET_PERF"], name)


def config(folder, provider, number):
    """A file for the node with this number."""
    where = {nid: f"127.0.0.{i + 1}:6001" if provider == "tcp" else f"ulnet-bench-{i}"
             for i, nid in enumerate(NIDS)}
    path = os.path.join(folder, f"{provider}{number}.yaml")
    with open(path, "w") as file:
        file.write("net:\n    - net type: kfi\n      local NI(s):\n"
                   f"        - nid: {NIDS[number]}\n          addresses:\n")
        file.writelines(f"              {nid}: {place}\n" for nid, place in where.items())
        file.write("          lnd tunables:\n"
                   f"              provider: {PROVIDERS[provider]}\n              poll_us: 200\n")
    return path


def ours(folder, provider, test, seconds):
    shape = ("1", str(PING_BYTES)) if test == "ping" else (str(DEPTH), str(BYTES))
    server = subprocess.Popen(
        [program("lnet_loop"), config(folder, provider, 0), os.path.join(folder, "a.sock"), "serve",
         *shape], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert server.stdout.readline() == b"ready\n"
        args = [PING_BYTES] if test == "ping" else [DEPTH, BYTES]
        output = lib.run(program("lnet_loop"), config(folder, provider, 1),
                         os.path.join(folder, "b.sock"), test, NIDS[0], *map(str, args),
                         str(seconds))[1]
        return json.loads(output)
    finally:
        server.stdin.close()
        server.wait()


def raw(provider, test, seconds):
    size = PING_BYTES if test == "ping" else BYTES
    return json.loads(lib.run(program("ofi_raw"), PROVIDERS[provider], test, str(DEPTH), str(size),
                              str(seconds))[1])


def main(quick):
    seconds = 0.3 if quick else 2
    rounds = 2 if quick else measure.ROUNDS
    folder = lib.folder()
    lib.run("mount", "-t", "tmpfs", "shm", "/dev/shm")  # what the loops leave goes with it
    for provider in PROVIDERS:
        for name, test, key, unit in (("bandwidth.write", "write", "mib_per_s", "MiB/s"),
                                      ("bandwidth.read", "read", "mib_per_s", "MiB/s"),
                                      ("latency", "ping", "one_way_us", "us")):
            measure.side_by_side(
                f"ofi.{provider}.{name}", unit,
                lambda p=provider, t=test, k=key: ours(folder, p, t, seconds)[k],
                lambda p=provider, t=test, k=key: raw(p, t, seconds)[k], rounds)
    for cleanup in lib.cleanups:
        cleanup()
