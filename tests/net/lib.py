"""What integration tests share: daemons, commands, deadlines.

Every test is a program that re-executes itself inside its own network, mount and process
namespaces (enter()), so that the kernel removes whatever it made, also when it is killed. A test
prints one line a case, "ok NAME" or "FAILED NAME: why", and exits 1 when one failed.
"""
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

DEADLINE_S = 60
cleanups = []  # called after each case, however it went


def tools():
    """Folder of the binaries under test."""
    return os.environ["ULNET_TOOLS"]


def root():
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def enter(*addresses):
    """Re-executes this program in namespaces of its own, then gives lo these addresses."""
    if os.environ.get("ULNET_INSIDE") != "1":
        env = dict(os.environ, ULNET_INSIDE="1")
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        os.execvpe("unshare", ["unshare", *user, "--net", "--mount", "--pid", "--fork",
                               "--kill-child", "--mount-proc", sys.executable, *sys.argv], env)
    run("ip", "link", "set", "lo", "up")
    for address in addresses:
        if ":" in address:
            run("ip", "addr", "add", address + "/128", "dev", "lo", "nodad")
        else:
            run("ip", "addr", "add", address + "/32", "dev", "lo")


def run(*argv, check=True, timeout=DEADLINE_S, env=None, stdin=None):
    """Runs a command; returns (exit code, stdout, stderr)."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, env=env,
                          input=stdin, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}"
                             f"{done.stderr}")
    return done.returncode, done.stdout, done.stderr


def wait_for(condition, what, deadline_s=DEADLINE_S):
    """Polls until condition() is true; its value."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline_s} s for {what}")
        time.sleep(0.01)


def read_exact(stream, count):
    """So many bytes of a stream; `count` may be a frame's length as it is on the wire."""
    if isinstance(count, bytes):
        count = struct.unpack("<I", count)[0]
    data = b""
    while len(data) < count:
        part = stream.read(count - len(data))
        if not part:
            raise AssertionError("the connection ended")
        data += part
    return data


def sanitizer():
    """Which one the programs under test are built with, by its runtime in lnetd; or None."""
    with open(os.path.join(tools(), "lnetd"), "rb") as file:
        program = file.read()
    return next((name for name in ("asan", "tsan") if b"__%s_init" % name.encode() in program),
                None)


def has_io_uring():
    """Whether the system lets us make a ring; containers often forbid it."""
    setup = 425  # the number of the system call
    fd = ctypes.CDLL(None, use_errno=True).syscall(setup, 4, ctypes.create_string_buffer(120))
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def config_text(nids, tunables=None, options=None):
    """A configuration file: NIs with these tunables, and the node's options."""
    lines = ["net:"]
    for nid in nids:
        lines += ["    - net type: " + nid.split("@")[1], "      local NI(s):",
                  "        - nid: " + nid]
        if tunables:
            lines.append("          lnd tunables:")
            lines += [f"              {key}: {value}" for key, value in tunables.items()]
    if options:
        lines.append("global:")
        lines += [f"    {key}: {value}" for key, value in options.items()]
    return "\n".join(lines) + "\n"


def folder():
    """A folder that goes with the case."""
    made = tempfile.mkdtemp(prefix="ulnet-")
    cleanups.append(lambda: shutil.rmtree(made, ignore_errors=True))
    return made


class Daemon:
    """An lnetd with one tcp NI on `nid`, and one on each of `more_nids`."""

    running = []  # ended after each case, however it went
    killed = False  # by the test

    def __init__(self, nid, tunables=None, name=None, extra=(), more_nids=(), options=None,
                 network=None):
        self.nid = nid
        self.name = name or "n" + nid.split("@")[0].replace(".", "-").replace(":", "-")
        self.folder = folder()
        self.socket = os.path.join(self.folder, "ctl.sock")
        config = os.path.join(self.folder, "lnet.conf")
        with open(config, "w") as file:
            file.write(self.config([nid, *more_nids], tunables, options))
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.process = self.begin(
            [*(network.enter if network else ()), self.program(), "--config", config, "--socket",
             self.socket, "--name", self.name, *extra])
        Daemon.running.append(self)
        wait_for(lambda: self.ready(), f"lnetd {nid} to become ready")

    def config(self, nids, tunables, options):
        return config_text(nids, tunables, options)

    def program(self):
        return os.path.join(tools(), "lnetd")

    def begin(self, argv):
        return subprocess.Popen(argv, stdout=self.log, stderr=self.log)

    def ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"lnetd {self.nid} exited {self.process.returncode}:\n"
                                 + self.log_text())
        return os.path.exists(self.socket)

    def log_text(self):
        self.log.flush()
        with open(self.log.name) as file:
            return file.read()

    def tool(self, name, *args, check=True, env=None, timeout=DEADLINE_S):
        return run(os.path.join(tools(), name), "--socket", self.socket, *args, check=check,
                   timeout=timeout, env=env)

    def lnetctl(self, *args, **more):
        return self.tool("lnetctl", *args, **more)

    def lst(self, *args, key="1", check=True, timeout=DEADLINE_S):
        env = dict(os.environ, LST_SESSION=key)
        return self.tool("lst", *args, check=check, env=env, timeout=timeout)

    def show(self, *args):
        """A lnetctl show as a tree."""
        return json.loads(self.lnetctl("--json", *args)[1])

    def ask(self, object_name, verb, **args):
        """A command of the control socket as a tree: what no tool asks for."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(DEADLINE_S)
            sock.connect(self.socket)
            for message in ({"hello": "ulnet", "version": 1},
                            {"id": 1, "object": object_name, "verb": verb, "args": args}):
                text = json.dumps(message).encode()
                sock.sendall(struct.pack("<I", len(text)) + text)
                with sock.makefile("rb", buffering=0) as stream:
                    reply = json.loads(read_exact(stream, read_exact(stream, 4)))
        if reply["status"] != 0:
            raise AssertionError(f"{object_name} {verb}: {reply['errors']}")
        return reply["value"]

    def stop(self):
        """Ends the daemon in the orderly way; fails when it does not end well."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_S)
        if code != 0:
            raise AssertionError(f"lnetd {self.nid} ended with {code}:\n{self.log_text()}")

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def died(self):
        """Why it ended, if not as the test wanted: a crash or a sanitizer's report."""
        code = self.process.poll()
        if self.killed or code in (None, 0):
            return ""
        return f"lnetd {self.nid} ended with {code}:\n{self.log_text()}"


def cases(*functions):
    """Runs the cases; never returns."""
    failed = 0
    wanted = sys.argv[1:]
    for function in functions:
        name = function.__name__
        if wanted and name not in wanted:
            continue
        try:
            function()
            why = ""
        except Exception as error:  # a test program reports whatever went wrong
            why = f"{error}\n{traceback.format_exc(limit=6)}"
        why += "".join(daemon.died() for daemon in Daemon.running)
        if why:
            failed += 1
        print(f"FAILED {name}: {why}" if why else f"ok {name}", flush=True)
        for daemon in Daemon.running:
            daemon.kill()
        Daemon.running.clear()
        for cleanup in cleanups:
            cleanup()
        cleanups.clear()
    sys.exit(1 if failed else 0)
