#!/usr/bin/env python3
"""Checks the rules that a program can check: tidy.py [--headers] [--root DIR]

Prints one line a finding, `file:line: check: what`, and last the sum over the checks. Warnings
do not fail. --headers also compiles every header alone; results are kept in build/tidy by content.
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import pathlib
import re
import subprocess
import sys

import cxx

FILE_LINES_MAX, FILE_LINES_WISHED = 800, 500
HEADER_LINES_MAX, FUNCTION_LINES_MAX, COLUMNS_MAX, README_LINES_MAX = 300, 70, 100, 40
SKIPPED_FOLDERS = {"build", ".git", ".cache", "__pycache__"}
DATA_SUFFIXES = {".jsonl", ".gz", ".png", ".bin"}
COMPILE_JOBS = 2
DEFINED_BY_MESON = ['-DULNET_VERSION=""', '-DULNET_GOLDEN_DIR=""']

# Who may include what (docs/adr/0003-includes.md): the longest folder counts; a name that ends in
# "/" allows what is below it. The folder itself is always allowed.
VALUES = ["cpt/", "lnet/nid.h"]
INCLUDES = {
    "cpt/base": [],
    "cpt": ["cpt/base/"],
    "lnet": ["cpt/", "lnet/wire/", "lnet/ctl/value.h"],
    "lnet/wire": ["cpt/base/", "lnet/nid.h"],
    "lnet/ctl": [*VALUES, "lnet/nidrange.h", "lnet/lnet.h", "lnet/inspect.h"],
    "lnds": [*VALUES, "lnet/lnd.h", "lnet/msg.h", "lnet/ctl/value.h", "lnet/wire/",
             "lnet/fault_rule.h", "lnds/common/"],
    "selftest": [*VALUES, "lnet/nidrange.h", "lnet/lnet.h", "lnet/inspect.h",
                 "lnet/ctl/registry.h", "lnet/ctl/value.h", "lnet/wire/process_id.h",
                 "lnet/wire/counters.h"],
    "client": [*VALUES, "lnet/lnet.h", "lnet/ctl/registry.h", "lnet/ctl/value.h"],
    "tools": ["cpt/", "lnet/", "lnds/", "selftest/", "client/"],
    "tests": ["cpt/", "lnet/", "lnds/", "selftest/", "client/", "tools/"],
}
PRODUCT = ("cpt", "lnet", "lnds", "selftest", "client", "tools")
HEAVY = re.compile(r"^(?:nlohmann/json\.hpp|nlohmann/detail/|CLI/|spdlog/|fmt/|yaml\.h)")
# What a process has once, and why.
GLOBALS_ALLOWED = {"cpt/base/log.cc": "where the lines of this process go"}
# Time and randomness come from the Sched alone; nothing waits.
BANNED = re.compile(r"steady_clock::now|\bsystem_clock\b|\bhigh_resolution_clock\b|\bsleep\s*\("
                    r"|\busleep\b|\bnanosleep\b|\bsleep_(?:for|until)\b|\bs?rand\s*\("
                    r"|std::j?thread\b|\brandom_device\b|\bclock_gettime\b|\bgettimeofday\b")
BANNED_ALLOWED = ("cpt", "tools", "tests")
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E])\b")
MACHINE_PATH = re.compile(r"/wor[k]/|/hom[e]/\w|/tmp/ulne[t](?:/|\b(?![-_.]))")
DECODER = re.compile(r"\b(decode_\w+)\s*\(")
# Rows of what users ran into that need a test: `number  what` a line.
ROWS = "tests/tidy/rows.txt"
ROW_TEST = re.compile(r"^TEST(?:_F|_P)?\(\w+, Row(\d+)_(\d+)_|^def row_(\d+)_(\d+)_|"
                      r"^ +def test_row_(\d+)_(\d+)_", re.M)


@dataclasses.dataclass(frozen=True)
class Finding:
    path: str
    line: int
    text: str
    warning: bool = False


class Source:
    """A file of the tree, read once; C++ also without comments and literals."""

    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        self.text = path.read_text(errors="replace")
        self.lines = self.text.split("\n")
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        self.is_cxx = path.suffix in (".h", ".cc")
        self.is_header = path.suffix == ".h"
        self.code = cxx.without_literals(self.text) if self.is_cxx else ""
        self.statements, self.functions = cxx.read_scopes(self.code) if self.is_cxx else ([], [])
        self.includes = [(number, found[1], found[2]) for number, line in enumerate(self.lines, 1)
                         if self.is_cxx and (found := re.match(r'\s*#\s*include\s*([<"])([^>"]+)',
                                                               line))]

    def sibling(self, name):
        """Path of a file in the same folder; tests may include these without a path."""
        return "/".join([*self.path.split("/")[:-1], name])

    def below(self, *folders):
        return self.path.split("/", 1)[0] in folders

    @property
    def is_code(self):
        return self.is_cxx or self.path.endswith(".py")


def read_tree(root):
    sources = []
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if SKIPPED_FOLDERS & set(parts) or path.suffix in DATA_SUFFIXES or not path.is_file():
            continue
        sources.append(Source(root, path))
    return sources


def home_of(path):
    """The row of the include table for a file, and the folder that it may always include."""
    folders = [f for f in INCLUDES if path.startswith(f + "/")]
    row = max(folders, key=len, default=None)
    own = "/".join(path.split("/")[:2]) if row == "lnds" else row
    return row, own


def check_includes(sources):
    known = {s.path for s in sources}
    for source in sources:
        row, own = home_of(source.path)
        for line, quote, name in source.includes:
            if quote == "<" or (row == "tests" and source.sibling(name) in known):
                continue
            if name not in known:
                yield Finding(source.path, line, f'"{name}" is no file; paths begin at the top')
                continue
            if row is None:
                continue
            included_row = home_of(name)[0]
            ours = name.startswith(own + "/") and (included_row == row or row == "tests")
            if not ours and not any(name == a or (a.endswith("/") and name.startswith(a))
                                    for a in INCLUDES[row]):
                yield Finding(source.path, line, f'{row}/ may not include "{name}"')


def check_heavy(sources):
    for source in sources:
        for line, _, name in source.includes:
            if source.is_header and HEAVY.match(name):
                yield Finding(source.path, line, f"<{name}> belongs into .cc files only")


def check_words(sources):
    for source in sources:
        if not source.is_cxx or source.below(*BANNED_ALLOWED):
            continue
        for number, line in enumerate(source.code.split("\n"), 1):
            for found in BANNED.finditer(line):
                yield Finding(source.path, number, f"{found[0].rstrip('(').strip()} is banned: "
                              "time, threads and randomness come from the Sched")


def check_unfinished(sources):
    for source in sources:
        for number, line in enumerate(source.lines, 1):
            if source.is_code and (found := UNFINISHED.search(line)):
                yield Finding(source.path, number, f"{found[0]}: finish it or say it elsewhere")


def check_globals(sources):
    for source in sources:
        if not source.below(*PRODUCT) or source.path in GLOBALS_ALLOWED:
            continue
        for found in cxx.mutable_globals(source.statements, source.below("cpt")):
            yield Finding(source.path, found.line, f"state without an owner: {found.head}")


def check_sizes(sources):
    for source in sources:
        if not source.is_code:
            continue
        count = len(source.lines)
        most = HEADER_LINES_MAX if source.is_header else FILE_LINES_MAX
        if count > most:
            yield Finding(source.path, count, f"{count} lines, at most {most}")
        elif count > FILE_LINES_WISHED:
            yield Finding(source.path, count, f"{count} lines, {FILE_LINES_WISHED} wished", True)


def check_functions(sources):
    for source in sources:
        for function in source.functions:
            count = function.last_line - function.first_line + 1
            if count > FUNCTION_LINES_MAX:
                yield Finding(source.path, function.first_line,
                              f"a function of {count} lines, at most {FUNCTION_LINES_MAX}")


def check_columns(sources):
    for source in sources:
        for number, line in enumerate(source.lines, 1):
            if source.is_code and len(line) > COLUMNS_MAX:
                yield Finding(source.path, number, f"{len(line)} columns, at most {COLUMNS_MAX}")


def check_readmes(sources):
    readmes = {s.path: s for s in sources if s.path.endswith("README.md")}
    folders = {s.path.rsplit("/", 1)[0] for s in sources if s.is_cxx and "/" in s.path}
    for folder in sorted(folders):
        if folder.startswith("tests/unit/"):
            continue  # they mirror the product's folders: tests/unit/README.md speaks for them
        readme = readmes.get(folder + "/README.md")
        if readme is None:
            yield Finding(folder, 1, "no README.md")
        elif len(readme.lines) > README_LINES_MAX:
            yield Finding(readme.path, README_LINES_MAX + 1,
                          f"{len(readme.lines)} lines, at most {README_LINES_MAX}")


def check_paths(sources):
    for source in sources:
        for number, line in enumerate(source.lines, 1):
            if found := MACHINE_PATH.search(line):
                yield Finding(source.path, number, f"{found[0]}: a path of one machine")


def check_fuzzed(sources):
    """Every header of the product that declares a decode_... is included by a fuzz target."""
    targets = [s for s in sources if s.path.startswith("tests/fuzz/")]
    covered = {name for s in targets for _, _, name in s.includes}
    for source in sources:
        if not source.is_header or not source.below(*PRODUCT) or source.path in covered:
            continue
        for number, line in enumerate(source.code.split("\n"), 1):
            if found := DECODER.search(line):
                yield Finding(source.path, number, f"{found[1]} has no fuzz target")
                break


def check_rows(sources):
    """Every row of the list has a test that bears its number, every such test has a row."""
    tested = {}
    for source in sources:
        if not source.is_code or not source.below("tests"):
            continue
        for found in ROW_TEST.finditer(source.code if source.is_cxx else source.text):
            number = ".".join(group for group in found.groups() if group)
            tested.setdefault(number, (source.path, source.text.count("\n", 0, found.start()) + 1))
    listed = {}
    for source in sources:
        if source.path == ROWS:
            listed = {line.split()[0]: number for number, line in enumerate(source.lines, 1)
                      if line and not line.startswith("#")}
    for row, number in listed.items():
        if row not in tested:
            yield Finding(ROWS, number, f"no test is named by row {row}")
    for row, (path, number) in tested.items():
        if row not in listed:
            yield Finding(path, number, f"row {row} is not in {ROWS}")


class Headers:
    """Compiles headers alone. One that passed is not compiled again until it, or a project header
    that it includes, changes."""

    def __init__(self, root, compiler):
        self.root = root
        self.command = [compiler, "-std=c++20", "-fsyntax-only", "-w", *DEFINED_BY_MESON,
                        "-I", str(root), "-x", "c++", "-"]
        self.store = root / "build" / "tidy" / "headers.json"

    def digest(self, path, by_path):
        seen, queue = set(), [path]
        while queue:
            name = queue.pop()
            if name in seen or name not in by_path:
                continue
            seen.add(name)
            for _, _, included in by_path[name].includes:
                queue.extend((included, by_path[name].sibling(included)))
        text = "\0".join(name + "\0" + by_path[name].text for name in sorted(seen))
        return hashlib.sha256((text + str(self.command)).encode()).hexdigest()

    def compile(self, path):
        # Twice: a header must also bear a second inclusion.
        unit = f'#include "{path}"\n#include "{path}"\n'
        done = subprocess.run(self.command, input=unit, capture_output=True, text=True, check=False,
                              cwd=self.root)
        errors = [line for line in done.stderr.split("\n") if "error" in line]
        return None if done.returncode == 0 else (errors or ["no message"])[0]

    def check(self, sources):
        by_path = {s.path: s for s in sources if s.is_cxx}
        headers = sorted(s.path for s in sources if s.is_header)
        try:
            passed = json.loads(self.store.read_text())
        except (OSError, ValueError):
            passed = {}
        digests = {path: self.digest(path, by_path) for path in headers}
        wanted = [path for path in headers if passed.get(path) != digests[path]]
        with concurrent.futures.ThreadPoolExecutor(COMPILE_JOBS) as pool:
            for path, error in zip(wanted, pool.map(self.compile, wanted)):
                passed.pop(path, None)
                if error:
                    yield Finding(path, 1, f"does not compile alone: {error}")
                else:
                    passed[path] = digests[path]
        self.store.parent.mkdir(parents=True, exist_ok=True)
        kept = {path: digest for path, digest in passed.items() if path in digests}
        self.store.write_text(json.dumps(kept, indent=0))


CHECKS = {
    "includes": check_includes, "heavy": check_heavy, "words": check_words,
    "unfinished": check_unfinished, "globals": check_globals, "sizes": check_sizes,
    "functions": check_functions, "columns": check_columns, "readmes": check_readmes,
    "paths": check_paths, "fuzzed": check_fuzzed, "rows": check_rows,
}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--headers", action="store_true", help="compile every header alone")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent.parent)
    parser.add_argument("--compiler", default="g++")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    sources = read_tree(root)
    if not any(s.is_cxx for s in sources):
        print(f"tidy.py: no C++ below {root}", file=sys.stderr)
        return 2
    checks = dict(CHECKS)
    if options.headers:
        checks["headers"] = Headers(root, options.compiler).check
    failed = 0
    for name, check in checks.items():
        findings = sorted(check(sources), key=lambda f: (f.path, f.line))
        for found in findings:
            kind = f"warning: {name}" if found.warning else name
            print(f"{found.path}:{found.line}: {kind}: {found.text}")
        failed += any(not found.warning for found in findings)
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
