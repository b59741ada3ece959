"""What the tests of faults share: nodes with bulk traffic whose ends can be told, what a node must
have back after a fault, and further network namespaces.
"""
import errno
import json
import os
import select
import subprocess

import lib

LONG = os.environ.get("ULNET_LONG") == "1"  # the times of the protocol instead of shorter ones
RSS_SLACK_KIB = 2048
# Their allocators keep what was freed, and TSan a shadow of what was ever touched.
RSS_SLACK_SANITIZED_KIB = 512 * 1024
OK, RESET, REFUSED, TIMED_OUT = 0, -errno.ECONNRESET, -errno.ECONNREFUSED, -errno.ETIMEDOUT


class BulkNode(lib.Daemon):
    """A node of bulk_node.cc, which says what its commands are."""

    def __init__(self, nid, tunables=None, **more):
        super().__init__(nid, {"min_reconnectms": 50, "max_reconnectms": 200, **(tunables or {})},
                         extra=("--sock-io", os.environ.get("ULNET_SOCK_IO") or "epoll"), **more)
        self.command("tally")  # answered once its portal is there

    def program(self):
        return os.path.join(os.path.dirname(lib.tools()), "tests", "net", "bulk_node")

    def begin(self, argv):
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=self.log, text=True)

    def command(self, line, deadline_s=lib.DEADLINE_S):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], deadline_s)
        answer = self.process.stdout.readline() if ready else ""
        if not answer:
            raise AssertionError(f"{self.nid}: no answer to '{line}'\n{self.log_text()}")
        return json.loads(answer)

    def start(self, kind, peer, slots=8, size=1 << 20, count=0):
        self.command(f"start {kind} {peer.nid if hasattr(peer, 'nid') else peer} {slots} {size} "
                     f"{count}")

    def ends(self):
        """Number of operations by how they ended."""
        return {int(code): n for code, n in self.command("tally")["ends"].items()}

    def wait(self, deadline_s=lib.DEADLINE_S):
        """Until nothing is under way; how it ended. Nobody asks the node meanwhile."""
        return {int(code): n for code, n in self.command("wait", deadline_s)["ends"].items()}

    def wait_ok(self, more):
        """Until so many more operations have ended well."""
        least = self.ends().get(OK, 0) + more
        lib.wait_for(lambda: self.ends().get(OK, 0) >= least, f"{more} more operations to end well")

    def rest(self):
        """Ends the traffic, well."""
        self.command("stop")
        return self.wait()

    def stop(self):
        self.process.stdin.close()
        code = self.process.wait(lib.DEADLINE_S)
        if code != 0:
            raise AssertionError(f"{self.nid} ended with {code}:\n{self.log_text()}")


def work_well(a, b, kinds=("put", "ack", "get")):
    """Traffic of all kinds from a to b, all of which ends well."""
    a.command("reset")
    for kind in kinds:
        a.start(kind, b, slots=4, size=1 << 20, count=5)
        a.start(kind, b, slots=4, size=100, count=5)
    ends = a.wait()
    assert ends == {OK: 40 * len(kinds)}, f"later traffic ended {ends}"


def only(ends, allowed, failures, least=()):
    """So many operations ended badly, in one of these ways only, each of `least` among them."""
    bad = {code: n for code, n in ends.items() if code != OK}
    text = {errno.errorcode.get(-code, code): n for code, n in bad.items()}
    assert set(bad) <= set(allowed) and sum(bad.values()) == failures, f"ended {text}"
    assert all(code in bad for code in least), f"ended {text}"


def status_of(node):
    with open(f"/proc/{node.process.pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def rss_kib(node):
    return int(status_of(node)["VmRSS"].split()[0])


def descriptors(node):
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


def tasks(node):
    return [f"/proc/{node.process.pid}/task/{name}"
            for name in os.listdir(f"/proc/{node.process.pid}/task")]


def switches(node):
    """How often its threads have gone to sleep."""
    total = 0
    for task in tasks(node):
        with open(task + "/status") as file:
            total += sum(int(line.split()[1]) for line in file
                         if line.startswith("voluntary_ctxt_switches"))
    return total


def cpu_s(node):
    """CPU time of its threads, to the nanosecond."""
    total = 0
    for task in tasks(node):
        with open(task + "/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def ni_of(node, nid=None):
    nid = nid or node.nid
    for net in node.show("net", "show", "-v", "5")["net"]:
        for ni in net["local NI(s)"]:
            if ni["nid"] == nid:
                return ni
    raise AssertionError(f"no NI {nid}")


def counter(node, name):
    return ni_of(node)["driver"]["counters"][name]


def wait_counter(node, name, least, deadline_s=lib.DEADLINE_S):
    lib.wait_for(lambda: counter(node, name) >= least, f"{least} {name} at {node.nid}", deadline_s)


class Before:
    """What a node holds while nothing is wrong; back() waits until it holds no more again."""

    def __init__(self, node):
        self.node = node
        self.held = self.holds()
        assert self.held == [], f"{node.nid} holds {self.held} before the fault"
        self.descriptors = descriptors(node)
        self.rss = rss_kib(node)

    def holds(self):
        """Messages and credits that are in use."""
        held = []
        stats = self.node.show("stats", "show")["statistics"]
        held += [(key, stats[key]) for key in ("msgs_alloc", "rst_alloc") if stats[key] != 0]
        for net in self.node.show("net", "show", "-v", "5")["net"]:
            for ni in net["local NI(s)"]:
                if "driver" not in ni:
                    continue
                free = ni["driver"]["credits_free"], ni["tunables"]["credits"]
                if free[0] != free[1]:
                    held.append((ni["nid"], free))
        for peer in self.node.show("peer", "show", "-v", "1").get("peer") or []:
            for ni in peer["peer ni"]:
                free = ni["available_tx_credits"], ni["max_ni_tx_credits"]
                if free[0] != free[1] or ni["tx_q_num_of_buf"] != 0:
                    held.append((ni["nid"], free))
        return held

    def back(self, connections=0):
        """`connections`: how many more are open now than before."""
        node = self.node
        lib.wait_for(lambda: self.holds() == [], f"{node.nid} to let go: {self.holds()}")
        wanted = self.descriptors + connections
        lib.wait_for(lambda: descriptors(node) <= wanted,
                     f"{node.nid} to have {wanted} descriptors, not {descriptors(node)}")
        most = self.rss + (RSS_SLACK_SANITIZED_KIB if lib.sanitizer() else RSS_SLACK_KIB)
        lib.wait_for(lambda: rss_kib(node) <= most,
                     f"{node.nid} to have an RSS of {most} KiB, not {rss_kib(node)}")


class Network:
    """A network namespace beside that of the test; it lives as long as this object's process."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        path = f"/proc/{self.process.pid}/ns/net"
        lib.wait_for(lambda: os.readlink(path) != own, "a network namespace")
        self.enter = ["nsenter", "--net=" + path]
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *argv):
        return lib.run(*self.enter, *argv)

    def link(self, here, there, addresses_here=(), addresses_there=()):
        """A veth pair from the test's namespace (`here`) into this one (`there`)."""
        lib.run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns",
                str(self.process.pid))
        for run, name, addresses in ((lib.run, here, addresses_here),
                                     (self.run, there, addresses_there)):
            for address in addresses:
                run("ip", "addr", "add", address, "dev", name, "nodad")
            run("ip", "link", "set", name, "up")

    def close(self):
        self.process.stdin.close()
        self.process.wait(lib.DEADLINE_S)
