#!/usr/bin/env python3
"""Runs the tests: `tools/dev test` and `tools/dev nightly`.

Stages, their commands and budgets are in docs/testing.md, in this order. A stage reports cases;
the sum is the last line, "N passed, N failed, N skipped". Nothing is retried. Independent test
programs run side by side, a few more than there are cores; a program that outlives its limit is
ended and counts as one failure. What ran over its budget is named, but only the whole budget fails.

With --repeat N the chosen stages of unit and net tests run N times as they are and N times beside
busy cores, GoogleTests in an order of their own each time: what a new test has to pass before it
lands, and what nightly does with all of them. N times the same number of passes are reported.
"""
import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "net"))
import lib  # noqa: E402  (what the programs of tests/net share)

CORES = os.cpu_count() or 1
SIDE_BY_SIDE = CORES + 2  # tests wait more than they compute
# Programs whose tests wait for seconds.
SHARDS = {"unit_selftest": 6, "unit_sock": 3, "unit_ofi": 3, "unit_lnd": 3}

# Programs that run with each of these (ULNET_SOCK_IO).
IO = ["epoll", "io_uring"] if lib.has_io_uring() else ["epoll"]
BACK_ENDS = {"unit_sock": IO}
# Programs of tests/net that have the long times of the protocol too (ULNET_LONG).
LONG_PROGRAMS = ("test_faults.py", "test_hostile.py", "test_links.py")
SUM = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, passed, failed, skipped):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped


def run(argv, limit_s, env=None):
    """(exit code or None when it outlived the limit, output)."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT,
                               text=True, env=env, errors="replace", start_new_session=True)
    try:
        output = process.communicate(timeout=limit_s)[0]
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        return None, process.communicate()[0]


@contextlib.contextmanager
def busy_cores():
    """Two processes that do nothing but run; they end with this one, however it ends."""
    loop = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10000))"
    loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(2)]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
            process.wait()


def gtest(path, env, limit_s):
    shuffle = [f"--gtest_random_seed={env['ULNET_ROUND']}", "--gtest_shuffle"] \
        if "ULNET_ROUND" in env else []
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        code, output = run([path, f"--gtest_output=json:{report.name}", "--gtest_brief=1",
                            *shuffle], limit_s, env)
        try:
            data = json.load(open(report.name))
            skipped = [t["name"] for s in data["testsuites"] for t in s["testsuite"]
                       if t.get("result") == "SKIPPED"]
            failed = data["failures"] + data.get("errors", 0)
            passed = data["tests"] - failed - len(skipped)
        except (ValueError, KeyError):
            passed, failed, skipped = 0, 1, []
        if code != 0 and failed == 0:
            failed = 1
            output += f"\nexit code {code} (None: ended at its limit of {limit_s} s)"
        for name in skipped:
            output += f"\nskipped: {name}"
        return passed, failed, len(skipped), "" if not failed and not skipped else output


def script(path, env, limit_s):
    code, output = run([sys.executable, path], limit_s, env)
    passed = len(re.findall(r"^ok ", output, re.M))
    failed = len(re.findall(r"^FAILED ", output, re.M))
    skipped = len(re.findall(r"^skipped ", output, re.M))
    if (code != 0 or passed + skipped == 0) and failed == 0:
        failed = 1
    return passed, failed, skipped, output if failed or skipped else ""


def summed(argv, limit_s, env=None):
    """A program that ends with the sum line itself."""
    code, output = run(argv, limit_s, env)
    found = SUM.findall(output)
    if not found:
        return 0, 1, 0, output
    passed, failed, skipped = map(int, found[-1])
    if code != 0 and failed == 0:
        failed = 1
    return passed, failed, skipped, output if failed or skipped else ""


def command(argv, limit_s, env=None):
    """A command that just has to succeed: one case."""
    code, output = run(argv, limit_s, env)
    return (1, 0, 0, "") if code == 0 else (0, 1, 0, output)


def side_by_side(jobs):
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        futures = [(name, pool.submit(*job)) for name, job in jobs]
        for name, future in futures:
            yield name, future.result()


def in_rounds(jobs, times):
    """Like side_by_side(), but each job (a unit or net test) many times."""
    for busy in (False, True):
        with busy_cores() if busy else contextlib.nullcontext():
            for number in range(1, times + 1):
                where = f", round {number}" + (" beside busy cores" if busy else "")
                yield from side_by_side(
                    [(name + where, (runner, path, dict(env, ULNET_ROUND=str(number)), limit_s))
                     for name, (runner, path, env, limit_s) in jobs])


def environment(kind):
    env = dict(os.environ, ULNET_TOOLS=os.path.join(ROOT, "build", kind, "tools"),
               ULNET_BUILD=kind)
    env["ASAN_OPTIONS"] = "detect_stack_use_after_return=1:strict_string_checks=1"
    env["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    env["TSAN_OPTIONS"] = f"halt_on_error=1:second_deadlock_stack=1:suppressions=" \
        f"{ROOT}/tests/tsan.supp"
    return env


def units(kind, limit_s=300):
    folders = [os.path.join(ROOT, "build", kind, "tests", name)
               for name in ("unit", "sim", "lnd", "fuzz")]
    names = sorted(os.path.join(path, f) for folder in folders
                   for path, _, files in os.walk(folder) for f in files
                   if f.startswith("unit_") and os.access(os.path.join(path, f), os.X_OK)
                   and "." not in f)
    jobs = []
    for path in names:
        name = os.path.basename(path)
        shards = SHARDS.get(name, 1)
        for io, shard in itertools.product(BACK_ENDS.get(name, [""]), range(shards)):
            env = dict(environment(kind), GTEST_TOTAL_SHARDS=str(shards),
                       GTEST_SHARD_INDEX=str(shard), ULNET_SOCK_IO=io)
            part = f" {shard + 1}/{shards}" if shards > 1 else ""
            jobs.append((f"{kind} {name} {io}".rstrip() + part, (gtest, path, env, limit_s)))
    return sorted(jobs, key=lambda job: "/" not in job[0])  # what takes long begins first


def programs(kind, limit_s=300):
    folder = os.path.join(ROOT, "tests", "net")
    return [(f"{kind} {name}", (script, os.path.join(folder, name), environment(kind), limit_s))
            for name in sorted(os.listdir(folder))
            if name.startswith("test_") and name.endswith(".py")]


def long_programs(kind, limit_s=900):
    return [(f"{kind} {name} {io} long",
             (script, os.path.join(ROOT, "tests", "net", name),
              dict(environment(kind), ULNET_LONG="1", ULNET_SOCK_IO=io), limit_s))
            for name in LONG_PROGRAMS for io in IO]


def simulator(kind, seeds, first=1):
    program = os.path.join(ROOT, "build", kind, "tests", "sim", "sim")
    return [(f"{kind} sim", (summed, [program, "--seeds", str(seeds), "--from", str(first),
                                      "--jobs", str(CORES)], 3600, environment(kind)))]


def same_hashes(kinds, seeds, limit_s):
    """Equal seeds give equal traces whatever compiler built the simulator: a case a seed."""
    hashes = {}
    for kind in kinds:
        program = os.path.join(ROOT, "build", kind, "tests", "sim", "sim")
        code, output = run([program, "--seeds", str(seeds), "--hashes"], limit_s,
                           environment(kind))
        hashes[kind] = dict(re.findall(r"^seed (\d+) hash (\w+)$", output, re.M))
        if code != 0 or len(hashes[kind]) != seeds:
            return 0, 1, 0, f"{kind}: exit code {code}\n{output}"
    first, *others = hashes.values()
    differ = [seed for seed, value in first.items() if any(o[seed] != value for o in others)]
    return seeds - len(differ), len(differ), 0, f"{hashes}" if differ else ""


def fuzz(machine_s, decoder_s):
    """The state machine on one core, beside it the decoders one after the other."""
    return [(f"fuzz {target}", (summed, [sys.executable, "tests/fuzz/run.py", "build/asan",
                                         str(seconds), target], 7200))
            for target, seconds in (("engine", machine_s), ("decoders", decoder_s))]


def build(kind):
    return [(f"build {kind}", (command, ["tools/dev", "build", "--type", kind], 1500))]


def stages(nightly):
    """(name, budget in seconds, a function giving jobs[, how often])."""
    python = sys.executable
    check = [
        ("tidy", 45, lambda: [
            ("tidy", (summed, [python, "tests/tidy/tidy.py", "--headers"], 300)),
            ("tidy of tidy", (summed, [python, "tests/tidy/test_tidy.py"], 60)),
            ("format", (command, ["tools/dev", "format", "--check"], 60)),
            ("man pages", (command, ["sh", "-c", "mandoc -Tlint -Wwarning docs/man/*.8"], 30))]),
        ("build release", 240, lambda: build("release")),
        ("unit release", 60, lambda: units("release")),
        ("net release", 75, lambda: programs("release")),
        ("sim release", 30, lambda: simulator("release", 200)),
        ("build asan", 300, lambda: build("asan")),
        ("unit asan", 160, lambda: units("asan")),
        ("net asan", 75, lambda: programs("asan")),
        ("sim asan", 60, lambda: simulator("asan", 40, 201) + [
            ("sim hashes", (same_hashes, ["release", "asan"], 10, 120))]),
        ("fuzz", 90, lambda: fuzz(60, 5)),
    ]
    if not nightly:
        return check
    return check + [
        ("build tsan", 600, lambda: build("tsan")),
        ("unit tsan", 600, lambda: units("tsan", 900)),
        ("net tsan", 600, lambda: programs("tsan", 900)),
        ("net long", 900, lambda: long_programs("release")),
        ("sim long", 1800, lambda: simulator("release", 20_000, 1000)),
        *[(f"{name} {kind} x{times}", 7200, lambda tests=tests, kind=kind: tests(kind), times)
          for kind, times in (("release", 20), ("asan", 5), ("tsan", 5))
          for name, tests in (("unit", units), ("net", programs))],
        ("fuzz long", 2400, lambda: fuzz(1800, 120)),
        *[(f"bench {name}", 600, lambda name=name: [
            (f"bench {name}", (command, ["tools/dev", "bench", name], 900))])
          for name in ("lst", "idle", "ofi")],
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--repeat", type=int, metavar="N",
                        help="unit and net tests N times, and N times beside busy cores")
    parser.add_argument("--only", metavar="WORD", help="only programs whose name has this word")
    parser.add_argument("stage", nargs="*",
                        help="only stages of this name, or whose names begin so")
    args = parser.parse_args()
    whole = 1080
    tally, begin, over = Tally(), time.monotonic(), []
    every = stages(args.nightly)
    names = [name for name, *_ in every]
    for name, budget_s, jobs, *often in every:
        # A whole name means that stage; less, all that begin so.
        if args.stage and name not in args.stage and \
                not any(name.startswith(s) for s in args.stage if s not in names):
            continue
        stage_begin = time.monotonic()
        before = (tally.passed, tally.failed, tally.skipped)
        chosen = [job for job in jobs() if not args.only or args.only in job[0]]
        if args.repeat and name.startswith(("unit", "net")):
            often = [args.repeat]
        runs = in_rounds(chosen, often[0]) if often else side_by_side(chosen)
        for job, (passed, failed, skipped, output) in runs:
            tally.add(passed, failed, skipped)
            if output or failed:
                print(f"--- {job}\n{output.rstrip()}\n---", flush=True)
        took = time.monotonic() - stage_begin
        print(f"{name}: {tally.passed - before[0]} passed, {tally.failed - before[1]} failed, "
              f"{tally.skipped - before[2]} skipped in {took:.0f} s (budget {budget_s} s)",
              flush=True)
        if took > budget_s:
            over.append(name)
        if name.startswith("build") and tally.failed > before[1]:
            break
    took = time.monotonic() - begin
    print(f"all: {took:.0f} s (budget {whole} s)" + (f"; over budget: {', '.join(over)}"
                                                     if over else ""))
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    sys.exit(1 if tally.failed or tally.skipped else 0)


if __name__ == "__main__":
    main()
