#!/usr/bin/env python3
"""Links that go down and come back, their speed, and which of them carries what: two nodes in two
network namespaces with veth pairs between them.
"""
import ctypes
import fcntl
import functools
import json
import os
import socket
import struct

import lib
from faults import (BulkNode, Before, LONG, Network, OK, TIMED_OUT, counter, ni_of, only,
                    work_well)

LONG_WAIT_S = 300
SIOCETHTOOL, ETHTOOL_GSET, ETHTOOL_SSET, ETH_P_ALL = 0x8946, 1, 2, 3


def rails(count, **more):
    """Nodes with an NI on each of so many links; the first on tcp, the next on tcp1, ..."""
    network = Network()
    nids = []
    for i in range(count):
        here, there = f"10.9.{i}.1", f"10.9.{i}.2"
        network.link(f"v{i}", f"w{i}", [here + "/24"], [there + "/24"])
        net = "@tcp" + (str(i) if i else "")
        nids.append((here + net, there + net))
    a = BulkNode(nids[0][0], more_nids=[here for here, _ in nids[1:]], **more)
    b = BulkNode(nids[0][1], more_nids=[there for _, there in nids[1:]], network=network, **more)
    return network, a, b, nids


def end(network, *nodes):
    for node in nodes:
        node.stop()
    network.close()


def on_new_links(case):
    """A case that finds no links but lo, also after one that failed."""
    @functools.wraps(case)
    def run():
        for link in json.loads(lib.run("ip", "-j", "link")[1]):
            if link["ifname"] != "lo":
                # The other end of a pair, or one whose namespace has gone, may go by itself.
                lib.run("ip", "link", "del", link["ifname"], check=False)
        case()
    return run


def idle_s(node):
    """How long the connection has stood still that has something to send."""
    return max((c["idle_s"] for c in ni_of(node)["driver"]["connections"] if c["queued_bytes"] > 0),
               default=-1)


def link_down_for_less_than_the_time_out():
    # Whichever end: nothing fails.
    limit, still = (50, 10) if LONG else (20, 2)
    network, a, b, _ = rails(1, tunables={"timeout": limit})
    work_well(a, b)
    before = Before(a)
    for run, link in ((network.run, "w0"), (lib.run, "v0")):
        a.command("reset")
        for kind in ("put", "ack", "get"):
            a.start(kind, b)
        a.wait_ok(100)
        run("ip", "link", "set", link, "down")
        lib.wait_for(lambda: idle_s(a) >= still, "a connection that stands still", LONG_WAIT_S)
        run("ip", "link", "set", link, "up")
        a.wait_ok(100)
        ends = a.rest()
        assert set(ends) == {OK}, f"operations ended {ends}"
    assert counter(a, "timeouts") == 0 and counter(a, "connections_lost") == 0
    work_well(a, b)
    before.back()
    end(network, a, b)


def link_down_for_longer_than_the_time_out():
    network, a, b, _ = rails(1, tunables={} if LONG else {"timeout": 2})
    work_well(a, b)
    before = Before(a)
    for run, link in ((network.run, "w0"), (lib.run, "v0")):
        a.command("reset")
        a.start("put", b)
        a.wait_ok(100)
        run("ip", "link", "set", link, "down")
        only(a.wait(LONG_WAIT_S), (TIMED_OUT,), 8)
        run("ip", "link", "set", link, "up")
        # Whoever is asked first may still be waiting for its next attempt.
        lib.wait_for(lambda: a.lnetctl("ping", b.nid, check=False)[0] == 0, "the peer again")
        work_well(a, b)
        work_well(b, a)
        before.back()
    assert counter(a, "timeouts") == 2
    end(network, a, b)


def ethtool(name, command, speed=0):
    data = bytearray(44)
    struct.pack_into("=I", data, 0, command)
    struct.pack_into("=H", data, 12, speed & 0xFFFF)
    struct.pack_into("=H", data, 28, speed >> 16)
    with socket.socket() as sock:
        buffer = ctypes.create_string_buffer(bytes(data), len(data))
        request = struct.pack("16sP", name.encode(), ctypes.addressof(buffer)) + b"\0" * 16
        fcntl.ioctl(sock, SIOCETHTOOL, request)
    low, high = (struct.unpack_from("=H", buffer.raw, at)[0] for at in (12, 28))
    return high << 16 | low


def row_3_2_connections_by_the_speed_of_the_link():
    # One CONTROL, and so many of each bulk type: 1 up to 5 Gbit/s, 2 at 10, 3 at 50, 4 at 100. Taps
    # can be given a speed; what goes to an address of this machine goes by lo whatever it is on.
    pairs = []
    if os.path.exists("/dev/net/tun"):
        for i, speed in enumerate((1000, 10000, 50000, 100000)):
            for side in (1, 2):
                tap = f"t{i}{side}"
                lib.run("ip", "tuntap", "add", "mode", "tap", tap)
                lib.run("ip", "addr", "add", f"10.8.{i}.{side}/32", "dev", tap)
                lib.run("ip", "link", "set", tap, "up")
                ethtool(tap, ETHTOOL_SSET, speed)
            pairs.append((f"10.8.{i}.1@tcp", f"10.8.{i}.2@tcp", speed))
    else:
        print("no taps here: only the speed of a veth")
    lib.run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "w0")
    for side, link in ((1, "v0"), (2, "w0")):
        lib.run("ip", "addr", "add", f"10.7.0.{side}/32", "dev", link)
        lib.run("ip", "link", "set", link, "up")
    pairs.append(("10.7.0.1@tcp", "10.7.0.2@tcp", ethtool("v0", ETHTOOL_GSET)))
    for here, there, speed in pairs:
        bulk = {1000: 1, 10000: 2, 50000: 3, 100000: 4}[speed]
        a, b = BulkNode(here), BulkNode(there)
        work_well(a, b)
        want = sorted(["control"] + bulk * ["bulk_in", "bulk_out"])
        for node in (a, b):
            lib.wait_for(lambda node=node: types(node) == want, f"{want} at {speed} Mbit/s")
        # Another number at run time.
        for node in (a, b):
            node.lnetctl("net", "set", "--nid", node.nid, "--conns-per-peer", str(bulk + 1))
        want = sorted(["control"] + (bulk + 1) * ["bulk_in", "bulk_out"])

        def more(node=a, wanted=want):
            work_well(a, b)
            return types(node) == wanted
        lib.wait_for(more, f"{want} at run time")
        a.stop()
        b.stop()


def types(node):
    return sorted(c["type"] for c in ni_of(node)["driver"]["connections"])


def row_3_6_each_ni_uses_its_own_interface():
    # Two links in one subnet: by the routes all would go out by the first.
    network = Network()
    for i in range(2):
        network.link(f"v{i}", f"w{i}", [f"10.9.0.{1 + i}/24"], [f"10.9.0.{11 + i}/24"])
    a = BulkNode("10.9.0.1@tcp", {"bind_interface": 1}, more_nids=["10.9.0.2@tcp1"])
    b = BulkNode("10.9.0.11@tcp", {"bind_interface": 1}, more_nids=["10.9.0.12@tcp1"],
                 network=network)
    before = [moved(f"v{i}") for i in range(2)]
    for nid in ("10.9.0.11@tcp", "10.9.0.12@tcp1"):
        a.start("put", nid, slots=4, count=20)
        a.start("get", nid, slots=4, count=20)
    ends = a.wait()
    assert ends == {OK: 320}, ends
    for way in (0, 1):
        first, second = (moved(f"v{i}")[way] - before[i][way] for i in range(2))
        assert min(first, second) >= 80 << 20, (first, second)
        assert abs(first - second) <= 0.1 * max(first, second), (first, second)
    for nid, device in (("10.9.0.1@tcp", "v0"), ("10.9.0.2@tcp1", "v1")):
        assert ni_of(a, nid)["interfaces"] == {"0": device}
    end(network, a, b)


def moved(link):
    """Bytes sent and received."""
    stats = json.loads(lib.run("ip", "-s", "-j", "link", "show", link)[1])[0]["stats64"]
    return stats["tx"]["bytes"], stats["rx"]["bytes"]


def row_3_8_a_dead_rail_is_the_network_s_fault():
    # What one rail loses says nothing about the own interface, and the other rail goes on.
    network, a, b, nids = rails(2, tunables={"timeout": 2})
    for _, there in nids:
        a.start("put", there, slots=4, count=10)
    assert a.wait() == {OK: 80}
    a.command("reset")
    network.run("ip", "link", "set", "w1", "down")
    a.start("put", nids[1][1], slots=8)
    only(a.wait(), (TIMED_OUT,), 8)
    a.command("reset")
    a.start("put", nids[0][1], slots=8, count=10)
    assert a.wait() == {OK: 80}, a.ends()
    stats = a.show("stats", "show")["statistics"]
    assert stats["network_timeout_count"] == 8, stats
    for blamed in ("local_timeout_count", "local_error_count", "local_dropped_count",
                   "remote_error_count"):
        assert stats[blamed] == 0, stats
    network.run("ip", "link", "set", "w1", "up")
    lib.wait_for(lambda: a.lnetctl("ping", nids[1][1], check=False)[0] == 0, "the rail again")
    end(network, a, b)


def row_3_14_type_of_service_of_the_first_packet():
    # Of each NI its own, IPv4 and IPv6; TCP keeps the two low bits for itself.
    lib.run("ip", "addr", "add", "fd00::1/128", "dev", "lo", "nodad")
    lib.run("ip", "addr", "add", "fd00::2/128", "dev", "lo", "nodad")
    own = ["127.0.0.1@tcp", "127.0.1.1@tcp1", "fd00::1@tcp2"]
    others = ["127.0.0.2@tcp", "127.0.1.2@tcp1", "fd00::2@tcp2"]
    for values in ((-1, 0x68, 0xB8), (0, 255, -1), (0x68, -1, 255)):
        a, b = BulkNode(own[0], more_nids=own[1:]), BulkNode(others[0], more_nids=others[1:])
        for nid, tos in zip(own, values):
            a.lnetctl("net", "set", "--nid", nid, "--tunable", f"tos={tos}")
        want = {nid.split("@")[0]: max(tos, 0) & 0xFC for nid, tos in zip(own, values)}
        seen = {}
        with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL)) as sniffer:
            sniffer.bind(("lo", 0))
            sniffer.settimeout(lib.DEADLINE_S)
            for nid in others:
                a.start("put", nid, slots=1, size=100, count=1)
            assert a.wait() == {OK: 3}
            while len(seen) < len(want):
                found = syn(sniffer.recv(256))
                if found and found[0] in want:
                    seen[found[0]] = found[1]
        assert seen == want, (seen, want)
        a.stop()
        b.stop()
    a = BulkNode(own[0])
    for wrong in (-2, 256):
        code, _, err = a.lnetctl("net", "set", "--nid", own[0], "--tunable", f"tos={wrong}",
                                 check=False)
        assert code != 0 and "-1 ... 255" in err, err
    a.stop()


def syn(packet):
    """Source and type of service of a TCP packet that opens a connection to port 988."""
    if packet[0] >> 4 == 4:
        tos, protocol, source = packet[1], packet[9], socket.inet_ntop(socket.AF_INET,
                                                                       packet[12:16])
        tcp = packet[(packet[0] & 15) * 4:]
    else:
        tos = (packet[0] & 15) << 4 | packet[1] >> 4
        protocol, source = packet[6], socket.inet_ntop(socket.AF_INET6, packet[8:24])
        tcp = packet[40:]
    opens = protocol == 6 and len(tcp) >= 20 and tcp[13] & 0x12 == 2
    return (source, tos) if opens and struct.unpack_from("!H", tcp, 2)[0] == 988 else None


if __name__ == "__main__":
    lib.enter("127.0.0.2", "127.0.1.1", "127.0.1.2")
    lib.cases(*map(on_new_links, (
        link_down_for_less_than_the_time_out, link_down_for_longer_than_the_time_out,
        row_3_2_connections_by_the_speed_of_the_link, row_3_6_each_ni_uses_its_own_interface,
        row_3_8_a_dead_rail_is_the_network_s_fault,
        row_3_14_type_of_service_of_the_first_packet)))
