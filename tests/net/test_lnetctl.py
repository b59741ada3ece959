#!/usr/bin/env python3
"""lnetctl and lnetd as people use them: wrong input, files of the kernel's tool, the man pages."""
import json
import os
import re
import resource
import socket
import subprocess
import tempfile

import lib

A, B = "127.0.0.1@tcp", "127.0.0.2@tcp"
# What `lnetctl export` of a kernel node prints, with every section it can have.
KERNEL_EXPORT = """\
net:
-     net type: lo
      local NI(s):
      -     nid: 0@lo
            status: up
            statistics:
                  send_count: 6
                  recv_count: 6
                  drop_count: 0
            tunables:
                  peer_timeout: 0
                  peer_credits: 0
                  peer_buffer_credits: 0
                  credits: 0
            dev cpt: 0
            CPT: "[0]"
-     net type: tcp
      local NI(s):
      -     nid: 127.0.0.1@tcp
            status: up
            interfaces:
                  0: lo
            health stats:
                  fatal_error: 0
                  health value: 400
            tunables:
                  peer_timeout: 180
                  peer_credits: 8
                  peer_buffer_credits: 0
                  credits: 256
            lnd tunables:
                  conns_per_peer: 1
                  timeout: 50
                  tos: -1
            dev cpt: -1
            CPT: "[0]"
route:
-     net: o2ib
      gateway: 127.0.0.9@tcp
      hop: -1
      priority: 0
routing:
    - cpt[0]:
          tiny:
              npages: 0
              nbuffers: 0
    - enable: 0
buffers:
    tiny: 0
peer:
-     primary nid: 127.0.0.9@tcp
      Multi-Rail: true
      peer ni:
      -     nid: 127.0.0.9@tcp
            state: NA
global:
    numa_range: 0
    max_interfaces: 200
    discovery: 1
    drop_asym_route: 0
    retry_count: 2
    transaction_timeout: 50
    health_sensitivity: 100
    lnd_timeout: 16
udsp:
    - idx: 0
      src: tcp
      action:
          priority: 0
"""


def nobody():
    """What to put before a command that shall have no rights."""
    with open("/proc/self/uid_map") as file:
        ranges = [[int(word) for word in line.split()] for line in file]
    if any(first <= 65534 < first + count for first, _, count in ranges):
        return ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    return ("setpriv", "--bounding-set=-all")  # a user namespace with root alone


def bare(tool, *args, check=False, env=None, stdin=None, **more):
    return lib.run(f"{lib.tools()}/{tool}", *args, check=check, env=env, stdin=stdin, timeout=20,
                   **more)


def import_wants_a_file_of_text():
    a = lib.Daemon(A)
    before = a.lnetctl("export")[1]
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "binary")
        with open(binary, "wb") as file:
            file.write(b"net:\0\xff\xfe\x7fELF" * 100)
        latin = os.path.join(folder, "latin")
        with open(latin, "wb") as file:
            file.write(b"# caf\xe9\nglobal: {discovery: 1}\n")
        large = os.path.join(folder, "large")
        with open(large, "w") as file:
            file.write("# filler\n" * 300000)
        code, _, err = a.lnetctl("import", large, check=False)
        assert code == 234 and large in err and "allowed: at most 1048576" in err, err
        for path, words in (("/", "Is a directory"), (folder, "Is a directory"),
                            (os.path.join(folder, "none"), "No such file"),
                            ("/dev/zero", "File too large"), (binary, "line 1"), (latin, "UTF-8")):
            code, out, err = a.lnetctl("import", path, check=False)
            assert code == 234 and out == "", (path, code, out, err)
            assert words in err and err.count("descr:") == 1 and path in err, (path, err)
            code, out, err = a.lnetctl("import", path, "--json", check=False)
            assert code == 234 and json.loads(err)["errno"] < 0, (path, err)
            code, _, err = bare("lnetd", "--config", path, "--socket", folder + "/s")
            assert code == 1 and words in err and len(err.splitlines()) == 1, (path, err)
    assert a.lnetctl("export")[1] == before
    # All or nothing: the first interface of this file could be opened.
    text = ("net:\n- net type: tcp1\n  local NI(s):\n  - nid: 127.0.0.5@tcp1\n"
            "  - nid: 1.2.3.4@tcp1\n")
    code, _, err = lib.run(f"{lib.tools()}/lnetctl", "--socket", a.socket, "import", check=False,
                           stdin=text)
    assert code == 234 and "standard input: line 5, column" in err and "1.2.3.4" in err, err
    assert a.lnetctl("export")[1] == before
    a.stop()


def failures_are_json():
    a = lib.Daemon(A)
    for args in (("net", "show", "--net", "tcp9"), ("net", "show", "--bogus"), ("net", "bogus"),
                 ("net",), ("bogus",), ("net", "add", "--net"), ("import", "a", "b"),
                 ("import", "/nonexistent"), ("export", "--bogus"), ("export", "/nonexistent/x"),
                 ("ping", "garbage"), ("ping",), ("route", "show"), ("set", "routing", "1"),
                 ("help", "bogus"), ("import", "--exec"), ("stats", "show", "extra"),
                 ("peer", "show", "--nid", "9.9.9.9@tcp")):
        plain, _, told = a.lnetctl(*args, check=False)
        for words in (("--json", *args), (*args, "--json"), (args[0], "--json", *args[1:])):
            code, out, err = a.lnetctl(*words, check=False)
            assert code == plain != 0 and out == "", (words, code, plain, out)
            failure = json.loads(err)
            assert set(failure) == {"operation", "entity", "errno", "descr"}, failure
            assert failure["errno"] < 0 and failure["descr"], failure
            assert failure["descr"].split("\n")[0] in told.replace('\\"', '"'), (failure, told)
    shown = json.loads(a.lnetctl("stats", "show", "--json")[1])
    assert shown == a.show("stats", "show"), shown
    code, out, err = a.lnetctl("ping", "127.0.0.9@tcp", "--json", check=False)
    assert code == 255 and json.loads(out)["failed"][0]["errno"] == -111, (code, out, err)
    a.stop()
    for words in (("--json", "net", "show"), ("net", "show", "--json"), ("--node", "a b", "stats",
                                                                        "show", "--json")):
        code, out, err = bare("lnetctl", *(() if "--node" in words else ("--socket", "/no/socket")),
                              *words)
        assert code != 0 and out == "" and json.loads(err)["errno"] < 0, (words, err)
    code, _, err = bare("lnetctl", "--json", "--node")
    assert code == 234 and json.loads(err)["descr"] == "option '--node' requires an argument", err
    b = lib.Daemon(B)
    out = lib.run(f"{lib.tools()}/lnetctl", "--socket", b.socket, check=False,
                  stdin="net show --json\nnet show\nbogus --json\n")
    assert json.loads(out[1].split("\n")[0])["net"] and "net type: lo" in out[1], out
    assert json.loads(out[2])["errno"] == -1 and out[0] == 255, out
    b.stop()


def connect_failures_help():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "n.sock")
        code, _, err = bare("lnetctl", "--socket", path, "stats", "show")
        assert code == 156 and f"no socket '{path}': is lnetd running?" in err, err
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(path)
        code, _, err = bare("lnetctl", "--socket", path, "stats", "show")
        assert code == 156 and f"nobody listens at '{path}'" in err, err
        dead.listen()
        os.chmod(path, 0)
        code, _, err = lib.run(*nobody(), f"{lib.tools()}/lnetctl", "--socket", path, "stats",
                               "show", check=False)
        assert code == 243 and "no permission" in err and "group lnet" in err, (code, err)
        dead.close()


def names_are_checked():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a/b", "x" * 65, "", "a b", ".x"):
            for extra in (("--socket", folder + "/s.sock"), ()):
                code, out, err = bare("lnetd", "--name", name, *extra)
                assert code == 2 and out == "", (name, code, out, err)
                assert err.startswith(f"--name: '{name}' is not allowed; allowed: 1 ... 64 "), err
    lib.Daemon(A, name="x" * 64).stop()


def a_kernel_export_is_taken():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(KERNEL_EXPORT)
        file.flush()
        a = Started("--config", file.name)
        assert A in a.lnetctl("net", "show")[1]
        assert a.show("global", "show")["global"]["transaction_timeout"] == 50
        warnings = [line for line in a.log_text().splitlines() if "not applied" in line]
        assert len(warnings) == 1 and warnings[0].endswith(
            "sections route, routing, buffers, peer, udsp; global max_interfaces, "
            "health_sensitivity"), a.log_text()
        assert a.log_text().count(file.name) == 1, a.log_text()
        a.lnetctl("net", "del", "--net", "tcp")
        code, out, err = a.lnetctl("import", file.name)
        assert code == 0 and out == "" and len(err.splitlines()) == 1, err
        assert "sections route, routing, buffers, peer, udsp" in err, err
        out = a.lnetctl("import", "--json", file.name)[1]
        assert "sections route" in json.loads(out)["note"], out
        assert A in a.lnetctl("net", "show")[1]
        a.stop()


class Started(lib.Daemon):
    """An lnetd with these arguments."""

    def __init__(self, *args, path=None, before=()):  # pylint: disable=super-init-not-called
        self.nid = " ".join(args)
        self.folder = lib.folder()
        os.chmod(self.folder, 0o777)
        self.socket = path or os.path.join(self.folder, "ctl.sock")
        more = [] if path else ["--socket", self.socket]
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.process = subprocess.Popen([*before, f"{lib.tools()}/lnetd", *args, *more],
                                        stdout=self.log, stderr=self.log)
        lib.Daemon.running.append(self)
        lib.wait_for(self.ready, "lnetd to become ready")


def values_must_fit_together():
    ni = f"net:\n- net type: tcp\n  local NI(s):\n  - nid: {A}\n"
    for text, words in (
            (ni + "    lnd tunables: {min_reconnectms: 70000}\n", ("min_reconnectms", "60000")),
            (ni + "    lnd tunables: {max_reconnectms: 10}\n", ("min_reconnectms", "1 ... 10 ")),
            (ni + "    tunables: {peer_credits: 300}\n", ("peer_credits", "1 ... 256")),
            ("global: {transaction_timeout: 2}\n", ("transaction_timeout", "retry_count"))):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(text)
            file.flush()
            code, _, err = bare("lnetd", "--config", file.name, "--socket", file.name + ".sock")
            assert code == 1 and all(word in err for word in words), (text, err)
            assert "line " in err, err
    a = lib.Daemon(A)
    base = ("net", "set", "--all", "--tunable")
    code, _, err = a.lnetctl(*base, "min_reconnectms=70000", check=False)
    assert code == 234 and "min_reconnectms: '70000'" in err, err
    a.lnetctl(*base, "min_reconnectms=70000", "--tunable", "max_reconnectms=80000")
    code, _, err = a.lnetctl(*base, "max_reconnectms=60000", check=False)
    assert code == 234, err
    sentences = set()
    for args in (("show",), ("del",), ("set", "--conns-per-peer", "1")):
        code, _, err = a.lnetctl("net", *args, "--net", "tcp9", check=False)
        assert code == 234, err
        sentences.add(re.search(r"descr: .*", err)[0])
    assert sentences == {'descr: ! "this node has no network \'tcp9\'"'}, sentences
    code, _, err = a.lnetctl("net", "del", "--net", "tcp", "--if", "eth7", check=False)
    assert code == 234 and "not on interface 'eth7'" in err, err
    a.stop()


def a_dead_peer_keeps_its_error():
    a = lib.Daemon(A)
    for _ in range(3):  # the first tries to connect, the others come while it is not due again
        out = a.lnetctl("ping", "127.0.0.9@tcp", check=False)[1]
        assert "errno: -111" in out and "Connection refused" in out, out
    peer = a.show("peer", "show", "-v", "5")["peer"][0]["peer ni"][0]
    assert peer["latency"]["p99_us"] == 0, peer
    a.stop()


def what_comes_later_is_named():
    a = lib.Daemon(A)
    for words in ("route add --net tcp1 --gateway 127.0.0.9@tcp", "peer add --prim_nid 1.2.3.4@tcp",
                  "discover 127.0.0.1@tcp", "set discovery 0", "udsp show", "fault drop show",
                  "lnet configure", "routing show", "debug recovery --local", "import --del"):
        code, out, err = a.lnetctl(*words.split(), check=False)
        assert code == 161 and out == "", (words, code, out)
        line = err.splitlines()[0]
        assert "not available yet" in line and words.split()[0] in line, err
    code, _, err = a.lnetctl("net", "bogus", check=False)
    assert code == 255 and "'bogus' is not a valid command" in err, err
    a.stop()


def control_client(daemon):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(lib.DEADLINE_S)
    client.connect(daemon.socket)
    return client


def running_out_of_descriptors_is_told_once():
    a = lib.Daemon(A, {"accept": "all"})
    pid = a.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd")) + 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, hard))
    told = "cannot accept connections on 127.0.0.1:988"
    # One after the other: the two listeners would take from each other what is kept for telling.
    control = []
    while (open_now := len(os.listdir(f"/proc/{pid}/fd"))) < used:
        control.append(control_client(a))
        lib.wait_for(lambda: len(os.listdir(f"/proc/{pid}/fd")) > open_now, "it to be accepted")
    for _ in range(5):
        control.append(control_client(a))
        assert control[-1].recv(1) == b""
    peers = [socket.create_connection(("127.0.0.1", 988)) for _ in range(8)]
    lib.wait_for(lambda: told in a.log_text(), "the shortage to be logged")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    driver = [ni for net in a.show("net", "show", "-v", "5")["net"] for ni in net["local NI(s)"]
              if ni["nid"] == A][0]["driver"]
    assert driver["accept_shortages"] >= 1, driver
    assert a.log_text().count(told) == 1, a.log_text()
    assert a.log_text().count("turned away so far") == 1, a.log_text()
    for each in peers + control:
        each.close()
    b = lib.Daemon(B)
    b.lnetctl("ping", A)
    a.stop()
    b.stop()


def literal_blocks(path):
    """Indented blocks of a README, or literal displays of a man page, as they are read."""
    with open(os.path.join(lib.root(), path)) as file:
        text = file.read()
    if path.endswith(".md"):
        return ["\n".join(line[4:] for line in block.strip("\n").split("\n"))
                for block in re.findall(r"(?:^(?:    .*|)\n)+", text, re.M) if block.strip()]
    blocks = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed$", text, re.M | re.S)
    return [re.sub(r"\\-", "-", block) for block in blocks]


def the_examples_of_the_documents_work():
    # The machine that they speak of: eth0 with an address, and no other node.
    lib.run("mount", "-t", "tmpfs", "none", "/run")
    lib.run("ip", "link", "add", "eth0", "type", "bridge")
    for last in range(1, 5):
        lib.run("ip", "addr", "add", f"192.168.10.{last}/24", "dev", "eth0")
    lib.run("ip", "addr", "add", "10.0.0.7/24", "dev", "eth0")
    lib.run("ip", "link", "set", "eth0", "up")
    configs = commands = 0
    for path in ("docs/man/lnetd.8", "docs/man/lnetctl.8", "README.md"):
        for block in literal_blocks(path):
            lines = block.strip().splitlines()
            if lines[0] == "net:":
                configs += 1
                run_config(block)
            elif lines[0].startswith("# "):
                commands += run_example([line[2:] for line in lines], "/lnetctl.8" in path)
    assert configs == 5 and commands == 2, (configs, commands)


def run_config(text):
    """On any number of partitions; what asks for no rights is run by a user without."""
    nids = set(re.findall(r"(?<=nid: )\S+", text)) | ({"192.168.10.1@tcp"} if "eth0" in text
                                                      else set())
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(text + "\n")
        file.flush()
        os.chmod(file.name, 0o644)
        for partitions in ("1", "2"):
            node = Started("--config", file.name, "--cpu-npartitions", partitions,
                           before=nobody() if "privileged: 0" in text else ())
            shown = node.lnetctl("net", "show")[1]
            assert nids and all(nid in shown for nid in nids), (text, shown)
            assert "not applied" not in node.log_text(), node.log_text()
            node.stop()


def run_example(lines, with_nodes):
    """Its daemons first, then what is typed while they run."""
    nodes = []
    if with_nodes:
        nodes = [Started("--nid", "127.0.0.6@tcp6", path="/run/lnet/lnetd.sock"),
                 Started("--nid", "127.0.0.7@tcp7", "--name", "a", path="/run/lnet/a.sock"),
                 Started(*(word for last in (2, 3, 4) for word in
                           ("--nid", f"192.168.10.{last}@tcp")))]
    daemons = [line for line in lines if line.endswith("&")]
    typed = lines[len(daemons):]
    assert lines[:len(daemons)] == daemons, lines
    env = dict(os.environ, PATH=f"{os.path.abspath(lib.tools())}:{os.environ['PATH']}")
    with tempfile.TemporaryFile("w+") as log:
        running = [subprocess.Popen(["bash", "-c", "exec " + line.rstrip("& ")], stdout=log,
                                    stderr=log, env=env) for line in daemons]
        names = [re.search(r"--name[ =](\S+)", line)[1] for line in daemons]
        for name in names:
            lib.wait_for(lambda name=name: os.path.exists(f"/run/lnet/{name}.sock"),
                         f"the socket of {name}")
        code = subprocess.run(["bash", "-e", "-c", "\n".join(typed)], stdout=log, stderr=log,
                              env=env, timeout=lib.DEADLINE_S, check=False).returncode
        for process in running:
            process.terminate()
            code = code or process.wait(lib.DEADLINE_S)
        log.seek(0)
        assert code == 0, (lines, log.read())
    for node in nodes:
        node.stop()
    return 1


if __name__ == "__main__":
    lib.enter()
    lib.cases(import_wants_a_file_of_text, failures_are_json, connect_failures_help,
              names_are_checked, a_kernel_export_is_taken, values_must_fit_together,
              a_dead_peer_keeps_its_error, what_comes_later_is_named,
              running_out_of_descriptors_is_told_once, the_examples_of_the_documents_work)
