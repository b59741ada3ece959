#!/usr/bin/env python3
"""clang++ -fsyntax-only, with warnings as errors, over the .cc files that changed.

Changed = differing from what this program last accepted: a hash of the file and of every header
of the tree is kept in build/clang-ok, so a second run costs nothing.
"""
import concurrent.futures
import glob
import hashlib
import os
import subprocess
import sys

FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
         "-Wno-missing-field-initializers", "-Wno-sign-conversion", "-Werror", "-I.",
         "-fsyntax-only", "-DULNET_GOLDEN_DIR=\"\""]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def check(path):
    done = subprocess.run(["clang++", *FLAGS, path], capture_output=True, text=True, check=False)
    return path, done.returncode, done.stderr


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cc", "*.h"],
                            capture_output=True, text=True, check=False).stdout.split()
    headers = hashlib.sha256("".join(digest(f) for f in sorted(listed) if f.endswith(".h"))
                             .encode()).hexdigest()
    store = "build/clang-ok"
    os.makedirs(store, exist_ok=True)
    sources = [f for f in listed if f.endswith(".cc")]
    marks = {f: os.path.join(store, hashlib.sha256((f + digest(f) + headers + str(FLAGS)).encode())
                             .hexdigest()) for f in sources}
    todo = [f for f in sources if not os.path.exists(marks[f])]
    for old in set(glob.glob(store + "/*")) - set(marks.values()):
        os.remove(old)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, code, errors in pool.map(check, todo):
            if code == 0:
                open(marks[path], "w").close()
            else:
                failed += 1
                print(errors)
    print(f"{len(sources) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
