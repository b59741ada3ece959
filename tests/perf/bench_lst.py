"""lst between two daemons on loopback, beside iperf3 and a blocking TCP ping-pong.

write and read: 1 MiB RPCs, concurrency 8, no checking, MiB/s; the reference is the better of
iperf3 with 1 and with 4 streams of 1 MiB writes. ping_latency: median round trip of a ping RPC
(256 bytes on the wire each way), microseconds; the reference sends 256 bytes to and fro between two
processes over blocking TCP. Every figure of a round is measured in the same minute.
"""
import json
import os
import subprocess

import lib
import measure

ADDRESSES = ()
NID_A, NID_B = "127.0.0.1@tcp", "127.0.0.2@tcp"


def lst_bench(console, test, size, seconds, client=NID_A, server=NID_B):
    out = console.lst("bench", client, server, "--test", test, "--sizes", size, "--seconds",
                      str(seconds), "--concurrency", "1" if test == "ping" else "8", "--check",
                      "none", "--json")[1]
    runs = json.loads(out)["runs"]
    assert len(runs) == 1 and runs[0]["errors"] == 0, out
    return runs[0]


def iperf3(streams, seconds):
    server = subprocess.Popen(["iperf3", "-s", "-1", "-B", "127.0.0.2", "-p", "5201"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, LC_ALL="C"))
    try:
        def connect():
            """None while the server does not listen yet; iperf3 tells failures in its JSON."""
            out = lib.run("iperf3", "-c", "127.0.0.2", "-B", "127.0.0.1", "-p", "5201", "-P",
                          str(streams), "-l", "1M", "-t", str(seconds), "-J", check=False)[1]
            result = json.loads(out)
            error = result.get("error", "")
            assert not error or "unable to connect" in error, error
            return None if error else result
        result = lib.wait_for(connect, "iperf3")
        return result["end"]["sum_received"]["bits_per_second"] / 8 / 2**20
    finally:
        try:
            server.wait(2)  # -1: it ends after its client
        except subprocess.TimeoutExpired:
            server.terminate()
            server.wait(10)


def pingpong(seconds):
    out = lib.run(os.path.join(os.environ["ULNET_PERF"], "tcp_pingpong"), "256", str(seconds))[1]
    return json.loads(out)["p50_us"]


def main(quick):
    seconds = 0.5 if quick else 2
    rounds = 2 if quick else measure.ROUNDS
    a, b = lib.Daemon(NID_A), lib.Daemon(NID_B)
    lst_bench(a, "write", "1M", 1)  # connections up, pages touched
    for test in ("write", "read"):
        measure.side_by_side(
            f"lst.loopback.{test}.1M", "MiB/s",
            lambda test=test: lst_bench(a, test, "1M", seconds)["mib_per_s"],
            lambda: max(iperf3(1, 1 if quick else 2), iperf3(4, 1 if quick else 2)), rounds)
    measure.side_by_side("lst.loopback.ping_latency", "us",
                         lambda: lst_bench(a, "ping", "4K", seconds)["p50_us"],
                         lambda: pingpong(seconds), rounds)
    a.stop()
    b.stop()
