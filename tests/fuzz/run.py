#!/usr/bin/env python3
"""Runs the fuzz targets of a build: run.py BUILD_DIR [SECONDS] [TARGET]

Each target runs SECONDS (default 30; 0 = only its seeds and corpus), one line each; TARGET
"decoders" is all but the state machine. What a target learns stays in BUILD_DIR/fuzz-corpus/TARGET
for the next run. A crash leaves its input in BUILD_DIR/fuzz-crashes/ and prints the command that
runs it again. Inputs that once failed go to tests/fuzz/corpus/TARGET/ and run first, always (and in
unit_fuzz).
"""
import hashlib
import os
import pathlib
import re
import subprocess
import sys

import seeds

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT_SECONDS = 30
INPUT_SECONDS_MAX = 10     # one input may take this long
MEMORY_MIB_MAX = 2048
MACHINE = "engine"         # the state machine
# An input of it runs everything, so that short inputs and little bookkeeping are worth more.
EXTRA = {MACHINE: ["-max_len=512", "-entropic=0"]}
START_SECONDS_MAX = 300    # for seeds and corpus, on a busy machine
CAUSE = re.compile(r"^(?:.*CHECK failed.*|.*runtime error:.*|==\d+==\s?ERROR.*)$", re.M)
OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:malloc_context_size=6",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}


def write_seeds(name, folder):
    """Writes the seeds of a target below `folder`; the number of different ones."""
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for data in seeds.SEEDS.get(name, lambda: ())():
        digest = hashlib.sha1(data).hexdigest()
        (folder / digest).write_bytes(data)
        written.add(digest)
    return len(written)


def run_target(binary, build, seconds):
    """Runs one target; (passed, line to print)."""
    name = binary.name.removeprefix("fuzz_")
    corpus = build / "fuzz-corpus" / name
    crashes = build / "fuzz-crashes"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    seed_folder = build / "fuzz-seeds" / name
    count = write_seeds(name, seed_folder)
    folders = [corpus, seed_folder]
    kept_inputs = HERE / "corpus" / name
    if kept_inputs.is_dir():
        folders.append(kept_inputs)
    before = set(crashes.iterdir())
    limit = ["-runs=0"] if seconds == 0 else [f"-max_total_time={seconds}"]
    command = [str(binary), *limit, *EXTRA.get(name, []), f"-timeout={INPUT_SECONDS_MAX}",
               "-print_final_stats=1", f"-rss_limit_mb={MEMORY_MIB_MAX}",
               f"-artifact_prefix={crashes}/{name}-", *map(str, folders)]
    log = build / "fuzz-crashes" / f"{name}.log"
    try:
        with open(log, "wb") as out:
            code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False,
                                  env={**OPTIONS, **os.environ},
                                  timeout=seconds + START_SECONDS_MAX).returncode
    except subprocess.TimeoutExpired:
        return False, f"{name}: FAILED: no end after {seconds + START_SECONDS_MAX} s; log {log}"
    output = log.read_text(errors="replace")
    if code != 0:
        kept = sorted(set(crashes.iterdir()) - before - {log})
        where = "replay: " + "; ".join(f"{binary} {path}" for path in kept) if kept \
            else "no input kept"
        found = CAUSE.search(output)
        cause = found[0] if found else f"exit {code}"
        return False, f"{name}: FAILED: {cause}; {where}; log {log}"
    log.unlink()
    runs = re.search(r"number_of_executed_units:\s*(\d+)", output)
    found = len(list(corpus.iterdir()))
    return True, f"{name}: ok, {runs[1] if runs else '?'} inputs, {count} seeds, corpus {found}"


def main(arguments):
    if not 1 <= len(arguments) <= 3 or not (arguments[1:] or ["0"])[0].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(arguments[0]).resolve()
    seconds = int(arguments[1]) if len(arguments) > 1 else DEFAULT_SECONDS
    wanted = arguments[2].removeprefix("fuzz_") if len(arguments) > 2 else None
    names = sorted({p.stem.removeprefix("fuzz_") for p in HERE.glob("fuzz_*.cc")} - {"main"})
    if wanted == "decoders":
        names.remove(MACHINE)
        wanted = None
    if wanted is not None and wanted not in names:
        print(f"run.py: no target {wanted}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in names if wanted is None else [wanted]:
        binary = build / "tests" / "fuzz" / f"fuzz_{name}"
        if not binary.is_file():
            counts["skipped"] += 1
            print(f"{name}: skipped, {binary} is not built", flush=True)
            continue
        passed, line = run_target(binary, build, seconds)
        counts["passed" if passed else "failed"] += 1
        print(line, flush=True)
    print(", ".join(f"{number} {what}" for what, number in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
