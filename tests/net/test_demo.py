#!/usr/bin/env python3
"""The demo of the README works, cleans up after itself and says that it did."""
import os

import lib


def demo():
    code, out, err = lib.run(f"{lib.root()}/tools/demo", lib.tools(), check=False, timeout=120)
    assert code == 0, out + err


if __name__ == "__main__":
    os.environ["ULNET_INSIDE"] = "1" if os.environ.get("ULNET_INSIDE") else "0"
    lib.enter()
    lib.cases(demo)
