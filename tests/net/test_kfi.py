#!/usr/bin/env python3
"""Network type kfi over libfabric: daemons with provider tcp;ofi_rxm and shm."""
import json
import os
import signal

import lib

PROVIDERS = {"tcp": "tcp;ofi_rxm", "shm": "shm"}
NIDS = ("17@kfi", "18@kfi")


class Node(lib.Daemon):
    """An lnetd with a kfi NI, and a tcp one where an address is given."""

    def __init__(self, provider, index, tcp=None, **more):
        self.provider, self.tcp = provider, tcp
        super().__init__(NIDS[index], name=f"k{index}", **more)

    def config(self, nids, tunables, options):
        text = f"""net:
    - net type: kfi
      local NI(s):
        - nid: {nids[0]}
          addresses:
"""
        for number, nid in enumerate(NIDS):
            tcp = self.provider == "tcp"
            where = f"127.0.0.{number + 1}:6001" if tcp else f"ulnet-kfi-{number}"
            text += f"              {nid}: {where}\n"
        text += f"          lnd tunables:\n              provider: {PROVIDERS[self.provider]}\n"
        if self.tcp:
            text += lib.config_text([self.tcp], tunables)[len("net:\n"):]
        return text


def of_each_provider(case):
    """The case once for each provider."""
    def made(provider):
        def one():
            case(provider)
        one.__name__ = f"{case.__name__}_{provider}"
        return one
    return [made(provider) for provider in PROVIDERS]


def lst_with_full_checking(provider):
    nodes = [Node(provider, index) for index in (0, 1)]
    nodes[0].lnetctl("ping", NIDS[1])
    nodes[1].lnetctl("ping", NIDS[0])
    output = nodes[0].lst("bench", *NIDS, "--check", "full", "--sizes", "8,4K,1M", "--seconds",
                          "0.5", "--json")[1]
    runs = json.loads(output)["runs"]
    assert len(runs) >= 6, output
    for each in runs:
        assert each["errors"] == 0 and each["rpc_per_s"] > 0, each
    shown = nodes[0].show("net", "show", "-v", "5")
    driver = driver_of(shown)
    assert driver["provider"] == PROVIDERS[provider] and driver["dropped"] == 0, driver
    assert driver["read_bytes"] > 1 << 20 or provider == "tcp", driver


def driver_of(shown):
    for net in shown["net"]:
        if net["net type"] == "kfi":
            return net["local NI(s)"][0]["driver"]
    raise AssertionError(shown)


def row_7_1_killed_and_restarted_peer(provider):
    """kill -9 of one; the one that comes back replaces it."""
    one, other = (Node(provider, index) for index in (0, 1))
    for _ in range(3):
        one.lnetctl("ping", NIDS[1])
        other.killed = True
        other.process.send_signal(signal.SIGKILL)
        other.process.wait()
        other = Node(provider, 1)
        other.lnetctl("ping", NIDS[0])
        lib.wait_for(lambda: one.lnetctl("ping", NIDS[1], check=False)[0] == 0,
                     "a ping to the new life")


def tcp_and_kfi_at_once(provider):
    """One node on both networks, no router: each of its NIs reaches the other node's."""
    one = Node(provider, 0, tcp="127.0.0.11@tcp")
    other = Node(provider, 1, tcp="127.0.0.12@tcp")
    for target in (NIDS[1], "127.0.0.12@tcp"):
        one.lnetctl("ping", target)
    for target in (NIDS[0], "127.0.0.11@tcp"):
        other.lnetctl("ping", target)
    exported = one.lnetctl("export")[1]
    assert "ulnet-kfi-0" in exported or "127.0.0.1:6001" in exported, exported


def idle_node_sleeps(provider):
    """No busy polling once nothing comes."""
    node, other = (Node(provider, index) for index in (0, 1))
    other.lnetctl("ping", NIDS[0])

    def ticks():
        with open(f"/proc/{node.process.pid}/stat") as file:
            return sum(int(field) for field in file.read().rsplit(")", 1)[1].split()[11:13])

    # A poller that never sleeps has a worker busy all the time.
    def asleep():
        states = []
        for task in os.listdir(f"/proc/{node.process.pid}/task"):
            with open(f"/proc/{node.process.pid}/task/{task}/stat") as file:
                states.append(file.read().rsplit(")", 1)[1].split()[0])
        return set(states) == {"S"}

    # So often in a row that no worker is one that only looks asleep.
    for _ in range(20):
        before = ticks()
        lib.wait_for(asleep, "workers that sleep")
        assert ticks() - before < os.sysconf("SC_CLK_TCK"), "a worker polls"


def row_7_3_bound_to_its_address_only():
    """The endpoint listens on the address of its NI, on no other one."""
    node = Node("tcp", 0)
    listening = lib.run("ss", "-Hltnp")[1]
    lines = [line for line in listening.splitlines() if f"pid={node.process.pid}," in line]
    places = [line.split()[3] for line in lines]
    assert places == ["127.0.0.1:6001"], listening


def wrong_configuration():
    node = Node("tcp", 0)
    code, _, error = node.lnetctl("net", "add", "--nid", "19@kfi1", "--address", "19@kfi1=nowhere",
                                  check=False)
    assert code != 0 and "nowhere" in error and "IPv4:PORT" in error, error
    code, _, error = node.lnetctl("net", "add", "--nid", "19@kfi1", check=False)
    assert code != 0 and "19@kfi1" in error, error


if __name__ == "__main__":
    lib.enter("127.0.0.11", "127.0.0.12")
    lib.run("mount", "-t", "tmpfs", "shm", "/dev/shm")  # what killed daemons leave goes with it
    lib.cases(*(case for each in (lst_with_full_checking, row_7_1_killed_and_restarted_peer,
                                  tcp_and_kfi_at_once, idle_node_sleeps)
                for case in of_each_provider(each)),
              row_7_3_bound_to_its_address_only, wrong_configuration)
