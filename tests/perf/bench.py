#!/usr/bin/env python3
"""tools/dev bench NAME [--quick]: runs tests/perf/bench_NAME.py inside namespaces of its own.

Each benchmark prints one JSON object a line: name, ours, reference, ratio (ours / reference), unit,
runs; and ratio_low, the lower end of the ratio's confidence interval.
"""
import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "net")]


def main():
    build = os.path.abspath(sys.argv[1])
    names = sorted(f[6:-3] for f in os.listdir(HERE) if f.startswith("bench_"))
    args = [a for a in sys.argv[2:] if a != "--quick"]
    if len(args) != 1 or args[0] not in names:
        print(f"usage: tools/dev bench NAME [--quick]; NAME is one of: {', '.join(names)}",
              file=sys.stderr)
        sys.exit(2)
    os.environ["ULNET_TOOLS"] = os.path.join(build, "tools")
    os.environ["ULNET_PERF"] = os.path.join(build, "tests", "perf")
    module = importlib.import_module("bench_" + args[0])
    import lib
    lib.enter(*module.ADDRESSES)
    module.main("--quick" in sys.argv)


if __name__ == "__main__":
    main()
