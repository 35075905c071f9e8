#!/usr/bin/env python3
"""Makes faults against the built commands and judges how each ends; docs/security.md has the
promises. Prints a table, a line a fault. Exit code 1 if data were lost, a command hung or died of
a signal, or an error was a bug of Crema. The order of the faults is fixed by the seed; their
number depends on the speed of the machine. Needs Linux and cc, and Python's own library only."""
import argparse
import pathlib
import signal
import sys
import tempfile
import time

import common
import cuts
import disk
import files
import memory
import server
import signals

GROUPS = {"disk": disk, "cuts": cuts, "files": files, "memory": memory, "signals": signals,
          "server": server}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, help="folder of the commands")
    parser.add_argument("--quick", action="store_true", help="at most ten minutes, not two hours")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("groups", nargs="*", help="of " + ", ".join(GROUPS) + "; default: all")
    flags = parser.parse_args()
    table = common.Table()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as work:
        for name in flags.groups or GROUPS:
            start = time.monotonic()
            with tempfile.TemporaryDirectory(dir=work) as folder:
                world = common.World(flags.bin, pathlib.Path(folder).resolve(), flags.quick,
                                     flags.seed, table)
                GROUPS[name].run(world)
            print(f"faults: {name}: {time.monotonic() - start:.0f} s", flush=True)
    table.print()
    return 1 if table.failed() else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    finally:
        common.end_all()
